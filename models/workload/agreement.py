"""Whether iteration times repeat: how far the mean of those seen may be from the mean of those to come.

Times may be equal, take turns (a longer one, a shorter one), or scatter. Of the last half of the times, cut into cycles
of one or of two iterations, the means of the cycles are taken for independent draws of one distribution: then the mean
of the next n iterations lies within Student's t times s sqrt(1 / cycles + cycle / n) of theirs, at 99 %. Looking again
after every iteration makes that less: of made-up runs that only scatter, up to 9 % were off by more than the tolerance
(`tests/models/workload/test_agreement.py`). A drift is no draw: what moves to one side, too slowly to be seen in what
was simulated, is beyond this bound.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

CYCLES = (1, 2)
T_99 = (
    63.657,
    9.925,
    5.841,
    4.604,
    4.032,
    3.707,
    3.499,
    3.355,
)  # two-sided 99 %, 1 .. 8 degrees of freedom
Z_99 = 2.5758
_Z_TERMS = ((Z_99**3 + Z_99) / 4, (5 * Z_99**5 + 16 * Z_99**3 + 3 * Z_99) / 96)


class Agreement(NamedTuple):
    """Times that stand for what follows them."""

    times_ps: tuple[int, ...]  # whole cycles
    cycle: int  # iterations in each
    bound: float  # of the error of their mean, relative


def t_99(n_free: int) -> float:
    """Student's t: the two-sided 99 % quantile, from nine degrees on by Cornish and Fisher, good to 1 %."""
    if n_free <= len(T_99):
        return T_99[n_free - 1]
    return Z_99 + _Z_TERMS[0] / n_free + _Z_TERMS[1] / n_free**2


def agreement(times_ps: Sequence[int], n_repeat: int, n_left: float) -> Agreement | None:
    """The cycles among the last times that say most of n_left iterations to come; None: there are too few times.

    n_repeat: the fewest cycles, at least 1; the mean of a single one is taken at its word. n_left: above 0; may be inf.
    """
    found = (_of_cycles(times_ps, cycle, n_repeat, n_left) for cycle in CYCLES if cycle * n_repeat <= len(times_ps))
    return min(found, key=lambda one: one.bound, default=None)


def _of_cycles(times_ps: Sequence[int], cycle: int, n_repeat: int, n_left: float) -> Agreement:
    n_cycle = max(n_repeat, len(times_ps) // (2 * cycle))
    last = tuple(times_ps[len(times_ps) - n_cycle * cycle :])
    sums = [sum(last[i : i + cycle]) for i in range(0, len(last), cycle)]
    total = sum(last)
    if n_cycle == 1 or total == 0:
        return Agreement(last, cycle, 0.0)
    # Exact in integers up to the root: times equal to the ps have a bound of 0.
    squares = sum((n_cycle * one - total) ** 2 for one in sums)
    deviation = math.sqrt(squares / (n_cycle - 1)) / total  # s of the cycles' means over the mean
    return Agreement(last, cycle, t_99(n_cycle - 1) * deviation * math.sqrt(1 / n_cycle + cycle / n_left))
