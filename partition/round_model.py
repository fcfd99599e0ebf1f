"""What a run would take on n ranks: the work of a profiled run's rounds, put on ranks, with what rounds cost besides.

A round takes as long as its busiest rank, plus a reduction if it begins with one (none does where all ranks are
neighbours: their exchange says what it would), plus an exchange with every neighbour, plus packing and unpacking what
crosses. What is decided between rounds takes its time on every rank. Not in it: caches that are larger per LP on more
ranks, which makes it pessimistic there, and ranks that share cores or memory bandwidth, which makes it optimistic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ROUNDS_AT_ONCE = 4096  # that memory of a thousand ranks' sums stays small


@dataclass(frozen=True)
class Profile:
    """Rounds of a run on one rank, as far as LPs had something to do in them."""

    n_round: int
    n_reduction: int
    """Rounds that would have begun with a reduction on ranks that are not all neighbours."""
    round_of: np.ndarray
    """int64[n]: round of each entry, ascending."""
    lp: np.ndarray
    """int64[n]"""
    ns: np.ndarray
    """float64[n]: what the LP's events took in that round."""
    fixed_ns: float
    """What a round takes if nothing happens in it."""
    serial_ns: float
    """What every rank does for itself, whatever it has: decisions between rounds."""
    edges: tuple[np.ndarray, np.ndarray, np.ndarray]
    """(LP, LP, packets) that crossed between them."""


class Costs(NamedTuple):
    """Of communication."""

    reduction_ns: Callable[[int], float]
    """Of a reduction, by ranks."""
    neighbour_ns: float
    """Of a message to and from one neighbour in a round."""
    packet_ns: float
    """Of a packet that leaves a rank: packed here, unpacked there."""


@dataclass(frozen=True)
class Prediction:
    """Of a number of ranks. Times are of the profiled rounds."""

    n_rank: int
    work_ns: float
    """All work, over the ranks: the ideal."""
    round_ns: float
    """What rounds take if nothing happens in them."""
    imbalance_ns: float
    """What the busiest rank of each round has above that."""
    reduction_ns: float
    exchange_ns: float
    message_ns: float
    serial_ns: float
    one_rank_ns: float

    @property
    def total_ns(self) -> float:
        """Of the loop."""
        return self.work_ns + self.round_ns + self.imbalance_ns + self.communication_ns + self.serial_ns

    @property
    def communication_ns(self) -> float:
        """All of it."""
        return self.reduction_ns + self.exchange_ns + self.message_ns

    @property
    def speedup(self) -> float:
        """Over one rank."""
        return self.one_rank_ns / self.total_ns if self.total_ns > 0 else 1.0

    @property
    def efficiency(self) -> float:
        """Speedup per rank."""
        return self.speedup / self.n_rank

    @property
    def limit(self) -> str:
        """What takes most, besides the work itself."""
        parts = {
            "rounds": self.round_ns,
            "imbalance": self.imbalance_ns,
            "reductions": self.reduction_ns,
            "exchanges": self.exchange_ns,
            "packets": self.message_ns,
            "decisions": self.serial_ns,
        }
        most = max(parts, key=parts.__getitem__)
        return most if self.n_rank > 1 and parts[most] > 0 else "-"


def critical_path_ns(profile: Profile) -> float:
    """With a rank per LP and communication for nothing: the longest LP of every round, and what all do."""
    most = np.zeros(profile.n_round)
    np.maximum.at(most, profile.round_of, profile.ns)
    return float(most.sum()) + profile.n_round * profile.fixed_ns + profile.serial_ns


def lp_totals(profile: Profile, n_lp: int) -> np.ndarray:
    """Time of each LP, float64[n_lp]."""
    return np.bincount(profile.lp, weights=profile.ns, minlength=n_lp)


def predict(profile: Profile, rank_of_lp: np.ndarray, n_rank: int, costs: Costs) -> Prediction:
    """Replay a profile's rounds on ranks. rank_of_lp: int64[n_lp]."""
    total_ns, most_ns = float(profile.ns.sum()), _busiest(profile, rank_of_lp, n_rank)
    fixed_ns = profile.n_round * profile.fixed_ns
    one_ns = total_ns + fixed_ns + profile.serial_ns
    if n_rank == 1:
        return Prediction(1, total_ns, fixed_ns, 0.0, 0.0, 0.0, 0.0, profile.serial_ns, one_ns)
    a, b = rank_of_lp[profile.edges[0]], rank_of_lp[profile.edges[1]]
    crosses = a != b
    packets = np.zeros(n_rank)
    np.add.at(packets, a[crosses], profile.edges[2][crosses])
    np.add.at(packets, b[crosses], profile.edges[2][crosses])
    pairs = np.unique(np.stack([np.minimum(a, b)[crosses], np.maximum(a, b)[crosses]], axis=1), axis=0)
    n_neighbour = np.bincount(pairs.ravel().astype(np.int64), minlength=n_rank)
    is_complete = int(n_neighbour.min()) == n_rank - 1
    return Prediction(
        n_rank,
        work_ns=total_ns / n_rank,
        round_ns=fixed_ns,
        imbalance_ns=most_ns - total_ns / n_rank,
        reduction_ns=0.0 if is_complete else profile.n_reduction * costs.reduction_ns(n_rank),
        exchange_ns=profile.n_round * float(n_neighbour.max()) * costs.neighbour_ns,
        message_ns=float(packets.max()) / 2 * costs.packet_ns,
        serial_ns=profile.serial_ns,
        one_rank_ns=one_ns,
    )


def _busiest(profile: Profile, rank_of_lp: np.ndarray, n_rank: int) -> float:
    """Time of the busiest rank of each round, over all rounds."""
    found, ends = 0.0, np.searchsorted(profile.round_of, np.arange(0, profile.n_round + ROUNDS_AT_ONCE, ROUNDS_AT_ONCE))
    for i, (begin, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        cell = (profile.round_of[begin:end] - i * ROUNDS_AT_ONCE) * n_rank + rank_of_lp[profile.lp[begin:end]]
        work = np.bincount(cell, weights=profile.ns[begin:end], minlength=ROUNDS_AT_ONCE * n_rank)
        found += float(work.reshape(-1, n_rank).max(axis=1).sum())
    return found


def reduction_by_table(table: dict[int, float]) -> Callable[[int], float]:
    """Of ranks: linear in the logarithm between what the table has, and beyond its ends. table: {ranks: ns}, two or
    more.
    """
    ranks = sorted(table)
    x, y = np.log2(ranks), np.array([table[n] for n in ranks], np.float64)

    def reduction_ns(n_rank: int) -> float:
        at = float(np.log2(max(n_rank, 1)))
        i = int(np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2))
        slope = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
        return max(0.0, float(y[i] + slope * (at - x[i])))

    return reduction_ns
