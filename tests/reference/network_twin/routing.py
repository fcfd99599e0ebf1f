"""Next hops by destination: a breadth-first search over the links that are known to be up, for every answer."""

import math
from collections import Counter
from typing import Any

from models.network.state.parameters import ADAPTIVE, ECMP, FLOWLET, SPRAY, WEIGHTED_ECMP, NetworkParameters
from models.topology.graph import Topology
from pdes.random_plain import PURPOSE_ROUTE, uniform_plain
from reference.network_twin.packet import DATA, Packet

MOST_PLACES = 64  # of one port, in weighted ECMP
LOW_32 = 2**32 - 1


class Routes:
    """What all switches know, and their flowlet tables."""

    def __init__(self, topology: Topology, parameters: NetworkParameters) -> None:
        self.topology, self.seed = topology, parameters.seed
        self.p: Any = parameters.routing
        self.changes = sorted(parameters.link_changes, key=lambda change: change.time_ps)
        self.ends = list(zip(topology.port_src.tolist(), topology.port_dst.tolist(), strict=True))
        self.flowlets: dict[tuple[int, int], tuple[int, int]] = {}  # (switch, place) -> (port, time of the last packet)
        self.n_draw: Counter[int] = Counter()  # by ingress port
        self.known: dict[tuple[int, int, int], list[int]] = {}  # answers of `ways`, by number of changes known

    def header(self, route: int) -> list[int]:
        """(source, destination, source port, destination port) of a route's packets."""
        src, dst, sport, dport = self.p.header[route // 2].tolist()
        return [src, dst, sport, dport] if route % 2 == 0 else [dst, src, dport, sport]

    def policy_of(self, packet: Packet) -> int:
        """How a way is chosen for a packet."""
        return self.p.policy if packet.kind == DATA else ECMP

    def ways(self, node: int, route: int, now_ps: int) -> list[int]:
        """The ports on shortest paths, by what is known of the links now."""
        known = [change for change in self.changes if change.time_ps + self.p.convergence_ps <= now_ps]
        key = (len(known), node, self.header(route)[1])
        if key not in self.known:
            rates = dict(enumerate(self.topology.port_rate_bps.tolist()))
            for change in known:
                for port in (change.port, int(self.topology.port_peer[change.port])):
                    rates[port] = change.rate_bps if change.is_up else 0
            self.known[key] = self.search(node, key[2], rates)
        return self.known[key]

    def search(self, node: int, dst: int, rates: dict[int, int]) -> list[int]:
        """The same by each port's rate, 0 if it is down: descending neighbour, then ascending port."""
        links = [(port, *self.ends[port]) for port, rate_bps in rates.items() if rate_bps > 0]
        direct = [port for port, src, far in links if (src, far) == (node, dst)]
        if direct:  # only the first ones of them that follow each other, and without weights
            return [port for i, port in enumerate(direct) if port == direct[0] + i]
        hops = {dst: 0}
        for n_hop in range(1, self.topology.n_node):
            found = {src for _, src, far in links if hops.get(far) == n_hop - 1 and self.topology.is_switch[src]}
            hops |= {src: n_hop for src in found if src not in hops}
        nearer = [(-far, port) for port, src, far in links if src == node and far in hops and hops[far] < hops[node]]
        ports = [port for _, port in sorted(nearer)]
        if self.p.policy != WEIGHTED_ECMP or len(ports) < 2:
            return ports
        most = max(rates[port] for port in ports)
        unit = max(math.gcd(*(rates[port] for port in ports)), math.ceil(most / MOST_PLACES))
        return [port for port in ports for _ in range(max(1, rates[port] // unit))]

    def choose(self, policy: int, node: int, route: int, in_port: int, ways: list[int], now_ps: int) -> int:
        """Which of the ways is taken; for adaptive routing, which is looked at first."""
        if len(ways) == 1:
            return 0
        if policy in (SPRAY, ADAPTIVE):
            return self.draw(in_port, len(ways))
        if policy != FLOWLET:
            seed = (node ^ self.p.ecmp_seed) & LOW_32
            return hash_of_header(*self.header(route), seed) % len(ways)
        place = node, route % self.p.n_flowlet
        port, last_ps = self.flowlets.get(place, (-1, 0))
        if port not in ways or now_ps - last_ps > self.p.flowlet_gap_ps:
            port = ways[self.draw(in_port, len(ways))]
        self.flowlets[place] = port, now_ps
        return ways.index(port)

    def draw(self, in_port: int, n_way: int) -> int:
        """A way at random, by the ingress port and how often was drawn for what came in there."""
        self.n_draw[in_port] += 1
        return int(uniform_plain(self.seed, in_port, PURPOSE_ROUTE, self.n_draw[in_port] - 1) * n_way)


def hash_of_header(src: int, dst: int, sport: int, dport: int, seed: int) -> int:
    """MurmurHash3 x86-32 of ns-3's header: 11.x.y.1 of both nodes, both ports of 16 bits."""
    words = [(0x0B000001 + (node // 256 << 16) + (node % 256 << 8)) & LOW_32 for node in (src, dst)]
    state = seed
    for word in [*words, sport % 2**16 + (dport % 2**16 << 16)]:
        word = word * 0xCC9E2D51 & LOW_32
        state ^= (word << 15 | word >> 17) * 0x1B873593 & LOW_32
        state = (state << 13 | state >> 19) & LOW_32
        state = (state * 5 + 0xE6546B64) & LOW_32
    state ^= 12
    state = (state ^ state >> 16) * 0x85EBCA6B & LOW_32
    state = (state ^ state >> 13) * 0xC2B2AE35 & LOW_32
    return state ^ state >> 16
