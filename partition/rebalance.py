"""Re-balancing: what logical processes cost where they ran, and where they had better go (Arcadia, NSDI'26, 6.4).

A placement never changes a result, so that what is measured here may be wall time.
"""

from typing import NamedTuple

import numpy as np

from partition.placement import LpEdges, place

MAX_DRIFT_FRAC = 0.05
"""The busiest rank over the mean, above which ranks are said to have drifted apart."""


class Advice(NamedTuple):
    """What to do about an interval's load."""

    busiest_ns: int
    """What the busiest rank was busy for."""
    drift_frac: float
    """Of that over the mean."""
    gain_ns: int
    """What an interval like the last one would take less."""
    rank_of_lp: np.ndarray | None
    """int64[n_lp]; None: leave them where they are."""


def lp_costs(busy_ns: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Time that each LP took, float64[n_lp]: what its rank was busy for, in proportion to steps.

    busy_ns: int64[n_rank]. steps: int64[n_rank, n_lp], events and the like that an LP ran on a rank.
    """
    total = steps.sum(axis=1)
    ns_per_step = np.divide(busy_ns, total, out=np.zeros(len(busy_ns)), where=total > 0)
    return (steps * ns_per_step[:, np.newaxis]).sum(axis=0)


def renamed(rank_of_lp: np.ndarray, was_rank_of_lp: np.ndarray, lp_ns: np.ndarray, n_rank: int) -> np.ndarray:
    """The same parts with ranks numbered so that little moves: the pairs of parts that share most cost come first."""
    shared = np.zeros((n_rank, n_rank))
    np.add.at(shared, (rank_of_lp, was_rank_of_lp), lp_ns + 1)
    name = np.full(n_rank, -1, np.int64)
    for _ in range(n_rank):
        new, was = np.unravel_index(int(np.argmax(shared)), shared.shape)
        name[new] = was
        shared[new, :] = shared[:, was] = -1
    return name[rank_of_lp]


def advise(
    busy_ns: np.ndarray, steps: np.ndarray, lp_edges: LpEdges, was_rank_of_lp: np.ndarray, cost_ns: int
) -> Advice:  # fmt: skip
    """Whether LPs had better move: ranks have drifted apart, and an interval would gain more than the move costs.

    busy_ns, steps: of the last interval, see `lp_costs`; the next one is taken to be alike. cost_ns: of a move.
    """
    n_rank = len(busy_ns)
    mean_ns, most_ns = float(busy_ns.mean()), int(busy_ns.max())
    drift_frac = most_ns / mean_ns - 1 if mean_ns > 0 else 0.0
    if drift_frac <= MAX_DRIFT_FRAC:
        return Advice(most_ns, drift_frac, 0, None)
    lp_ns = lp_costs(busy_ns, steps)
    found = renamed(place(lp_ns, lp_edges, n_rank), was_rank_of_lp, lp_ns, n_rank)
    now_ns = np.bincount(was_rank_of_lp, weights=lp_ns, minlength=n_rank).max()
    gain_ns = int(now_ns - np.bincount(found, weights=lp_ns, minlength=n_rank).max())
    return Advice(most_ns, drift_frac, gain_ns, found if gain_ns > cost_ns else None)
