"""Kernels that Python calls straight do what Numba's own dispatch does, whatever they are called with."""

import gc
import weakref
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from pdes.engine.compiling import straight
from pdes.engine.compiling.straight import LARGE, LEAST_ARRAYS, MOST_KNOWN, Straight, let_go, make_straight
from pdes.engine.jit import JIT_DISABLED, loop_kernel, program_kernel, step_kernel

pytestmark = pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")

Bundle = NamedTuple("Bundle", [(f"a{k}", np.ndarray) for k in range(LEAST_ARRAYS)])  # pyright: ignore


class Outer(NamedTuple):
    inner: Bundle
    times: tuple  # pyright: ignore


def made(dtype: Any = np.int64, step: int = 1) -> Bundle:
    """Arrays of one, two, .. elements 1, 2, ..; step 2: not contiguous."""
    return Bundle(*(np.arange(2 * k + 2, dtype=dtype)[::step] + dtype(1) for k in range(LEAST_ARRAYS)))


def spread(dtype: Any = np.int64) -> Bundle:
    arrays = made(dtype)
    return Bundle(*(np.repeat(a, 2)[::2] for a in arrays))


def _sum(bundle, array, factor):
    return (bundle.a1[1] + bundle.a11[2] + array[0]) * factor


def pair_of_kernels() -> tuple[Any, Any]:
    return make_straight(numba.njit(_sum)), numba.njit(_sum)


def test_calls_of_all_types_are_those_of_numba() -> None:
    """Each twice: the second one goes straight."""
    mine, numbas = pair_of_kernels()
    one, plain = np.arange(3) + 5, made()
    calls = [(bundle, one, 2) for bundle in (plain, made(np.int32), made(np.float64), spread())]
    calls += [(plain, array, 2) for array in (one.astype(np.float64), one[::2], one.astype(np.int16))]
    calls += [(plain, one, factor) for factor in (2.5, True, np.int32(3), np.float64(0.5), 2**62)]
    for args in [*calls, *calls[::-1]]:
        wanted = numbas(*args)
        for _ in range(2):
            found = mine(*args)
            assert found == wanted and type(found) is type(wanted)
    assert set(mine.overloads) == set(numbas.overloads)
    assert type(mine) is Straight and len(mine._straight) >= len(mine.overloads)


def test_another_tuple_of_the_same_class_has_types_of_its_own() -> None:
    """Also if it lies where an earlier one did."""
    mine, _ = pair_of_kernels()
    one = np.arange(3)
    for k in range(3 * MOST_KNOWN):
        dtype = (np.int64, np.float64, np.int32)[k % 3]
        assert mine(made(dtype), one, 1) == 2 + 3
    assert len(straight._known) <= MOST_KNOWN


def test_what_is_written_cannot_be_read_only() -> None:
    @loop_kernel
    def write(bundle, value):
        bundle.a3[0] = value

    own = made()
    write(own, 7)
    write(own, 8)
    assert own.a3[0] == 8
    shut = own._replace(a3=own.a3.copy())
    shut.a3.flags.writeable = False
    for _ in range(2):
        with pytest.raises((TypeError, numba.TypingError)):
            write(shut, 9)
    assert shut.a3[0] == 8


def test_nested_tuples_and_arguments_by_name() -> None:
    @make_straight
    @numba.njit
    def last(outer, scale=1):
        return (outer.inner.a11[3] + outer.times[1]) * scale

    inner = made()
    for times in ((1, 2), (1, 2.5), (np.int64(1), 7)):
        for _ in range(2):
            assert last(Outer(inner, times)) == 4 + times[1]
            assert last(Outer(inner, times), scale=2) == 2 * (4 + times[1])
            assert last(Outer(inner, times), 3) == 3 * (4 + times[1])


def test_an_integer_beyond_64_bits_is_refused_as_by_numba() -> None:
    mine, numbas = pair_of_kernels()
    bundle, one = made(), np.arange(3)
    assert mine(bundle, one, 1) == numbas(bundle, one, 1)
    for factor in (2**64, -(2**63) - 1):
        for kernel in (mine, numbas):
            with pytest.raises(OverflowError):
                kernel(bundle, one, factor)


def test_few_arrays_are_left_to_numba_and_steps_always() -> None:
    @loop_kernel
    def first(array):
        return array[0]

    @step_kernel
    def second(array):
        return array[1]

    @program_kernel
    def both(bundle):
        return first(bundle.a2) + second(bundle.a2)

    assert type(first) is type(both) is Straight and type(second) is not Straight
    assert first(np.arange(3)) == 0 and type(first) is CPUDispatcher
    assert [both(made()) for _ in range(3)] == [3] * 3 and type(both) is Straight


def test_an_exception_comes_through() -> None:
    @loop_kernel
    def refuse(bundle, n):
        if n > 2:
            raise ValueError("too many")
        return bundle.a0[0] + n

    bundle = made()
    assert refuse(bundle, 1) == refuse(bundle, 1) == 2
    with pytest.raises(ValueError, match="too many"):
        refuse(bundle, 3)


def test_arrays_go_when_they_are_let_go() -> None:
    assert len(Bundle._fields) >= LARGE
    mine, _ = pair_of_kernels()
    let_go()
    bundle = made()
    mine(bundle, np.arange(3), 1)
    seen = weakref.ref(bundle.a5)
    del bundle
    gc.collect()
    assert seen() is not None
    let_go()
    assert seen() is None
