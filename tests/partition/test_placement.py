"""Placements: complete, deterministic, without empty ranks, and balanced."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.placement import METHODS, balance, place


@st.composite
def problems(draw):
    """(load, edges, n_rank) with zero loads, loops, double edges and parts that nothing joins."""
    n_lp = draw(st.integers(1, 30))
    lp = st.integers(0, n_lp - 1)
    load = draw(st.lists(st.sampled_from([0, 1, 2, 1000, 10**12]), min_size=n_lp, max_size=n_lp))
    edges = draw(st.lists(st.tuples(lp, lp, st.sampled_from([0.0, 1.0, 1e12])), max_size=60))
    columns = [np.array([edge[i] for edge in edges]) for i in range(3)]
    return np.array(load, float), tuple(columns), draw(st.integers(1, 34))


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems())
@settings(deadline=None)
def test_every_lp_has_a_rank_and_no_rank_is_empty_if_there_are_lps_enough(problem, method):
    load, edges, n_rank = problem
    rank_of_lp = place(load, edges, n_rank, method)
    assert rank_of_lp.dtype == np.int64 and rank_of_lp.shape == load.shape
    assert (np.unique(rank_of_lp) == np.arange(min(n_rank, len(load)))).all()
    assert (rank_of_lp == place(load, edges, n_rank, method)).all()
    if n_rank >= len(load):
        assert (rank_of_lp == np.arange(len(load))).all()


def grid(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cell = np.arange(side * side).reshape(side, side)
    a = np.concatenate([cell[:, :-1].ravel(), cell[:-1].ravel()])
    b = np.concatenate([cell[:, 1:].ravel(), cell[1:].ravel()])
    return a, b, np.ones(len(a))


def cut_weight(edges, rank_of_lp: np.ndarray) -> float:
    a, b, weight = edges
    return float(weight[rank_of_lp[a] != rank_of_lp[b]].sum())


def test_metis_cuts_a_grid_near_its_waist_and_round_robin_does_not():
    edges, load = grid(16), np.full(256, 10**9)
    metis, robin = (place(load, edges, 2, method) for method in ("metis", "round-robin"))
    assert cut_weight(edges, metis) <= 24 < cut_weight(edges, robin)
    assert balance(load, metis, 2) <= 1.03


def test_metis_keeps_what_talks_much_together():
    # Four cliques of four, joined by a ring of thin edges.
    edges: list[tuple[int, int, float]] = []
    for clique in range(4):
        for i in range(4):
            edges += [(4 * clique + i, 4 * clique + j, 1e6) for j in range(i)]
        edges.append((4 * clique, 4 * ((clique + 1) % 4), 1.0))
    a, b, weight = zip(*edges, strict=True)
    rank_of_lp = place(np.ones(16), (a, b, weight), 4, "metis")
    assert all(len(set(rank_of_lp[4 * clique : 4 * clique + 4])) == 1 for clique in range(4))


@pytest.mark.parametrize("n_rank", [2, 3, 4, 7, 16])
def test_metis_of_heavy_and_light_lps_is_evened_out(n_rank):
    # 16 servers of weight 9 on 24 switches of weight 1, each server joined to 8 of them.
    load = np.array([9.0] * 16 + [1.0] * 24)
    a, b = np.repeat(np.arange(16), 8), 16 + np.tile(np.arange(8), 16)
    up_a, up_b = 16 + np.repeat(np.arange(8), 16), 24 + np.tile(np.arange(16), 8)
    edges = (np.concatenate([a, up_a]), np.concatenate([b, up_b]), np.ones(len(a) + len(up_a)))
    rank_of_lp = place(load, edges, n_rank, "metis")
    # No single move from the heaviest to the lightest rank helps: they differ by at most the lightest heavy LP.
    assert balance(load, rank_of_lp, n_rank) <= max(1.03, 1 + 9 * n_rank / load.sum())


def test_block_is_runs_and_round_robin_is_stripes():
    none = ([], [], [])
    assert place(np.ones(7), none, 3, "block").tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert place(np.ones(7), none, 3, "round-robin").tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_balance_is_heaviest_over_mean():
    assert balance(np.array([3, 1, 2]), np.array([0, 1, 1]), 2) == 1.0
    assert balance(np.array([3, 1]), np.array([0, 1]), 4) == 3.0
    assert balance(np.zeros(2), np.array([0, 1]), 2) == 1.0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="'best' is unknown; accepted are metis, block, round-robin"):
        place(np.ones(2), ([], [], []), 1, "best")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="0 ranks"):
        place(np.ones(2), ([], [], []), 0)
