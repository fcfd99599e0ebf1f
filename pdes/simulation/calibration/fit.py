"""Numbers of flow mode with which completion times come closest to those of packets.

What is made small is the mean absolute relative error: of each case's messages, then of cases by their weights. So a
case of many messages counts no more than one of few, an elephant no more than a mouse; and a control that is unfair,
whose messages end now sooner and now later than by fair shares, does not pull numbers to extremes, as squares would.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pdes.simulation.calibration.fit_use import fit_use
from pdes.skipping.max_min.table import WHOLE, Use

FEWEST = 1e-4  # of shares, in the table
SHARES = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7)
QUEUES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # base round trips
LEAST_SHARE, N_HALVING = 0.05, 7


class Numbers(NamedTuple):
    """See `pdes.scenario.flow_numbers`."""

    alone: float
    shared: float
    queue_ps: int
    use: Use = WHOLE


class Fit(NamedTuple):
    """Numbers, and mean absolute relative errors with them."""

    numbers: Numbers
    error: float
    before: float  # with whole links and no queues
    worst: float  # of a message
    by_case: np.ndarray  # float64[n_case]


def errors(full_ps: np.ndarray, flow_ps: np.ndarray, case: np.ndarray) -> np.ndarray:
    """Mean absolute relative error of each case; float64[n_case]."""
    relative = np.abs(flow_ps / full_ps - 1)
    return np.bincount(case, weights=relative) / np.bincount(case)


def fit(
    full_ps: np.ndarray, case: np.ndarray, weight: np.ndarray, is_lone: np.ndarray, rtt_ps: int,
    in_flow_mode: Callable[[float, float, int, Use], np.ndarray],
) -> Fit:  # fmt: skip
    """The best numbers. full_ps: int64[n], of packets. case: int64[n]. weight: float64[n_case], 1 in all; 0: a case is
    not fitted. is_lone: bool[n_case], its messages meet no others. in_flow_mode: completion times with
    `Numbers`."""
    known: dict[Numbers, np.ndarray] = {}

    def by_case(numbers: Numbers) -> np.ndarray:
        if numbers not in known:
            known[numbers] = errors(full_ps, in_flow_mode(*numbers), case)
        return known[numbers]

    best = Numbers(1.0, 1.0, 0)
    lone, shares = weight * is_lone, weight * ~is_lone
    best = _along(best, "alone", lambda n: float(by_case(n) @ lone))
    grid = [best._replace(shared=s, queue_ps=int(q * rtt_ps)) for q in QUEUES for s in SHARES]
    best = min(grid, key=lambda n: float(by_case(n) @ shares))
    best = _downhill(best, rtt_ps, lambda n: float(by_case(n) @ shares))
    best = best._replace(use=fit_use(lambda use: float(by_case(best._replace(use=use)) @ shares), rtt_ps))
    found, before = by_case(best), by_case(Numbers(1.0, 1.0, 0))
    worst = np.abs(in_flow_mode(*best) / full_ps - 1)[weight[case] > 0].max()
    return Fit(best, float(found @ weight), float(before @ weight), float(worst), found)


def _along(start: Numbers, name: str, error: Callable[[Numbers], float]) -> Numbers:
    """The best share by that name: of what `SHARES` has, then nearer and nearer."""
    best = min((start._replace(**{name: share}) for share in SHARES), key=error)
    step = 0.02
    while step >= FEWEST:
        near = [best, *(best._replace(**{name: _share(getattr(best, name) + way)}) for way in (step, -step))]
        after = min(near, key=error)
        if after == best:
            step /= 2
        best = after
    return best


def _downhill(start: Numbers, rtt_ps: int, error: Callable[[Numbers], float]) -> Numbers:
    """Better by steps of `shared` and of the queue, also of both, ever smaller."""
    best, step, factor = start, 0.02, 1.5
    for _ in range(N_HALVING):
        while True:
            ways = [(s, q) for s in (0, 1, -1) for q in (0, 1, -1)]
            least_ps = rtt_ps // 8
            near = [
                best._replace(
                    shared=_share(best.shared + s * step), queue_ps=int(max(best.queue_ps, least_ps * q) * factor**q)
                )
                for s, q in ways
            ]
            after = min(near, key=error)
            if after == best:
                break
            best = after
        step, factor = step / 2, factor**0.5
    return best


def _share(value: float) -> float:
    return round(min(1.0, max(LEAST_SHARE, value)), 4)
