"""Counter-based random numbers: a pure function of (seed, entity, purpose, counter), design R3.

The mixing step is SplitMix64's finaliser (Steele, Lea, Flood 2014, section 3), applied once per key part. It is not
meant for cryptography, and it keeps no state: whoever draws keeps the counter.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pdes.engine.jit import JIT_DISABLED, loop_kernel

# Purposes: one number for each use of randomness, so that no two uses share a stream.
PURPOSE_PHOLD_REMOTE, PURPOSE_PHOLD_TARGET, PURPOSE_PHOLD_DELAY, PURPOSE_PHOLD_START = 1, 2, 3, 4
PURPOSE_ECN = 5
PURPOSE_LOSS, PURPOSE_ROUTE = 6, 7
PURPOSE_ARRIVAL_GAP, PURPOSE_FLOW_SOURCE, PURPOSE_FLOW_DESTINATION, PURPOSE_FLOW_SIZE = 16, 17, 18, 19
PURPOSE_START_JITTER = 20
PURPOSE_AUDIT = 21
PURPOSE_COMPUTE = 22
PURPOSE_SHARE = 23

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN, _MUL1, _MUL2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix64_plain(x: int) -> int:
    """SplitMix64's finaliser over Python integers: the readable twin of the compiled one."""
    x = ((x ^ (x >> 30)) * _MUL1) & _MASK
    x = ((x ^ (x >> 27)) * _MUL2) & _MASK
    return x ^ (x >> 31)


def random_bits_plain(seed: int, entity: int, purpose: int, counter: int) -> int:
    """64 random bits, as `random_bits`, over Python integers."""
    key = mix64_plain((int(seed) + int(purpose) * _GOLDEN) & _MASK)
    key = mix64_plain((key + int(entity) * _GOLDEN) & _MASK)
    return mix64_plain((key + int(counter) * _GOLDEN) & _MASK)


def uniform_plain(seed: int, entity: int, purpose: int, counter: int) -> float:
    """Uniform number in [0, 1), as `uniform`, over Python integers."""
    return (random_bits_plain(seed, entity, purpose, counter) >> 11) * 2.0**-53


_U_GOLDEN, _U_MUL1, _U_MUL2 = np.uint64(_GOLDEN), np.uint64(_MUL1), np.uint64(_MUL2)


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
