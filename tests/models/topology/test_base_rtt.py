"""Round-trip times of idle paths against a slow search over all pairs."""

from math import ceil

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind, Topology, make_topology
from models.topology.rail_optimised import rail_optimised
from models.topology.routing import max_base_rtt, path_base_rtt, route_pairs
from pdes.errors import ConfigError

GBPS, US = 10**9, 10**6


def tx_ps(size_bytes: int, rate_bps: int) -> int:
    return -(-size_bytes * 8 * 10**12 // rate_bps)


def first_path(topology: Topology, src: int, dst: int) -> list[int] | None:
    """Ports of the first shortest path: at each node the first port, by descending neighbour, that is nearer."""
    allowed = {src, dst, *np.flatnonzero(topology.is_switch).tolist()}
    graph = nx.Graph()
    graph.add_nodes_from(allowed)
    ends = list(zip(topology.port_src.tolist(), topology.port_dst.tolist(), strict=True))
    graph.add_edges_from((a, b) for a, b in ends if a in allowed and b in allowed)
    to_dst = nx.single_source_shortest_path_length(graph, dst)
    if src not in to_dst:
        return None
    node, ports = src, []
    while node != dst:
        ways = [(-b, i) for i, (a, b) in enumerate(ends) if a == node and to_dst.get(b, -1) == to_dst[node] - 1]
        ports.append(min(ways)[1])
        node = ends[ports[-1]][1]
    return ports


def slow_max(topology: Topology, data_bytes: int, ack_bytes: int) -> tuple[int, int]:
    best_rtt_ps, best_bdp_bytes = 0, 0
    hosts = topology.host.tolist()
    rate, delay = topology.port_rate_bps.tolist(), topology.port_delay_ps.tolist()
    for src, dst in [(a, b) for a in hosts for b in hosts if a != b]:
        ports = first_path(topology, src, dst)
        if ports is None:
            continue
        rtt_ps = sum(tx_ps(data_bytes, rate[p]) + tx_ps(ack_bytes, rate[p]) + 2 * delay[p] for p in ports)
        best_rtt_ps = max(best_rtt_ps, rtt_ps)
        least_bps = min(rate[p] for p in ports)
        best_bdp_bytes = max(best_bdp_bytes, -(-rtt_ps * least_bps // (8 * 10**12)))
    return best_rtt_ps, best_bdp_bytes


@st.composite
def random_networks(draw):
    """Mixed rates and delays, several links per host, islands of switches, links between hosts."""
    n_host, n_switch = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    n_node = n_host + n_switch
    node = st.integers(0, n_node - 1)
    pair = st.tuples(node, node).filter(lambda e: e[0] != e[1])
    speeds = st.sampled_from([(25 * GBPS, US), (100 * GBPS, US), (100 * GBPS, 5 * US), (3_333_333_333, 7)])
    drawn = draw(st.lists(st.tuples(pair, speeds), max_size=22)) if n_node > 1 else []
    links = [(a, b, rate_bps, delay_ps) for (a, b), (rate_bps, delay_ps) in drawn]
    names = [f"n{i}" for i in range(n_node)]
    return make_topology("x", names, [False] * n_host + [True] * n_switch, list(range(n_node)), links)


@given(random_networks())
@settings(deadline=None, max_examples=300)
def test_max_base_rtt_equals_the_search_over_all_pairs(topology):
    assert max_base_rtt(topology, 1048, 60) == slow_max(topology, 1048, 60)


def test_max_base_rtt_of_servers_with_nvlink_equals_the_search_over_all_pairs():
    for n_gpu in (4, 16):
        topology = rail_optimised(
            n_gpu, 4, 2, LinkKind(100 * GBPS, US), LinkKind(400 * GBPS, 2 * US), 1.0, LinkKind(3600 * GBPS, 25_000)
        )
        assert max_base_rtt(topology, 1048, 60) == slow_max(topology, 1048, 60)


def test_max_base_rtt_of_a_fat_tree_is_six_hops_both_ways():
    topology = fat_tree(8, 100 * GBPS, 100 * GBPS, US, US)
    rtt_ps = 12 * US + 6 * (83_840 + 4_800)
    assert max_base_rtt(topology, 1048, 60) == (rtt_ps, ceil(rtt_ps / 80))


def test_a_product_beyond_64_bits_stays_exact():
    topology = make_topology("x", ["a", "b"], [False, False], [0, 1], [(0, 1, 9 * 10**12, 10**12)])
    rtt_ps = 2 * 10**12 + 2 * tx_ps(1000, 9 * 10**12)
    assert max_base_rtt(topology, 1000, 1000) == (rtt_ps, -(-rtt_ps * 9 // 8))


@pytest.mark.parametrize("size_bytes", [0, 2_000_000])
def test_a_packet_size_out_of_range_is_refused(size_bytes):
    with pytest.raises(ConfigError, match="1..1152921 B"):
        max_base_rtt(fat_tree(2, GBPS, GBPS, US, US), size_bytes, 60)


def test_path_base_rtt_sums_each_pair_s_own_paths():
    topology = rail_optimised(
        16, 4, 2, LinkKind(100 * GBPS, US), LinkKind(400 * GBPS, 2 * US), 1.0, LinkKind(3600 * GBPS, 25_000)
    )
    pairs = np.array([(a, b) for a in range(16) for b in range(16) if a != b], np.int64)
    paths = route_pairs(topology, pairs[:, 0], pairs[:, 1], np.full(len(pairs), 10000), np.full(len(pairs), 100))
    rtt_ps, bdp_bytes = path_base_rtt(topology, paths, 1048, 60)
    rate, delay = topology.port_rate_bps.tolist(), topology.port_delay_ps.tolist()
    for i_pair in range(len(pairs)):
        data, ack = paths.row(2 * i_pair).tolist(), paths.row(2 * i_pair + 1).tolist()
        want_ps = sum(tx_ps(1048, rate[p]) + delay[p] for p in data) + sum(tx_ps(60, rate[p]) + delay[p] for p in ack)
        assert rtt_ps[i_pair] == want_ps
        assert bdp_bytes[i_pair] == -(-want_ps * min(rate[p] for p in data) // (8 * 10**12))
    assert rtt_ps.max() == max_base_rtt(topology, 1048, 60)[0]
    none = np.zeros(0, np.int64)
    assert [len(x) for x in path_base_rtt(topology, route_pairs(topology, none, none, none, none), 1, 1)] == [0, 0]
