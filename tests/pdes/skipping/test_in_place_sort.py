"""Heapsort against Python's sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdes.skipping.in_place_sort import sort_in_place


@given(st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))), st.integers(0, 3))
def test_the_first_values_are_sorted_and_the_others_stay(values, n_left):
    n_value = max(0, len(values) - n_left)
    array = np.array(values, np.int64)
    sort_in_place(array, n_value)
    assert array.tolist() == sorted(values[:n_value]) + values[n_value:]
