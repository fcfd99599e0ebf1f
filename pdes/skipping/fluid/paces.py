"""At which pace messages that are alone go on: what the rest of one is expected to take.

Wormhole's steady skipping (section 5) of a single flow. A window that looks flat is not enough: a control that regains
its rate by a packet per round trip changes by little in any of them, and by half in a long message. So a pace is known
if it may be relied on until the message ends (`trusted_paces`), by windows of which each is twice as long as the one
before.
"""

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.trusted_paces import N_COLUMN, N_KEPT, judge_paces, keep_samples, last_window

FIRST_ROUND_TRIPS = 8  # of the first window


class Paces:
    """Of all flows; alike on every rank."""

    def __init__(self, n_flow: int, tolerance: float, rtt_ps: int) -> None:
        self._tolerance, self._rtt_ps = tolerance, rtt_ps
        self._message = np.full(n_flow, -1, np.int64)  # that is watched
        self._is_loaded = np.zeros(n_flow, np.bool_)
        self._since_ps = np.zeros(n_flow, np.int64)
        self._kept = np.zeros((n_flow, N_KEPT, N_COLUMN), np.int64)  # samples where windows begin and end
        self._n_kept = np.zeros(n_flow, np.int64)
        self._window_ps = np.zeros(n_flow, np.int64)  # how long the window that goes on is
        self._pace = np.zeros((n_flow, 2), np.int64)
        self.next_look_ps = NEVER  # when the next one may be known

    def compile(self) -> None:
        """Compile what judges, or load it from the cache."""
        none, rows = np.zeros(0, np.int64), np.zeros((0, h.N_COLUMN), np.int64)
        keep_samples(self._kept, self._n_kept, rows, none)
        judge_paces(self._kept, self._n_kept, none, self._tolerance, np.zeros(0))

    def look(
        self, now_ps: int, rows: np.ndarray, may: np.ndarray, since_ps: np.ndarray, is_loaded: np.ndarray
    ) -> np.ndarray:
        """bool[n_row]: whose pace is known. may: bool[n_row], messages that are asked for.

        since_ps: int64[n_row], from when on nobody has disturbed them. is_loaded: bool[n_row], whether they meet
        acknowledgements; it begins anew where that changes.
        """
        found = np.zeros(len(may), np.bool_)
        self._message[rows[~may, h.FLOW]] = -1
        at = np.flatnonzero(may)
        rows, since_ps, is_loaded = np.ascontiguousarray(rows[at, : h.N_COLUMN]), since_ps[at], is_loaded[at]
        flows = rows[:, h.FLOW].copy()
        is_new = (self._message[flows] != rows[:, h.ID]) | (self._since_ps[flows] < since_ps)
        is_new |= self._is_loaded[flows] != is_loaded
        begins = flows[is_new]
        self._message[begins], self._is_loaded[begins] = rows[is_new, h.ID], is_loaded[is_new]
        self._since_ps[begins], self._n_kept[begins] = now_ps, 0
        self._window_ps[begins] = FIRST_ROUND_TRIPS * self._rtt_ps
        is_over = ~is_new & (rows[:, h.DONE_PS] >= self._due_ps(flows))
        keep_samples(self._kept, self._n_kept, rows, np.flatnonzero(is_new | is_over))
        over = np.flatnonzero(is_over)
        last, before = (self._kept[flows[over], self._n_kept[flows[over]] - k, h.DONE_PS] for k in (1, 2))
        self._window_ps[flows[over]] = 2 * (last - before)
        trusted_ps = np.zeros(len(over))
        judge_paces(self._kept, self._n_kept, flows[over], self._tolerance, trusted_ps)
        is_even = np.zeros(len(flows), np.bool_)
        for i, may_ps in zip(over.tolist(), trusted_ps.tolist(), strict=True):
            if may_ps >= 0:
                size, span_ps = last_window(self._kept, self._n_kept, int(flows[i]))
                self._pace[flows[i]] = size, span_ps
                is_even[i] = (int(rows[i, h.MESSAGE_END]) - int(rows[i, h.DONE])) * (span_ps / size) <= may_ps
        self.next_look_ps = max(int(self._due_ps(flows[~is_even]).min(initial=NEVER)), now_ps)
        found[at[is_even]] = True
        return found

    def _due_ps(self, flows: np.ndarray) -> np.ndarray:
        """int64[n]: when the windows of these flows end."""
        return self._kept[flows, self._n_kept[flows] - 1, h.DONE_PS] + self._window_ps[flows]

    def pace(self, flow: int) -> tuple[int, int]:
        """(bytes, ps) of a flow whose pace is known."""
        size, span_ps = self._pace[flow].tolist()
        return size, span_ps
