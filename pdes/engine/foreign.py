"""Calls of C functions by address from compiled code.

An address is data, so a kernel that calls MPI stays in the disk cache whatever MPI library is loaded, and needs none
when it runs on one rank. Every argument is passed as an int64: on the 64-bit calling conventions of Linux an int, a
pointer or a handle occupies one such slot.
"""

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pdes.engine.jit import JIT_DISABLED, loop_kernel

CLOCK_MONOTONIC = 1


def _make_call(n_argument: int) -> Any:
    if JIT_DISABLED:

        def call_plain(address: int, *arguments: int) -> int:
            prototype = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_int64] * n_argument))
            return prototype(int(address))(*(int(a) for a in arguments))

        return call_plain

    @intrinsic
    def call(typingctx, address, arguments):  # noqa: ARG001
        signature = types.int64(types.int64, types.UniTuple(types.int64, n_argument))

        def codegen(context, builder, _signature, args):
            word = ir.IntType(64)
            function_type = ir.FunctionType(ir.IntType(32), [word] * n_argument)
            function = builder.inttoptr(args[0], function_type.as_pointer())
            values = [builder.extract_value(args[1], i) for i in range(n_argument)]
            return builder.sext(builder.call(function, values), word)

        return signature, codegen

    return call


_call2, _call3, _call5, _call6, _call7 = (_make_call(n) for n in (2, 3, 5, 6, 7))

if JIT_DISABLED:
    call2, call3, call5, call6, call7 = _call2, _call3, _call5, _call6, _call7
else:

    @loop_kernel
    def call2(address, a, b):
        """Call int f(a, b) at an address."""
        return _call2(address, (np.int64(a), np.int64(b)))

    @loop_kernel
    def call3(address, a, b, c):
        """Call int f(a, b, c) at an address."""
        return _call3(address, (np.int64(a), np.int64(b), np.int64(c)))

    @loop_kernel
    def call5(address, a, b, c, d, e):
        """Call int f(a, ..., e) at an address."""
        return _call5(address, (np.int64(a), np.int64(b), np.int64(c), np.int64(d), np.int64(e)))

    @loop_kernel
    def call6(address, a, b, c, d, e, f):
        """Call int f(a, ..., f) at an address."""
        return _call6(address, (np.int64(a), np.int64(b), np.int64(c), np.int64(d), np.int64(e), np.int64(f)))

    @loop_kernel
    def call7(address, a, b, c, d, e, f, g):
        """Call int f(a, ..., g) at an address."""
        return _call7(
            address,
            (np.int64(a), np.int64(b), np.int64(c), np.int64(d), np.int64(e), np.int64(f), np.int64(g)),
        )


def clock_address() -> int:
    """Address of the C library's clock_gettime."""
    function = ctypes.CDLL(None).clock_gettime
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@loop_kernel
def clock_ns(address, buffer):
    """Monotonic wall clock in ns. address: clock_address(); buffer: int64[2], overwritten."""
    call2(address, CLOCK_MONOTONIC, buffer.ctypes.data)
    return buffer[0] * 1_000_000_000 + buffer[1]
