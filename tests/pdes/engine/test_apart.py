"""`apart` and `prefetch`: what they do to compiled code, and that they do nothing to results."""

from typing import Any

import numba
import numpy as np
import pytest

from pdes.engine.apart import apart
from pdes.engine.jit import JIT_DISABLED, fast_step, loop_kernel, step_kernel
from pdes.engine.prefetch import prefetch


@step_kernel
def rare(x):
    apart()
    return x * 3


@fast_step
def frequent(x):
    total = 0
    for i in range(x):
        total += i * x
    return total


@loop_kernel
def both(x):
    return frequent(x) + (rare(x) if x > 10 else 0)


@loop_kernel
def add_up(values, ahead):
    total = 0
    for i in range(values.size):
        prefetch(values, i + ahead)
        total += values[np.uint64(i)]
    return total


def test_steps_compute_what_they_say() -> None:
    assert [both(x) for x in (0, 5, 11)] == [0, 50, 55 * 11 + 33]


@pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")
def test_a_step_that_is_apart_stays_a_function_and_a_fast_one_does_not() -> None:
    here: Any = both  # compiled anew: of what was loaded from the cache there is no text
    options = {name: value for name, value in here.targetoptions.items() if name != "nopython"}
    compiled = numba.njit(**options)(here.py_func)
    compiled(1)
    (text,) = compiled.inspect_llvm().values()
    calls = [line for line in text.splitlines() if " call " in line]
    assert any("rare" in line for line in calls)
    assert not any("frequent" in line for line in calls)


@loop_kernel
def add_up_rows(table, ahead):
    total = 0
    for i in range(table.shape[0]):
        prefetch(table, i + ahead)
        total += table[np.uint64(i), np.uint64(1)]
    return total


@pytest.mark.parametrize("ahead", [0, 1, 99, 10**9, -1, -(10**9)])
def test_any_row_may_be_asked_for(ahead: int) -> None:
    assert add_up(np.arange(100), ahead) == 4950
    assert add_up_rows(np.arange(200).reshape(100, 2), ahead) == 10_000
    assert add_up_rows(np.zeros((0, 2), np.int64), ahead) == 0
