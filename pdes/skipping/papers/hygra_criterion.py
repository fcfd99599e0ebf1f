"""HyGra's criterion: all flows' rates and all ports' queues must be still, several rounds running (section IV-A).

`criterion = "hygra"`. Its thresholds are absolute, and the paper gives no values for them: those taken here if none are
given follow from theta of Wormhole, see `criterion`.
"""

import numpy as np

from pdes.skipping.papers.samples import Samples, swing
from pdes.skipping.steady import Settings, Verdict, until_end_ps
from pdes.units import BITS_PER_BYTE, PS_PER_S


class HygraCriterion:
    """HyGra algorithm 1: the network is steady after N_stable rounds in which nothing swung beyond its threshold.

    In a round every flow's rate must have swung by less than epsilon_bw over its window of samples, (max - min) in
    bit/s (equation 1); if so, every switch port's queue by less than epsilon_q, in bytes. One flow or port that swings
    more sets the count of rounds back to 0 for all: the decision is about the whole network. All flows are then skipped
    until the first of them would be done (equations 4 and 5).

    Deviations:
    - Rates go on as they were measured, mean over the window. The paper gives capacity left over to flows by max-min
      fairness (equations 2 and 3); here what is skipped is what the congestion control made of it.
    - A skip ends just before the first message's end. No time of queues is added to an end that is extrapolated
      (equation 8), and packets lie where they lay, see `models.network.skip.suspend`. `restoration = "learned"` has the
      queues that a Transformer predicts (section V-C), see `models.network.restore.restoration` and `queue_model`.
    - The paper does not say how long its window is, nor what happens when a flow comes or goes: samples start anew when
      a flow's message or its network partition changes, and after a skip, and a window must be full. A flow that got
      less than a packet done in it is not still: there is no rate to skip it by.
    - What is new and meets skipped flows ends the skip of their network partition only. While some are skipped, the
      network is what is simulated: its flows need their own rounds, and may be skipped before the others go on.
    - Ports that no flow's data takes have no queues, and are not looked at.
    """

    judges_all = True

    def __init__(
        self, settings: Settings, n_sample: int, threshold_bps: float, threshold_bytes: int, n_round: int, n_hop: int
    ) -> None:
        """Criterion with epsilon_bw, epsilon_q and N_stable. n_hop: columns of queues at the end of a sample's rows."""
        self.settings, self._n_hop = settings, n_hop
        self._threshold_bps, self._threshold_bytes, self._n_needed = threshold_bps, threshold_bytes, n_round
        self._samples = Samples(n_sample, n_hop - 1)
        self._n_round = 0  # c_stable

    def compile(self) -> None:
        """There is nothing to compile."""

    def add(self, now_ps: int, rows: np.ndarray, groups: np.ndarray) -> None:
        """Sample active flows, as `steady.Steadiness.add`. The first hop is the host's own port, not a switch's."""
        self._samples.add(rows, groups, rows[:, rows.shape[1] - self._n_hop + 1 :].T)

    def thawed(self, flow: np.ndarray, skipped_ps: int | np.ndarray) -> None:
        """Flows go on after a skip."""
        self._samples.forget(flow)
        self._n_round = 0

    def frozen(self, flow: np.ndarray, rate: np.ndarray, now_ps: int) -> None:
        """Flows are frozen now: nothing that this criterion needs to know."""

    def judge(self, now_ps: int, rows: np.ndarray) -> Verdict:
        """How long all flows of a sample may be skipped from now on; negative: not at all. Counts a round."""
        verdict, full = Verdict(len(rows)), self._samples.full()
        is_still = len(full) == len(rows) and self._is_still(full)
        self._n_round = self._n_round + 1 if is_still else 0
        if self._n_round >= self._n_needed:
            progress = self._samples.progress(full)
            may_ps = until_end_ps(rows, progress.done_bytes / progress.span_ps, self.settings)
            verdict.put(full, np.full(len(rows), may_ps.min()), progress)
        return verdict

    def _is_still(self, full: np.ndarray) -> bool:
        rates_bps = self._samples.rates(full) * (BITS_PER_BYTE * PS_PER_S)
        if (swing(rates_bps) >= self._threshold_bps).any():
            return False
        if (self._samples.progress(full).done_bytes < self.settings.packet_bytes).any():
            return False
        return not (swing(self._samples.values(full)) >= self._threshold_bytes).any()
