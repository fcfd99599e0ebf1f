"""When a run looks how its ranks fare, and what it remembers of a move: a clock of the test's own."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from partition.rebalance import Advice
from pdes.engine.exchange import World
from pdes.engine.round import COMPUTE_NS, N_LOOP
from pdes.simulation import balance
from pdes.simulation.balance import Balancer

N_LP = 3


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def job_of() -> Any:
    """What a balancer asks of a run: 3 LPs of 2 nodes each."""
    fabric = SimpleNamespace(n_step=np.zeros(2 * N_LP, np.int64))
    scenario = SimpleNamespace(
        n_lp=N_LP, lp_of_node=np.arange(2 * N_LP) // 2, topology=SimpleNamespace(n_node=2 * N_LP),
        lp_edges=lambda: ([], [], []),
    )  # fmt: skip
    return SimpleNamespace(
        world=World(), loop=np.zeros(N_LOOP, np.int64), model=SimpleNamespace(state=SimpleNamespace(fabric=fabric)),
        scenario=scenario, rank_of_lp=np.zeros(N_LP, np.int64), now_ps=0, is_asleep=False,
    )  # fmt: skip


def test_a_look_is_due_by_the_clock_and_counts_from_the_last_one() -> None:
    job, clock, asked = job_of(), Clock(), []

    def advise(busy_ns: np.ndarray, steps: np.ndarray, *_: Any) -> Advice:
        asked.append((busy_ns.tolist(), steps.tolist()))
        return Advice(int(busy_ns.max()), 0.0, 0, None)

    balancer = Balancer(job, 2.0, clock)
    with mock.patch.object(balance, "advise", advise):
        for turn in (1, 2):
            assert not balancer.is_due
            clock.now_s += 2.0
            assert balancer.is_due
            job.loop[COMPUTE_NS] += 10 * turn
            job.model.state.fabric.n_step += turn * np.arange(2 * N_LP)
            assert not balancer.rest()
    assert asked == [([10], [[1, 5, 9]]), ([20], [[2, 10, 18]])]
    assert balancer.facts()["looks"] == 2 and balancer.facts()["busiest_seconds"] == 30e-9


def test_looks_take_a_small_part_of_the_time_only() -> None:
    """One took 1 s: the next comes 20 s later, not 2."""
    job, clock = job_of(), Clock()

    def advise(*_: Any) -> Advice:
        clock.now_s += 1.0
        return Advice(0, 0.0, 0, None)

    balancer = Balancer(job, 2.0, clock)
    with mock.patch.object(balance, "advise", advise):
        balancer.rest()
    clock.now_s += 19.9
    assert not balancer.is_due
    clock.now_s += 0.2
    assert balancer.is_due


def test_what_a_move_took_is_what_the_next_one_has_to_gain() -> None:
    job, clock, costs = job_of(), Clock(), []

    def advise(_busy: Any, _steps: Any, _edges: Any, _was: Any, cost_ns: int) -> Advice:
        costs.append(cost_ns)
        return Advice(7, 0.5, 10**9, np.array([0, 0, 1]))

    def move(job: Any, rank_of_lp: np.ndarray) -> None:
        clock.now_s += 0.25
        job.rank_of_lp = rank_of_lp

    balancer = Balancer(job, 2.0, clock)
    with mock.patch.object(balance, "advise", advise), mock.patch.object(balance, "move", move):
        assert balancer.rest() and balancer.has_moved and balancer.rest()
    assert costs == [balance.GUESS_NS + 2 * N_LP * balance.GUESS_NODE_NS, 250_000_000]
    moves = balancer.facts()["moves"]
    assert [(each["lps"], each["seconds"], each["expected_gain_seconds"]) for each in moves] == [
        (1, 0.25, 1),
        (0, 0.25, 1),
    ]
