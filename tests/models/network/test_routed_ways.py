"""Where switches choose ways by flow: these are known between links' changes, and what is steady is skipped."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.network.skip.fast_forward import FastForward
from models.network.skip.suspend.suspension import Suspension
from models.network.state.parameters import LinkChange
from models.network.state.records import PACKET_HOPS
from models.network.switch.routed_ways import RoutedWays
from properties.network_runs import Outcome, run, scenario_of
from properties.test_fast_forward import MOST_ERROR as MOST_ERROR_OF_ANY

MB, MS, US = 10**6, 10**9, 10**6
N_HOST, N_SPINE = 8, 4
TOPOLOGY = {
    "kind": "leaf-spine", "leaves": 2, "spines": N_SPINE, "hosts_per_leaf": N_HOST // 2, "host_rate": "100Gbps",
    "spine_rate": "100Gbps", "host_delay": "1us", "spine_delay": "1us",
}  # fmt: skip
SPINE_DOWN_AND_UP = [
    {"time": "4ms", "link": ["leaf0", "spine0"], "state": "down"},
    {"time": "12ms", "link": ["leaf0", "spine0"], "state": "up"},
]
ACROSS = [(host, host + N_HOST // 2, 200 * MB, 0, 3) for host in range(N_HOST // 2)]
MOST_ERROR, MOST_MEAN_ERROR = 0.02, 0.005  # whole windows agree within 2 % (`steady.Settings.coarse_spread`)


def tables(events: list[dict[str, Any]], policy: str = "ecmp", mode: str = "exact") -> dict[str, Any]:
    network = {"congestion_control": "dctcp", "link_event": events, "routing": {"policy": policy}}
    return {"topology": TOPOLOGY, "network": network, "wormhole": {"mode": mode, "paper": {"forecasts": ["periodic"]}}}


def assert_close(fast: Outcome, full: Outcome) -> None:
    """Completion times of flows that share ports, and their mean, which is stable where theirs are not."""
    assert np.abs(fast.rows[:, 4] / full.rows[:, 4] - 1).max() < MOST_ERROR
    assert abs(fast.rows[:, 4].mean() / full.rows[:, 4].mean() - 1) < MOST_MEAN_ERROR


def skipped(outcome: Outcome) -> int:
    fast = outcome.model.fast_forward
    assert fast is not None
    return sum(fast.skipped.hops_by_cause.values())


def freezes_ps(model_tables: dict[str, Any]) -> tuple[Outcome, list[int], list[int]]:
    """(a run, when something was frozen, until when at the latest)"""
    begins, ends, freeze = [], [], Suspension.freeze

    def note(self: Suspension, state: Any, new: Any) -> None:
        begins.extend(each.begin_ps for each in new)
        ends.extend(each.end_ps for each in new)
        freeze(self, state, new)

    with patch.object(Suspension, "freeze", note):
        return run(model_tables, ACROSS), begins, ends


def test_a_link_that_fails_and_comes_back_ends_skips_and_others_begin() -> None:
    full = run(tables(SPINE_DOWN_AND_UP, mode="off"), ACROSS)
    fast, begins, ends = freezes_ps(tables(SPINE_DOWN_AND_UP))
    assert_close(fast, full)
    assert skipped(fast) > 0.5 * int(full.model.state.fabric.counters[PACKET_HOPS])
    converged_ps = MS  # [network.routing] convergence
    for change_ps in (4 * MS, 12 * MS):
        paused = [at_ps for at_ps in begins if change_ps <= at_ps < change_ps + converged_ps]
        assert not paused and not any(b < change_ps <= e for b, e in zip(begins, ends, strict=True))
    for low_ps, high_ps in ((0, 4 * MS), (5 * MS, 12 * MS), (13 * MS, 10**12)):
        assert any(low_ps <= at_ps < high_ps for at_ps in begins)


@pytest.mark.parametrize("policy", ["weighted", "ecmp"])
def test_policies_by_flow_are_skipped(policy: str) -> None:
    events = [] if policy == "weighted" else [{"time": "900ms", "link": ["leaf1", "spine1"], "state": "down"}]
    full, fast = (run(tables(events, policy, mode), ACROSS) for mode in ("off", "exact"))
    assert_close(fast, full)
    assert skipped(fast) > 0.5 * int(full.model.state.fabric.counters[PACKET_HOPS])


def test_policies_by_packet_are_not() -> None:
    sprayed = tables([], "spray")
    sprayed["network"]["transport"] = {"recovery": "selective-repeat"}
    assert run(sprayed, ACROSS[:1]).model.fast_forward is None


def ways_of(outcome: Outcome, changes: tuple[LinkChange, ...]) -> RoutedWays:
    model = outcome.model
    return RoutedWays(outcome.scenario.topology, model.pairs, model.state.routing, changes, MS)


def test_ways_without_changes_are_those_of_fixed_paths() -> None:
    """ECMP's hash at every switch is what `topology.routing` has followed."""
    outcome = run(tables([{"time": "900ms", "link": ["leaf1", "spine1"], "state": "down"}], mode="off"), ACROSS)
    fixed = scenario_of({"topology": TOPOLOGY, "network": {"congestion_control": "dctcp"}}, ACROSS).paths
    found = ways_of(outcome, outcome.scenario.parameters.link_changes).by_epoch[0]
    for row in range(len(fixed.start) - 1):
        begin, end = found.path_start[row : row + 2]
        assert found.path_port[begin : end - 1].tolist() == fixed.row(row).tolist()
        assert found.path_port[end - 1] == -1


def test_ways_go_round_links_that_are_down() -> None:
    outcome = run(tables(SPINE_DOWN_AND_UP, mode="off"), ACROSS)
    topology, changes = outcome.scenario.topology, outcome.scenario.parameters.link_changes
    first, second, third = ways_of(outcome, changes).by_epoch
    down = {changes[0].port, int(topology.port_peer[changes[0].port])}
    assert down & set(first.path_port.tolist()) and not down & set(second.path_port.tolist())
    assert np.array_equal(first.path_port, third.path_port)


@st.composite
def events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to two links that fail for a while, or lose speed."""
    found = []
    for _ in range(draw(st.integers(1, 2))):
        link = [f"leaf{draw(st.integers(0, 1))}", f"spine{draw(st.integers(0, N_SPINE - 1))}"]
        begin_ms, lasts_ms = draw(st.integers(1, 8)), draw(st.integers(1, 6))
        first, last = draw(st.sampled_from([({"state": "down"}, {"state": "up"}), ({"rate": "25Gbps"}, {})]))
        found.append({"time": f"{begin_ms}ms", "link": link} | first)
        if last:
            found.append({"time": f"{begin_ms + lasts_ms}ms", "link": link} | last)
    return found


@settings(max_examples=8)
@given(events(), st.sampled_from(["ecmp", "weighted"]), st.sampled_from([None, "1MB", "auto"]))
def test_a_run_is_the_same_wherever_looks_are_made(
    found: list[dict[str, Any]], policy: str, buffer: str | None
) -> None:
    skipping, full = tables(found, policy), tables(found, policy, "off")
    for each in (skipping, full):
        if buffer is not None:
            each["network"]["buffer"] = {"size": buffer}
    quickly = run(skipping, ACROSS)
    with patch.object(FastForward, "round_looks", lambda *_: None):
        slowly = run(skipping, ACROSS)
    assert np.array_equal(quickly.rows, slowly.rows) and quickly.delivered_ps == slowly.delivered_ps
    assert abs(quickly.rows[:, 4].mean() / run(full, ACROSS).rows[:, 4].mean() - 1) < MOST_ERROR_OF_ANY
