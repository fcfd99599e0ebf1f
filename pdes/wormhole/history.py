"""What flows have got done at the last decision instants, and whether that is steady.

Progress is measured from acknowledgement to acknowledgement, in ps: short windows are then exact to far less than a
packet, which counting packets in fixed windows is not.
"""

from typing import NamedTuple

import numpy as np

# What a model says of each active flow; one row, int64. Behind it: averages that its control keeps, float64, then
# bytes of its stream that its control keeps.
(
    FLOW,
    DONE,  # bytes acknowledged
    DONE_PS,  # and when that was
    SENT,  # first byte not sent
    SENT_PS,  # when the one before it was
    RATE,
    WINDOW,
    MESSAGE_END,
    IS_PLAIN,  # 1: may be skipped as far as its own state is concerned
    HAS_TIMER,  # 1: its control will act at some instant, whatever happens
    MARKED,
) = range(11)
N_COLUMN = 11
N_KEPT = 9
N_WINDOW = N_KEPT - 1
SETTLED = 0.001  # an average, a rate or a window that moves by less, relative to itself, has settled
N_ROUND_TRIP = 2  # that windows have to cover: what circulates repeats itself after one


class Quiet(NamedTuple):
    """What is known of flows over their last windows. Arrays of one length."""

    is_whole: np.ndarray  # bool: there are as many windows, and they cover round trips
    spread: np.ndarray  # of the windows' rates, (max - min) / mean
    drift: np.ndarray  # change of the rate from the first to the second half, relative
    trend: np.ndarray  # the same by a straight line through the windows, 0 if it is no more than chance
    mismatch: np.ndarray  # of the rate of sending against that of acknowledgements, relative
    is_settled: np.ndarray  # bool: rate, window and averages of its control stay, and no timer is on
    span_ps: np.ndarray  # from the first acknowledgement to the last
    done_bytes: np.ndarray  # in that time
    last_ps: np.ndarray  # length of the last window
    marked: np.ndarray  # packets marked in all windows together
    cycle_bytes: np.ndarray  # by which all that its control keeps of the stream has moved on, 0: nothing moves


def goes_on(
    rows: np.ndarray, groups: np.ndarray, count: np.ndarray, last_end: np.ndarray, last_groups: np.ndarray
) -> np.ndarray:
    """Whether flows carry on what their last samples were of: the same message, in the same network partition.

    rows: of the sample now. count: of the samples so far; last_end, last_groups: MESSAGE_END and group of the last.
    """
    same = (count > 0) & (last_end == rows[:, MESSAGE_END]) & (rows[:, IS_PLAIN] != 0)
    return same & (last_groups == groups).all(axis=1)


