"""How many of each group of jobs get each configuration, so that the sum of costs is least and everything fits.

With one pool it is the multiple-choice knapsack problem (Sinha and Zoltners 1979): its linear programme is solved by
the steps along each group's lower hull of costs by sizes, the steepest first. What is whole of that, filled up, is
taken where it is within the gap. Else its distance from the linear programme says how many jobs of a group can be
anywhere but where the linear programme has them at most, and for these few a table by GPUs finds the optimum. With
several pools, or where that table would be large, an integer programme is solved.
"""

import importlib
import math
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from models.cluster.schedulers.rounds.solver import optimize, silent

LARGEST_TABLE = 30_000_000
SLACK = 1e-9  # for rounding
Option = tuple[int, float, int, int]
"""GPUs, cost, choice, how many jobs."""
Corner = tuple[int, float, int]
"""Size, cost, choice."""


class Choices(NamedTuple):
    """costs, owners, pools, sizes: of each choice, sorted by owners, which are groups. counts: jobs of each group."""

    costs: np.ndarray
    owners: np.ndarray
    pools: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray


def counts_of_each(choices: Choices, room: np.ndarray, gap: float) -> list[int]:
    """How many jobs take each choice: of a group no more than it has, of a pool no more than its room.

    gap: how far off the optimum may be, as a share of it.
    """
    costs, owners, pools, sizes, counts = choices
    found = np.zeros(len(costs), np.int64)
    use = np.flatnonzero((costs < 0) & (sizes <= room[pools]) & (counts[owners] > 0)) if len(costs) else []
    if not len(use):
        return found.tolist()
    order = use[np.lexsort((costs[use], owners[use]))]
    best = order[np.unique(owners[order], return_index=True)[1]]
    if (np.bincount(pools[best], sizes[best] * counts[owners[best]], len(room)) <= room).all():
        found[best] = counts[owners[best]]  # nobody stands in another's way
        return found.tolist()
    numbers, rows = np.unique(owners[use], return_inverse=True)
    own = Choices(costs[use], rows, pools[use], sizes[use], counts[numbers])
    taken = None
    if (own.pools == own.pools[0]).all():
        taken = _of_one_pool(own, int(room[own.pools[0]]), gap)
    found[use] = _by_programme(own, room, gap) if taken is None else taken
    return found.tolist()


def _by_programme(choices: Choices, room: np.ndarray, gap: float) -> np.ndarray:
    costs, owners, pools, sizes, counts = choices
    solver, sparse = optimize(), importlib.import_module("scipy.sparse")
    n, columns = len(costs), np.arange(len(costs))
    by_owner = sparse.csr_matrix((np.ones(n), (owners, columns)), shape=(len(counts), n))
    by_pool = sparse.csr_matrix((sizes.astype(float), (pools, columns)), shape=(len(room), n))
    limits = [solver.LinearConstraint(by_owner, ub=counts), solver.LinearConstraint(by_pool, ub=room)]
    options, bounds = {"mip_rel_gap": gap, "presolve": False}, solver.Bounds(0, counts[owners])
    # Presolving takes up to 30 times as long as it saves.
    with silent():
        found = solver.milp(costs, integrality=np.ones(n), bounds=bounds, constraints=limits, options=options)
    assert found.x is not None, found.message
    return np.rint(found.x).astype(np.int64)


