"""Successive halving over three fidelities, with the error of each measured on the way up.

After Jamieson and Talwalkar (AISTATS 2016), with two deviations. How many go up is not fixed: as long as a candidate
that has not been tried might still be the best, by the least ratio of a higher fidelity to a lower one that was seen,
it goes up, too, if the budget allows. That ratio is never taken to be more than 1: lower fidelities leave out what
makes things slower, and those that go up first may have most of that. And some go up from all over the ranking, so that
ratios are not only those of candidates that the lower fidelity likes.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

CLOSED, FLOW, PACKETS = "closed form", "flow mode", "packets"
RunAt = Callable[[str, Sequence[int]], Sequence[float]]
"""(fidelity, candidates) -> cost of each, NaN if it has none."""


class Rule(NamedTuple):
    """How many go up: see the keys of [search]."""

    eta: int
    final: int
    probes: int
    flow_runs: int
    packet_runs: int


class Step(NamedTuple):
    """From one fidelity to the next. n: candidates that have both. least, median, most: higher over lower.

    rank_correlation: Spearman's, NaN below three. holds: the lower one's best is the higher one's, too.
    """

    n: int
    least: float
    median: float
    most: float
    rank_correlation: float
    holds: bool

    @property
    def reach(self) -> float:
        """What the ratio of one might be that has not been tried."""
        return min(self.least, 1.0)


class Climbed(NamedTuple):
    """Costs, float64[n] each, NaN where there is none. best: of packets. bound: the least that one without packets
    might cost by the ratios seen; gap: how much less that is than the best, 0 if it is not. n_may: how many might.
    """

    closed: np.ndarray
    flow: np.ndarray
    packets: np.ndarray
    best: int
    to_flow: Step
    to_packets: Step
    bound: float
    gap: float
    n_may: int


def climb(closed: np.ndarray, run_at: RunAt, rule: Rule) -> Climbed | None:
    """closed: cost of each candidate, NaN if it is refused. None: no candidate could be run to the end."""
    flow, packets = np.full(len(closed), math.nan), np.full(len(closed), math.nan)
    _to_flow(closed, flow, run_at, rule)
    _to_packets(closed, flow, packets, run_at, rule)
    if not np.isfinite(packets).any():
        return None
    to_flow, to_packets = step(closed, flow), step(flow, packets)
    best = first_least(packets)
    likely = np.where(np.isfinite(flow), flow, closed * to_flow.reach) * to_packets.reach
    is_open = np.isfinite(likely) & ~np.isfinite(packets) & ~_twins(closed, flow, packets)
    bound = float(likely[is_open].min()) if is_open.any() else float(packets[best])
    gap = max(0.0, 1 - bound / float(packets[best]))
    n_may = int((likely[is_open] < packets[best]).sum())
    return Climbed(closed, flow, packets, best, to_flow, to_packets, bound, gap, n_may)


def _to_flow(closed: np.ndarray, flow: np.ndarray, run_at: RunAt, rule: Rule) -> None:
    order = [int(i) for i in np.argsort(closed, kind="stable") if math.isfinite(closed[i])]
    n_first = min(max(rule.final, -(-len(order) // rule.eta)), max(1, rule.flow_runs - rule.probes))
    rest = order[n_first:]
    n_probe = min(rule.probes, len(rest), rule.flow_runs - n_first)
    probes = [rest[(2 * k + 1) * len(rest) // (2 * n_probe)] for k in range(n_probe)]
    asked = order[:n_first] + probes
    tried: set[int] = set()
    while asked:
        flow[asked] = run_at(FLOW, asked)
        tried.update(asked)
        left = rule.flow_runs - len(tried)
        asked = []
        if left > 0 and np.isfinite(flow).any():
            reach = closed * step(closed, flow).reach
            asked = [i for i in order if i not in tried and reach[i] < np.nanmin(flow)][: min(left, n_first)]


def _to_packets(closed: np.ndarray, flow: np.ndarray, packets: np.ndarray, run_at: RunAt, rule: Rule) -> None:
    order = [int(i) for i in np.argsort(flow, kind="stable") if math.isfinite(flow[i])]
    tried: set[int] = set()
    while len(tried) < rule.packet_runs:
        twins = _twins(closed, flow, packets)
        distinct: dict[tuple[float, float], int] = {}
        for i in order:
            if i not in tried and not twins[i]:
                distinct.setdefault((closed[i], flow[i]), i)
        left = list(distinct.values())
        if not np.isfinite(packets).any():
            n_more = min(rule.final - sum(math.isfinite(x) for x in packets), rule.packet_runs - len(tried))
            asked = left[: max(1, n_more)]
        else:
            reach = flow * step(flow, packets).reach
            asked = [i for i in left if reach[i] < np.nanmin(packets)][:1]
        if not asked:
            return
        packets[asked] = run_at(PACKETS, asked)
        tried.update(asked)


def _twins(closed: np.ndarray, flow: np.ndarray, packets: np.ndarray) -> np.ndarray:
    """bool[n]: no packets, and at both lower fidelities exactly what one with packets has: a layout by another name."""
    done = {(closed[i], flow[i]) for i in np.flatnonzero(np.isfinite(packets))}
    return np.array([not math.isfinite(p) and (c, f) in done for c, f, p in zip(closed, flow, packets, strict=True)])


def step(lower: np.ndarray, higher: np.ndarray) -> Step:
    """What candidates that have both say of the two fidelities."""
    both = np.isfinite(lower) & np.isfinite(higher)
    a, b = lower[both], higher[both]
    if not len(a):
        return Step(0, 1.0, 1.0, 1.0, math.nan, False)
    ratio = b / a
    holds = first_least(lower) in np.flatnonzero(higher == b.min())
    return Step(len(a), float(ratio.min()), float(np.median(ratio)), float(ratio.max()), spearman(a, b), holds)


def first_least(costs: np.ndarray) -> int:
    """The candidate with the least cost, the first of equals."""
    return int(np.nanargmin(costs))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation, equals with their mean rank; NaN below three, or if all are equal."""
    x, y = _ranks(a), _ranks(b)
    if len(a) < 3 or not np.ptp(x) or not np.ptp(y):
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]
