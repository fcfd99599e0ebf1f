"""Bitmap words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.bits import WORD_BITS, lowest_bit, lowest_bit_plain, n_word


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
