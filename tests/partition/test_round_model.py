"""Predictions of rounds whose time on any number of ranks is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition.round_model import (
    ROUNDS_AT_ONCE,
    Costs,
    Edges,
    Mixture,
    Prediction,
    Profile,
    predict,
    reduction_by_table,
)

NOTHING = Costs(lambda _: 0.0, 0.0, 0.0)
NO_EDGES = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def stretch_of(work: np.ndarray, fixed_ns=0.0, serial_ns=0.0, n_reduction=None, weight=1.0) -> Profile:
    """work: float64[n_round, n_lp]. n_reduction: None: as many as rounds."""
    rounds, lps = np.nonzero(work)
    n_reduction = len(work) if n_reduction is None else n_reduction
    return Profile(len(work), n_reduction, rounds, lps, work[rounds, lps], fixed_ns, serial_ns, weight)


def run_of(work: np.ndarray, fixed_ns=0.0, serial_ns=0.0, edges: Edges = NO_EDGES, n_reduction=None) -> Mixture:
    """A run of one stretch."""
    return Mixture([stretch_of(work, fixed_ns, serial_ns, n_reduction)], edges)


def predicted(run: Mixture, rank_of_lp: np.ndarray, n_rank: int, costs: Costs) -> Prediction:
    """With one placement."""
    return predict(run, [rank_of_lp] * len(run.stretches), n_rank, costs)


def test_even_work_is_shared_and_uneven_rounds_are_not() -> None:
    even, turns = np.full((100, 4), 10.0), np.zeros((100, 4))
    turns[::2, :2], turns[1::2, 2:] = 20.0, 20.0  # the same work, of one half at a time
    rank_of_lp = np.array([0, 0, 1, 1])
    found = predicted(run_of(even), rank_of_lp, 2, NOTHING)
    assert (found.total_ns, found.speedup, found.efficiency, found.limit) == (2000, 2, 1, "-")
    found = predicted(run_of(turns), rank_of_lp, 2, NOTHING)
    assert (found.total_ns, found.imbalance_ns, found.speedup, found.limit) == (4000, 2000, 1, "imbalance")
    assert found.path_ns == 0  # another placement does better:
    found = predicted(run_of(turns), np.array([0, 1, 0, 1]), 2, NOTHING)
    assert (found.total_ns, found.speedup) == (2000, 2)


def test_every_cost_of_a_round_is_counted_once() -> None:
    """A ring of four ranks, 10 rounds: reductions, as not all are neighbours, and two neighbours each."""
    a, b = np.arange(4), (np.arange(4) + 1) % 4
    profile = run_of(np.full((10, 4), 100.0), 7.0, 50.0, (a, b, np.full(4, 30.0)))
    found = predicted(profile, np.arange(4), 4, Costs(lambda n: 1000.0 * n, 11.0, 3.0))
    assert found.work_ns == 1000 and found.imbalance_ns == 0 and found.round_ns == 70 and found.serial_ns == 50
    assert found.reduction_ns == 40_000 and found.exchange_ns == 10 * 2 * 11 and found.message_ns == 30 * 3
    assert found.total_ns == 1000 + 70 + 50 + 40_000 + 220 + 90 and found.limit == "reductions"
    assert found.one_rank_ns == 4000 + 70 + 50
    few = run_of(np.full((10, 4), 100.0), 7.0, 50.0, profile.edges, n_reduction=3)
    fewer = predicted(few, np.arange(4), 4, Costs(lambda n: 1000.0 * n, 11.0, 3.0))
    assert fewer.reduction_ns == 3 * 4000 and found.total_ns - fewer.total_ns == 7 * 4000
    alone = predicted(profile, np.zeros(4, np.int64), 1, NOTHING)
    assert alone.total_ns == alone.one_rank_ns and alone.speedup == 1


def test_two_ranks_are_neighbours_and_need_no_reduction() -> None:
    profile = run_of(np.ones((10, 2)), edges=(np.array([0]), np.array([1]), np.array([5.0])))
    assert predicted(profile, np.arange(2), 2, Costs(lambda _: 1e9, 1.0, 0.0)).reduction_ns == 0


def lp_totals(run: Mixture, n_lp: int) -> list[float]:
    """Time of each LP."""
    weighed = [p.weight * np.bincount(p.lp, weights=p.ns, minlength=n_lp) for p in run.stretches]
    return np.sum(weighed, axis=0).tolist()


def test_the_critical_path_is_the_longest_lp_of_every_round() -> None:
    work = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    assert run_of(work, fixed_ns=10.0, serial_ns=1.0).critical_path_ns == 3 + 5 + 20 + 1
    assert lp_totals(run_of(work), 3) == [3, 6, 6]


def test_what_one_lp_has_too_much_is_the_path_and_the_rest_imbalance() -> None:
    """Of 18 on two ranks each should have 9; the longest LP has 10, its rank 14."""
    found = predicted(run_of(np.array([[10.0, 4.0, 4.0]])), np.array([0, 0, 1]), 2, NOTHING)
    assert (found.work_ns, found.path_ns, found.imbalance_ns) == (9, 1, 4)
    assert found.total_ns == 14 and found.limit == "imbalance"


def test_a_stretch_counts_as_often_as_it_stands_for_and_with_its_own_placement() -> None:
    """One with all work on two LPs, for 3 such, and one with all on the other two."""
    left, right = np.array([[50.0, 50.0, 0.0, 0.0]] * 10), np.array([[0.0, 0.0, 50.0, 50.0]] * 10)
    edges = (np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([100.0, 100.0, 100.0]))
    run = Mixture([stretch_of(left, 2.0, weight=3.0), stretch_of(right, 2.0)], edges)
    assert run.n_round == 40 and run.work_ns == 4000 and run.one_rank_ns == 4080 and run.n_reduction == 40
    assert run.critical_path_ns == 40 * 52 and lp_totals(run, 4) == [1500, 1500, 500, 500]
    halves, turns = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    costs = Costs(lambda _: 1e9, 1.0, 1.0)
    found = predict(run, [turns, turns], 2, costs)
    assert found.imbalance_ns == 0 and found.message_ns == 150 and found.exchange_ns == 40
    found = predict(run, [turns, halves], 2, costs)
    assert found.imbalance_ns == 500 and found.message_ns == 150 * 0.75 + 50 * 0.25


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_busiest_rank_of_every_round_by_another_way(n_rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_round = int(rng.choice([1, 3, ROUNDS_AT_ONCE, ROUNDS_AT_ONCE + 1]))
    work = np.floor(rng.exponential(10, (n_round, 6))) * (rng.random((n_round, 6)) < 0.3)
    rank_of_lp = rng.integers(0, n_rank, 6)
    by_rank = np.stack([work[:, rank_of_lp == rank].sum(axis=1) for rank in range(n_rank)], axis=1)
    found = predicted(run_of(work), rank_of_lp, n_rank, NOTHING)
    assert found.total_ns == pytest.approx(by_rank.max(axis=1).sum())
    assert found.total_ns >= found.one_rank_ns / n_rank - 1e-6


def test_reductions_are_linear_in_the_logarithm() -> None:
    reduction_ns = reduction_by_table({2: 1000.0, 32: 5000.0})
    assert [reduction_ns(n) for n in (2, 4, 8, 32, 1024)] == pytest.approx([1000, 2000, 3000, 5000, 10_000])
