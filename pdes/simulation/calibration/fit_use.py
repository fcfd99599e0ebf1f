"""How much of a contended port is used as time goes by (`pdes.skipping.max_min.contention`), from completion times.

First a rough shape: all of it for a while, then senders reach a small part of what they have, and ever more of it with
a power of the time. Then each number of the best shape by itself, up and down by ever smaller factors. What senders
reach falls once and rises once; of the rest ever less is used. Without that one number can stand for another.
"""

from collections.abc import Callable
from itertools import product

from pdes.skipping.max_min.table import WHOLE, Use

FIRST, LAST = 2, 10  # phases begin after 2**FIRST to 2**LAST base round trips
FLOORS, POWERS = (0.025, 0.05, 0.1, 0.2, 0.4), (0.5, 1.0, 2.0)
LEAST, FACTOR, LEAST_FACTOR = 0.003, 2.0, 1.04
LEAST_GAIN = 0.2  # of the error; for less a control needs no such numbers


def _is_shape(use: list[float], reach: list[float]) -> bool:
    lowest = reach.index(min(reach))
    falls, rises = reach[: lowest + 1], reach[lowest:]
    return all(part == sorted(part, reverse=is_down) for part, is_down in ((use, True), (falls, True), (rises, False)))


def fit_use(error: Callable[[Use], float], rtt_ps: int) -> Use:
    """What makes the error least; WHOLE if that is hardly less than without. error: of completion times."""
    from_ps = (0, *(rtt_ps << k for k in range(FIRST, LAST + 1)))
    n, whole = len(from_ps), error(WHOLE)
    best = [1.0] * (2 * n)
    least = whole

    def use_of(values: list[float]) -> Use:
        return Use(tuple(values[:n]), tuple(values[n:]), from_ps)

    for onset, floor, power in product(range(1, n), FLOORS, POWERS):
        reach = [min(1.0, floor * 2 ** (power * (k - onset))) if k >= onset else 1.0 for k in range(n)]
        tried = [1.0] * n + [round(value, 4) for value in reach]
        if (found := error(use_of(tried))) < least:
            least, best = found, tried
    factor = FACTOR
    while factor > LEAST_FACTOR:
        before = least
        for k, way in product(range(2 * n), (1 / factor, factor)):
            while True:
                tried = best.copy()
                tried[k] = round(min(1.0, max(LEAST, best[k] * way)), 4)
                if tried == best or not _is_shape(tried[:n], tried[n:]) or (found := error(use_of(tried))) >= least:
                    break
                least, best = found, tried
        if least == before:
            factor **= 0.5
    return use_of(best) if least <= (1 - LEAST_GAIN) * whole else WHOLE
