"""Keeping what is rare out of what is frequent, in compiled code.

LLVM puts a function into its callers by its size, not by how often it runs: a rare case of thirty lines can so push a
step that every packet takes past what is inlined, or fill the registers of the loop around it. `apart()` as the first
statement of a step keeps it a function of its own, and tells the compiler that calls of it are rare. It costs such a
step the handing over of its arguments, and saves compile time as well.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from pdes.engine.jit import JIT_DISABLED


@intrinsic
def _mark_function(typingctx: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        for attribute in ("noinline", "cold"):
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()

    return types.void(), codegen


def _nothing() -> None:
    """Without the compiler nothing is put anywhere."""


_compiled: Any = _mark_function
apart: Callable[[], None] = _nothing if JIT_DISABLED else _compiled
