"""Bitmaps for active sets: words of 32 bits kept in int64, so that no bit is a sign."""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from pdes.engine.jit import JIT_DISABLED, loop_kernel

WORD_BITS = 32


def n_word(n_bit: int) -> int:
    """Words that hold n_bit bits."""
    return (n_bit + WORD_BITS - 1) // WORD_BITS


def lowest_bit_plain(word: int) -> int:
    """Index of the lowest set bit of word, which is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


@intrinsic
def _count_trailing_zeros(typingctx: Any, word: Any) -> Any:  # noqa: ARG001
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, True))

    return types.int64(types.int64), codegen


_count: Any = _count_trailing_zeros


@loop_kernel
def _lowest_bit(word):
    """Index of the lowest set bit of word, an int64 that is not 0."""
    return _count(word)


lowest_bit: Callable[..., Any] = lowest_bit_plain if JIT_DISABLED else _lowest_bit
