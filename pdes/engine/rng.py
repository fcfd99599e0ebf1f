"""Counter-based random numbers: a pure function of (seed, entity, purpose, counter), design R3.

The compiled twin of `random_plain`, which says how they are made and has a number for each use of randomness.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pdes.engine.jit import JIT_DISABLED, loop_kernel
from pdes.random_plain import (
    GOLDEN,
    MUL1,
    MUL2,
    random_bits_plain,
    uniform_plain,
)

_U_GOLDEN, _U_MUL1, _U_MUL2 = np.uint64(GOLDEN), np.uint64(MUL1), np.uint64(MUL2)


@loop_kernel
def _mix64(x):
    x = (x ^ (x >> np.uint64(30))) * _U_MUL1
    x = (x ^ (x >> np.uint64(27))) * _U_MUL2
    return x ^ (x >> np.uint64(31))


@loop_kernel
def _random_bits(seed, entity, purpose, counter):
    """64 random bits, uint64, from four int64 keys."""
    key = _mix64(np.uint64(seed) + np.uint64(purpose) * _U_GOLDEN)
    key = _mix64(key + np.uint64(entity) * _U_GOLDEN)
    return _mix64(key + np.uint64(counter) * _U_GOLDEN)


@loop_kernel
def _uniform(seed, entity, purpose, counter):
    """Uniform number in [0, 1), a multiple of 2**-53, from four int64 keys."""
    return np.float64(_random_bits(seed, entity, purpose, counter) >> np.uint64(11)) * 2.0**-53


random_bits: Callable[..., Any] = random_bits_plain if JIT_DISABLED else _random_bits
uniform: Callable[..., Any] = uniform_plain if JIT_DISABLED else _uniform
