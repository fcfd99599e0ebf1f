"""Large named tuples are handed over as an address, and are in kernels what they are in Python."""

import gc
import re
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.apart import apart
from pdes.engine.compiling import tables
from pdes.engine.compiling.tables import LARGE, MOST_KEPT, Table, n_word, words_of
from pdes.engine.jit import JIT_DISABLED, loop_kernel, parallel_kernel, program_kernel, step_kernel

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")

ROW = np.dtype([("a", np.int32), ("b", np.float64)], align=True)


class Mixed(NamedTuple):
    line: np.ndarray  # int64[n]
    every_other: np.ndarray  # float64[n], not contiguous
    rows: np.ndarray  # int32[n, 3]
    columns: np.ndarray  # uint8[n, 3], in Fortran's order
    cube: np.ndarray  # float32[n, 2, 2]
    records: np.ndarray  # ROW[n]
    count: int
    share: float
    is_on: bool
    pair: tuple[np.ndarray, int]


class Around(NamedTuple):
    mixed: Mixed
    more: np.ndarray  # int16[n]


def make(n: int = 4, count: int = -7, share: float = 0.25, is_on: bool = True) -> Around:
    mixed = Mixed(
        np.arange(n) - 2,
        np.arange(2 * n, dtype=np.float64)[::2],
        np.arange(3 * n, dtype=np.int32).reshape(n, 3),
        np.asfortranarray(np.arange(3 * n, dtype=np.uint8).reshape(n, 3)),
        np.arange(4 * n, dtype=np.float32).reshape(n, 2, 2),
        np.array([(k, k / 2) for k in range(n)], ROW).view(np.recarray).view(np.ndarray),
        count,
        share,
        is_on,
        (np.full(n, 9), 3),
    )
    return Around(mixed, np.arange(n, dtype=np.int16) * 11)


@step_kernel
def read_all(around, i):
    mixed, more = around
    line, _, _, _, _, _, _, _, _, pair = mixed
    found = line[i] + 10.0 * around.mixed.every_other[i] + mixed.rows[i, 2] + mixed.columns[i, 1] * 0.5
    found += mixed.cube[i, 1, 0] + mixed.records[i].a - mixed.records[i].b + mixed.count * mixed.share
    found += pair[0][i] * pair[1] + around[0][6] + more[i] + len(mixed.rows) + mixed.line.size + mixed.cube.size
    return found + (1000 if mixed.is_on else 0) + mixed.rows[i, -1] + mixed.rows.shape[1]


in_python = read_all if JIT_DISABLED else read_all.py_func  # pyright: ignore[reportFunctionMemberAccess]


@step_kernel
def read_one(around, i):
    apart()  # stays a function
    return read_all(around, i)


@loop_kernel
def read(around, i):
    return read_one(around, i)


@program_kernel
def write_and_read(around, i):
    before = read_one(around, i)
    around.mixed.line[i] += 5
    around.mixed.records[i].b -= 2.0
    around.more[-1] = 77
    return read_one(around, i) - before


@loop_kernel
def count_of(around):
    return around.mixed.count


class ByValue(NamedTuple):
    goes_by_value = True
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray
    e: int
    f: int
    g: int
    h: int


@parallel_kernel
def over_threads(by_value, n):
    total = 0
    for i in numba.prange(n):
        total += by_value.a[i] + by_value.h
    return total


class Small(NamedTuple):
    line: np.ndarray
    first: int


@step_kernel
def sum_of(small):
    return small.line[0] + small.first


@loop_kernel
def made_within(around, i):
    """A kernel makes a tuple, and hands it to another one."""
    return sum_of(Small(around.mixed.line, i))


def as_records(around: Around) -> Any:
    """For Python, whose rows of records have no attributes otherwise."""
    return around._replace(mixed=around.mixed._replace(records=around.mixed.records.view(np.recarray)))


@given(n=st.integers(1, 9), i=st.integers(0, 8), count=st.integers(-(2**53), 2**53), is_on=st.booleans(),
       share=st.floats(-1e9, 1e9, width=32))  # fmt: skip
