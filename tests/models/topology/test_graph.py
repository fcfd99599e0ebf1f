"""Topologies: what every consumer relies on, and the builders' wiring."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.fat_tree import fat_tree
from models.topology.graph import LinkKind, Topology, make_topology
from models.topology.leaf_spine import leaf_spine
from models.topology.rail_optimised import rail_optimised
from pdes.errors import ConfigError

GBPS, NS, US = 10**9, 10**3, 10**6


def make_roft(n_gpu: int = 128, **changes) -> Topology:
    keys = {
        "gpus_per_server": 8,
        "servers_per_rail_switch": 32,
        "nic": LinkKind(100 * GBPS, 500 * NS),
        "spine": LinkKind(100 * GBPS, 1500 * NS),
    }
    return rail_optimised(n_gpu, **{**keys, **changes})


def verify_topology(topology: Topology) -> None:
    """Recompute the redundant facts the slow way."""
    n_port = topology.n_port
    ends = list(zip(topology.port_dst.tolist(), topology.port_src.tolist(), strict=True))
    assert ends == sorted(ends)
    peer = topology.port_peer
    assert (peer[peer] == np.arange(n_port)).all() and (peer != np.arange(n_port)).all()
    assert (topology.port_src[peer] == topology.port_dst).all()
    assert (topology.port_rate_bps[peer] == topology.port_rate_bps).all()
    assert (topology.port_delay_ps[peer] == topology.port_delay_ps).all()
    for node in range(topology.n_node):
        assert list(topology.in_ports(node)) == np.flatnonzero(topology.port_dst == node).tolist()
    assert topology.host.tolist() == [node for node in range(topology.n_node) if not topology.is_switch[node]]
    assert len(set(topology.node_name)) == topology.n_node
    assert (topology.server[topology.host] >= 0).all()
    for array in (topology.server, topology.host, topology.port_src, topology.port_rate_bps, topology.port_peer):
        assert array.dtype == np.int64 and array.flags.c_contiguous


def named_links(topology: Topology) -> set[tuple[str, str]]:
    name = topology.node_name
    return {(name[a], name[b]) for a, b in zip(topology.port_src, topology.port_dst, strict=True) if a < b}


@st.composite
def link_lists(draw, max_node: int = 9):
    """(n_node, is_switch, links) of small random graphs; parallel links and lone nodes happen."""
    n_node = draw(st.integers(2, max_node))
    node = st.integers(0, n_node - 1)
    pair = st.tuples(node, node).filter(lambda ends: ends[0] != ends[1])
    rate, delay = st.sampled_from([25 * GBPS, 100 * GBPS]), st.sampled_from([0, 25 * NS, 500 * NS, US])
    ends = draw(st.lists(st.tuples(pair, rate, delay), max_size=24))
    is_switch = draw(st.lists(st.booleans(), min_size=n_node, max_size=n_node))
    return n_node, is_switch, [(a, b, rate_bps, delay_ps) for (a, b), rate_bps, delay_ps in ends]


@given(link_lists())
@settings(deadline=None)
def test_ports_are_sorted_and_peers_are_symmetric_for_any_links(graph):
    n_node, is_switch, links = graph
    topology = make_topology("x", [f"n{i}" for i in range(n_node)], is_switch, list(range(n_node)), links)
    verify_topology(topology)
    assert topology.n_port == 2 * len(links)


def test_parallel_links_keep_the_order_of_the_input():
    topology = make_topology("x", ["a", "b"], [False, False], [0, 1], [(0, 1, 300, 3), (1, 0, 100, 1), (0, 1, 200, 2)])
    assert topology.port_rate_bps.tolist() == [300, 100, 200] * 2
    assert topology.port_peer.tolist() == [3, 4, 5, 0, 1, 2]


@pytest.mark.parametrize(
    ("link", "text"),
    [((0, 2, 1, 1), "outside 0..1"), ((1, 1, 1, 1), "same node"), ((0, 1, 0, 1), "rate"), ((0, 1, 1, -1), "delay")],
)
def test_a_link_that_cannot_be_is_named(link, text):
    with pytest.raises(ConfigError, match=rf"link 1 .*{text}"):
        make_topology("x", ["a", "b"], [False, True], [0, -1], [(0, 1, 1, 1), link])


@pytest.mark.parametrize("k", [2, 4, 8])
@pytest.mark.parametrize("oversubscription", [1.0, 2.0, 3.0])
def test_fat_tree_has_the_sizes_of_al_fares(k, oversubscription):
    topology = fat_tree(k, 100 * GBPS, 400 * GBPS, US, 2 * US, oversubscription)
    verify_topology(topology)
    n_host = int(k * k * k / 4 * oversubscription)
    assert topology.n_host == n_host
    assert topology.n_node == n_host + k * k + k * k // 4
    assert topology.n_port == 2 * (n_host + k * k * k // 2)
    for switch in np.flatnonzero(topology.is_switch).tolist():
        n_below = len([p for p in topology.in_ports(switch) if not topology.is_switch[topology.port_src[p]]])
        is_edge = topology.node_name[switch].startswith("edge")
        assert n_below == (int(k / 2 * oversubscription) if is_edge else 0)
        assert len(topology.in_ports(switch)) - n_below == (k // 2 if is_edge else k)


def test_fat_tree_links_aggregation_j_of_each_pod_to_its_own_row_of_cores():
    links = named_links(fat_tree(4, 100 * GBPS, 100 * GBPS, US, US))
    assert {core for agg, core in links if agg == "agg5"} == {"core2", "core3"}
    assert {agg for edge, agg in links if edge == "edge5"} == {"agg4", "agg5"}
    assert ("host13", "edge6") in links


@pytest.mark.parametrize(("k", "oversubscription", "key"), [(3, 1.0, "k"), (4, 0.5, "over"), (4, 1.25, "over")])
def test_fat_tree_that_does_not_fit_names_the_key(k, oversubscription, key):
    with pytest.raises(ConfigError, match=rf"topology\.{key}"):
        fat_tree(k, GBPS, GBPS, US, US, oversubscription)


def test_leaf_spine_joins_every_leaf_to_every_spine():
    topology = leaf_spine(3, 2, 5, 100 * GBPS, 400 * GBPS, US, 2 * US)
    verify_topology(topology)
    links = named_links(topology)
    assert {(f"leaf{leaf}", f"spine{spine}") for leaf in range(3) for spine in range(2)} < links
    assert {leaf for host, leaf in links if host == "host7"} == {"leaf1"}
    with pytest.raises(ConfigError, match=r"topology\.spines"):
        leaf_spine(2, 0, 1, GBPS, GBPS, US, US)


def test_roft_of_128_gpus_has_16_spines_and_a_switch_per_rail():
    topology = make_roft()
    verify_topology(topology)
    names = topology.node_name
    assert (topology.n_host, names.count("rail7"), names[128:136]) == (128, 1, tuple(f"rail{r}" for r in range(8)))
    assert sum(name.startswith("spine") for name in names) == 16
    assert topology.server[:128].tolist() == [gpu // 8 for gpu in range(128)]
    assert (topology.server[128:] == -1).all()
    assert {rail for gpu, rail in named_links(topology) if gpu == "gpu77"} == {"rail5"}


def test_roft_units_have_their_own_rails_and_the_largest_unit_sizes_the_spines():
    topology = make_roft(24, servers_per_rail_switch=2, oversubscription=1.5)
    verify_topology(topology)
    assert sum(name.startswith("rail") for name in topology.node_name) == 16
    assert sum(name.startswith("spine") for name in topology.node_name) == 2  # ceil(2 / 1.5)
    assert ("gpu18", "rail10") in named_links(topology)


def test_roft_spine_count_is_exact_for_decimal_oversubscription():
    topology = make_roft(88, servers_per_rail_switch=11, oversubscription=1.1)
    assert sum(name.startswith("spine") for name in topology.node_name) == 10


def test_roft_with_nvlink_has_one_switch_per_server():
    topology = make_roft(16, nvlink=LinkKind(3600 * GBPS, 25 * NS))
    verify_topology(topology)
    assert topology.node_name[16:19] == ("nvswitch0", "nvswitch1", "rail0")
    assert topology.server.tolist() == [0] * 8 + [1] * 8 + [0, 1] + [-1] * 10
    assert {near for gpu, near in named_links(topology) if gpu == "gpu9"} == {"nvswitch1", "rail1"}


@pytest.mark.parametrize(
    ("n_gpu", "changes", "key"),
    [(12, {}, "gpus"), (8, {"gpus_per_server": 0}, "gpus_per_server"), (8, {"oversubscription": 0.9}, "oversub")],
)
def test_roft_that_does_not_fit_names_the_key(n_gpu, changes, key):
    with pytest.raises(ConfigError, match=rf"topology\.{key}"):
        make_roft(n_gpu, **changes)