class History:
    """The last samples of every flow; a flow starts anew when its message, or its network partition, changes.

    stride: of the looks that it takes part in.
    """

    def __init__(self, n_flow: int, n_kept: tuple[int, int], stride: int) -> None:
        self._kept = np.zeros((n_flow, N_KEPT, N_COLUMN + sum(n_kept)), np.int64)
        self._n_average = n_kept[0]
        self._count = np.zeros(n_flow, np.int64)
        self._group = np.full((n_flow, 2), -1, np.int64)
        self.stride = stride

    def add(self, rows: np.ndarray, groups: np.ndarray) -> None:
        """Append a sample of each flow. groups: int64[n, 2], what identifies its network partition."""
        flow, each = rows[:, FLOW], np.arange(len(rows))
        kept, count = self._kept[flow], self._count[flow]
        last_end = kept[each, np.maximum(count - 1, 0), MESSAGE_END]
        count = np.where(goes_on(rows, groups, count, last_end, self._group[flow]), count, 0)
        full = count == N_KEPT
        kept[full, :-1] = kept[full, 1:]
        count = np.where(full, N_KEPT - 1, count)
        kept[each, count] = rows
        self._kept[flow] = kept
        self._count[flow] = np.where(rows[:, IS_PLAIN] != 0, count + 1, 0)
        self._group[flow] = groups

    def forget(self, flow: np.ndarray) -> None:
        """Let flows start anew."""
        self._count[flow] = 0

    def quiet(self, flow: np.ndarray, n_window: int) -> Quiet:
        """Judge the last n_window windows, an even number up to N_WINDOW, of flows. flow: int64[n]."""
        rows = np.maximum(self._count[flow][:, None] - 1 - np.arange(n_window, -1, -1), 0)
        kept = self._kept[flow[:, None], rows]
        done, done_ps = kept[:, :, DONE].astype(np.float64), kept[:, :, DONE_PS].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.diff(done, axis=1) / np.diff(done_ps, axis=1)
            mean, half = _slope(done, done_ps, 0, n_window), n_window // 2
            drift = np.abs(_slope(done, done_ps, half, n_window) - _slope(done, done_ps, 0, half)) / mean
            sending = _slope(kept[:, :, SENT].astype(np.float64), kept[:, :, SENT_PS].astype(np.float64), 0, n_window)
            spread = (each.max(axis=1) - each.min(axis=1)) / mean
            round_trip_ps = (kept[:, -1, SENT] - kept[:, -1, DONE]) / mean
            span_ps = kept[:, -1, DONE_PS] - kept[:, 0, DONE_PS]
            is_whole = (self._count[flow] > n_window) & np.isfinite(spread)
            return Quiet(
                is_whole=is_whole & (span_ps > N_ROUND_TRIP * round_trip_ps),
                spread=spread,
                drift=drift,
                trend=_trend(each, mean),
                mismatch=np.abs(sending - mean) / mean,
                is_settled=_is_settled(kept, self._n_average),
                span_ps=span_ps,
                done_bytes=kept[:, -1, DONE] - kept[:, 0, DONE],
                last_ps=kept[:, -1, DONE_PS] - kept[:, -2, DONE_PS],
                marked=kept[:, -1, MARKED] - kept[:, 0, MARKED],
                cycle_bytes=_cycle_bytes(kept[:, :, N_COLUMN + self._n_average :]),
            )


def _slope(value: np.ndarray, at_ps: np.ndarray, first: int, last: int) -> np.ndarray:
    return (value[:, last] - value[:, first]) / (at_ps[:, last] - at_ps[:, first])


def _cycle_bytes(places: np.ndarray) -> np.ndarray:
    """By how much places in the stream have moved in the last window, else in all: their least common multiple."""
    last, whole = places[:, -1] - places[:, -2], places[:, -1] - places[:, 0]
    moved = np.where(last > 0, last, whole)
    return np.where((moved > 0).any(axis=1), np.lcm.reduce(np.maximum(moved, 1), axis=1, initial=1), 0)


def _is_settled(kept: np.ndarray, n_average: int) -> np.ndarray:
    settled = (kept[:, :, HAS_TIMER] == 0).all(axis=1)
    for column in (RATE, WINDOW):
        value = kept[:, :, column].astype(np.float64)
        settled &= value.max(axis=1) - value.min(axis=1) <= SETTLED * value.max(axis=1)
    averages = np.ascontiguousarray(kept[:, :, N_COLUMN : N_COLUMN + n_average]).view(np.float64)
    change, size = averages.max(axis=1) - averages.min(axis=1), np.abs(averages).max(axis=1)
    return settled & (change <= SETTLED * np.maximum(size, 1.0)).all(axis=1)


def _trend(each: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Change of the windows' rates along a least-squares line, relative; 0 below three standard errors of its slope."""
    n = each.shape[1]
    if n < 4:
        return np.zeros(len(each))
    at = np.arange(n) - (n - 1) / 2
    slope = (each * at).sum(axis=1) / (at * at).sum()
    rest = each - each.mean(axis=1, keepdims=True) - slope[:, None] * at
    error = np.sqrt((rest * rest).sum(axis=1) / (n - 2) / (at * at).sum())
    return np.where(np.abs(slope) > 3 * error, np.abs(slope) * n / mean, 0.0)
