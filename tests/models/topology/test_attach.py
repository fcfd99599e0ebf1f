"""Servers on any fabric: who hangs on what, which way GPUs of a server take, what a shared NIC leaves to each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.topology.attach import Server, attach
from models.topology.base_rtt import max_base_rtt
from models.topology.even_ways import EvenWays
from models.topology.fat_tree import fat_tree, fat_tree_switches, folded_clos
from models.topology.graph import LinkKind, Topology
from models.topology.leaf_spine import leaf_spine_switches
from models.topology.rail_optimised import rail_switches
from models.topology.routing import route_pairs
from models.workload.jobs.place import rack_of_host
from pdes.errors import ConfigError
from pdes.searching.fabric import parts_of

GBPS, NS = 10**9, 10**3
NIC, UP = LinkKind(400 * GBPS, 500 * NS), LinkKind(400 * GBPS, 1500 * NS)
NVLINK, PCIE = LinkKind(3600 * GBPS, 25 * NS), LinkKind(512 * GBPS, 50 * NS)
H100 = Server(8, 8, NIC, NVLINK, PCIE)
A100 = Server(8, 4, LinkKind(200 * GBPS, 500 * NS), LinkKind(2400 * GBPS, 25 * NS), PCIE)


def names_on_way(topology: Topology, src: int, dst: int, sport: int = 7) -> list[str]:
    ends = [np.array([x], np.int64) for x in (src, dst, sport, 100)]
    paths = route_pairs(topology, *ends)
    return [topology.node_name[int(topology.port_dst[port])] for port in paths.row(0)]


@pytest.mark.parametrize("fabric", [leaf_spine_switches(2, 2, 16, UP), fat_tree_switches(4, UP, 4.0)])
def test_gpus_of_a_server_take_nvlink_though_their_leaf_is_as_near(fabric) -> None:
    """Whatever their ports hash to; GPUs of other servers never do."""
    topology = attach(fabric, [H100] * (len(fabric.places) // 8))
    for sport in range(32):
        assert names_on_way(topology, 0, 7, sport) == ["nvswitch0", "gpu7"]
        assert "nvswitch" not in "".join(names_on_way(topology, 0, 8, sport))
    ways = EvenWays(topology, 1000)
    assert ways.way([(0, 7)]).rate_bps == NVLINK.rate_bps
    assert ways.way([(0, 8)]).rate_bps == NIC.rate_bps


def test_the_largest_round_trip_does_not_go_by_a_leaf_that_nobody_takes() -> None:
    """One leaf with two servers: between them 2 links at 400 Gbps, inside one 2 at 3.6 Tbps."""
    topology = attach(leaf_spine_switches(1, 0, 16, UP), [H100] * 2)
    rtt_ps, bdp_bytes = max_base_rtt(topology, 1000, 100)
    assert rtt_ps == 2 * (20 * NS + 2 * NS) + 4 * 500 * NS
    assert bdp_bytes == rtt_ps * 50 // 1000
    alone = attach(leaf_spine_switches(1, 0, 16, UP), [H100])
    tx_ps = [-(-size * 8000 // 3600) for size in (1000, 100)]
    assert max_base_rtt(alone, 1000, 100)[0] == 2 * sum(tx_ps) + 4 * 25 * NS


def test_gpus_that_share_a_nic_meet_in_it_and_each_has_its_part_of_the_line() -> None:
    topology = attach(leaf_spine_switches(2, 2, 4, UP), [A100] * 2)
    assert names_on_way(topology, 2, 9) == ["nic1", "leaf0", topology.node_name[-2], "leaf1", "nic4", "gpu9"] or (
        names_on_way(topology, 2, 9) == ["nic1", "leaf0", topology.node_name[-1], "leaf1", "nic4", "gpu9"]
    )
    assert topology.nic_rate_bps.tolist() == [100 * GBPS] * 16
    assert EvenWays(topology, 1000).way([(0, 8), (1, 9)]).rate_bps == 100 * GBPS
    assert EvenWays(topology, 1000).way([(0, 8)]).rate_bps == 200 * GBPS
    assert names_on_way(attach(leaf_spine_switches(1, 0, 2, UP), [Server(4, 2, NIC)]), 0, 1) == ["nic0", "gpu1"]


def test_racks_and_parts_are_those_of_the_fabric() -> None:
    topology = attach(leaf_spine_switches(2, 2, 4, UP), [A100] * 2)
    leaf_0 = topology.node_name.index("leaf0")
    assert rack_of_host(topology).tolist() == [leaf_0] * 8 + [leaf_0 + 1] * 8
    parts = parts_of(topology)
    assert (parts.gpus, parts.servers, parts.switches, parts.links) == (16, 2, 4, 8 + 4)
    assert parts.nic_gbps == 8 * 200


@given(st.lists(st.sampled_from([H100, A100, Server(4, 1, NIC), Server(1, 1, NIC)]), min_size=1, max_size=5))
def test_servers_of_any_kinds_have_their_gpus_nics_and_switches(servers: list[Server]) -> None:
    n_nic = sum(server.n_nic for server in servers)
    topology = attach(leaf_spine_switches(3, 1, -(-n_nic // 3), UP), servers)
    assert topology.n_host == sum(server.n_gpu for server in servers)
    server = topology.server[topology.host]
    assert np.bincount(server).tolist() == [one.n_gpu for one in servers]
    src, dst = topology.port_src, topology.port_dst
    for i, one in enumerate(servers):
        leaves = (topology.server[src] == i) & (topology.server[dst] < 0)
        assert topology.port_rate_bps[leaves].tolist() == [one.nic.rate_bps] * one.n_nic
        inside = (topology.server[src] == i) & (topology.server[dst] == i)
        n_inside = one.n_gpu * ((one.nvlink is not None) + one.shares_nics)
        assert inside.sum() == 2 * n_inside
        assert topology.is_inside[topology.server[src] == i].sum() == one.n_gpu * (one.nvlink is not None)
    ends = np.array(
        [(a, b) for a in range(topology.n_host) for b in range(topology.n_host) if a != b], np.int64
    ).reshape(-1, 2)
    paths = route_pairs(topology, *ends.T.copy(), np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64))
    for row, (a, b) in enumerate(ends.tolist()):
        is_crossing = (topology.server[dst[paths.row(2 * row)]] < 0).any()
        shared = servers[server[a]].shares_nics and servers[server[a]].nvlink is None
        if server[a] != server[b]:
            assert is_crossing
        elif servers[server[a]].nvlink is not None:
            assert not is_crossing
        elif shared:
            each = servers[server[a]].n_gpu // servers[server[a]].n_nic
            first = int(np.argmax(server == server[a]))
            assert is_crossing == ((a - first) // each != (b - first) // each)


def test_a_fat_tree_sized_by_gpus_is_the_k_ary_one_where_it_is_full() -> None:
    """k = 4 has 16 places: two at each of two edge switches in each of four pods."""
    ours, theirs = folded_clos(16, 2, 2, UP), fat_tree_switches(4, UP)
    assert (ours.names, ours.links, ours.places) == (theirs.names, theirs.links, theirs.places)


@pytest.mark.parametrize(
    ("n_nic", "edges", "aggregations", "cores"), [(4, 1, 0, 0), (5, 2, 2, 0), (8, 2, 2, 0), (9, 3, 4, 4)]
)
def test_a_fat_tree_sized_by_gpus_has_what_it_needs(n_nic: int, edges: int, aggregations: int, cores: int) -> None:
    fabric = folded_clos(n_nic, 4, 2, UP)
    kinds = [name.rstrip("0123456789") for name in fabric.names]
    assert [kinds.count(kind) for kind in ("edge", "agg", "core")] == [edges, aggregations, cores]
    topology = attach(fabric, [Server(1, 1, NIC)] * n_nic)
    assert names_on_way(topology, 0, n_nic - 1)[-1] == f"gpu{n_nic - 1}"


def test_servers_with_fewer_nics_leave_the_last_rails_and_spines_carry_the_fullest_one() -> None:
    """Two H100s and two A100s to a unit: rails 0 to 3 carry 1.2 Tbps, 4 to 7 0.8: three spines of 400 Gbps."""
    servers = [H100, H100, A100, A100]
    fabric = rail_switches(servers, 4, UP, 1.0)
    assert (len(fabric.names), fabric.places) == (8 + 3, [*range(8), *range(8), *range(4), *range(4)])
    assert len(rail_switches(servers, 4, UP, 2.0).names) == 8 + 2


def test_what_cannot_be_attached_says_why() -> None:
    with pytest.raises(ConfigError, match=r"topology\.nics_per_server: 3 NICs for 8 GPUs"):
        attach(leaf_spine_switches(1, 0, 8, UP), [Server(8, 3, NIC)])
    with pytest.raises(ConfigError, match="16 NICs.* 8 places"):
        attach(leaf_spine_switches(1, 0, 8, UP), [H100] * 2)


def test_hosts_without_servers_are_as_they_were() -> None:
    topology = fat_tree(4, 100 * GBPS, 100 * GBPS, NS, NS)
    assert topology.name == "fat-tree k=4, 16 hosts" and topology.node_name[:2] == ("host0", "host1")
    assert not topology.is_inside.any()
