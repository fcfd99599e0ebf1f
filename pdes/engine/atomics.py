"""Words that several processes read and write: atomic steps on an int64 at an address, each a fence for all else.

Only compiled code has them. As plain Python they are not atomic, and nothing uses them then.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pdes.engine.jit import JIT_DISABLED, loop_kernel

_WORD, _ORDER, _ALIGN = ir.IntType(64), "seq_cst", 8


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _WORD.as_pointer())


@intrinsic
def _load(typingctx, address):  # noqa: ARG001
    def codegen(context, builder, _signature, args):
        return builder.load_atomic(_pointer(builder, args[0]), _ORDER, _ALIGN, typ=_WORD)

    return types.int64(types.int64), codegen


@intrinsic
def _store(typingctx, address, value):  # noqa: ARG001
    def codegen(context, builder, _signature, args):
        builder.store_atomic(args[1], _pointer(builder, args[0]), _ORDER, _ALIGN)
        return args[1]

    return types.int64(types.int64, types.int64), codegen


def _make_step(operation: str) -> Any:
    @intrinsic
    def step(typingctx, address, value):  # noqa: ARG001
        def codegen(context, builder, _signature, args):
            return builder.atomic_rmw(operation, _pointer(builder, args[0]), args[1], _ORDER)

        return types.int64(types.int64, types.int64), codegen

    return step


_add, _least = _make_step("add"), _make_step("min")
_read: Any = _load
_write: Any = _store

if JIT_DISABLED:

    def _no_processes(*_: int) -> int:
        raise AssertionError("not atomic as plain Python")

    load_word = store_word = add_to_word = lower_word = _no_processes
else:

    @loop_kernel
    def load_word(address):
        """The word."""
        return _read(np.int64(address))

    @loop_kernel
    def store_word(address, value):
        """Set the word."""
        return _write(np.int64(address), np.int64(value))

    @loop_kernel
    def add_to_word(address, value):
        """Add to the word; what it was before."""
        return _add(np.int64(address), np.int64(value))

    @loop_kernel
    def lower_word(address, value):
        """Make the word value if that is less; what it was before."""
        return _least(np.int64(address), np.int64(value))
