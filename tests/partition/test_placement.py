"""Placements: complete, deterministic, without empty ranks, and balanced."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.placement import METHODS, _adjacency, _hung_together, balance, place


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


@pytest.mark.parametrize("n_rank", [2, 3, 4])
def test_what_is_dealt_is_alike_on_all_ranks_and_hosts_stay_with_their_switch(n_rank):
    # 12 hosts on each of 12 leaf switches, 12 spines that join these
    n = 12
    host, leaf, spine = np.arange(n * n), n * n + np.arange(n), n * n + n + np.arange(n)
    ends = np.concatenate([host, np.repeat(leaf, n)]), np.concatenate([leaf[host // n], np.tile(spine, n)])
    rank = place(np.ones(n * n + 2 * n), (*ends, np.ones(2 * n * n)), n_rank, "dealt")
    assert (rank[host] == rank[leaf[host // n]]).all()
    for alike in (host, leaf, spine):
        assert np.ptp(np.bincount(rank[alike], minlength=n_rank)) == 0
    half = leaf[: n // 2]  # any run of switches, say those of a stage of a pipeline, is on all of them, too
    assert set(rank[half].tolist()) == set(range(n_rank))


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


def star_of_stars(n_star: int, n_leaf: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A complete graph of n_star switches, each with n_leaf hosts: hosts first, in the order of switches."""
    host = np.arange(n_star * n_leaf)
    a, b = (n_star * n_leaf + end for end in np.triu_indices(n_star, 1))
    weights = np.full(len(host), 100.0), np.ones(len(a))
    return np.concatenate([host, a]), np.concatenate([len(host) + host // n_leaf, b]), np.concatenate(weights)


@pytest.mark.parametrize("n_rank", [2, 3, 4])
def test_what_hangs_on_one_link_stays_with_the_other_end_of_it(n_rank):
    n_star, n_leaf = 12 * n_rank, 24
    edges, load = star_of_stars(n_star, n_leaf), np.ones(n_star * (n_leaf + 1))
    rank_of_lp = place(load, edges, n_rank)
    hosts, switches = rank_of_lp[: n_star * n_leaf].reshape(n_star, n_leaf), rank_of_lp[n_star * n_leaf :]
    assert (hosts == switches[:, np.newaxis]).all() and balance(load, rank_of_lp, n_rank) == 1.0
    # Every pair of switches on different ranks is cut, and nothing else.
    assert cut_weight(edges, rank_of_lp) == pytest.approx(n_star**2 * (1 - 1 / n_rank) / 2)


def test_hosts_of_a_switch_are_parted_where_ranks_would_else_be_uneven():
    load, edges = np.ones(4 * 17), star_of_stars(4, 16)  # on 3 ranks one would have two switches with all their hosts
    assert balance(load, place(load, edges, 3), 3) <= 1.03


def test_what_hangs_together_is_an_lp_with_those_whose_only_neighbour_it_is():
    # 0 and 1 hang on 4, which has 5 as well; 2 and 3 have each other alone; 6 has nobody.
    edges = np.array([0, 1, 4, 5, 2, 5]), np.array([4, 4, 5, 7, 3, 8]), np.ones(6)
    assert _hung_together(_adjacency(9, edges)).tolist() == [1, 1, 0, 0, 1, 2, 3, 2, 2]


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


@pytest.mark.parametrize("n_rank", [3, 5, 40])
def test_lps_with_load_are_alone_where_there_are_ranks_enough(n_rank, capfd):
    """METIS complains of more parts than it has vertices of weight."""
    load = np.zeros(64, np.int64)
    load[[5, 17, 40]] = 7, 1, 3
    ring = (np.arange(64), (np.arange(64) + 1) % 64, np.ones(64))
    rank = place(load, ring, n_rank)
    assert len(set(rank[load > 0].tolist())) == 3 and set(rank.tolist()) == set(range(n_rank))
    assert capfd.readouterr() == ("", "")


def test_metis_writes_nothing_to_standard_output():
    """In a process of its own, as C code's output may come at its end alone: sixteen LPs have all the load of 64."""
    text = """
import numpy as np
from partition.placement import place
load, lp = np.ones(64), np.arange(64)
load[:16] = 1e9
place(load, (lp[:-1], lp[1:], np.ones(63)), 40)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
