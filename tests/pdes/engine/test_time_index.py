"""The time index against a plain dict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER, collect_before, make_time_index, set_time

TIMES = st.one_of(st.integers(0, 20), st.integers(0, NEVER), st.just(NEVER))


@given(st.integers(1, 70), st.data())
def test_the_index_knows_what_a_dict_knows(n_entity, data):
    tree, plain = make_time_index(n_entity), dict.fromkeys(range(n_entity), NEVER)
    found = np.full(n_entity, -1, np.int64)
    for _ in range(data.draw(st.integers(1, 25))):
        entity, time_ps = data.draw(st.integers(0, n_entity - 1)), data.draw(TIMES)
        set_time(tree, entity, time_ps)
        plain[entity] = time_ps
        assert tree[1] == min(plain.values())
        assert tree[len(tree) // 2 :][:n_entity].tolist() == list(plain.values())
        limit_ps = data.draw(TIMES)
        n_found = collect_before(tree, limit_ps, found)
        assert found[:n_found].tolist() == [i for i, t in plain.items() if t < limit_ps]


@pytest.mark.parametrize("n_entity", [1, 2, 3, 4, 5, 8, 9])
def test_all_and_none_are_found(n_entity):
    tree, found = make_time_index(n_entity), np.zeros(n_entity, np.int64)
    assert collect_before(tree, NEVER, found) == 0
    for i in range(n_entity):
        set_time(tree, i, 7)
    assert collect_before(tree, 7, found) == 0
    assert collect_before(tree, 8, found) == n_entity
    assert found.tolist() == list(range(n_entity))


@given(st.lists(st.tuples(st.integers(0, 36), TIMES), max_size=60))
def test_every_inner_node_is_the_least_of_its_children(changes):
    tree = make_time_index(37)
    for entity, time_ps in changes:
        set_time(tree, entity, time_ps)
    assert (tree[1 : len(tree) // 2] == np.minimum(tree[2::2], tree[3::2])).all()
