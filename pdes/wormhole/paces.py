"""At which pace messages that are alone go on: what the rest of one is expected to take.

Wormhole's steady skipping (section 5) of a single flow. A window that looks flat is not enough: a control that regains
its rate by a packet per round trip changes by little in any of them, and by half in a long message. So two stretches
are compared, the second twice as long as the first, and the pace is known if the message would be off by less than the
tolerance had the change between them gone on to its end. Else the second becomes the first.
"""

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.wormhole import history as h

FIRST_ROUND_TRIPS = 8  # of the first stretch
GROWTH = 2
_BYTES, _PS = range(2)


class Paces:
    """Of all flows; alike on every rank."""

    def __init__(self, n_flow: int, tolerance: float, rtt_ps: int) -> None:
        self._tolerance, self._rtt_ps = tolerance, rtt_ps
        self._message = np.full(n_flow, -1, np.int64)  # that is watched
        self._is_loaded = np.zeros(n_flow, np.bool_)
        self._since_ps = np.zeros(n_flow, np.int64)
        self._first, self._middle = np.zeros((n_flow, 2), np.int64), np.zeros((n_flow, 2), np.int64)
        self._has_middle = np.zeros(n_flow, np.bool_)
        self._pace = np.zeros((n_flow, 2), np.int64)
        self.next_look_ps = NEVER  # when the next one may be known

    def look(
        self, now_ps: int, rows: np.ndarray, may: np.ndarray, since_ps: np.ndarray, is_loaded: np.ndarray
    ) -> np.ndarray:
        """bool[n_row]: whose pace is known. may: bool[n_row], messages that are asked for.

        since_ps: int64[n_row], from when on nobody has disturbed them. is_loaded: bool[n_row], whether they meet
        acknowledgements; it begins anew where that changes.
        """
        flows = rows[:, h.FLOW]
        self._message[flows[~may]] = -1
        rows, since_ps, is_loaded, flows = rows[may], since_ps[may], is_loaded[may], flows[may]
        now = rows[:, (h.DONE, h.DONE_PS)]
        is_new = (self._message[flows] != rows[:, h.ID]) | (self._since_ps[flows] < since_ps)
        is_new |= self._is_loaded[flows] != is_loaded
        begins = flows[is_new]
        self._message[begins], self._is_loaded[begins], self._since_ps[begins] = (
            rows[is_new, h.ID],
            is_loaded[is_new],
            now_ps,
        )
        self._first[begins], self._has_middle[begins] = now[is_new], False
        first, middle, has_middle = self._first[flows], self._middle[flows], self._has_middle[flows]
        goes_on = now[:, _PS] - first[:, _PS] >= FIRST_ROUND_TRIPS * self._rtt_ps
        is_half = goes_on & ~has_middle
        span_ps = middle[:, _PS] - first[:, _PS]
        is_over = has_middle & (now[:, _PS] - middle[:, _PS] >= GROWTH * span_ps)
        is_even = is_over & self._is_even(first, middle, now, rows[:, h.MESSAGE_END])
        self._pace[flows[is_even]] = (now - middle)[is_even]
        again = is_over & ~is_even
        self._first[flows[again]] = middle[again]
        self._middle[flows[again | is_half]] = now[again | is_half]
        self._has_middle[flows[is_half]] = True
        self.next_look_ps = self._next_ps(now_ps, flows[~is_even])
        found = np.zeros(len(may), np.bool_)
        found[np.flatnonzero(may)[is_even]] = True
        return found

    def _is_even(self, first: np.ndarray, middle: np.ndarray, now: np.ndarray, end: np.ndarray) -> np.ndarray:
        """bool[n]: whether the change from one stretch to the next may go on to the end of each message."""
        before, last = (middle - first).astype(np.float64), (now - middle).astype(np.float64)
        pace, pace_before = (stretch[:, _PS] / np.maximum(stretch[:, _BYTES], 1) for stretch in (last, before))
        change = np.abs(pace / np.maximum(pace_before, 1e-9) - 1)  # from the middle of one to the middle of the other
        left_ps = (end - now[:, _BYTES]) * pace
        grows = (left_ps + last[:, _PS]) / np.maximum(before[:, _PS] + last[:, _PS], 1)
        return (before > 0).all(axis=1) & (last > 0).all(axis=1) & (change * grows <= self._tolerance)

    def _next_ps(self, now_ps: int, flows: np.ndarray) -> int:
        """When the next of these flows can be judged."""
        first_ps, middle_ps = self._first[flows, _PS], self._middle[flows, _PS]
        half_ps = first_ps + FIRST_ROUND_TRIPS * self._rtt_ps
        due_ps = np.where(self._has_middle[flows], middle_ps + GROWTH * (middle_ps - first_ps), half_ps)
        return max(int(due_ps.min(initial=NEVER)), now_ps)

    def pace(self, flow: int) -> tuple[int, int]:
        """(bytes, ps) of a flow whose pace is known."""
        size, span_ps = self._pace[flow].tolist()
        return size, span_ps
