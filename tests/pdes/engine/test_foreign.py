"""C functions by address, from compiled code and from Python."""

import ctypes
import time

import numpy as np

from pdes.engine.foreign import call2, clock_address, clock_ns
from pdes.engine.jit import loop_kernel


def test_the_clock_is_pythons_monotonic_clock():
    buffer, address = np.zeros(2, np.int64), clock_address()
    clock_ns(address, buffer)  # compiled now
    before_ns = time.monotonic_ns()
    now_ns = clock_ns(address, buffer)
    assert before_ns <= now_ns <= time.monotonic_ns()


def test_the_clock_never_goes_back():
    buffer, address = np.zeros(2, np.int64), clock_address()
    times = [clock_ns(address, buffer) for _ in range(1000)]
    assert times == sorted(times)


@loop_kernel
def _call_twice(address, a, b):
    return call2(address, a, b) + call2(address, b, a)


def test_a_c_function_gets_its_arguments_and_its_sign_comes_back():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    def difference(a, b):
        return a - 3 * b

    address = ctypes.cast(difference, ctypes.c_void_p).value
    assert call2(address, 5, 7) == -16
    assert _call_twice(address, 2**31, 1) == 2**31 - 3 + 1 - 3 * 2**31 + 2**32  # an int wraps as in C
