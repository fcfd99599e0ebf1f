"""Asking for memory before it is needed, from compiled code: a hint to the processor, without any effect on results.

Packets on a link are a chain, so whoever takes them waits for memory once for each of them, unless the next one but one
is asked for as the next one is looked at.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pdes.engine.jit import JIT_DISABLED, loop_kernel

FOR_WRITING, KEEP_CLOSE, IS_DATA = 1, 3, 1  # what llvm.prefetch is told


@intrinsic
def _prefetch(typingctx: Any, array: Any, row: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = context.make_array(signature.args[0])(context, builder, args[0])
        row_bytes = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        width = context.get_constant(types.int64, row_bytes)
        if signature.args[0].ndim > 1:
            width = builder.extract_value(rows.strides, 0)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(rows.data, byte), [builder.mul(args[1], width)])
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], form)
        builder.call(hint, [place, *(ir.Constant(number, value) for value in (FOR_WRITING, KEEP_CLOSE, IS_DATA))])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


_hint: Any = _prefetch


def _prefetch_plain(array: Any, row: int) -> None:
    """Nothing to do without a compiler."""


@loop_kernel
def _prefetch_row(array, row):
    """Have the beginning of an array's row in the cache soon; any row may be named, also one that there is not."""
    _hint(array, row)


prefetch: Callable[..., Any] = _prefetch_plain if JIT_DISABLED else _prefetch_row
