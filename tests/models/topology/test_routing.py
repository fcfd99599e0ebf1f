"""Routes: shortest, valid, ns-3's own, and refused where there are none."""

from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.topology.ecmp import ecmp_index
from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind, Topology, make_topology
from models.topology.leaf_spine import leaf_spine
from models.topology.ns3_file import read_ns3_topology
from models.topology.rail_optimised import rail_optimised
from models.topology.routing import Paths, route_pairs
from pdes.errors import ConfigError

GBPS, US = 10**9, 10**6
NS3_CASE = Path(__file__).parents[2] / "reference" / "ns3_paths"
TOPOLOGIES = {
    "fat-tree": fat_tree(4, 100 * GBPS, 100 * GBPS, US, US),
    "leaf-spine": leaf_spine(3, 2, 4, 100 * GBPS, 100 * GBPS, US, US),
    "roft": rail_optimised(32, 8, 2, LinkKind(100 * GBPS, US), LinkKind(100 * GBPS, US)),
    "roft with NVLink": rail_optimised(
        32, 8, 2, LinkKind(100 * GBPS, US), LinkKind(100 * GBPS, US), 2.0, LinkKind(3600 * GBPS, 25_000)
    ),
}


def all_pairs(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(a, b) for a in topology.host.tolist() for b in topology.host.tolist() if a != b]
    src, dst = np.array(pairs, np.int64).T
    return src, dst


def switch_graph(topology: Topology, src: int, dst: int) -> nx.Graph:
    """What a path from src to dst may use: the switches and the two hosts themselves."""
    allowed = {src, dst, *np.flatnonzero(topology.is_switch).tolist()}
    graph = nx.Graph()
    graph.add_nodes_from(allowed)
    ends = zip(topology.port_src.tolist(), topology.port_dst.tolist(), strict=True)
    graph.add_edges_from((a, b) for a, b in ends if a in allowed and b in allowed)
    return graph


def route_one(topology: Topology, src: int, dst: int, sport: int, dport: int, **options) -> Paths:
    src_, dst_, sport_, dport_ = (np.array([value], np.int64) for value in (src, dst, sport, dport))
    return route_pairs(topology, src_, dst_, sport_, dport_, **options)


def nodes_of(topology: Topology, ports: np.ndarray) -> list[int]:
    assert (topology.port_src[ports[1:]] == topology.port_dst[ports[:-1]]).all(), "a gap in the path"
    return [int(topology.port_src[ports[0]]), *topology.port_dst[ports].tolist()]


