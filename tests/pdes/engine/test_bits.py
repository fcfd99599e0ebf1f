"""Bitmap words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.bits import (
    WORD_BITS,
    drop_from_set,
    lowest_bit,
    lowest_bit_plain,
    n_set_word,
    n_word,
    next_in_set,
    put_in_set,
)


@given(st.integers(1, 2**WORD_BITS - 1))
def test_the_lowest_bit_is_the_first_that_is_set(word):
    expected = next(i for i in range(WORD_BITS) if word >> i & 1)
    assert lowest_bit(word) == lowest_bit_plain(word) == expected


@pytest.mark.parametrize("bit", range(WORD_BITS))
def test_one_bit_is_found_wherever_it_is(bit):
    assert lowest_bit(1 << bit) == bit


@given(st.integers(0, 10**6))
def test_words_hold_their_bits_and_not_a_word_more(n_bit):
    assert (n_word(n_bit) - 1) * WORD_BITS < n_bit <= n_word(n_bit) * WORD_BITS or n_bit == n_word(n_bit) == 0


@given(st.integers(1, 3000), st.data())
def test_a_set_of_two_levels_behaves_as_a_set(n_bit, data):
    """Against Python's own, between words of 7 that nobody may touch."""
    number = st.integers(0, n_bit - 1)
    steps = data.draw(st.lists(st.tuples(st.booleans(), number, st.integers(0, n_bit)), max_size=60))
    words, members = np.full(n_set_word(n_bit) + 2, 7, np.int64), set()
    words[1:-1] = 0
    for puts, i, start in steps:
        (put_in_set if puts else drop_from_set)(words, 1, n_bit, i)
        (members.add if puts else members.discard)(i)
        assert next_in_set(words, 1, n_bit, start) == min((m for m in members if m >= start), default=-1)
    assert words[0] == words[-1] == 7
