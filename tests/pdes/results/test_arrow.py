"""Arrays from their bytes are those that Arrow would make."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pdes.results.arrow import as_int64, taken, texts, whole_numbers

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.just(-1), max_size=40)


@given(NUMBERS, st.integers(0, 9))
def test_numbers_are_there_and_back(numbers: list[int], first: int) -> None:
    values = np.array([7] * first + numbers, np.int64)[first:]
    for is_null in (None, values == -1):
        found = whole_numbers(values, is_null)
        found.validate(full=True)
        assert found.equals(pa.array(values, pa.int64(), mask=is_null))
    pieces = [found, found[first:], found[:0], found[: first // 2]]
    column = pa.chunked_array(pieces, pa.int64())
    wanted = column.fill_null(-5).to_numpy()
    assert as_int64(column, -5).tolist() == wanted.tolist() and as_int64(column, -5).dtype == np.int64
    assert as_int64(pa.chunked_array([found]), -1).tolist() == numbers
    assert as_int64(pa.chunked_array([], pa.int64()), -1).tolist() == []
    few = pa.array([None if number < 0 else number % 100 for number in numbers], pa.int8())
    assert as_int64(few, -1).tolist() == [-1 if number is None else number for number in few.to_pylist()]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=20), st.data())
def test_texts_are_taken_by_place(words: list[str], data: st.DataObject) -> None:
    known = texts(words)
    known.validate(full=True)
    assert known.equals(pa.array(words, pa.string()))
    places = data.draw(st.lists(st.integers(-1, len(words) - 1), max_size=20))
    found = taken(known, whole_numbers(np.array(places, np.int64), np.array(places, np.int64) == -1))
    assert found.to_pylist() == [None if place < 0 else words[place] for place in places]