def test_kernels_find_what_python_finds(n: int, i: int, count: int, is_on: bool, share: float) -> None:
    """In arrays of all layouts, numbers and tuples within tuples, by name, by place and taken apart."""
    around = make(n, count, share, is_on)
    assert read(around, i % n) == pytest.approx(float(in_python(as_records(around), i % n)), rel=1e-12)
    assert count_of(around) == count


@pytest.mark.parametrize("count", [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1])
def test_all_bits_of_a_number_come_across(count: int) -> None:
    assert count_of(make(count=count)) == count


def test_arrays_of_a_subclass_are_arrays(tmp_path: Path) -> None:
    """As one of a file is."""
    filed = np.memmap(tmp_path / "words", np.int64, "w+", shape=4)
    filed[:] = 5, 6, 7, 8
    around = make()
    mine = around._replace(mixed=around.mixed._replace(line=filed))
    assert isinstance(numba.typeof(mine), Table)
    assert read(mine, 1) - read(around, 1) == 6 - (-1)


def test_what_kernels_write_is_in_the_arrays() -> None:
    around = make()
    assert write_and_read(around, 3) == 5 + 2 + (77 - 33)
    assert around.mixed.line.tolist() == [-2, -1, 0, 6] and around.mixed.records["b"].tolist() == [0.0, 0.5, 1.0, -0.5]
    assert around.more.tolist() == [0, 11, 22, 77]


def test_which_tuples_are_tables() -> None:
    """Large ones with names, and those that have such a one; all that they are made of goes into words."""
    around = make()
    assert isinstance(numba.typeof(around.mixed), Table) and isinstance(numba.typeof(around), Table)
    for other in (Small(np.arange(3), 1), tuple(around.mixed), around.mixed._replace(share=None), around.mixed.pair):
        assert not isinstance(numba.typeof(other), Table)
    assert len(words_of(around)) == n_word(numba.typeof(around)) == 3 + 3 + 5 + 5 + 7 + 3 + 3 + 3 + 1 + 3
    assert len(around.mixed) >= LARGE > len(around)
    assert made_within(around, 5) == 3


def test_a_class_may_go_by_value() -> None:
    """Loops over threads take such tuples."""
    line = np.arange(5)
    by_value = ByValue(line, line, line, line, 1, 2, 3, 4)
    assert not isinstance(numba.typeof(by_value), Table)
    assert over_threads(by_value, 5) == 10 + 5 * 4


def test_a_table_is_one_parameter() -> None:
    """Of a function within a kernel: beside the place of the result, an index and, where there are, exceptions."""
    options = {name: value for name, value in read.targetoptions.items() if name != "nopython"}  # pyright: ignore
    compiled: Any = numba.njit(pipeline_class=read._compiler.pipeline_class, **options)(read.py_func)  # pyright: ignore
    compiled.compile((numba.typeof(make()), numba.int64))
    (text,) = compiled.inspect_llvm().values()
    (parameters,) = re.findall(r"^define .*read_one[^(]*\((.*)\)[^)]*\{$", text, re.MULTILINE)
    assert parameters.count("%") <= 4


def test_tables_are_kept_while_they_are_used() -> None:
    """However many there are: the one that is used again and again stays where it is."""
    always = make(count=1)
    where = tables.address_of(always)
    many = [make(count=k) for k in range(3 * MOST_KEPT)]
    for k, around in enumerate(many):
        assert count_of(around) == k and count_of(always) == 1
    assert tables.address_of(always) == where
    assert len(tables._kept) <= MOST_KEPT and len(tables._before) <= MOST_KEPT
    assert [count_of(around) for around in many] == list(range(3 * MOST_KEPT))


def test_arrays_go_when_they_are_let_go() -> None:
    around = make()
    count_of(around)
    array = weakref.ref(around.more)
    del around
    gc.collect()
    assert array() is not None
    tables.let_go()
    gc.collect()
    assert array() is None


def test_an_interrupt_while_words_are_written_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_of(make()) == -7

    def interrupted(_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "_keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        count_of(make())
    monkeypatch.undo()
    assert count_of(make()) == -7
