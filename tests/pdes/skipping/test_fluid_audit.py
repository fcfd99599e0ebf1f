"""What is predicted of messages with shadows at flow level: made up, where the error is known, and of whole runs."""

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from models.network.model import NetworkModel
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping import prediction as m
from pdes.skipping.fluid.audit import UNIT, FluidAudit
from pdes.skipping.fluid.stretches import NO_STRETCH, Stretches
from properties.network_runs import Outcome, run
from reference.flow_level_driver import Message, post

MB, US = 10**6, 10**6


def audit_of(*messages: tuple[int, int, int], component: np.ndarray | None = None) -> FluidAudit:
    """(flow, end, from when on it has a shadow) each, posted at 100; eight flows, always simulated."""
    audit = FluidAudit(8, Stretches(np.arange(8) if component is None else component, 1.0, 1, 1000))
    posts = [post(Message(flow, end, 100), 0, end, has_shadow=True) for flow, end, _ in messages]
    audit.follow(np.array(posts), np.array([from_ps for _, _, from_ps in messages]))
    return audit


def predict(audit: FluidAudit, ends: dict[tuple[int, int], int]) -> None:
    predicted = np.zeros((len(ends), m.N_COLUMN), np.int64)
    for row, ((flow, end), at_ps) in zip(predicted, ends.items(), strict=True):
        row[[m.FLOW, m.END, m.ENDED_PS]] = flow, end, at_ps
    audit.predict(predicted)


def end(audit: FluidAudit, ended: dict[int, tuple[int, int]]) -> dict[str, Any]:
    """All messages are over. ended: flow -> (last byte of the last message that has ended, when)."""
    over = audit.running
    last = np.array([ended[flow] for flow in over[:, m.FLOW].tolist()])
    audit.end(over, last[:, 0], last[:, 1])
    assert len(audit.running) == 0 and audit.next_tick_ps(5) == NEVER
    return audit.facts()["fluid"]


def test_a_message_that_ends_when_its_shadow_does_is_off_by_nothing() -> None:
    audit = audit_of((2, 1000, 100))
    assert audit.next_tick_ps(1100) == 1100 and audit.shadow_end.tolist() == [0, 0, 1000, 0, 0, 0, 0, 0]
    predict(audit, {(2, 1000): 1100})
    assert end(audit, {2: (1000, 1100)}) == {
        "audited": 1, "void": 0, "flows": 1, "mean_fct_error": 0.0, "standard_error": None, "p99_fct_error": 0.0,
        "max_fct_error": 0.0, "fct_bias": 0.0, "mean_rate_error": 0.0, "max_rate_error": 0.0,
    }  # fmt: skip


def test_an_error_is_of_the_whole_completion_time_and_of_the_rate_of_what_was_left() -> None:
    """One was to take 1000 ps and takes 1200; of the other the last 500 of 900 ps were to take 400."""
    audit = audit_of((2, 1000, 100), (3, 1000, 500))
    predict(audit, {(2, 1000): 1100, (3, 1000): 900})
    facts = end(audit, {2: (1000, 1300), 3: (1000, 1000)})
    assert facts["mean_fct_error"] == pytest.approx((200 / 1200 + 100 / 900) / 2)
    assert facts["fct_bias"] == pytest.approx(-(200 / 1200 + 100 / 900) / 2)
    assert facts["max_fct_error"] == pytest.approx(200 / 1200)
    assert facts["max_rate_error"] == pytest.approx(0.25)
    assert facts["mean_rate_error"] == pytest.approx((0.2 + 0.25) / 2)
    assert facts["standard_error"] == pytest.approx((200 / 1200 - 100 / 900) / 2)


def test_a_message_may_end_before_its_shadow() -> None:
    audit = audit_of((2, 1000, 100))
    audit.end(audit.running, np.array([1000]), np.array([900]))
    assert len(audit.running) == 1 and len(audit.over(np.zeros((0, h.N_COLUMN), np.int64))) == 0
    predict(audit, {(2, 1000): 1100})
    assert len(audit.running) == 0 and audit.facts()["fluid"]["fct_bias"] == pytest.approx(200 / 800)


def test_what_nobody_saw_the_end_of_or_lost_its_shadow_is_void() -> None:
    audit = audit_of((2, 1000, 100), (3, 1000, 100), (4, 1000, 100), (5, 1000, 100))
    predict(audit, {(2, 1000): 1100, (3, 1000): 1100})
    audit.let_go(np.array([4]))
    assert audit.shadow_end.tolist() == [0, 0, 1000, 1000, 0, 1000, 0, 0]
    audit.end(audit.running, np.array([500, 1000, 1000]), np.array([1300, 1100, 1100]))
    audit.finish()
    facts = audit.facts()["fluid"]
    assert (facts["audited"], facts["void"], facts["flows"], facts["max_fct_error"]) == (4, 3, 1, 0.0)


def sample(flow: int, done: int, end: int = 1000) -> list[int]:
    values = {h.FLOW: flow, h.DONE: done, h.MESSAGE_END: end}
    return [values.get(k, 0) for k in range(h.N_COLUMN)]


def test_a_message_is_over_once_all_of_it_is_acknowledged() -> None:
    audit = audit_of((2, 1000, 100), (3, 1000, 100), (4, 1000, 100))
    rows = np.array([sample(2, 999), sample(3, 1000, 2000), sample(5, 0)])
    assert audit.over(rows)[:, m.FLOW].tolist() == [3, 4]  # one has none left to sample
    assert audit.has_shadow(rows).tolist() == [True, False, False]


