"""The last samples of the flows that are active: what the papers' criteria look at.

All of a flow's samples are of consecutive looks, of one message and of one network partition, as in `history`.
"""

import numpy as np

from pdes.skipping import history as h
from pdes.skipping.steady import Progress

DONE, DONE_PS, MARKED = range(3)  # what is kept of every flow; a criterion's own values come behind
N_TOTAL = 3
_COLUMNS = [h.DONE, h.DONE_PS, h.MARKED]


class Samples:
    """The last looks at every flow of the last sample, enough of them for n_sample intervals.

    n_value: of a criterion's own values at each look.
    """

    def __init__(self, n_sample: int, n_value: int) -> None:
        self.n_sample, self._n_look = n_sample, n_sample + 1
        # Twice as many places as looks: the last ones then lie side by side, and seldom have to be moved.
        self._kept = np.zeros((N_TOTAL + n_value, 0, 2 * self._n_look), np.int64)
        self._end = 0  # of the places in use, the same for all flows
        self._flow, self._count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._message_end, self._group = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)

    def add(self, rows: np.ndarray, groups: np.ndarray, values: np.ndarray) -> None:
        """Append a look. rows: as `history` has them, ascending; values: int64[n_value, n]."""
        self._follow(rows[:, h.FLOW])
        goes_on = h.goes_on(rows, groups, self._count, self._message_end, self._group)
        if self._end == self._kept.shape[2]:
            self._kept[:, :, : self.n_sample] = self._kept[:, :, -self.n_sample :]
            self._end = self.n_sample
        self._kept[:N_TOTAL, :, self._end] = rows[:, _COLUMNS].T
        self._kept[N_TOTAL:, :, self._end] = values
        self._end += 1
        self._count = np.where(goes_on, self._count + 1, rows[:, h.IS_PLAIN] != 0)
        self._message_end, self._group = rows[:, h.MESSAGE_END].copy(), groups.copy()

    def _follow(self, flow: np.ndarray) -> None:
        """Make room for the flows of a look; a flow that was not in the look before starts anew."""
        if np.array_equal(flow, self._flow):
            return
        at = np.searchsorted(self._flow, flow)
        stays = np.append(self._flow, -1)[at] == flow
        came_from, n = at[stays], len(flow)
        before = (self._kept, self._count, self._message_end, self._group)
        self._kept = np.zeros((len(self._kept), n, 2 * self._n_look), np.int64)
        self._count, self._message_end, self._group = (np.zeros((n, *old.shape[1:]), np.int64) for old in before[1:])
        self._kept[:, stays] = before[0][:, came_from]
        self._count[stays], self._message_end[stays], self._group[stays] = (old[came_from] for old in before[1:])
        self._flow = flow.copy()

    def forget(self, flow: np.ndarray) -> None:
        """Let flows start anew."""
        self._count[np.isin(self._flow, flow)] = 0

    def full(self) -> np.ndarray:
        """Rows of the last look whose flows have n_sample intervals behind them."""
        return np.flatnonzero(self._count >= self._n_look)

    def values(self, rows: np.ndarray) -> np.ndarray:
        """A criterion's own values at the ends of the intervals, of some of `full`; int64[n_value, n, n_sample]."""
        return self._kept[N_TOTAL:, rows, self._end - self.n_sample : self._end]

    def rates(self, rows: np.ndarray) -> np.ndarray:
        """Bytes per ps in the intervals, of some of `full`; 0 where nothing was acknowledged. float64[n, n_sample].

        From acknowledgement to acknowledgement: exact to far less than a packet, unlike packets counted in an interval.
        """
        done, done_ps = self._kept[:N_TOTAL, rows, self._end - self._n_look : self._end][:2]
        each_ps = np.diff(done_ps, axis=1)
        return np.diff(done, axis=1) / np.maximum(each_ps, 1)

    def progress(self, rows: np.ndarray) -> Progress:
        """What some of `full` got done in all their intervals together."""
        kept = self._kept[:N_TOTAL, rows, self._end - self._n_look : self._end]
        done_bytes, span_ps, marked = kept[:, :, -1] - kept[:, :, 0]
        last_ps = kept[DONE_PS, :, -1] - kept[DONE_PS, :, -2]
        last_ps = np.where(last_ps > 0, last_ps, np.maximum(span_ps // self.n_sample, 1))
        return Progress(done_bytes, span_ps, last_ps, np.zeros_like(span_ps), marked)


def swing(values: np.ndarray) -> np.ndarray:
    """max - min along the last axis."""
    return values.max(axis=-1) - values.min(axis=-1)
