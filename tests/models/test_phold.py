"""PHOLD: the event count that renewal theory expects, the same history twice, and a plain twin's history."""

from dataclasses import replace
from heapq import heappop, heappush
from math import log, sqrt

import numpy as np
import pytest

from models.phold import DIGEST, N_EVENT, Phold, PholdConfig, run_phold
from pdes.engine.exchange import World
from pdes.engine.round import ASKS, N_ROUND, run_rounds
from pdes.random_plain import (
    PURPOSE_PHOLD_DELAY,
    PURPOSE_PHOLD_REMOTE,
    PURPOSE_PHOLD_START,
    PURPOSE_PHOLD_TARGET,
    mix64_plain,
    uniform_plain,
)

SMALL = PholdConfig(n_lp=32, end_ps=40_000_000)


def run(config: PholdConfig) -> tuple[int, int]:
    n_event, digest, _ = run_phold(config, World())
    return n_event, digest


def run_plain(config: PholdConfig) -> tuple[int, int]:
    """The same model with one heap and Python's numbers."""
    c, heap, drawn = config, [], [0] * config.n_lp
    exponential_ps = c.mean_ps - c.lookahead_ps

    def later_ps(lp: int, purpose: int, counter: int) -> int:
        return c.lookahead_ps + int(-log(1.0 - uniform_plain(c.seed, lp, purpose, counter)) * exponential_ps)

    for lp in range(c.n_lp):
        for k in range(c.population):
            heappush(heap, (later_ps(lp, PURPOSE_PHOLD_START, k), lp, -1 - k, lp))
    n_event = digest = 0
    while heap and heap[0][0] < c.end_ps:
        now_ps, _, _, lp = heappop(heap)
        count = drawn[lp]
        drawn[lp] += 1
        n_event += 1
        digest ^= ((now_ps % 2**31 * 1_000_003 + lp) % 2**31) * 2_654_435_761 + count
        to = lp
        if uniform_plain(c.seed, lp, PURPOSE_PHOLD_REMOTE, count) <= c.remote_frac:
            to = int(uniform_plain(c.seed, lp, PURPOSE_PHOLD_TARGET, count) * c.n_lp)
        heappush(heap, (now_ps + later_ps(lp, PURPOSE_PHOLD_DELAY, count), lp, count, to))
    return n_event, mix64_plain(digest)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"remote_frac": 0.1},
        {"remote_frac": 0.0},
        {"population": 5},
        {"seed": 7},
        {"n_lp": 1},
        {"n_lp": 2, "population": 20, "lookahead_ps": 1},
        {"n_lp": 500, "end_ps": 10_000_000},
        {"lookahead_ps": 1},
        {"lookahead_ps": 1_999_999},
        {"mean_ps": 50_000_000, "end_ps": 900_000_000},
        {"end_ps": 1_000_000},
    ],
)
def test_the_history_is_that_of_a_plain_heap(change):
    config = replace(SMALL, **change)
    assert run(config) == run_plain(config)


@pytest.mark.parametrize("n_lp, population, remote_frac", [(1024, 1, 1.0), (1024, 1, 0.1), (256, 8, 1.0)])
def test_as_many_events_as_renewal_theory_expects(n_lp, population, remote_frac):
    """Each event in flight is a renewal process with steps of mean mu and deviation sigma (Feller vol. II, XI.4).

    It has t / mu + (sigma^2 / mu^2 - 1) / 2 events up to t, to an error that dies out geometrically (t = 100 mu here;
    t / mu alone is 0.375 too many), with a variance of sigma^2 t / mu^3; the processes are independent.
    """
    config = PholdConfig(n_lp=n_lp, population=population, remote_frac=remote_frac, end_ps=200_000_000)
    mu, sigma, t = config.mean_ps, config.mean_ps - config.lookahead_ps, config.end_ps
    n_process = n_lp * population
    expected = n_process * (t / mu + (sigma**2 / mu**2 - 1) / 2)
    error = sqrt(n_process * sigma**2 * t / mu**3)
    n_event, _ = run(config)
    assert abs(n_event - expected) < 4 * error


def test_the_same_seed_gives_the_same_history_and_another_seed_another():
    first = run(SMALL)
    assert run(SMALL) == first
    assert run(replace(SMALL, seed=2))[1] != first[1]


def test_no_event_at_or_past_the_end():
    assert run(replace(SMALL, end_ps=SMALL.lookahead_ps)) == (0, mix64_plain(0))


def test_a_run_goes_on_from_a_checkpoint_of_any_number_of_ranks() -> None:
    config = PholdConfig(n_lp=32, population=3, remote_frac=0.5, end_ps=30_000_000)
    n_event, digest, _ = run_phold(config, World())
    model, parts = Phold(config, World()), []

    def rest() -> bool:
        parts.append(model.save())
        return False

    def ask() -> None:
        model.loop[ASKS] = model.loop[N_ROUND] == 9

    run_rounds(model, model.loop, model.exchange, ask, 0, rest)
    (whole,) = parts
    halves = []  # as two ranks would have saved it
    for rank, (first, end) in enumerate(((0, 16), (16, 32))):
        mine = (whole["events"][:, 3] >= first) & (whole["events"][:, 3] < end)
        counters = whole["counters"] if rank == 0 else np.zeros_like(whole["counters"])
        halves.append({"events": whole["events"][mine], "drawn": whole["drawn"][first:end], "counters": counters})
    for saved in ([whole], halves):
        again = Phold(config, World())
        again.load(saved)
        assert int(again.state.counters[N_EVENT]) < n_event
        run_rounds(again, again.loop, again.exchange)
        found = again.state.counters
        assert (int(found[N_EVENT]), mix64_plain(int(found[DIGEST]) & (2**64 - 1))) == (n_event, digest)
