"""The choice of a threshold: a function of network and load, and never of the machine."""

import inspect
import os
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from partition import threshold
from partition.lps import NO_LOOKAHEAD_PS, cut_by_delay, lookahead_ps
from partition.threshold import choose_threshold


def star_of_servers(n_server: int, gpus_per_server: int, delays_ps: tuple[int, int, int]) -> Any:
    """GPUs - server switch - rail - core, all as a tree: (n_node, src, dst, delay, server)."""
    links, server = [], []
    n_gpu = n_server * gpus_per_server
    core = n_gpu + 2 * n_server
    for gpu in range(n_gpu):
        links.append((gpu, n_gpu + gpu // gpus_per_server, delays_ps[0]))
        server.append(gpu // gpus_per_server)
    for i in range(n_server):
        links += [(n_gpu + i, n_gpu + n_server + i, delays_ps[1]), (n_gpu + n_server + i, core, delays_ps[2])]
    server += [*range(n_server), *[-1] * (n_server + 1)]
    both = np.array([*links, *((b, a, d) for a, b, d in links)], np.int64)
    return core + 1, both[:, 0], both[:, 1], both[:, 2], np.array(server, np.int64)


@st.composite
def loaded_networks(draw) -> Any:
    n_node = draw(st.integers(1, 12))
    node = st.integers(0, n_node - 1)
    links = draw(st.lists(st.tuples(node, node, st.sampled_from([0, 25_000, 500_000, 10**6])), max_size=20))
    both = np.array([*links, *((b, a, delay) for a, b, delay in links)], np.int64).reshape(-1, 3)
    server = np.array(draw(st.lists(st.integers(-1, 3), min_size=n_node, max_size=n_node)), np.int64)
    load = np.array(draw(st.lists(st.integers(0, 10**10), min_size=n_node, max_size=n_node)), np.int64)
    return (n_node, both[:, 0], both[:, 1], both[:, 2], server), load


@given(loaded_networks())
@settings(deadline=None)
def test_the_choice_is_above_zero_has_what_it_says_and_avoids_one_lp_if_it_can(drawn):
    network, load = drawn
    choice = choose_threshold(*network, node_load_hops=load)
    assert choice.threshold_ps > 0
    lp_of_node = cut_by_delay(*network, threshold_ps=choice.threshold_ps)
    assert choice.n_lp == lp_of_node.max() + 1
    assert choice.lookahead_ps == lookahead_ps(*network[1:4], lp_of_node=lp_of_node) >= choice.threshold_ps or (
        choice.lookahead_ps == NO_LOOKAHEAD_PS
    )
    assert choice.n_lp > 1 or all(candidate.n_lp == 1 for candidate in choice.candidates)
    useful = [c for c in choice.candidates if c.n_lp > 1]
    assert all(c.n_busy_lp <= c.n_lp for c in choice.candidates)
    useful = [c for c in useful if c.n_busy_lp > 1 or c.lookahead_ps < NO_LOOKAHEAD_PS] or useful
    if useful:
        assert min(c.predicted_ns for c in useful) == next(
            c.predicted_ns for c in useful if c.threshold_ps == choice.threshold_ps
        )
    else:
        assert choice.threshold_ps == min(c.threshold_ps for c in choice.candidates)


@given(loaded_networks(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_links_does_not_matter(drawn, random):
    (n_node, src, dst, delay_ps, server), load = drawn
    order = random.sample(range(len(src)), len(src))
    assert choose_threshold(n_node, src[order], dst[order], delay_ps[order], server, load) == choose_threshold(
        n_node, src, dst, delay_ps, server, load
    )


def test_candidates_are_the_distinct_delays_and_one_past_the_largest():
    network = star_of_servers(4, 8, (25_000, 500_000, 1_500_000))
    choice = choose_threshold(*network, node_load_hops=np.full(network[0], 10**7))
    assert [c.threshold_ps for c in choice.candidates] == [25_000, 500_000, 1_500_000, 1_500_001]
    assert [c.n_lp for c in choice.candidates] == [9, 9, 5, 1]
    assert [c.lookahead_ps for c in choice.candidates] == [500_000, 500_000, 1_500_000, NO_LOOKAHEAD_PS]


def test_little_load_prefers_few_rounds_and_much_load_on_one_lp_prefers_balance():
    network = star_of_servers(16, 8, (25_000, 500_000, 1_500_000))
    n_gpu, n_server = 128, 16
    assert choose_threshold(*network, node_load_hops=np.zeros(network[0])).lookahead_ps == 1_500_000
    # All load at the first server's switch and rail: one LP at 1.5 us, two at 500 ns.
    load = np.zeros(network[0])
    load[[n_gpu, n_gpu + n_server]] = 10**10
    choice = choose_threshold(*network, node_load_hops=load)
    assert choice.lookahead_ps == 500_000
    assert choice.threshold_ps == 500_000, "equal cuts: the threshold that says more"
    assert "33 LPs" in choice.reason and "500 ns" in choice.reason and "1.5 us" in choice.reason


def test_links_without_delay_and_a_network_of_one_node_still_give_a_threshold():
    two = np.array([0, 1])
    choice = choose_threshold(2, two, two[::-1], np.zeros(2, np.int64), np.array([-1, -1]), np.zeros(2))
    assert (choice.threshold_ps, choice.n_lp, choice.lookahead_ps) == (1, 1, NO_LOOKAHEAD_PS)
    none = np.zeros(0, np.int64)
    assert choose_threshold(1, none, none, none, np.array([0]), np.zeros(1)).n_lp == 1


def test_neither_ranks_nor_cores_nor_clocks_can_be_seen(monkeypatch):
    assert not {"rank", "n_rank", "core", "size"} & set(inspect.signature(choose_threshold).parameters)
    source = inspect.getsource(threshold)
    for name in ("import os", "import time", "cpu_count", "environ", "mpi4py", "multiprocessing"):
        assert name not in source
    network = star_of_servers(4, 8, (25_000, 500_000, 1_500_000))
    load = np.arange(network[0])
    before = choose_threshold(*network, node_load_hops=load)
    monkeypatch.setattr(os, "cpu_count", lambda: 1024)
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "7")
    assert choose_threshold(*network, node_load_hops=load) == before
