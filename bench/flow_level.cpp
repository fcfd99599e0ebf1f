// Flows on given ways at SimGrid's max-min fair rates: what bench/flow_level.py compares with.
//
//     g++ -O2 flow_level.cpp -lsimgrid -o flow_level;  ./flow_level CASE ANSWER
//
// CASE, words: links pairs flows; for each pair "src dst links...", with the number of links before them; for each flow
// "start_s pair bytes". Links have 12.5 GB/s and no latency, as SimGrid shares by latency where there is any: who wrote
// CASE has put it into the starts. ANSWER: the time of each flow's end, in seconds. Hosts are those that pairs name.
// CM02 without cross traffic and TCP gamma. Prints a line of JSON.
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <vector>

namespace s4u = simgrid::s4u;
using Clock = std::chrono::steady_clock;

struct Pair {
  int src, dst;
  std::vector<int> links;
};

struct Flow {
  double start_s;
  int pair;
  unsigned long bytes;
  double end_s;
};

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  for (const char* key : {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"})
    s4u::Engine::set_config(key);
  if (argc != 3) {
    std::cerr << "two files: the case, and the answer\n";
    return 2;
  }
  const auto begin = Clock::now();
  std::ifstream in(argv[1]);
  int n_link = 0, n_pair = 0, n_flow = 0, n_host = 0;
  in >> n_link >> n_pair >> n_flow;
  std::vector<Pair> pairs(n_pair);
  for (auto& pair : pairs) {
    int n = 0;
    in >> pair.src >> pair.dst >> n;
    pair.links.resize(n);
    for (int& link : pair.links)
      in >> link;
    n_host = std::max({n_host, pair.src + 1, pair.dst + 1});
  }
  std::vector<Flow> flows(n_flow);
  for (auto& flow : flows)
    in >> flow.start_s >> flow.pair >> flow.bytes;
  if (!in) {
    std::cerr << "the case ends too early\n";
    return 2;
  }

  auto* zone = s4u::create_full_zone("network");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> links;
  for (int i = 0; i < n_host; i++)
    hosts.push_back(zone->create_host("host-" + std::to_string(i), 1e9)->seal());
  for (int i = 0; i < n_link; i++)
    links.push_back(zone->create_link("link-" + std::to_string(i), 12.5e9)->set_latency(0)->seal());
  for (const auto& pair : pairs) {
    std::vector<s4u::LinkInRoute> way;
    for (int link : pair.links)
      way.emplace_back(links[link]);
    zone->add_route(hosts[pair.src]->get_netpoint(), hosts[pair.dst]->get_netpoint(), nullptr, nullptr, way, false);
  }
  zone->seal();

  std::vector<int> order(n_flow);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return flows[a].start_s < flows[b].start_s; });
  int n_now = 0, n_most = 0;
  s4u::Actor::create("starter", hosts[0], [&]() {
    for (int i : order) {
      s4u::this_actor::sleep_until(flows[i].start_s);
      const Pair& pair = pairs[flows[i].pair];
      s4u::Actor::create("flow", hosts[pair.src], [&, i]() {
        const Pair& own = pairs[flows[i].pair];
        n_most          = std::max(n_most, ++n_now);
        s4u::Comm::sendto(hosts[own.src], hosts[own.dst], flows[i].bytes);
        n_now--;
        flows[i].end_s = s4u::Engine::get_clock();
      });
    }
  });
  const auto ready = Clock::now();
  engine.run();
  const auto done = Clock::now();

  std::ofstream out(argv[2]);
  out << std::setprecision(15);
  for (const auto& flow : flows)
    out << flow.end_s << "\n";
  const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  std::cout << "{\"setup_s\": " << seconds(begin, ready) << ", \"loop_s\": " << seconds(ready, done)
            << ", \"most_at_once\": " << n_most << "}\n";
  return 0;
}
