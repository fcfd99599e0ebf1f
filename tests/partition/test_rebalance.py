"""When LPs move, and where to: synthetic costs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partition.placement import balance
from partition.rebalance import MAX_DRIFT_FRAC, advise, lp_costs, renamed

NO_EDGES = ([], [], [])


def load(rank_of_lp: np.ndarray, lp_ns: np.ndarray, n_rank: int) -> tuple[np.ndarray, np.ndarray]:
    """(busy_ns, steps) of ranks that take 2 ns for a step."""
    steps = np.zeros((n_rank, len(lp_ns)), np.int64)
    steps[rank_of_lp, np.arange(len(lp_ns))] = lp_ns // 2
    return 2 * steps.sum(axis=1), steps


def test_what_an_lp_costs_is_its_share_of_what_its_rank_was_busy_for() -> None:
    steps = np.array([[30, 10, 0, 0], [0, 0, 5, 0], [0, 0, 0, 0]])
    assert lp_costs(np.array([400, 100, 7]), steps).tolist() == [300.0, 100.0, 100.0, 0.0]


def test_ranks_that_are_close_enough_stay_as_they_are() -> None:
    rank_of_lp = np.array([0, 0, 1, 1])
    for extra, moves in ((0.9, False), (1.1, True)):
        lp_ns = np.array([10**6, 10**6, 10**6, 10**6])
        lp_ns[0] += int(extra * 2 * MAX_DRIFT_FRAC / (1 - MAX_DRIFT_FRAC) * 2 * 10**6)
        advice = advise(*load(rank_of_lp, lp_ns, 2), NO_EDGES, rank_of_lp, -(10**9))
        assert (advice.rank_of_lp is not None) == moves
        assert (advice.drift_frac > MAX_DRIFT_FRAC) == moves


def test_a_move_is_made_only_if_it_gains_more_than_it_costs() -> None:
    """Four LPs of 1 ms, three on rank 0: two and two gain 1 ms."""
    rank_of_lp, lp_ns = np.array([0, 0, 0, 1]), np.full(4, 10**6)
    for cost_ns, moves in ((999_999, True), (1_000_000, False)):
        advice = advise(*load(rank_of_lp, lp_ns, 2), NO_EDGES, rank_of_lp, cost_ns)
        assert advice.gain_ns == 10**6 and advice.drift_frac == 0.5
        assert (advice.rank_of_lp is not None) == moves
        if advice.rank_of_lp is not None:
            assert np.bincount(advice.rank_of_lp).tolist() == [2, 2]
            assert (advice.rank_of_lp != rank_of_lp).sum() == 1


def test_one_heavy_lp_is_not_moved_about() -> None:
    """Nothing can be gained: it is as long as the round."""
    rank_of_lp, lp_ns = np.array([0, 1, 1, 1]), np.array([10**7, 10**4, 10**4, 10**4])
    advice = advise(*load(rank_of_lp, lp_ns, 2), NO_EDGES, rank_of_lp, 0)
    assert advice.drift_frac > 0.9 and advice.gain_ns == 0 and advice.rank_of_lp is None


def test_an_interval_without_work_moves_nothing() -> None:
    advice = advise(np.zeros(2, np.int64), np.zeros((2, 3), np.int64), NO_EDGES, np.array([0, 1, 1]), 0)
    assert advice.drift_frac == 0 and advice.rank_of_lp is None


@given(st.integers(2, 4), st.lists(st.integers(0, 10**6), min_size=5, max_size=30), st.integers(0, 2**32 - 1))
def test_an_advice_gains_what_it_says_and_loses_no_lp(n_rank: int, costs: list[int], seed: int) -> None:
    lp_ns = 2 * np.array(costs, np.int64)
    rank_of_lp = np.random.default_rng(seed).integers(0, n_rank, len(costs))
    busy_ns, steps = load(rank_of_lp, lp_ns, n_rank)
    advice = advise(busy_ns, steps, NO_EDGES, rank_of_lp, 0)
    if advice.rank_of_lp is not None:
        after = np.bincount(advice.rank_of_lp, weights=lp_ns, minlength=n_rank)
        assert 0 < advice.gain_ns <= busy_ns.max() - after.max() + 1
        assert len(advice.rank_of_lp) == len(costs) and 0 <= advice.rank_of_lp.min() <= advice.rank_of_lp.max() < n_rank
        assert balance(lp_ns, advice.rank_of_lp, n_rank) < balance(lp_ns, rank_of_lp, n_rank)


def test_new_parts_take_the_names_of_the_ranks_they_have_most_of() -> None:
    lp_ns = np.array([5.0, 5.0, 5.0, 1.0, 9.0])
    assert renamed(np.array([1, 1, 2, 2, 0]), np.array([0, 0, 1, 1, 2]), lp_ns, 3).tolist() == [0, 0, 1, 1, 2]
    assert renamed(np.array([1, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1]), lp_ns, 2).tolist() == [0, 0, 0, 0, 1]