def test_what_was_drawn_together_errs_together() -> None:
    """Four messages, two of each component; those of one are off by the same."""
    audit = audit_of(*((flow, 1000, 100) for flow in range(4)), component=np.arange(8) // 2)
    predict(audit, {(flow, 1000): 1100 for flow in range(4)})
    facts = end(audit, {0: (1000, 1100), 1: (1000, 1100), 2: (1000, 1350), 3: (1000, 1350)})
    assert facts["mean_fct_error"] == pytest.approx(0.1) and facts["standard_error"] == pytest.approx(0.1)


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


def audited(outcome: Outcome) -> dict[str, Any]:
    fast = outcome.model.fast_forward
    assert fast is not None and fast.fluid is not None
    assert len(fast.fluid.fluid.audit.running) == 0
    return fast.audit_facts()["audit"]["fluid"]


def fluid_hops(outcome: Outcome) -> int:
    """Packet-hops that flow level has spared a run."""
    fast = outcome.model.fast_forward
    assert fast is not None
    return fast.skipped.hops_by_cause["fluid"]


@pytest.mark.parametrize("control", ["fixed-window", "dctcp"])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_where_flow_level_is_exact_its_audit_finds_no_error(control: str, share: float) -> None:
    """To a ps or two: rates are rounded, and what is rounded is cut off. But for messages at flow level where a stretch
    begins: these go on packet by packet, with nothing in flight."""
    fast, plain = run(tables(control, share), IN_TURN), run(tables(control, 0, mode="off"), IN_TURN)
    facts = audited(fast)
    assert 2 < facts["flows"] == facts["audited"] - facts["void"] <= 16
    assert max(facts["max_fct_error"], facts["max_rate_error"]) < 1e-7
    model = fast.model.fast_forward
    assert model is not None and model.fluid is not None
    n_broken = model.fluid.fluid.counters.broken
    off_ps = np.sort(np.abs(fast.rows - plain.rows).max(axis=1))
    assert off_ps[: len(off_ps) - n_broken].max() <= 2 and off_ps.max() < 0.1 * US and n_broken < 4
    assert (share == 1) == (off_ps.max() == 0) == (fluid_hops(fast) == 0)


def test_a_wrong_rate_is_found() -> None:
    """What is known of messages that are alone becomes a tenth too slow."""
    wrong: list[float] = []

    def spoil(model: NetworkModel) -> None:
        fast = model.fast_forward
        assert fast is not None and fast.fluid is not None
        known = fast.fluid.fluid.level.table.known
        if not wrong and known.n_size.any():
            known.sent_ps[:] *= 1.1
            wrong.append(float(known.sent_ps.max()))

    facts = audited(run(tables("dctcp", 1.0), IN_TURN, check=spoil))
    assert wrong and facts["flows"] > 3
    assert 0.05 < facts["fct_bias"] <= facts["max_fct_error"] == pytest.approx(0.1, abs=0.01)


def test_a_newcomer_on_the_ports_of_what_is_followed_ends_the_comparison() -> None:
    comer = [(2, 1, 10_000, 3700 * US, 3)]
    alone, met = audited(run(tables("dctcp", 1.0), IN_TURN)), audited(run(tables("dctcp", 1.0), [*IN_TURN, *comer]))
    assert met["void"] == alone["void"] + 1 and met["flows"] > 2 and met["max_fct_error"] < 1e-7


@pytest.mark.parametrize("newcomer", [False, True])
def test_companies_are_simulated_and_compared(newcomer: bool) -> None:
    """Three messages share the link between two leaves; a fourth comes in between, which no rate can know of."""
    flows = [(0, 4, 20 * MB, 0, 3), (1, 5, 30 * MB, 0, 3), (2, 6, 25 * MB, 200 * US, 3)]
    flows += [(3, 7, 10 * MB, 2500 * US, 3)] if newcomer else []
    fast, plain = run(tables("hpcc", 1.0), flows), run(tables("hpcc", 0, mode="off"), flows)
    facts = audited(fast)
    assert (fast.rows == plain.rows).all() and fluid_hops(fast) == 0
    assert facts["audited"] > newcomer and facts["flows"] >= 1
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
    """Means agree within four standard errors, as both state theirs. What is compared took as long as in a full run: it
    is off by less than it would be if a tenth of the acknowledgements had not been there. Flow level beside it would
    take all of them from what is drawn by messages."""
    compared: list[tuple[int, int]] = []
    end = FluidAudit.end

    def noted(self: FluidAudit, over: np.ndarray, end_byte: np.ndarray, ended_ps: np.ndarray) -> None:
        is_right = (over[:, UNIT] != NO_STRETCH) & (over[:, m.END] == end_byte)
        compared.extend(map(tuple, over[is_right][:, (m.FLOW, m.END)].tolist()))
        end(self, over, end_byte, ended_ps)

    all_of, plain = audited(run(tables("hpcc", 1.0), BOTH_WAYS)), run(tables("hpcc", 0, mode="off"), BOTH_WAYS)
    with patch.object(FluidAudit, "end", noted):
        some = run(tables("hpcc", 0.5), BOTH_WAYS)
    half, took_ps, full_ps = audited(some), rows_of(some), rows_of(plain)
    assert 0.1 * all_of["flows"] < half["flows"] <= len(compared) < 0.9 * all_of["flows"] and fluid_hops(some) > 0
    apart = math.hypot(all_of["standard_error"], half["standard_error"])
    assert abs(half["mean_fct_error"] - all_of["mean_fct_error"]) < 4 * apart
    assert max(abs(took_ps[key] / full_ps[key] - 1) for key in compared) < ACK_SHARE / 10
