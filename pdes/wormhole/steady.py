"""Whether flows are steady, and for how long that may be relied on (Wormhole section 5; HyGra section IV).

The paper takes a flow whose rate moves by less than theta over its last l samples for steady. Short windows are flat
also where shares still drift, where a queue fills at constant rates, where a control's average is on its way to a
threshold, or in the slow part of an oscillation. So the default looks at more, on several scales of time:

- windows cover two round trips as they are now, queueing included;
- the control has settled: its rate, window and averages stay, and it waits for no timer; or, on scales of many round
  trips, whole windows agree whatever happens inside them, as with controls that oscillate;
- a skip is no longer than the drift that was measured, and a difference between sending and acknowledging, allow.

Rates that were found steady before in the same company are trusted after two windows that confirm them: queue pairs
outlive messages, and a ring's next step carries on.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pdes.wormhole import history as h
from pdes.wormhole.history import N_WINDOW, History, Quiet

EXACT = 1e-9  # relative: what differs by less is the same to the ps
NEAR, LEAST_CHANGE = 0.001, 1e-6  # relative: rates that are the same one; what cannot be told from no change
STRIDES = (1, 8, 64, 512)  # of the scales, in looks
N_FINE = 2  # scales on which the control itself has to have settled


@dataclass(frozen=True)
class Settings:
    """How steadiness is judged; what is not given follows from the run."""

    look_ps: int  # between two samples
    packet_bytes: int  # payload of a full packet
    spread: float = 0.002  # of the windows, where controls have settled
    coarse_spread: float = 0.02  # and where whole windows are compared
    drift: float = 0.005  # that a flow's rate may make within a skip, relative
    queue_packets: int = 2  # that may come to or leave a flow's queues unseen within a skip
    guard_packets: int = 2  # before a message's end
    least_looks: int = 2  # a skip is at least as long as this many samples


class Progress(NamedTuple):
    """What flows got done while they were looked at. int64 arrays of one length; see `history.Quiet`."""

    done_bytes: np.ndarray
    span_ps: np.ndarray
    last_ps: np.ndarray
    cycle_bytes: np.ndarray
    marked: np.ndarray


class Verdict:
    """For each flow: how long it may be skipped, and its measured progress. Arrays of one length, written in place."""

    def __init__(self, n: int) -> None:
        self.may_ps = np.full(n, -1.0)
        self.done_bytes = np.ones(n, np.int64)
        self.span_ps = np.ones(n, np.int64)
        self.last_ps = np.ones(n, np.int64)
        self.cycle_bytes = np.zeros(n, np.int64)
        self.marked = np.zeros(n, np.int64)

    def take(self, use: np.ndarray, may_ps: np.ndarray, quiet: Quiet) -> None:
        """Take over what a scale says of some flows, if it allows more than what is known already."""
        rows = np.flatnonzero(use & (may_ps > self.may_ps))
        self.put(rows, may_ps[rows], Progress(*(getattr(quiet, name)[rows] for name in Progress._fields)))

    def put(self, rows: np.ndarray, may_ps: np.ndarray, progress: Progress) -> None:
        """Set what is known of some flows. rows: int64[n], with may_ps and progress for each."""
        self.may_ps[rows] = may_ps
        for name, values in zip(Progress._fields, progress, strict=True):
            getattr(self, name)[rows] = values


def until_end_ps(rows: np.ndarray, rate: np.ndarray, settings: Settings) -> np.ndarray:
    """For how long flows of a sample can send at these rates, bytes per ps, until just before their messages' ends."""
    guard_bytes = settings.guard_packets * settings.packet_bytes
    return (rows[:, h.MESSAGE_END] - rows[:, h.SENT] - guard_bytes) / rate


