"""Wormhole's own criterion: a flow is steady if one metric hardly moved over its last l samples (section 5.1).

`criterion = "paper"`. It tells flat from not flat, and flat is not converged: while shares drift by less than theta per
l samples it says steady, and theorem 2's bound on the rate's error holds only as long as the rate then stays within the
band that the samples had (as the proof presupposes, appendix D). The default, `steady`, looks at more.
"""

import math

import numpy as np

from pdes.skipping import history as h
from pdes.skipping.papers.samples import Samples, swing
from pdes.skipping.steady import Settings, Verdict, until_end_ps

LEAST_SAMPLES = 16
N_CYCLE = 2  # "an appropriate multiple of T_C", appendix F


def least_span_ps(rate_bps: int, rtt_ps: int, packet_bytes: int) -> int:
    """Equation 24: what l samples have to span so that they cover a period of DCTCP's window, with one flow.

    T_C > sqrt(4 C RTT / (7 N)) counts round trips, with C RTT in packets (Alizadeh et al. 2010, section 3.3). It is
    largest with N = 1, which is taken here. rate_bps, rtt_ps, packet_bytes > 0.
    """
    bdp_packets = rate_bps * rtt_ps / (8 * 10**12 * packet_bytes)
    return math.ceil(math.sqrt(4 * bdp_packets / 7) * rtt_ps)


def enough_samples(span_ps: int, interval_ps: int) -> int:
    """The l that is taken if none is given, for equation 24's span: N_CYCLE times that, at least LEAST_SAMPLES."""
    return max(LEAST_SAMPLES, -(-N_CYCLE * span_ps // interval_ps))


def rate_error_bound(theta: float) -> float:
    """Theorem 2: relative error of the mean rate, as long as the rate stays within the band of the samples."""
    return theta / (1 - theta)


class PaperCriterion:
    """Wormhole section 5.1.2: a flow is steady if (max - min) / mean < theta over its last l samples (equation 6).

    metric "R": the rate. "I", bytes in flight, and "Q", the longest queue on the way of its data, instead (section
    7.3): max - min is then below what theorem 1 derives from a rate that moves by theta, with N flows of rate R that
    share a link of rate C = N R: epsilon_Q = theta C RTT (equation 16), epsilon_I = epsilon_Q + theta R RTT (18). A
    skip takes the mean rate over the interval (equation 7), whatever the metric, and lasts to just before the first
    message's end (section 5.3). Network partitions are skipped as a whole (section 3.1.2).

    Deviations:
    - R is goodput: acknowledged bytes over the time between the acknowledgements. The paper takes the sending rate,
      which a window can keep at the line rate while less gets through.
    - The paper does not say how often it samples: here it is every sample interval, at the next decision instant. Nor
      what I and Q are compared with: theta relative to their own mean, as in equation 6, would take no queue for
      steady that is short, and with HPCC all are. For C and RTT stand the slowest host link and the base round trip.
    - Samples start anew when the flow's message or its network partition changes, and after a skip.
    - A flow that got less than a packet done in l samples is not steady: there is no rate to skip it by.
    - Equation 7's mean is weighted by time: bytes over the time in which they were acknowledged.
    """

    judges_all = False

    def __init__(
        self, settings: Settings, theta: float, n_sample: int, metric: str, bdp_bytes: int, rtt_ps: int, n_hop: int
    ) -> None:
        """Criterion with l = n_sample. bdp_bytes: C RTT. n_hop: columns of queues at the end of a sample's rows."""
        self.settings, self._theta, self._metric, self._n_hop = settings, theta, metric, n_hop
        self._bdp_bytes, self._rtt_ps = bdp_bytes, rtt_ps
        self._samples = Samples(n_sample, 0 if metric == "R" else 1)

    def compile(self) -> None:
        """There is nothing to compile."""

    def add(self, now_ps: int, rows: np.ndarray, groups: np.ndarray) -> None:
        """Sample active flows, as `steady.Steadiness.add`."""
        if self._metric == "R":
            values = np.zeros((0, len(rows)), np.int64)
        elif self._metric == "I":
            values = (rows[:, h.SENT] - rows[:, h.DONE])[None]
        else:
            values = rows[:, -self._n_hop :].max(axis=1)[None]
        self._samples.add(rows, groups, values)

    def thawed(self, flow: np.ndarray, skipped_ps: int | np.ndarray) -> None:
        """Flows go on after a skip."""
        self._samples.forget(flow)

    def frozen(self, flow: np.ndarray, rate: np.ndarray, now_ps: int) -> None:
        """Flows are frozen now: nothing that this criterion needs to know."""

    def judge(self, now_ps: int, rows: np.ndarray) -> Verdict:
        """How long each flow of a sample may be skipped from now on; negative: not at all."""
        verdict, full = Verdict(len(rows)), self._samples.full()
        if len(full) == 0:
            return verdict
        progress = self._samples.progress(full)
        rate = progress.done_bytes / np.maximum(progress.span_ps, 1)
        is_steady = self._swings_little(full, rate) & (progress.done_bytes >= self.settings.packet_bytes)
        may_ps = until_end_ps(rows[full], np.where(is_steady, rate, 1.0), self.settings)
        verdict.put(full, np.where(is_steady, may_ps, -1.0), progress)
        return verdict

    def _swings_little(self, full: np.ndarray, rate: np.ndarray) -> np.ndarray:
        if self._metric == "R":
            rates = self._samples.rates(full)
            return swing(rates) < self._theta * rates.mean(axis=1)
        allowed_bytes = self._theta * (self._bdp_bytes + (rate * self._rtt_ps if self._metric == "I" else 0.0))
        return swing(self._samples.values(full)[0]) < allowed_bytes
