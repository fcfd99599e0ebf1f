"""Ports that are as one where packets of a flow go different ways."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.network.build.arrays import arrange_pairs
from models.network.build.routing import make_routing
from models.network.switch.routed_ways import RoutedWays
from models.network.switch.spread_ways import Spread, find_spread, together
from properties.network_runs import scenario_of

FAT_TREE = {"kind": "fat-tree", "k": 4, "link_rate": "100Gbps", "link_delay": "1us"}


def spread_of(topology: dict[str, Any], flows: list[tuple[int, int]], policy: str = "spray") -> tuple[Any, ...]:
    """(topology, its stages or None, the ways of the flows over the ports that stand for these)"""
    network = {"transport": {"recovery": "selective-repeat"}, "routing": {"policy": policy}}
    tables = {"topology": topology, "network": network, "workload": {"queue_pairs": "per-pair"}}
    s = scenario_of(tables, [(src, dst, 1000, 0, 3) for src, dst in flows])
    assert s.parameters.routing is not None
    pairs, routing = arrange_pairs(s.paths, np.ones(len(flows), np.bool_)), make_routing(s.topology, s.parameters)
    resolved = RoutedWays(s.topology, pairs, routing, (), 0).pairs
    spread = find_spread(s.topology, pairs, resolved, routing)
    ways = together(resolved, spread) if spread is not None else resolved
    found = [ways.path_port[a : b - 1] for a, b in zip(ways.path_start[:-1:2], ways.path_start[1::2], strict=True)]
    return s.topology, spread, found


def all_pairs(n_host: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n_host) for j in range(n_host) if i != j]


def test_a_fat_tree_has_a_stage_for_each_tier_and_direction() -> None:
    """k = 4: an edge switch has 2 uplinks, a pod 4 links to cores, and as many lead back."""
    t, spread, ways = spread_of(FAT_TREE, all_pairs(16))
    assert spread is not None
    between = t.is_switch[t.port_src] & t.is_switch[t.port_dst]
    sizes = spread.n[np.unique(spread.first[between])]
    assert sorted(sizes.tolist()) == [2] * 16 + [4] * 8  # 8 edges, up and down, and 4 pods, up and down
    assert (spread.first[~between] == np.flatnonzero(~between)).all() and (spread.n[~between] == 1).all()
    assert spread.is_narrow[~between].all() and not spread.is_narrow[np.unique(spread.first[between])].any()
    assert sorted({len(way) for way in ways}) == [2, 4, 6]


def test_a_stage_is_narrow_where_hosts_can_send_and_take_more_than_it_carries() -> None:
    oversubscribed = FAT_TREE | {"oversubscription": 2.0}
    t, spread, _ = spread_of(oversubscribed, all_pairs(32))
    assert spread is not None
    between = np.unique(spread.first[t.is_switch[t.port_src] & t.is_switch[t.port_dst]])
    assert spread.is_narrow[between].all()
    _, spread, ways = spread_of(oversubscribed, [(0, 31)])  # one host fills half of its edge switch's uplinks
    assert spread is not None and len(ways[0]) == 6
    assert not spread.is_narrow[ways[0][1:-1]].any()


def test_a_way_has_its_hosts_ports_and_narrow_stages() -> None:
    t, spread, ways = spread_of(FAT_TREE | {"oversubscription": 2.0}, [(0, 31), (1, 31), (2, 31), (3, 31)])
    assert spread is not None
    start = np.cumsum([0, *map(len, ways)])
    narrow = spread.without_wide((start, np.concatenate(ways)))
    wide = spread.only_wide((start, np.concatenate(ways)))
    kept = [narrow[1][a:b].tolist() for a, b in zip(narrow[0][:-1], narrow[0][1:], strict=True)]
    assert [len(way) for way in kept] == [2] * 4  # they can only take what the last host takes
    assert [way[0] for way in kept] == [way[0] for way in ways] and len({way[1] for way in kept}) == 1
    assert (np.diff(wide[0]) == 4).all() and not spread.is_narrow[wide[1]].any()


@pytest.mark.parametrize("policy", ["spray", "adaptive"])
def test_a_torus_has_no_stages(policy: str) -> None:
    """Ways of two flows have some of their ports in common, and others not."""
    torus = {"kind": "torus", "dims": [4, 4], "link_rate": "100Gbps"}
    _, spread, _ = spread_of(torus, all_pairs(16), policy)
    assert spread is None


@given(st.data())
def test_what_ports_of_a_stage_have_together_is_spread_evenly(data: st.DataObject) -> None:
    n_port = data.draw(st.integers(1, 12))
    stage = np.array([data.draw(st.integers(0, 3)) for _ in range(n_port)])
    first = np.array([np.flatnonzero(stage == each)[0] for each in stage])
    n = np.maximum(np.bincount(first, minlength=n_port), 1)
    of_first = np.array([data.draw(st.integers(0, 10**15)) for _ in range(n_port)]) * (first == np.arange(n_port))
    spread = Spread(first, n, np.ones(n_port, np.bool_)).spread(of_first)
    assert (np.bincount(first, spread, n_port) == of_first).all()
    assert all(np.ptp(spread[first == p]) <= 1 for p in np.unique(first))
