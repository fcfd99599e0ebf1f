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

from pdes.skipping import history as h
from pdes.skipping.windows import N_WINDOW, Limits, add_samples, forget, judge_flows, make_memory, remember_rates

STRIDES = (1, 8, 64, 512)  # of the scales, in units of look_ps


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
    looks_ahead: int = N_WINDOW  # that a message must last beyond that, else it is not looked at


class Progress(NamedTuple):
    """What flows got done while they were looked at. int64 arrays of one length."""

    done_bytes: np.ndarray
    span_ps: np.ndarray  # in which time
    last_ps: np.ndarray  # the last window's
    cycle_bytes: np.ndarray  # by which all that its control keeps of the stream has moved on, 0: nothing moves
    marked: np.ndarray  # packets


class Verdict:
    """For each flow: how long it may be skipped, negative: not at all; and its measured progress, if it may.

    Arrays of one length, written in place.
    """

    def __init__(self, n: int) -> None:
        self.may_ps = np.full(n, -1.0)
        self.progress = np.zeros((len(Progress._fields), n), np.int64)
        self.done_bytes, self.span_ps, self.last_ps, self.cycle_bytes, self.marked = self.progress

    def put(self, rows: np.ndarray, may_ps: np.ndarray, progress: Progress) -> None:
        """Set what is known of some flows. rows: int64[n], with may_ps and progress for each."""
        self.may_ps[rows] = may_ps
        self.progress[:, rows] = progress


def until_end_ps(rows: np.ndarray, rate: np.ndarray, settings: Settings) -> np.ndarray:
    """For how long flows of a sample can send at these rates, bytes per ps, until just before their messages' ends."""
    guard_bytes = settings.guard_packets * settings.packet_bytes
    return (rows[:, h.MESSAGE_END] - rows[:, h.SENT] - guard_bytes) / rate


class Steadiness:
    """The default criterion: histories of all flows on several scales, and what was found steady before."""

    judges_all = False

    def __init__(self, n_kept: tuple[int, int], settings: Settings, look_ps: np.ndarray) -> None:
        """n_kept: how many averages, and how many places in its stream, a sample has of a flow's control.

        look_ps: int64[n_flow], least time between two samples of a flow.
        """
        self.settings = s = settings
        self.memory, self.verdict = make_memory(n_kept, STRIDES, look_ps), Verdict(len(look_ps))
        queue_bytes, guard_bytes = float(s.queue_packets * s.packet_bytes), s.guard_packets * s.packet_bytes
        self.limits = Limits(s.spread, s.coarse_spread, s.drift, queue_bytes, guard_bytes)

    def compile(self) -> None:
        """Compile what samples and judges, or load it from the cache."""
        rows = np.zeros((0, self.memory.kept.shape[3]), np.int64)
        none = np.zeros(0, np.int64)
        forget(self.memory, none)
        remember_rates(self.memory, none, np.zeros(0), 0)
        add_samples(self.memory, rows, np.zeros((0, 2), np.int64), -1)
        judge_flows(self.memory, self.limits, rows, 0, np.zeros(0), np.zeros((5, 0), np.int64))

    def add(self, now_ps: int, rows: np.ndarray, groups: np.ndarray) -> None:
        """Sample active flows. groups: int64[n, 2], what identifies each one's network partition."""
        add_samples(self.memory, rows, groups, now_ps)

    def thawed(self, flow: np.ndarray, skipped_ps: int | np.ndarray) -> None:
        """Flows go on after a skip."""
        self.memory.skipped_ps[flow] += skipped_ps
        forget(self.memory, flow)

    def frozen(self, flow: np.ndarray, rate: np.ndarray, now_ps: int) -> None:
        """Remember the rates, in bytes per ps, of flows that are frozen now."""
        remember_rates(self.memory, flow, rate, now_ps)

    def judge(self, now_ps: int, rows: np.ndarray) -> Verdict:
        """How long each flow of a sample may be skipped from now on; negative: not at all.

        It is said in the same memory every time; what stands behind the sample's last row means nothing.
        """
        judge_flows(self.memory, self.limits, rows, now_ps, self.verdict.may_ps, self.verdict.progress)
        return self.verdict
