"""Dragonfly, torus and planes: counts, diameters, bisections, round trips and ideal times that one can work out."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.attach import Server, attach, hosts
from models.topology.base_rtt import max_base_rtt, path_base_rtt
from models.topology.closed_form import ideal_fct_ps
from models.topology.direct.dragonfly import dragonfly_switches
from models.topology.direct.torus import torus_switches
from models.topology.direct.ways import Pairs, Rule, dragonfly_paths
from models.topology.even_ways import EvenWays
from models.topology.graph import LinkKind, Topology
from models.topology.rail_optimised import planes_of, rail_switches
from models.topology.routing import Paths, route_pairs
from pdes.errors import ConfigError

GBPS, NS, US = 10**9, 10**3, 10**6
HOST, LOCAL, FAR = LinkKind(100 * GBPS, 100 * NS), LinkKind(100 * GBPS, 500 * NS), LinkKind(50 * GBPS, 2 * US)
NVLINK = LinkKind(3600 * GBPS, 25 * NS)


def all_pairs(topology: Topology) -> tuple[np.ndarray, Paths]:
    """(the ends of all ordered pairs of hosts, their paths); a pair without a path is refused."""
    ends = np.array([(a, b) for a in topology.host.tolist() for b in topology.host.tolist() if a != b], np.int64)
    ports = np.arange(len(ends), dtype=np.int64)
    return ends, route_pairs(topology, ends[:, 0].copy(), ends[:, 1].copy(), ports, ports)


def verify_paths(topology: Topology, ends: np.ndarray, paths: Paths) -> np.ndarray:
    """Data paths join their ends over links that meet; returns their lengths."""
    for i, (a, b) in enumerate(ends.tolist()):
        row = paths.row(2 * i)
        assert topology.port_src[row[0]] == a and topology.port_dst[row[-1]] == b
        assert (topology.port_dst[row[:-1]] == topology.port_src[row[1:]]).all()
        assert topology.is_switch[topology.port_dst[row[:-1]]].all()
    return np.diff(paths.start)[0::2]


def links_of(fabric) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for a, b, _, _ in fabric.links:
        ends = min(a, b), max(a, b)
        found[ends] = found.get(ends, 0) + 1
    return found


def router_hops(fabric) -> np.ndarray:
    """Links between every two routers, by Floyd and Warshall."""
    n = len(fabric.names)
    hops = np.full((n, n), 99)
    np.fill_diagonal(hops, 0)
    for a, b in links_of(fabric):
        hops[a, b] = hops[b, a] = 1
    for k in range(n):
        hops = np.minimum(hops, hops[:, [k]] + hops[[k], :])
    return hops


@pytest.mark.parametrize(("groups", "routers", "far"), [(9, 4, 2), (5, 4, 2), (3, 4, 1), (2, 1, 1), (1, 3, 2)])
def test_a_dragonfly_has_the_links_of_the_paper(groups: int, routers: int, far: int) -> None:
    """Kim et al. 2008, section 3.1: a (a - 1) / 2 local links to a group, a * h / (g - 1) between two groups."""
    fabric = dragonfly_switches(groups, routers, 2, far, LOCAL, FAR)
    assert len(fabric.names) == groups * routers and len(fabric.places) == 2 * groups * routers
    links = links_of(fabric)
    between = {pair: 0 for pair in combinations(range(groups), 2)}
    degree = np.zeros((groups * routers, 2), int)
    for (a, b), n in links.items():
        is_far = a // routers != b // routers
        degree[[a, b], int(is_far)] += n
        if is_far:
            between[a // routers, b // routers] += n
    assert (degree[:, 0] == routers - 1).all()
    assert set(between.values()) <= {routers * far // max(groups - 1, 1)}
    assert (degree[:, 1] == (far if groups > 1 else 0)).all()


def test_the_balanced_dragonfly_of_the_paper_has_diameter_three() -> None:
    """a = 2p = 2h = 4, g = a h + 1 = 9: 72 hosts, 36 routers, 9 * 6 + 36 links, at most 3 of them on a way."""
    fabric = dragonfly_switches(9, 4, 2, 2, LOCAL, FAR)
    topology = hosts(fabric, HOST)
    assert (topology.n_host, len(fabric.names), len(fabric.links)) == (72, 36, 9 * 6 + 36)
    assert router_hops(fabric).max() == 3
    ends, paths = all_pairs(topology)
    length = verify_paths(topology, ends, paths)
    router = ends - topology.host[0]
    assert (length == 2 + router_hops(fabric)[router[:, 0] // 2, router[:, 1] // 2]).all()


def test_minimal_ways_have_one_global_link_and_the_fewest_local_ones() -> None:
    """By fewest links 21.6 % of the ways of 72 hosts have several. Only these change, and to what the paper says."""
    topology = hosts(dragonfly_switches(9, 4, 2, 2, LOCAL, FAR), HOST)
    ends, paths = all_pairs(topology)
    n_far = np.add.reduceat((topology.port_delay_ps == FAR.delay_ps)[paths.port].astype(int), paths.start[:-1])
    assert n_far.max() == 3
    assert 0.21 < (n_far > 1).mean() < 0.22
    header = np.column_stack([ends, *[np.arange(len(ends), dtype=np.int64)] * 2])
    pairs = Pairs(header, np.ones(len(ends), np.int64))
    minimal = dragonfly_paths(topology, paths, 4, pairs, 0, "minimal")
    verify_paths(topology, ends, minimal)
    far = np.add.reduceat((topology.port_delay_ps == FAR.delay_ps)[minimal.port].astype(int), minimal.start[:-1])
    router = (ends - topology.host[0]) // 2
    other = np.repeat(router[:, 0] // 4 != router[:, 1] // 4, 2)
    assert (far == other).all()
    same = n_far <= 1
    assert all(np.array_equal(paths.row(i), minimal.row(i)) for i in np.flatnonzero(same).tolist())
    length = np.diff(minimal.start)
    assert (length[~same] <= 5).all() and (length[~same] >= np.diff(paths.start)[~same]).all()
    assert dragonfly_paths(topology, minimal, 4, pairs, 0, "minimal") is minimal


def loaded(rule: Rule, shift: int, size_bytes: int = 10**6) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_far], messages on each global link; groups between the ends of each way) of 72 hosts, each of which
    sends to the host so many groups on. Ways join their ends."""
    topology = hosts(dragonfly_switches(9, 4, 2, 2, LOCAL, FAR), HOST)
    host = topology.host.astype(np.int64)
    ends = np.column_stack([host, np.roll(host, -8 * shift)])
    number = np.arange(72, dtype=np.int64)
    paths = route_pairs(topology, host, ends[:, 1].copy(), number, number)
    pairs = Pairs(np.column_stack([ends, number, number]), np.full(72, size_bytes))
    found = dragonfly_paths(topology, paths, 4, pairs, 3, rule)
    length = verify_paths(topology, ends, found)
    is_far = topology.port_delay_ps == FAR.delay_ps
    data = [found.row(2 * i) for i in range(72)]
    n_far = np.array([int(is_far[row].sum()) for row in data])
    assert (length <= 4 + 3 * n_far - n_far // 2).all() and set(n_far.tolist()) <= {1, 2}
    for row in (row for row, n in zip(data, n_far, strict=True) if n == 2):
        groups = (topology.port_dst[row[is_far[row]]] - 72) // 4
        assert len({(int(topology.port_src[row[is_far[row]][0]]) - 72) // 4, *groups.tolist()}) == 3
    return np.bincount(np.concatenate(data), minlength=len(is_far))[is_far], n_far - 1


@pytest.mark.parametrize("shift", [1, 4])
def test_valiants_ways_spread_what_goes_from_group_to_group(shift: int) -> None:
    """Two groups share one link, so with minimal ways all 8 messages of a group take it and 8 of 72 links are used.
    Over groups that are drawn each takes two links, 144 in all, 2 on average. UGAL's longest is no longer than either's
    (Kim et al., figure 9), and it leaves the minimal way only where that has more to carry."""
    minimal, valiant, ugal = (loaded(rule, shift) for rule in ("minimal", "valiant", "ugal"))
    assert minimal[0].max() == 8 and (minimal[0] > 0).sum() == 9 and not minimal[1].any()
    assert valiant[0].sum() == 144 and valiant[1].all() and valiant[0].max() < 8
    assert ugal[0].max() <= valiant[0].max() and 0 < ugal[1].sum() < 72


def test_ugal_goes_minimally_where_nothing_else_is_sent() -> None:
    """Messages of no bytes make no queues."""
    assert not loaded("ugal", 1, 0)[1].any()


def test_groups_that_cannot_share_their_links_evenly_are_refused() -> None:
    for groups, far in ((4, 2), (10, 2)):
        with pytest.raises(ConfigError, match=r"topology\.global_links"):
            dragonfly_switches(groups, 4, 1, far, LOCAL, FAR)


@pytest.mark.parametrize("dims", [(4, 4, 4), (5, 3), (2, 2), (6,), (4, 1, 2), (1,)])
def test_a_torus_has_its_links_and_distances(dims: tuple[int, ...]) -> None:
    """n links in a dimension of n > 2, one in one of two; distances are sums of the shorter ways round."""
    fabric = torus_switches(dims, 1, LOCAL)
    n = int(np.prod(dims))
    assert len(fabric.names) == n and set(links_of(fabric).values()) <= {1}
    assert len(fabric.links) == sum({1: 0, 2: n // 2}.get(size, n) for size in dims)
    hops = router_hops(fabric)
    assert hops.max() == sum(size // 2 for size in dims)
    grid = [place[::-1] for place in product(*(range(size) for size in reversed(dims)))]
    for a, b in combinations(range(n), 2):
        apart = [min((x - y) % size, (y - x) % size) for x, y, size in zip(grid[a], grid[b], dims, strict=True)]
        assert hops[a, b] == sum(apart)


def test_the_bisection_of_a_torus_is_two_planes() -> None:
    """4 x 4 x 4 cut across z: 2 * 16 links. A shift by half along z puts two messages on each of these."""
    fabric = torus_switches((4, 4, 4), 1, LOCAL)
    assert sum((a < 32) != (b < 32) for a, b in links_of(fabric)) == 2 * 16
    ways = EvenWays(hosts(fabric, HOST), 1000)
    half = [(i, (i + 32) % 64) for i in range(64)]
    assert ways.way(half).rate_bps == 100 * GBPS  # two ways of half a message each, two links that are shared by two
    assert ways.way([(i, (i + 1) % 4 + i // 4 * 4) for i in range(64)]).rate_bps == 100 * GBPS


def test_round_trips_and_ideal_times_on_a_torus() -> None:
    """Two routers apart, over 4 links: 2 * (2 * 100 ns + 2 * 500 ns) and a packet and its ACK on each."""
    topology = hosts(torus_switches((4, 4), 1, LOCAL), HOST)
    ends = [np.array([x], np.int64) for x in (0, 2, 7, 8)]
    paths = route_pairs(topology, *ends)
    rtt_ps, _ = path_base_rtt(topology, paths, 1000, 100)
    assert rtt_ps.tolist() == [2 * (2 * 100 * NS + 2 * 500 * NS) + 4 * (80 + 8) * NS]
    assert max_base_rtt(topology, 1000, 100)[0] == 2 * (2 * 100 * NS + 4 * 500 * NS) + 6 * (80 + 8) * NS
    fct_ps = ideal_fct_ps(
        10_000, 1000, 0, 100, paths.row(0), paths.row(1), topology.port_rate_bps, topology.port_delay_ps
    )
    assert fct_ps == rtt_ps[0] + 9 * 80 * NS


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 2))
@settings(max_examples=15)
def test_every_host_of_a_torus_reaches_every_other_by_a_shortest_way(dims: list[int], per_router: int) -> None:
    fabric = torus_switches(dims, per_router, LOCAL)
    topology = hosts(fabric, HOST)
    if topology.n_host < 2:
        return
    ends, paths = all_pairs(topology)
    assert (verify_paths(topology, ends, paths) == 2 + router_hops(fabric)[tuple(ends.T // per_router)]).all()


def planes(n_server: int = 4, per_unit: int = 2) -> Topology:
    """Servers of two GPUs, NICs of two ports of 200 Gbps."""
    servers = [Server(2, 2, LinkKind(200 * GBPS, 500 * NS), NVLINK)] * n_server
    return attach(planes_of(rail_switches(servers, per_unit, LinkKind(400 * GBPS, US), 1.0), 2), servers)


def test_planes_are_fabrics_that_only_nics_join() -> None:
    """Each: 2 units x 2 rails, 2 * 200 / 400 = 1 spine. Without hosts the switches fall apart into the planes."""
    topology = planes()
    kinds = [name.rstrip("0123456789") for name in topology.node_name]
    assert [kinds.count(kind) for kind in ("gpu", "nvswitch", "rail", "spine")] == [8, 4, 8, 2]
    assert topology.n_port // 2 == 8 + 2 * 8 + 2 * 4
    assert len(set(topology.node_name)) == topology.n_node
    src, dst = topology.port_src, topology.port_dst
    plane = np.full(topology.n_node, -1)
    for node, name in enumerate(topology.node_name):
        number = int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        plane[node] = number // 4 if name.startswith("rail") else number if name.startswith("spine") else -1
    between = (plane[src] >= 0) & (plane[dst] >= 0)
    assert (plane[src] == plane[dst])[between].all()
    for gpu in range(8):
        assert sorted(plane[dst[src == gpu]].tolist()) == [-1, 0, 1]  # an NVSwitch and a port in each plane
    assert topology.nic_rate_bps.tolist() == [400 * GBPS] * 8


def test_queue_pairs_take_either_port_and_stay_in_its_plane() -> None:
    topology = planes()
    n = 64
    ends = [np.full(n, x, np.int64) for x in (0, 4)] + [np.arange(n), np.full(n, 9)]
    paths = route_pairs(topology, *ends)
    rails = {topology.node_name[int(topology.port_dst[paths.row(2 * i)[0]])] for i in range(n)}
    assert rails == {"rail0", "rail4"}
    assert {len(paths.row(i)) for i in range(2 * n)} == {4}
    assert EvenWays(topology, 1000).way([(0, 4)]).rate_bps == 400 * GBPS
    ends, paths = all_pairs(topology)
    length = verify_paths(topology, ends, paths)
    server, rail = ends // 2, ends % 2
    same, unit = server[:, 0] == server[:, 1], server[:, 0] // 2 == server[:, 1] // 2
    assert (length[same | (unit & (rail[:, 0] == rail[:, 1]))] == 2).all() and set(length.tolist()) == {2, 4}