def verify_paths(topology: Topology, paths: Paths, src: np.ndarray, dst: np.ndarray) -> None:
    assert len(paths.start) == 2 * len(src) + 1 and paths.start[-1] == len(paths.port)
    assert paths.port.dtype == np.int32 and paths.start.dtype == np.int64
    for i_row in range(2 * len(src)):
        ends = (int(src[i_row // 2]), int(dst[i_row // 2]))
        first, last = ends[:: -1 if i_row % 2 else 1]
        nodes = nodes_of(topology, paths.row(i_row))
        assert (nodes[0], nodes[-1]) == (first, last)
        assert topology.is_switch[nodes[1:-1]].all(), "a host forwards"
        assert len(nodes) - 1 == nx.shortest_path_length(switch_graph(topology, first, last), first, last)


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_every_pair_has_a_shortest_path_that_ends_at_the_right_node(kind):
    topology = TOPOLOGIES[kind]
    src, dst = all_pairs(topology)
    paths = route_pairs(topology, src, dst, np.full(len(src), 10000), np.full(len(src), 100))
    verify_paths(topology, paths, src, dst)


@st.composite
def random_networks(draw):
    """Graphs of up to 4 hosts with one or more links, up to 6 switches, parallel links, NVSwitch-like islands."""
    n_host, n_switch = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    node = st.integers(0, n_host + n_switch - 1)
    ends = draw(st.lists(st.tuples(node, node).filter(lambda e: e[0] != e[1]), min_size=2, max_size=24))
    is_switch = [False] * n_host + [True] * n_switch
    names = [f"n{i}" for i in range(n_host + n_switch)]
    return make_topology("x", names, is_switch, list(range(len(names))), [(a, b, GBPS, US) for a, b in ends])


@given(random_networks(), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_random_networks_get_shortest_paths_or_name_the_two_nodes(topology, sport, ecmp_seed):
    for src, dst in zip(*(end.tolist() for end in all_pairs(topology)), strict=True):
        args = topology, src, dst, sport, 100
        if nx.has_path(switch_graph(topology, src, dst), src, dst):
            verify_paths(topology, route_one(*args, ecmp_seed=ecmp_seed), np.array([src]), np.array([dst]))
        else:
            with pytest.raises(ConfigError, match=rf"no path from n{src} \(node {src}\) to n{dst} \(node {dst}\)"):
                route_one(*args, ecmp_seed=ecmp_seed)


def expected_path(topology: Topology, header: tuple[int, int, int, int], ecmp_seed: int) -> list[int]:
    """The rule, node by node, in plain words: networkx distances, descending neighbours, ascending ports, hash."""
    src, dst, sport, dport = header
    to_dst = nx.single_source_shortest_path_length(switch_graph(topology, src, dst), dst)
    node, ports = src, []
    while node != dst:
        ways = [
            port
            for port in range(topology.n_port)
            if topology.port_src[port] == node and to_dst.get(int(topology.port_dst[port]), -1) == to_dst[node] - 1
        ]
        ways.sort(key=lambda port: (-topology.port_dst[port], port))
        ports.append(ways[ecmp_index(src, dst, sport, dport, node ^ ecmp_seed, len(ways))])
        node = int(topology.port_dst[ports[-1]])
    return ports


@given(random_networks(), st.integers(0, 2**16 - 1), st.integers(0, 99))
@settings(deadline=None)
def test_each_hop_follows_the_documented_rule_and_acks_hash_their_own_header(topology, sport, ecmp_seed):
    src, dst = 0, 1
    assume(nx.has_path(switch_graph(topology, src, dst), src, dst))
    paths = route_one(topology, src, dst, sport, 100, ecmp_seed=ecmp_seed)
    assert paths.row(0).tolist() == expected_path(topology, (src, dst, sport, 100), ecmp_seed)
    assert paths.row(1).tolist() == expected_path(topology, (dst, src, 100, sport), ecmp_seed)


def test_paths_of_an_ns3_run_are_reproduced_for_data_and_acks():
    topology = read_ns3_topology(NS3_CASE / "topology.txt")
    flows = [line.split() for line in (NS3_CASE / "flow.txt").read_text().splitlines()[1:] if line.strip()]
    n_earlier: Counter = Counter()
    sport = []
    for src, dst, *_ in flows:
        sport.append(10000 + n_earlier[src, dst])
        n_earlier[src, dst] += 1
    src, dst, dport = (np.array([int(flow[i]) for flow in flows]) for i in (0, 1, 3))
    paths = route_pairs(topology, src, dst, np.array(sport), dport)
    lines = (NS3_CASE / "paths.txt").read_text().splitlines()
    assert len(lines) == len(flows) == 16
    for i_pair, line in enumerate(lines):
        _, _, _, _, _, data, _, ack = line.split()
        assert "-".join(map(str, nodes_of(topology, paths.row(2 * i_pair)))) == data
        assert "-".join(map(str, nodes_of(topology, paths.row(2 * i_pair + 1)))) == ack


def test_our_fat_tree_is_the_one_of_the_ns3_case():
    ours, theirs = TOPOLOGIES["fat-tree"], read_ns3_topology(NS3_CASE / "topology.txt")
    for field in ("is_switch", "server", "host", "port_src", "port_dst", "port_rate_bps", "port_delay_ps", "port_peer"):
        assert (getattr(ours, field) == getattr(theirs, field)).all(), field


def test_many_flows_of_one_pair_spread_evenly_over_the_cores():
    topology = fat_tree(8, 100 * GBPS, 100 * GBPS, US, US)
    n_flow = 3200
    src, dst = np.zeros(n_flow, np.int64), np.full(n_flow, 127)
    paths = route_pairs(topology, src, dst, np.arange(n_flow), np.full(n_flow, 100))
    cores = Counter(int(topology.port_dst[paths.row(2 * i)[2]]) for i in range(n_flow))
    assert len(cores) == 16
    # 16 bins of 200 expected: chi-square with 15 degrees of freedom, 99.99 % point 44.3.
    assert sum((n - 200) ** 2 / 200 for n in cores.values()) < 44.3


def test_another_ecmp_seed_gives_other_paths():
    topology = TOPOLOGIES["fat-tree"]
    src, dst = all_pairs(topology)
    ports = np.full(len(src), 10000), np.full(len(src), 100)
    first, again, other = (route_pairs(topology, src, dst, *ports, ecmp_seed=seed).port for seed in (0, 0, 7))
    assert (first == again).all() and (first != other).any()


def test_a_table_of_next_hops_replaces_the_rule():
    topology = TOPOLOGIES["fat-tree"]
    pair = 0, 15, 10000, 100
    for agg in (24, 25):
        nodes = nodes_of(topology, route_one(topology, *pair, next_hops={(16, 15): [agg]}).row(0))
        assert nodes[2] == agg and nodes[-1] == 15
    ways = [
        nodes_of(topology, route_one(topology, *pair, next_hops={(16, 15): h}).row(0)) for h in ([24, 25], [25, 24])
    ]
    assert ways[0][2] != ways[1][2], "the order of the table is the order of choice"


@pytest.mark.parametrize(("near", "text"), [(26, "neighbours"), (1, "shortest path"), (0, "shortest path")])
def test_a_next_hop_that_leads_astray_is_refused(near, text):
    with pytest.raises(ConfigError, match=rf"next hops of node 16 towards node 15.*{text}"):
        route_one(TOPOLOGIES["fat-tree"], 0, 15, 1, 1, next_hops={(16, 15): [near]})


@pytest.mark.parametrize(
    ("src", "dst", "text"),
    [(0, 0, "host0 to itself"), (0, 16, "edge0 .* switch"), (99, 0, "node 99"), (0, -1, "node -1")],
)
def test_ends_that_are_no_two_hosts_are_refused(src, dst, text):
    with pytest.raises(ConfigError, match=text):
        route_one(TOPOLOGIES["fat-tree"], src, dst, 1, 1)


def test_no_pairs_give_no_paths():
    none = np.zeros(0, np.int64)
    paths = route_pairs(TOPOLOGIES["fat-tree"], none, none, none, none)
    assert paths.start.tolist() == [0] and len(paths.port) == 0
