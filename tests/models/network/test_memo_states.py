"""States that are equal are found, whatever they are like."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdes.skipping.replay.blocks import find_equal

STATES = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 1), max_size=3)), min_size=1, max_size=12)


@given(STATES)
def test_each_is_like_the_first_with_the_same_form_and_words(states: list[tuple[int, list[int]]]) -> None:
    words = np.array([word for _, mine in states for word in mine], np.int64)
    ends, like = np.cumsum([0, *(len(mine) for _, mine in states)]), np.full(len(states), -1)
    find_equal(words, ends, np.array([form for form, _ in states]), like)
    assert like.tolist() == [states.index(state) for state in states]
