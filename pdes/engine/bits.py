"""Bitmaps for active sets: words of 32 bits kept in int64, so that no bit is a sign."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from pdes.engine.jit import JIT_DISABLED, loop_kernel

WORD_BITS = 32
WORD_SHIFT, BIT_MASK = 5, WORD_BITS - 1


def n_word(n_bit: Any) -> Any:
    """Words that hold n_bit bits; of each of an array."""
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


# Sets of small numbers 0 .. n_bit - 1 in two levels, from words[first] on: n_word(n_bit) words of members, and if there
# is more than one, a bit for each of them that is not zero. Finding the next member costs n_bit / 1024 words at worst.


def n_set_word(n_bit: Any) -> Any:
    """Words that a set of numbers below n_bit needs; of each of an array."""
    return n_word(n_bit) + n_word(n_word(n_bit)) * (n_bit > WORD_BITS)


@loop_kernel
def put_in_set(words, first, n_bit, i):
    """Make i a member."""
    low = i >> WORD_SHIFT
    words[np.uint64(first + low)] |= np.int64(1) << (i & BIT_MASK)
    if n_bit <= WORD_BITS:
        return
    n_low = (n_bit + WORD_BITS - 1) >> WORD_SHIFT
    words[np.uint64(first + n_low + (low >> WORD_SHIFT))] |= np.int64(1) << (low & BIT_MASK)


@loop_kernel
def drop_from_set(words, first, n_bit, i):
    """Make i no member."""
    low = i >> WORD_SHIFT
    word = words[np.uint64(first + low)] & ~(np.int64(1) << (i & BIT_MASK))
    words[np.uint64(first + low)] = word
    if word == 0 and n_bit > WORD_BITS:
        n_low = (n_bit + WORD_BITS - 1) >> WORD_SHIFT
        words[np.uint64(first + n_low + (low >> WORD_SHIFT))] &= ~(np.int64(1) << (low & BIT_MASK))


@loop_kernel
def next_in_set(words, first, n_bit, i):
    """The least member that is not below i (0 .. n_bit), -1 if there is none."""
    if i >= n_bit:
        return np.int64(-1)
    low = i >> WORD_SHIFT
    word = words[np.uint64(first + low)] >> (i & BIT_MASK)
    if word != 0:
        return np.int64(i + lowest_bit(word))
    if n_bit <= WORD_BITS:
        return np.int64(-1)
    n_low = (n_bit + WORD_BITS - 1) >> WORD_SHIFT
    low += 1
    high = low >> WORD_SHIFT
    word = np.int64(0)
    if low < n_low:
        word = words[np.uint64(first + n_low + high)] & ~((np.int64(1) << (low & BIT_MASK)) - 1)
    while word == 0:
        high += 1
        if (high << WORD_SHIFT) >= n_low:
            return np.int64(-1)
        word = words[np.uint64(first + n_low + high)]
    low = (high << WORD_SHIFT) + lowest_bit(word)
    return np.int64((low << WORD_SHIFT) + lowest_bit(words[np.uint64(first + low)]))
