"""Claims about ns-3's base round trips: values by hand, and equality with a search over all pairs, one at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.fat_tree import fat_tree
from models.topology.graph import Topology, make_topology
from models.topology.ns3_rtt import Ns3Rtt, ns3_window_bytes
from pdes.errors import ConfigError

GBPS, NS, US = 10**9, 10**3, 10**6


def star(n_host: int, *links: tuple[int, int]) -> Topology:
    """Hosts 0 .. n_host - 1 on one switch, links of (rate, delay)."""
    rows = [(host, n_host, *links[host % len(links)]) for host in range(n_host)]
    names = [f"n{i}" for i in range(n_host + 1)]
    return make_topology("star", names, [False] * n_host + [True], [-1] * (n_host + 1), rows)


def test_a_star_of_100_gbps_and_1_us_has_4160_ns_and_52000_bytes() -> None:
    """Four times 1 us, twice 80 ns for 1000 bytes: MODEL.md section 4."""
    assert Ns3Rtt(star(3, (100 * GBPS, US)), 1000).largest() == (4160, 52_000)


def test_a_fat_tree_of_8_has_12480_ns_and_156000_bytes() -> None:
    assert Ns3Rtt(fat_tree(8, 100 * GBPS, 100 * GBPS, US, US), 1000).largest() == (12_480, 156_000)


def test_the_two_largest_may_come_from_different_pairs_and_are_cut_off() -> None:
    topology = star(3, (100 * GBPS, 1_500_999), (100 * GBPS, 700), (30 * GBPS, 10 * US))
    rtt_ns, bdp_bytes = Ns3Rtt(topology, 1000).of_pairs(np.array([0, 0, 2]), np.array([1, 2, 0]))
    assert rtt_ns.tolist() == [3000 + 160, 23_000 + 80 + 266, 23_000 + 80 + 266]
    assert bdp_bytes.tolist() == [3160 * 100 // 8, 23_346 * 30 // 8, 23_346 * 30 // 8]
    assert Ns3Rtt(topology, 1000).largest() == (23_346, 23_346 * 30 // 8)


def two_ways() -> Topology:
    """Hosts 0 and 1 on switches 2 and 5, joined over switch 3 (slow, near) and switch 4 (fast, far)."""
    links = [(0, 2, 100 * GBPS, US), (1, 5, 100 * GBPS, US), (2, 3, 10 * GBPS, US), (3, 5, 10 * GBPS, US)]
    links += [(2, 4, 400 * GBPS, 5 * US), (4, 5, 400 * GBPS, 5 * US)]
    return make_topology("x", [f"n{i}" for i in range(6)], [False, False, True, True, True, True], [-1] * 6, links)


@pytest.mark.parametrize(
    ("next_hops", "rtt_ns", "rate_gbps"),
    [({}, 24_000 + 200, 100), ({(2, 1): [3, 4]}, 8_000 + 160 + 1600, 10), ({(2, 1): [4, 3]}, 24_000 + 200, 100)],
)
def test_the_first_next_hop_decides(next_hops: dict, rtt_ns: int, rate_gbps: int) -> None:
    """Without a table the neighbour with the highest id is first."""
    found, bdp_bytes = Ns3Rtt(two_ways(), 1000, next_hops).of_pairs(np.array([0]), np.array([1]))
    assert (found.tolist(), bdp_bytes.tolist()) == ([rtt_ns], [rtt_ns * rate_gbps // 8])


def test_a_next_hop_that_is_no_neighbour_is_refused() -> None:
    with pytest.raises(ConfigError, match="next hops of node 2 towards node 1: node 5"):
        Ns3Rtt(two_ways(), 1000, {(2, 1): [5]})


def test_a_window_has_32_bits() -> None:
    assert ns3_window_bytes(2**32 + 5) == 5
    assert ns3_window_bytes(np.array([7, 2**33])).tolist() == [7, 0]


def slow_rtt(topology: Topology, src: int, dst: int) -> tuple[int, int]:
    """(round trip, product) by a search of its own: distances from dst, then the highest neighbour one link nearer."""
    hops, front = {dst: 0}, [dst]
    while front:
        reached = {int(topology.port_src[p]) for node in front for p in topology.in_ports(node)} - set(hops)
        hops |= {node: hops[front[0]] + 1 for node in reached}
        front = [node for node in reached if topology.is_switch[node]]
    if src not in hops:
        return 0, 0
    node, rtt_ns, least_bps = src, 0, 10**18
    while node != dst:
        ways = [p for p in range(topology.n_port) if topology.port_src[p] == node]
        can_forward = [p for p in ways if topology.is_switch[topology.port_dst[p]] or topology.port_dst[p] == dst]
        nearer = [p for p in can_forward if hops.get(int(topology.port_dst[p]), -1) == hops[node] - 1]
        port = min(nearer, key=lambda p: (-topology.port_dst[p], p))
        rate_bps = int(topology.port_rate_bps[port])
        rtt_ns += 2 * int(topology.port_delay_ps[port]) // NS + 1000 * 8 * 10**9 // rate_bps
        least_bps, node = min(least_bps, rate_bps), int(topology.port_dst[port])
    return rtt_ns, rtt_ns * least_bps // 10**9 // 8


@st.composite
def random_networks(draw: st.DrawFn) -> Topology:
    n_host, n_switch = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    n_node = n_host + n_switch
    pair = st.tuples(st.integers(0, n_node - 1), st.integers(0, n_node - 1)).filter(lambda ends: ends[0] != ends[1])
    speeds = st.sampled_from([(25 * GBPS, US), (100 * GBPS, 5 * US), (3_333_333_333, 7 * NS)])
    links = [(*ends, *speed) for ends, speed in draw(st.lists(st.tuples(pair, speeds), max_size=20))]
    is_switch = [False] * n_host + [True] * n_switch
    return make_topology("x", [f"n{i}" for i in range(n_node)], is_switch, [-1] * n_node, links)


@given(topology=random_networks())
@settings(deadline=None, max_examples=150)
def test_all_pairs_equal_a_slow_search(topology: Topology) -> None:
    pairs = [(a, b) for a in topology.host.tolist() for b in topology.host.tolist() if a != b]
    src, dst = np.array(pairs).T
    expected = [slow_rtt(topology, a, b) for a, b in pairs]
    rtt = Ns3Rtt(topology, 1000)
    assert list(zip(*(column.tolist() for column in rtt.of_pairs(src, dst)), strict=True)) == expected
    assert rtt.largest() == (max(r for r, _ in expected), max(b for _, b in expected))
