"""Cuts by delay: the union-find against networkx, and what the lookahead promises."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.lps import NO_LOOKAHEAD_PS, Ties, cut_by_delay, lookahead_ps


@st.composite
def networks(draw, max_node: int = 24) -> Any:
    """(n_node, src, dst, delay_ps, server), both directions of each link; and ties."""
    n_node = draw(st.integers(1, max_node))
    node = st.integers(0, n_node - 1)
    links = draw(st.lists(st.tuples(node, node, st.sampled_from([0, 25, 500, 1500])), max_size=40))
    server = draw(st.lists(st.integers(-1, 4), min_size=n_node, max_size=n_node))
    both = np.array([*links, *((b, a, delay) for a, b, delay in links)], np.int64).reshape(-1, 3)
    tied = draw(st.lists(st.tuples(node, node, st.sampled_from([0, 25, 500, 10**6])), max_size=8))
    ties = Ties(*np.array(tied, np.int64).reshape(-1, 3).T)
    return (n_node, both[:, 0], both[:, 1], both[:, 2], np.array(server, np.int64)), ties


@given(networks(), st.sampled_from([1, 25, 26, 500, 1500, 1501]))
@settings(deadline=None)
def test_lps_are_the_components_of_short_links_and_ties_and_of_servers(drawn, threshold_ps):
    network, ties = drawn
    n_node, src, dst, delay_ps, server = network
    graph = nx.Graph()
    graph.add_nodes_from(range(n_node))
    graph.add_edges_from((a, b) for a, b, d in zip(src, dst, delay_ps, strict=True) if d < threshold_ps)
    graph.add_edges_from((a, b) for a, b, d in zip(*ties, strict=True) if d < threshold_ps)
    graph.add_edges_from((a, b) for a in range(n_node) for b in range(a) if server[a] == server[b] >= 0)
    want = sorted((sorted(part) for part in nx.connected_components(graph)), key=min)
    lp_of_node = cut_by_delay(*network, threshold_ps=threshold_ps, ties=ties)
    assert lp_of_node.dtype == np.int64
    assert [np.flatnonzero(lp_of_node == lp).tolist() for lp in range(len(want))] == want
    least_ps = lookahead_ps(src, dst, delay_ps, lp_of_node, ties)
    assert least_ps >= threshold_ps
    joins = (*zip(src, dst, delay_ps, strict=True), *zip(*ties, strict=True))
    assert least_ps == min((d for a, b, d in joins if lp_of_node[a] != lp_of_node[b]), default=NO_LOOKAHEAD_PS)


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_a_long_chain_is_one_lp_whatever_the_order_of_its_links(order):
    n_node = 5000
    node = {"ascending": np.arange(n_node), "descending": np.arange(n_node)[::-1]}.get(
        order, np.random.default_rng(7).permutation(n_node)
    )
    delay_ps = np.ones(n_node - 1, np.int64)
    alone = np.full(n_node, -1)
    assert (cut_by_delay(n_node, node[:-1], node[1:], delay_ps, alone, 2) == 0).all()
    assert len(np.unique(cut_by_delay(n_node, node[:-1], node[1:], delay_ps, alone, 1))) == n_node


def test_one_lp_has_no_lookahead():
    src, dst, delay_ps = np.array([0, 1]), np.array([1, 0]), np.array([5, 5])
    assert lookahead_ps(src, dst, delay_ps, np.array([0, 0])) == NO_LOOKAHEAD_PS
    assert lookahead_ps(src, dst, delay_ps, np.array([0, 1])) == 5


@pytest.mark.parametrize("threshold_ps", [0, -1])
def test_a_threshold_that_is_not_above_zero_is_refused(threshold_ps):
    none = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match=f"{threshold_ps} ps cannot cut"):
        cut_by_delay(2, none, none, none, np.array([-1, -1]), threshold_ps)
