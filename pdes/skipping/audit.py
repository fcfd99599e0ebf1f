"""How far skips would have been off: some that could start are simulated in full, and compared with their plans.

Which ones is drawn, so their mean error is an estimate of all skips', with a standard error. Flows of one network
partition err together, so that is of the skips' sums and not of flows as if they were independent.

Progress is compared from acknowledgement to acknowledgement, as it was measured: what was acknowledged, with what the
plan credits by then. Where nothing comes any more, the time counts in which something should have come.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.random_plain import PURPOSE_AUDIT, uniform_plain
from pdes.skipping import history as h

if TYPE_CHECKING:
    from pdes.skipping.frozen import Freeze


@dataclass
class Audited:
    """A skip that is simulated, with its flows' samples, in the order of the plan's pairs."""

    plan: "Freeze"
    label: int
    version: int
    first: np.ndarray
    last: np.ndarray  # before anything happened that no plan can know of
    last_ps: int


class Errors(NamedTuple):
    """What a plan was off by, relatively. float64 arrays, one element per flow that can be compared."""

    rate: np.ndarray  # bytes credited, to those acknowledged, in the same time
    time: np.ndarray  # time for these bytes at the plan's rate, to the time that they took
    is_cut_short: bool  # it could not be followed to its end


class Audit:
    """Draws skips, follows those drawn, and adds up their errors."""

    def __init__(self, share: float, seed: int, packet_bytes: int) -> None:
        """share: 0..1, of all skips. packet_bytes: payload of a full packet."""
        self.share, self.seed, self._packet_bytes = share, seed, packet_bytes
        self.running: dict[int, Audited] = {}  # by label
        self.n_skip = 0  # that could start, drawn or not
        self._errors: list[Errors] = []

    @property
    def first_end_ps(self) -> int:
        """The first planned end of what is followed, NEVER if nothing is."""
        return min((audited.plan.end_ps for audited in self.running.values()), default=NEVER)

    def takes(self, plan: "Freeze", label: int, version: int, rows: np.ndarray) -> bool:
        """Whether a skip that could start now is drawn; if so it is followed. rows: samples of all flows, ascending."""
        drawn = uniform_plain(self.seed, self.n_skip, PURPOSE_AUDIT, 0) < self.share
        self.n_skip += 1
        if drawn:
            first = _rows_of(plan.pairs, rows)
            assert first is not None
            self.running[label] = Audited(plan, label, version, first, first, plan.begin_ps)
        return drawn

    def look(self, now_ps: int, rows: np.ndarray, version: np.ndarray) -> None:
        """Follow what is under way by a sample of all flows, ascending. version: of each label, as it is now."""
        for audited in list(self.running.values()):
            mine = _rows_of(audited.plan.pairs, rows) if version[audited.label] == audited.version else None
            goes_on = mine is not None and (mine[:, h.MESSAGE_END] == audited.first[:, h.MESSAGE_END]).all()
            if mine is not None and goes_on:
                audited.last, audited.last_ps = mine, now_ps
            if not goes_on or audited.plan.end_ps <= now_ps:
                self._errors.append(compare(audited, self._packet_bytes))
                del self.running[audited.label]

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it; None: there is too little to tell."""
        found = [*self._errors, *(compare(audited, self._packet_bytes) for audited in self.running.values())]
        rate = np.sort(np.concatenate([np.zeros(0), *(errors.rate for errors in found)]))
        time = np.concatenate([np.zeros(0), *(errors.time for errors in found)])
        return {
            "share": self.share,
            "skips": self.n_skip,
            "skips_audited": len(found),
            "skips_cut_short": sum(errors.is_cut_short for errors in found),
            "flows": len(rate),
            "mean_rate_error": _mean(rate),
            "p99_rate_error": float(rate[-(len(rate) // 100) - 1]) if len(rate) else None,
            "max_rate_error": float(rate[-1]) if len(rate) else None,
            "standard_error": standard_error([errors.rate for errors in found if len(errors.rate)]),
            "mean_time_error": _mean(time),
        }


def compare(audited: Audited, packet_bytes: int) -> Errors:
    """What a plan was off by up to the last sample. Flows of which nothing was due by then are left out."""
    plan, first, last, at_ps = audited.plan, audited.first, audited.last, audited.last_ps
    shift_ps, packets, _ = plan.progress(at_ps)
    rate, time = [], []
    flows = zip(packets.tolist(), plan.done_packets.tolist(), plan.done_ps.tolist(), strict=True)
    for i, (credited, n, n_ps) in enumerate(flows):
        waited_ps = plan.begin_ps - int(first[i, h.DONE_PS])
        overdue_ps = at_ps - int(last[i, h.DONE_PS]) - max(waited_ps, -(-n_ps // n))
        took_ps = int(last[i, h.DONE_PS] - first[i, h.DONE_PS]) + max(overdue_ps, 0)
        if took_ps <= 0:
            continue
        # The plan counts from the last acknowledgement before it, and credits whole packets for whole periods.
        done = int(last[i, h.DONE] - first[i, h.DONE])
        off = (credited * n_ps + n * (took_ps - shift_ps)) * packet_bytes - done * n_ps
        rate.append(abs(off) / (max(done, packet_bytes) * n_ps))
        time.append(abs(done * n_ps - took_ps * n * packet_bytes) / (took_ps * n * packet_bytes))
    return Errors(np.array(rate, np.float64), np.array(time, np.float64), at_ps < plan.end_ps)


def standard_error(samples: list[np.ndarray]) -> float | None:
    """Of the mean over all elements, if whole arrays are drawn at random; None: there are less than two.

    The ratio of two sums, linearised (Cochran, Sampling Techniques, 3rd edition, section 6.4), for few out of many.
    """
    n = len(samples)
    if n < 2:
        return None
    n_all = sum(len(sample) for sample in samples)
    mean = math.fsum(value for sample in samples for value in sample.tolist()) / n_all
    apart = [math.fsum(sample.tolist()) - mean * len(sample) for sample in samples]
    return math.sqrt(n / (n - 1) * math.fsum(value * value for value in apart)) / n_all


def _mean(values: np.ndarray) -> float | None:
    return math.fsum(values.tolist()) / len(values) if len(values) else None


def _rows_of(pairs: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Samples of these flows, None if one of them has none."""
    at = np.searchsorted(rows[:, h.FLOW], pairs)
    if len(rows) == 0 or at.max() == len(rows) or (rows[at, h.FLOW] != pairs).any():
        return None
    return rows[at].copy()
