"""Choose the delay threshold that cuts a network into logical processes, when the user gives none.

The choice is part of a result's identity, so it depends on topology, expected load and the constants below only:
never on the number of ranks or cores, and never on a clock. It predicts wall time per simulated second for each cut
that the delays allow; the prediction ranks cuts, it is no promise of speed.
"""

from dataclasses import dataclass, field

import numpy as np

from partition.lps import NO_LOOKAHEAD_PS, NO_TIES, Ties, cut_by_delay, lookahead_ps

REFERENCE_RANKS = 8
"""Ranks of the imagined machine. Any machine gets the cut that suits this one."""
NS_PER_HOP = 30
"""Work of a packet-hop: the window engine takes 20..60 ns for it."""
NS_PER_ROUND = 5_000
"""A round's reduction, neighbour exchange and loop: two MPI calls of 1.4 us each, and the driver's loop."""
NS_PER_LP_VISIT = 100
"""Taking up an LP that has work in a round. LPs without work cost nothing."""
PS_PER_S = 10**12


@dataclass(frozen=True)
class Candidate:
    """One threshold and what it is predicted to give."""

    threshold_ps: int
    lookahead_ps: int
    """NO_LOOKAHEAD_PS if there is only one LP."""
    n_lp: int
    n_busy_lp: int
    """LPs with load."""
    predicted_ns: int
    """Wall time per simulated second on REFERENCE_RANKS ranks."""


@dataclass(frozen=True)
class ThresholdChoice:
    """The threshold chosen, what it gives, and what else was there."""

    threshold_ps: int
    lookahead_ps: int
    n_lp: int
    candidates: list[Candidate]
    """All of them, ascending by threshold."""
    reason: str
    """One sentence for people."""
    lp_of_node: np.ndarray = field(compare=False)
    """int64[n_node]"""


def choose_threshold(
    n_node: int,
    port_src: np.ndarray,
    port_dst: np.ndarray,
    port_delay_ps: np.ndarray,
    server: np.ndarray,
    node_load_hops: np.ndarray,
    ties: Ties = NO_TIES,
) -> ThresholdChoice:
    """Choose the threshold with the least predicted wall time; ties go to the larger lookahead.

    node_load_hops: [n_node] packet-hops per simulated second that arrive at each node, >= 0. Arrays as `cut_by_delay`.
    Candidates are the distinct delays above zero and one past the largest. One that leaves a single LP falls away, and
    one that leaves a single LP with load with which others have nothing to do; if all do, the smallest stands.
    """
    load_hops = np.ceil(np.asarray(node_load_hops)).astype(np.int64)
    longest_ps = int(port_delay_ps.max(initial=0))
    is_one = len(port_delay_ps) > 0 and bool((port_delay_ps == longest_ps).all())
    delays = [longest_ps] if is_one else np.unique(port_delay_ps).tolist()
    thresholds = [delay for delay in delays if delay > 0] + [longest_ps + 1]
    candidates, cuts = [], {}
    for threshold_ps in thresholds:
        cuts[threshold_ps] = lp_of_node = cut_by_delay(
            n_node, port_src, port_dst, port_delay_ps, server, threshold_ps, ties
        )
        ahead_ps = lookahead_ps(port_src, port_dst, port_delay_ps, lp_of_node, ties)
        candidates.append(_predict(threshold_ps, ahead_ps, lp_of_node, load_hops))
    useful = [c for c in candidates if c.n_lp > 1]
    useful = [c for c in useful if c.n_busy_lp > 1 or c.lookahead_ps < NO_LOOKAHEAD_PS] or useful
    if not useful:
        best = candidates[0]
        reason = f"every threshold leaves one LP, so {_duration(best.threshold_ps)} stands and one rank does the work"
    else:
        best = min(useful, key=lambda c: (c.predicted_ns, -c.lookahead_ps, -c.threshold_ps))
        reason = _reason(best, useful)
    return ThresholdChoice(best.threshold_ps, best.lookahead_ps, best.n_lp, candidates, reason, cuts[best.threshold_ps])


def _predict(threshold_ps: int, ahead_ps: int, lp_of_node: np.ndarray, load_hops: np.ndarray) -> Candidate:
    """Integers throughout, so that the choice is the same on every machine."""
    n_lp = int(lp_of_node.max(initial=-1)) + 1
    load = np.zeros(n_lp, np.int64)
    np.add.at(load, lp_of_node, load_hops)
    heaviest, total = int(load.max(initial=0)), int(load.sum())
    n_round = -(-PS_PER_S // ahead_ps)
    n_visit = min(n_round * n_lp, total)
    predicted_ns = max(heaviest, -(-total // REFERENCE_RANKS)) * NS_PER_HOP
    predicted_ns += n_round * NS_PER_ROUND + -(-n_visit // REFERENCE_RANKS) * NS_PER_LP_VISIT
    return Candidate(threshold_ps, ahead_ps, n_lp, int(np.count_nonzero(load)), predicted_ns)


def _reason(best: Candidate, useful: list[Candidate]) -> str:
    text = (
        f"threshold {_duration(best.threshold_ps)}: {best.n_lp} LPs, lookahead {_duration(best.lookahead_ps)}, "
        f"predicted {best.predicted_ns / 1e9:.3g} s per simulated second on {REFERENCE_RANKS} ranks"
    )
    others = [f"{c.predicted_ns / 1e9:.3g} s with {_duration(c.threshold_ps)}" for c in useful if c is not best]
    return f"{text} (instead of {', '.join(others)})" if others else text


def _duration(time_ps: int) -> str:
    """A time for people; partition imports nothing of ours, so not `pdes.units`."""
    if time_ps >= NO_LOOKAHEAD_PS:
        return "unbounded"
    for unit, size_ps in (("ms", 10**9), ("us", 10**6), ("ns", 10**3)):
        if time_ps >= size_ps:
            return f"{time_ps / size_ps:.10g} {unit}"
    return f"{time_ps} ps"
