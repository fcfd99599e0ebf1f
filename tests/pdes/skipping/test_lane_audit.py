"""What is said of messages and groups that lanes could have: made up, where the error is known, and of whole runs."""

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from models.network.model import NetworkModel
from models.network.state.records import LANE_DELIVERED_PS, LANE_ENDED_PS, N_LANE_TIME
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.lane_audit import EXPECTED_END, EXPECTED_FLOW, EXPECTED_UNIT, LaneAudit
from pdes.skipping.fluid.lanes import Times
from pdes.skipping.fluid.stretches import NO_STRETCH, Stretches
from pdes.skipping.prediction import (
    PREDICTED_BEGIN_PS,
    PREDICTED_END,
    PREDICTED_ENDED_PS,
    PREDICTED_FREE_PS,
    PREDICTED_SIZE,
)
from properties.network_runs import Outcome, run

MB, US = 10**6, 10**6


def message(flow: int, end: int, ended_ps: int, from_ps: int = 100) -> np.ndarray:
    """Posted at 100; a lane would have had it from from_ps to ended_ps."""
    return np.array([[flow, end, 100, from_ps, ended_ps]])


def started(*said: np.ndarray) -> LaneAudit:
    audit = LaneAudit(8, all_of_it())
    audit.follow(np.concatenate(said))
    return audit


def all_of_it() -> Stretches:
    """Eight flows that have nothing to do with each other, always simulated."""
    return Stretches(np.arange(8), 1.0, 1, 1000)


def sample(flow: int, done: int, end: int = 1000, posted_ps: int = 0, done_ps: int = 0) -> list[int]:
    values = {h.FLOW: flow, h.DONE: done, h.MESSAGE_END: end, h.POSTED_PS: posted_ps, h.DONE_PS: done_ps}
    return [values.get(k, 0) for k in range(h.N_COLUMN)]


def end(audit: LaneAudit, ended: dict[int, tuple[int, int]]) -> dict[str, Any]:
    """All messages are over. ended: flow -> (last byte of the last message that has ended, when)."""
    over = audit.running
    last = np.array([ended[flow] for flow in over[:, 0].tolist()])
    audit.end(over, last[:, 0], last[:, 1])
    assert len(audit.running) == 0 and audit.next_look_ps == NEVER and not audit.n_followed.any()
    return audit.facts()["lanes"]


def test_a_message_that_ends_when_it_was_said_to_is_off_by_nothing() -> None:
    audit = started(message(2, 1000, 1100))
    assert audit.next_look_ps == 1100 and audit.n_followed.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert end(audit, {2: (1000, 1100)}) == {
        "audited": 1, "void": 0, "flows": 1, "mean_fct_error": 0.0, "standard_error": None, "p99_fct_error": 0.0,
        "max_fct_error": 0.0, "fct_bias": 0.0, "mean_rate_error": 0.0, "max_rate_error": 0.0,
    }  # fmt: skip


def test_an_error_is_of_the_whole_completion_time_and_of_the_rate_of_what_was_left() -> None:
    """One was said to take 1000 ps and takes 1200; of the other the last 500 of 900 ps were said to take 400."""
    facts = end(started(message(2, 1000, 1100), message(3, 1000, 900, 500)), {2: (1000, 1300), 3: (1000, 1000)})
    assert facts["mean_fct_error"] == pytest.approx((200 / 1200 + 100 / 900) / 2)
    assert facts["fct_bias"] == pytest.approx(-(200 / 1200 + 100 / 900) / 2)
    assert facts["max_fct_error"] == pytest.approx(200 / 1200)
    assert facts["max_rate_error"] == pytest.approx(0.25)
    assert facts["mean_rate_error"] == pytest.approx((0.2 + 0.25) / 2)
    assert facts["standard_error"] == pytest.approx((200 / 1200 - 100 / 900) / 2)


def test_a_message_of_which_nobody_saw_the_end_is_void() -> None:
    facts = end(started(message(2, 1000, 1100), message(3, 1000, 1100)), {2: (500, 1300), 3: (1000, 1100)})
    assert (facts["audited"], facts["void"], facts["flows"], facts["max_fct_error"]) == (2, 1, 1, 0.0)