def _of_one_pool(choices: Choices, room: int, gap: float) -> np.ndarray | None:
    """None: an integer programme is better."""
    taken, total, bound, slope = _by_hull(choices, room)
    if total - bound <= gap * abs(total):
        return taken
    fixed, free, choices_left = _reduced(choices, total - bound, slope)
    left = room - int((fixed * choices.sizes).sum())
    stages = _stages(choices, free, choices_left)
    unit = math.gcd(*(size for stage in stages for size, *_ in stage))
    if sum(map(len, stages)) * (left // unit) > LARGEST_TABLE:
        return None
    for k, n in _by_table(stages, left // unit, unit):
        fixed[k] += n
    return fixed


def _by_hull(choices: Choices, room: int) -> tuple[np.ndarray, float, float, float]:
    """How many take each choice, their costs, what the linear programme has, and what a GPU more gains there."""
    taken, rest = [0] * len(choices.costs), choices.counts.tolist()
    owners, total, bound, at = choices.owners.tolist(), 0.0, None, 0.0
    for slope, k_from, k_to, size, cost in _steps(choices):
        ready = rest[owners[k_to]] if k_from < 0 else taken[k_from]
        n = min(ready, room // size)
        if n < ready and bound is None:
            bound, at = total + n * cost + (room - n * size) * slope, slope
        if n:
            taken[k_to] += n
            if k_from < 0:
                rest[owners[k_to]] -= n
            else:
                taken[k_from] -= n
            room, total = room - n * size, total + n * cost
    return np.array(taken, np.int64), total, total if bound is None else bound, at


def _reduced(choices: Choices, distance: float, slope: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By choice how many are there for sure; by group how many are not; which choices these have.

    distance: of a known solution from the linear programme, which each job that is elsewhere brings nearer by what that
    costs more, GPUs at their price (Dyer, Riha and Walker 1995).
    """
    owners, counts, n = choices.owners, choices.counts, len(choices.counts)
    priced = choices.costs - slope * choices.sizes
    least = np.zeros(n)  # of none
    np.minimum.at(least, owners, priced)
    more = priced - least[owners]
    allowed = distance * (1 + SLACK) + SLACK
    order = np.lexsort((more, owners))
    best = order[np.unique(owners[order], return_index=True)[1]]  # of each group
    second = -least  # of having none
    others = np.ones(len(more), bool)
    others[best[more[best] == 0]] = False
    np.minimum.at(second, owners[others], more[others])
    is_none = more[best] > 0  # it is none that is best
    second = np.where(is_none, np.minimum.reduceat(more, np.unique(owners, return_index=True)[1]), second)
    free = np.minimum(counts, (allowed / np.maximum(second, 1e-300)).clip(0, counts.max()).astype(np.int64))
    fixed = np.zeros(len(more), np.int64)
    fixed[best] = np.where(is_none, 0, counts - free)
    return fixed, free, more <= allowed


def _stages(choices: Choices, free: np.ndarray, has: np.ndarray) -> list[list[Option]]:
    """One for each job; of a group with one choice, for 1, 2, 4, .. of them."""
    stages = []
    owners, costs, sizes = choices.owners.tolist(), choices.costs.tolist(), choices.sizes.tolist()
    for owner, own in groupby(np.flatnonzero(has).tolist(), owners.__getitem__):
        ways, n = list(own), int(free[owner])
        step = 1
        while n > 0:
            now = min(step, n)
            stages.append([(now * sizes[k], now * costs[k], k, now) for k in ways])
            n, step = n - now, 2 * step if len(ways) == 1 else 1
    return stages


def _by_table(stages: list[list[Option]], room: int, unit: int) -> Iterator[tuple[int, int]]:
    """(choice, how many). room: in units."""
    cost, picks = np.zeros(room + 1), []
    for stage in stages:
        before, cost, pick = cost, cost.copy(), np.full(room + 1, -1, np.int16)
        for i, (size, own, *_) in enumerate(stage):
            at = size // unit
            if at <= room:
                found = before[: room + 1 - at] + own
                better = found < cost[at:]
                cost[at:][better] = found[better]
                pick[at:][better] = i
        picks.append(pick)
    for stage, pick in zip(reversed(stages), reversed(picks), strict=True):
        if (i := int(pick[room])) >= 0:
            size, _, k, n = stage[i]
            room -= size // unit
            yield k, n


def _steps(choices: Choices) -> list[tuple[float, int, int, int, float]]:
    """(cost for each GPU more, from which choice or -1, to which, GPUs more, cost more), the steepest first."""
    order = np.lexsort((choices.costs, choices.sizes, choices.owners)).tolist()
    costs, sizes, owners = choices.costs.tolist(), choices.sizes.tolist(), choices.owners.tolist()
    steps = []
    for _, own in groupby(order, owners.__getitem__):
        hull = [(0, 0.0, -1)]
        for k in own:
            size, cost = sizes[k], costs[k]
            if cost < hull[-1][1]:  # else larger, and no better
                while len(hull) > 1 and _is_above(hull[-2], hull[-1], (size, cost, k)):
                    hull.pop()
                hull.append((size, cost, k))
        steps += [
            ((cost - cost_before) / (size - before), k_before, k, size - before, cost - cost_before)
            for (before, cost_before, k_before), (size, cost, k) in pairwise(hull)
        ]
    return sorted(steps)


def _is_above(left: Corner, middle: Corner, right: Corner) -> bool:
    """Whether the middle one is not below the line between the others."""
    steep = (middle[1] - left[1]) * (right[0] - middle[0])
    return steep >= (right[1] - middle[1]) * (middle[0] - left[0])
