"""What a run would take on n ranks: the work of profiled stretches of its rounds, put on ranks, with what rounds cost
besides. Each stretch stands for many like it, its weight.

A round takes as long as its busiest rank, plus a reduction if it begins with one (none does where all ranks are
neighbours: their exchange says what it would), plus an exchange with every neighbour, plus packing and unpacking what
crosses. What is decided between rounds takes its time on every rank. Not in it: caches that are larger per LP on more
ranks, which makes it pessimistic there, and ranks that share cores or memory bandwidth, which makes it optimistic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]

ROUNDS_AT_ONCE = 4096  # that memory of a thousand ranks' sums stays small


@dataclass(frozen=True)
class Profile:
    """A stretch of the rounds of a run on one rank, as far as LPs had something to do in them."""

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
    weight: float = 1.0
    """How many such stretches the run has."""


@dataclass(frozen=True)
class Mixture:
    """A run, by its stretches."""

    stretches: Sequence[Profile]
    edges: Edges
    """(LP, LP, packets) that cross between them in all of it."""

    @property
    def n_round(self) -> float:
        """Of all of it."""
        return sum(p.weight * p.n_round for p in self.stretches)

    @property
    def n_reduction(self) -> float:
        """Of all of it."""
        return sum(p.weight * p.n_reduction for p in self.stretches)

    @property
    def work_ns(self) -> float:
        """What all events take."""
        return sum(p.weight * float(p.ns.sum()) for p in self.stretches)

    @property
    def fixed_ns(self) -> float:
        """What all rounds take if nothing happens in them."""
        return sum(p.weight * p.n_round * p.fixed_ns for p in self.stretches)

    @property
    def serial_ns(self) -> float:
        """What every rank does for itself."""
        return sum(p.weight * p.serial_ns for p in self.stretches)

    @property
    def one_rank_ns(self) -> float:
        """What one rank takes."""
        return self.work_ns + self.fixed_ns + self.serial_ns

    @property
    def longest_lp_ns(self) -> float:
        """The longest LP of every round."""
        return sum(p.weight * _longest_lp_ns(p) for p in self.stretches)

    @property
    def critical_path_ns(self) -> float:
        """With a rank per LP and communication for nothing: the longest LP of every round, and what all do."""
        return self.longest_lp_ns + self.fixed_ns + self.serial_ns


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
    """Of a number of ranks. Times are of the run."""

    n_rank: int
    work_ns: float
    """All work, over the ranks: the ideal."""
    round_ns: float
    """What rounds take if nothing happens in them."""
    path_ns: float
    """What the longest LP of each round has above that: no placement is faster."""
    imbalance_ns: float
    """What the busiest rank of each round has above both."""
    reduction_ns: float
    exchange_ns: float
    message_ns: float
    serial_ns: float
    one_rank_ns: float

    @property
    def total_ns(self) -> float:
        """Of the loop."""
        uneven_ns = self.path_ns + self.imbalance_ns
        return self.work_ns + self.round_ns + uneven_ns + self.communication_ns + self.serial_ns

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
    def losses(self) -> dict[str, float]:
        """What it takes besides the work itself, ns by name."""
        return {
            "rounds": self.round_ns,
            "longest LP": self.path_ns,
            "imbalance": self.imbalance_ns,
            "reductions": self.reduction_ns,
            "exchanges": self.exchange_ns,
            "packets": self.message_ns,
            "decisions": self.serial_ns,
        }

    @property
    def limit(self) -> str:
        """What takes most, besides the work itself."""
        losses = self.losses
        most = max(losses, key=losses.__getitem__)
        return most if self.n_rank > 1 and losses[most] > 0 else "-"


def _longest_lp_ns(profile: Profile) -> float:
    most = np.zeros(profile.n_round)
    np.maximum.at(most, profile.round_of, profile.ns)
    return float(most.sum())


def predict(run: Mixture, placements: Sequence[np.ndarray], n_rank: int, costs: Costs) -> Prediction:
    """Replay a run's rounds on ranks. placements: of each stretch, int64[n_lp]: the rank of every LP."""
    work_ns, round_ns, serial_ns, one_ns = run.work_ns, run.fixed_ns, run.serial_ns, run.one_rank_ns
    if n_rank == 1:
        return Prediction(1, work_ns, round_ns, 0.0, 0.0, 0.0, 0.0, 0.0, serial_ns, one_ns)
    path_ns = imbalance_ns = reduction_ns = exchange_ns = message_ns = 0.0
    crossings: dict[int, _Crossing] = {}
    for p, rank_of_lp in zip(run.stretches, placements, strict=True):
        own_ns = float(p.ns.sum())
        uneven_ns = max(0.0, _busiest(p, rank_of_lp, n_rank) - own_ns / n_rank)
        longer_ns = min(max(0.0, _longest_lp_ns(p) - own_ns / n_rank), uneven_ns)
        path_ns += p.weight * longer_ns
        imbalance_ns += p.weight * (uneven_ns - longer_ns)
        if id(rank_of_lp) not in crossings:
            crossings[id(rank_of_lp)] = _crossing(run.edges, rank_of_lp, n_rank)
        crossing = crossings[id(rank_of_lp)]
        if not crossing.is_complete:
            reduction_ns += p.weight * p.n_reduction * costs.reduction_ns(n_rank)
        exchange_ns += p.weight * p.n_round * crossing.n_neighbour * costs.neighbour_ns
        if work_ns > 0:
            message_ns += p.weight * own_ns / work_ns * crossing.n_packet * costs.packet_ns
    return Prediction(
        n_rank, work_ns / n_rank, round_ns, path_ns, imbalance_ns, reduction_ns, exchange_ns, message_ns, serial_ns,
        one_ns,
    )  # fmt: skip


class _Crossing(NamedTuple):
    """What a placement lets cross between ranks."""

    n_packet: float  # that the busiest rank packs or unpacks, over two
    n_neighbour: int  # of the rank with most
    is_complete: bool  # all are neighbours


def _crossing(edges: Edges, rank_of_lp: np.ndarray, n_rank: int) -> _Crossing:
    a, b = rank_of_lp[edges[0]], rank_of_lp[edges[1]]
    crosses = a != b
    packets = np.zeros(n_rank)
    np.add.at(packets, a[crosses], edges[2][crosses])
    np.add.at(packets, b[crosses], edges[2][crosses])
    pairs = np.unique(np.stack([np.minimum(a, b)[crosses], np.maximum(a, b)[crosses]], axis=1), axis=0)
    n_neighbour = np.bincount(pairs.ravel().astype(np.int64), minlength=n_rank)
    return _Crossing(float(packets.max()) / 2, int(n_neighbour.max()), int(n_neighbour.min()) == n_rank - 1)


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