def test_a_message_is_over_once_all_of_it_is_acknowledged() -> None:
    audit = started(message(2, 1000, 1100), message(3, 1000, 1100), message(4, 1000, 1100))
    rows = np.array([sample(2, 999), sample(3, 1000, 2000), sample(5, 0)])
    assert audit.over(rows)[:, 0].tolist() == [3, 4]  # one has none left to sample
    assert audit.had(np.array([sample(2, 999), sample(3, 1000, 2000)])).tolist() == [True, False]
    assert audit.of(np.array([4, 7]))[:, 0].tolist() == [4]


def test_what_was_drawn_together_errs_together() -> None:
    """Four messages, two of each component; those of one are off by the same."""
    audit = LaneAudit(8, Stretches(np.arange(8) // 2, 1.0, 1, 1000))
    audit.follow(np.concatenate([message(flow, 1000, 1100) for flow in range(4)]))
    facts = end(audit, {0: (1000, 1100), 1: (1000, 1100), 2: (1000, 1350), 3: (1000, 1350)})
    assert facts["mean_fct_error"] == pytest.approx(0.1) and facts["standard_error"] == pytest.approx(0.1)


def test_what_goes_on_after_a_stretch_ends_as_was_said() -> None:
    """Of four messages one is over, one not begun by then, and one should be over as good as now."""
    audit = started(
        message(2, 1000, 9000), message(3, 1000, 9000), message(4, 1000, 9000, 5000), message(5, 1000, 2100)
    )
    rows = np.array([sample(2, 400), sample(3, 1000, 2000), sample(4, 0), sample(5, 900)])
    rows[:, h.IS_WHOLE] = 1
    late = np.full(8, 10), np.full(8, 20)
    rests = audit.rests(2000, rows, np.arange(8), 2500, *late)
    names = (0, PREDICTED_SIZE, PREDICTED_END, PREDICTED_BEGIN_PS, PREDICTED_ENDED_PS, PREDICTED_FREE_PS)
    assert rests[:, names].tolist() == [[2, 600, 1000, 2000, 9000, 9000 - 20 - 10]]
    rows[:, h.IS_WHOLE] = 0
    assert len(audit.rests(2000, rows, np.arange(8), 2500, *late)) == 0
    assert audit.keeps(rows).tolist() == audit.had(rows).tolist() == [True, False, True, True]
    audit.let_go(np.array([2, 4]))
    assert audit.keeps(rows).tolist() == [False, False, False, True]
    assert audit.had(rows).tolist() == [True, False, True, True]  # it is not learned of again


def followed(n: int) -> LaneAudit:
    """A group of flows that have done 1000 bytes at 1000, posted at 0, and go on by 100 bytes in 100 ps."""
    audit = LaneAudit(8, all_of_it())
    predicted = np.array([[i, 0, 8000, 9000, 1000, 8900, 9000, 0, 8800] for i in range(n)])
    audit.follow_group(5, np.array([sample(i, 1000, 9000, 0, 1000) for i in range(n)]), predicted, 1000)
    return audit


def test_a_group_goes_on_after_a_stretch_as_was_said_if_all_of_it_is_under_way() -> None:
    audit = followed(2)
    rows = np.array([sample(0, 5000, 9000), sample(1, 5500, 9000)])
    rows[:, h.IS_WHOLE] = 1
    assert audit.groups_of(np.arange(8)) == [5] and audit.groups_of(np.array([2, 3])) == []
    rests = audit.group_rests(5, 5200, rows, 6000)
    assert rests is not None
    assert rests[:, (PREDICTED_SIZE, PREDICTED_BEGIN_PS, PREDICTED_ENDED_PS)].tolist() == [
        [4000, 5200, 9000],
        [3500, 5200, 9000],
    ]
    assert audit.group_rests(5, 5200, rows, 8900) is None and audit.group_rests(5, 5200, rows[:1], 6000) is None


def test_a_group_is_compared_by_what_its_flows_have_done_at_its_end() -> None:
    """One as was said, one at half the pace, one that has ended, one that stands still."""
    audit = followed(4)
    found = [(3000, 3000, 0, 0), (2000, 3000, 0, 0), (12000, 9500, 9000, 8000), (1000, 1000, 0, 0)]
    assert audit.in_groups(np.array([0, 3, 4])).tolist() == [True, True, False]
    audit.end_group(5, 4000, np.array(found))
    facts = audit.facts()["groups"]
    assert (facts["audited"], facts["void"], facts["flows"]) == (1, 0, 4)
    assert facts["fct_bias"] == pytest.approx((0 - 1000 / 3000 + 1000 / 8000 - 2999 / 4000) / 4)
    assert facts["max_fct_error"] == pytest.approx(2999 / 4000) and facts["standard_error"] is None
    assert not audit.n_followed.any() and audit.groups == {}


def test_a_group_that_somebody_comes_to_is_void() -> None:
    audit = followed(2)
    audit.end_group(5, 4000, None)
    facts = audit.facts()["groups"]
    assert (facts["audited"], facts["void"], facts["flows"], facts["mean_fct_error"]) == (1, 1, 0, None)


def tables(control: str, audit: float, **wormhole: Any) -> dict[str, Any]:
    topology = {
        "kind": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4, "host_rate": "100Gbps",
        "spine_rate": "100Gbps", "host_delay": "1us", "spine_delay": "1us",
    }  # fmt: skip
    keys = {"mode": "auto", "tolerance": 0.02, "paper": {"forecasts": ["replay", "similar", "alone"]}, "audit": audit}
    return {
        "topology": topology, "network": {"congestion_control": control}, "workload": {"queue_pairs": "per-pair"},
        "wormhole": wormhole if wormhole.get("mode") == "off" else keys | wormhole,
    }  # fmt: skip


IN_TURN = [(0, 1, 2 * MB, i * 400 * US, 3) for i in range(16)]  # one at a time, with nobody else in the network


def audited(outcome: Outcome, kind: str) -> dict[str, Any]:
    fast = outcome.model.fast_forward
    assert fast is not None and fast.lanes is not None
    audit = fast.lanes.lanes.audit
    assert not audit.n_followed.any() and not outcome.model.state.nic.lanes["n_audited"].any()
    return fast.audit_facts()["audit"][kind]


@pytest.mark.parametrize("control", ["fixed-window", "dctcp"])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_where_a_lane_is_exact_its_audit_finds_no_error(control: str, share: float) -> None:
    fast, plain = run(tables(control, share), IN_TURN), run(tables(control, 0, mode="off"), IN_TURN)
    facts = audited(fast, "lanes")
    assert 2 < facts["flows"] == facts["audited"] - facts["void"] <= 16 and (share < 1 or facts["void"] == 0)
    assert facts["max_fct_error"] == facts["max_rate_error"] == 0.0
    assert (fast.rows == plain.rows).all()  # what is simulated, and what is not
    assert (share < 1) == (audited_hops(fast) > 0)


def audited_hops(outcome: Outcome) -> int:
    """Packet-hops that lanes have spared a run."""
    fast = outcome.model.fast_forward
    assert fast is not None
    return fast.skipped.hops_by_cause["lane"]


def test_a_wrong_time_of_a_lane_is_found() -> None:
    """What is known becomes a tenth too long, wherever it is kept: in the last messages that is seen, to the ps."""
    wrong: list[int] = []

    def spoil(model: NetworkModel) -> None:
        fast, state = model.fast_forward, model.state
        assert fast is not None and fast.lanes is not None
        if state.fabric.counters[N_LANE_TIME] == 0 or wrong:
            return
        lanes = fast.lanes.lanes
        (key, times), *_ = lanes.times._known.items()
        lanes.times._known[key] = Times(times.delivered_ps * 11 // 10, times.ended_ps * 11 // 10, 0)
        state.nic.lane_times[0, [LANE_DELIVERED_PS, LANE_ENDED_PS]] = lanes.times._known[key][:2]
        wrong.append(lanes.times._known[key].ended_ps - times.ended_ps)
        wrong.append(times.ended_ps)

    facts = audited(run(tables("dctcp", 1.0), IN_TURN, check=spoil), "lanes")
    assert wrong and facts["flows"] > 3
    assert facts["max_fct_error"] == pytest.approx(wrong[0] / wrong[1], abs=1e-12)
    assert 0.05 < facts["fct_bias"] <= facts["max_fct_error"]


def test_a_newcomer_on_the_ports_of_what_is_followed_ends_the_comparison() -> None:
    comer = [(2, 1, 1 * MB, 3700 * US, 3)]
    facts = audited(run(tables("dctcp", 1.0), [*IN_TURN, *comer]), "lanes")
    assert facts["void"] == 1 and facts["flows"] > 2 and facts["max_fct_error"] == 0.0


@pytest.mark.parametrize("newcomer", [False, True])
def test_groups_are_simulated_and_compared(newcomer: bool) -> None:
    """Three messages share the link between two leaves; a fourth comes in between, which no pace can know of."""
    flows = [(0, 4, 20 * MB, 0, 3), (1, 5, 30 * MB, 0, 3), (2, 6, 25 * MB, 200 * US, 3)]
    flows += [(3, 7, 10 * MB, 2500 * US, 3)] if newcomer else []
    fast, plain = run(tables("hpcc", 1.0), flows), run(tables("hpcc", 0, mode="off"), flows)
    facts = audited(fast, "groups")
    assert (fast.rows == plain.rows).all() and audited_hops(fast) == 0
    assert facts["void"] == newcomer and facts["audited"] > newcomer and facts["flows"] >= 2
    assert 0 < facts["max_rate_error"] < 0.02  # the tolerance


BOTH_WAYS = [  # four pairs of hosts, each of which has something on its way there and back all the time
    (first + back, first + 1 - back, 2 * MB, (i * 200 + first * 7 + back * 100) * US, 3)
    for i in range(60) for first in (0, 2, 4, 6) for back in (0, 1)
]  # fmt: skip
ACK_SHARE = 60 / 1048  # of what fills a way, the acknowledgements of what comes the other way


def rows_of(outcome: Outcome) -> dict[tuple[int, int], int]:
    """Completion times by (queue pair, end in its stream)."""
    found, end = {}, {}
    for _, pair, size, start_ps, finish_ps, *_ in sorted(outcome.rows.tolist(), key=lambda row: row[3]):
        end[pair] = end.get(pair, 0) + size
        found[pair, end[pair]] = finish_ps - start_ps
    return found


def test_half_of_the_time_says_what_all_of_it_says() -> None:
    """Means agree within four standard errors, as both state theirs; no single error is larger than the largest of all.
    What is compared took as long as in a full run: it is off by less than it would be if a tenth of the
    acknowledgements had not been there. Lanes beside it would take all of them from what is drawn by messages."""
    compared: list[tuple[int, int]] = []
    end = LaneAudit.end

    def noted(self: LaneAudit, over: np.ndarray, end_byte: np.ndarray, ended_ps: np.ndarray) -> None:
        is_right = (over[:, EXPECTED_UNIT] != NO_STRETCH) & (over[:, EXPECTED_END] == end_byte)
        compared.extend(map(tuple, over[is_right][:, (EXPECTED_FLOW, EXPECTED_END)].tolist()))
        end(self, over, end_byte, ended_ps)

    all_of, plain = audited(run(tables("hpcc", 1.0), BOTH_WAYS), "lanes"), run(tables("hpcc", 0, mode="off"), BOTH_WAYS)
    with patch.object(LaneAudit, "end", noted):
        some = run(tables("hpcc", 0.5), BOTH_WAYS)
    half, took_ps, full_ps = audited(some, "lanes"), rows_of(some), rows_of(plain)
    assert 0.1 * all_of["flows"] < half["flows"] == len(compared) < 0.9 * all_of["flows"] and audited_hops(some) > 0
    apart = math.hypot(all_of["standard_error"], half["standard_error"])
    assert abs(half["mean_fct_error"] - all_of["mean_fct_error"]) < 4 * apart
    assert half["max_fct_error"] <= all_of["max_fct_error"]
    assert max(abs(took_ps[key] / full_ps[key] - 1) for key in compared) < ACK_SHARE / 10