class Steadiness:
    """Histories of all flows on several scales, and what was found steady before."""

    def __init__(self, n_flow: int, n_kept: tuple[int, int], settings: Settings) -> None:
        self.settings = settings
        self._histories = [History(n_flow, n_kept, stride) for stride in STRIDES]
        self._known_rate = np.zeros(n_flow)  # bytes per ps, when it was found steady last; 0: never
        self._first_rate = np.zeros(n_flow)  # when it was first found steady near that rate
        self._first_age_ps = np.zeros(n_flow, np.int64)
        self._skipped_ps = np.zeros(n_flow, np.int64)  # a flow does not age meanwhile
        self._n_look = 0

    def add(self, rows: np.ndarray, groups: np.ndarray) -> None:
        """Sample active flows. groups: int64[n, 2], what identifies each one's network partition."""
        for history in self._histories:
            if self._n_look % history.stride == 0:
                history.add(rows, groups)
        self._n_look += 1

    def thawed(self, flow: np.ndarray, skipped_ps: int) -> None:
        """Flows go on after a skip."""
        self._skipped_ps[flow] += skipped_ps
        for history in self._histories:
            history.forget(flow)

    def frozen(self, flow: np.ndarray, rate: np.ndarray, now_ps: int) -> None:
        """Remember the rates, in bytes per ps, of flows that are frozen now."""
        self._known_rate[flow] = rate
        with np.errstate(divide="ignore", invalid="ignore"):
            is_new = ~(np.abs(rate / self._first_rate[flow] - 1) <= NEAR)
        self._first_rate[flow[is_new]] = rate[is_new]
        self._first_age_ps[flow[is_new]] = now_ps - self._skipped_ps[flow[is_new]]

    def judge(self, now_ps: int, rows: np.ndarray) -> Verdict:
        """How long each flow of a sample may be skipped from now on; negative: not at all."""
        verdict = Verdict(len(rows))
        for i, history in enumerate(self._histories):
            if (self._n_look - 1) % history.stride:
                continue
            for n_window in (2, 4, N_WINDOW) if i < N_FINE else (N_WINDOW,):
                quiet = history.quiet(rows[:, h.FLOW], n_window)
                judge = self._judge_fine if i < N_FINE else self._judge_coarse
                is_steady, drift_per_ps = judge(now_ps, rows, quiet, n_window)
                verdict.take(quiet.is_whole & is_steady, self._may_ps(rows, quiet, drift_per_ps), quiet)
        return verdict

    def _judge_fine(self, now_ps: int, rows: np.ndarray, quiet: Quiet, n_window: int) -> tuple[np.ndarray, np.ndarray]:
        """(whether the windows agree, how fast rates drift) where the control has to have settled."""
        flow, rate = rows[:, h.FLOW], quiet.done_bytes / np.maximum(quiet.span_ps, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            agrees = (quiet.spread < EXACT) & (quiet.mismatch < EXACT)
            agrees |= np.abs(rate / self._known_rate[flow] - 1) < NEAR
        if n_window == N_WINDOW:
            agrees |= True
        drift_per_ps = np.minimum(2 * quiet.drift / np.maximum(quiet.span_ps, 1), self._old_drift(flow, rate, now_ps))
        return agrees & quiet.is_settled & (quiet.spread <= self.settings.spread), drift_per_ps

    def _judge_coarse(
        self, now_ps: int, rows: np.ndarray, quiet: Quiet, n_window: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same where whole windows are compared."""
        return quiet.spread <= self.settings.coarse_spread, quiet.trend / np.maximum(quiet.span_ps, 1)

    def _old_drift(self, flow: np.ndarray, rate: np.ndarray, now_ps: int) -> np.ndarray:
        """Relative change per ps of flows since they were first found near their rates."""
        age_ps = now_ps - self._skipped_ps[flow] - self._first_age_ps[flow]
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.abs(rate / self._first_rate[flow] - 1)
            return np.where(change <= NEAR, np.maximum(change, LEAST_CHANGE) / np.maximum(age_ps, 1), np.inf)

    def _may_ps(self, rows: np.ndarray, quiet: Quiet, drift_per_ps: np.ndarray) -> np.ndarray:
        """The least of: to the message's end, until drift adds up, until a queue has changed."""
        s = self.settings
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = quiet.done_bytes / quiet.span_ps
            left_ps = until_end_ps(rows, rate, s)
            drift_ps = 2 * s.drift / np.maximum(drift_per_ps, 1e-30)
            queue_ps = s.queue_packets * s.packet_bytes / (np.maximum(quiet.mismatch, 1e-12) * rate)
            return np.nan_to_num(np.minimum(left_ps, np.minimum(drift_ps, queue_ps)), nan=-1.0)
