"""Kernels in libraries of our own: the same results as Numba's, with less handed over from function to function, and
no machine code for what nobody runs by itself.
"""

import re
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from pdes.engine.apart import apart
from pdes.engine.jit import JIT_DISABLED, loop_kernel, program_kernel, step_kernel


class Tables(NamedTuple):
    used: np.ndarray
    spare: np.ndarray
    other: np.ndarray


@step_kernel
def take_one(tables: Tables, i):
    apart()  # stays a function
    tables.used[np.uint64(i)] += 1
    return tables.used[np.uint64(i)]


@loop_kernel
def as_loop(tables: Tables, n):
    total = 0
    for i in range(n):
        total += take_one(tables, i)
    return total


@program_kernel
def as_program(tables: Tables, n):
    total = 0
    for i in range(n):
        total += take_one(tables, i)
    return total


@program_kernel
def around(tables: Tables, n):
    return as_loop(tables, n) + take_one(tables, 0)


@step_kernel
def refuse(n):
    apart()
    if n > 2:
        raise ValueError("too many")
    return n + 1


@loop_kernel
def refuses_as_loop(n):
    return refuse(n)


@program_kernel
def refuses_as_program(n):
    return refuse(n)


def make_tables() -> Tables:
    return Tables(np.arange(10), np.zeros(3), np.zeros((2, 2), np.int32))


def test_programs_compute_what_loops_do() -> None:
    """In any order: what one has compiled is nothing to the others, though it has the same name there."""
    tables = make_tables()
    assert as_program(tables, 10) == as_loop(make_tables(), 10) == 55
    assert around(tables, 10) == 65 + 3 and tables.used.tolist() == [3, *range(3, 12)]
    assert [kernel(make_tables(), 10) for kernel in (as_loop, as_program, around)] == [55, 55, 57]


@pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")
def test_no_kernel_calls_a_program() -> None:
    """What LLVM has dropped of it cannot be handed over."""

    @numba.njit(no_cfunc_wrapper=True)
    def outer(tables: Tables) -> int:
        return as_program(tables, 1)

    with pytest.raises(TypeError, match="as_program is a program: Python calls it, and no kernel"):
        outer(make_tables())


@pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")
def test_a_step_is_text_that_its_callers_compile() -> None:
    """Also one that an earlier process has left: it has no machine code, and whoever calls it has all of it."""
    assert around(make_tables(), 10) == 57
    types = (numba.typeof(make_tables()), numba.int64)
    take_one.compile(types)  # pyright: ignore[reportFunctionMemberAccess]
    left: Any = step_kernel(take_one.py_func)  # pyright: ignore[reportFunctionMemberAccess]
    left.compile(types)
    assert sum(left.stats.cache_hits.values()) == 1
    (found,) = left.overloads.values()
    assert found.library.get_pointer_to_function(found.fndesc.llvm_func_name) == 0

    @numba.njit
    def caller(tables: Tables) -> int:
        return left(tables, 3) + left(tables, 3)

    assert caller(make_tables()) == 4 + 5


def test_a_step_may_raise() -> None:
    """Through all that calls it."""
    for kernel in (refuses_as_loop, refuses_as_program):
        assert kernel(1) == 2
        with pytest.raises(ValueError, match="too many"):
            kernel(3)


def n_parameter(kernel: Any) -> int:
    """Of `take_one`, as it is called in a kernel, compiled anew: of what was loaded from the cache there is no text."""
    options = {name: value for name, value in kernel.targetoptions.items() if name != "nopython"}
    compiled: Any = numba.njit(pipeline_class=kernel._compiler.pipeline_class, **options)(kernel.py_func)
    kernel(make_tables(), 1)
    compiled.compile(kernel.signatures[0])
    (text,) = compiled.inspect_llvm().values()
    (parameters,) = re.findall(r"^define .*take_one[^(]*\((.*)\{$", text, re.MULTILINE)
    return parameters.count("%")


@pytest.mark.skipif(JIT_DISABLED, reason="there is no compiled code")
def test_a_program_hands_over_only_what_is_needed() -> None:
    """Beside the place of the result: the address of an array and a number, not all that is known of three arrays; and
    where bounds are checked how long it is."""
    assert n_parameter(as_loop) > 20
    assert n_parameter(as_program) <= 4 + bool(numba.config.BOUNDSCHECK)  # pyright: ignore[reportAttributeAccessIssue]
