"""Rows of a sampled time series and how they are thinned out, so that they stay few however long a run lasts.

A run samples at the first decision instant that reaches a multiple of the interval, then at the first that reaches the
next multiple beyond. When the interval doubles, what stays is what a run with the doubled interval would have written.
"""

import numpy as np

BYTES_PER_VALUE = 8


def instants_kept(times_ps: np.ndarray, interval_ps: int) -> np.ndarray:
    """Which of the instants of a smaller interval, ascending, that divides this one, a run with this one has: int64."""
    multiple = times_ps // interval_ps
    return np.flatnonzero(np.diff(multiple, prepend=0) > 0)


class PortRows:
    """Rows (instant, port, queue_bytes, paused, tx_bytes).

    A port has one at an instant if bytes wait or a queue is paused, or if anything differs from its row before (zeros,
    if it has none). So a port without one is idle and has sent nothing since its row before.
    """

    N_COLUMN = 5

    def __init__(self, n_port: int) -> None:
        self._n_port = n_port
        self._rows = [np.zeros((0, self.N_COLUMN), np.int64)]
        self.last = np.zeros((n_port, 3), np.int64)  # what the last row of each port says

    def add(self, instant: int, ports: np.ndarray, now: np.ndarray) -> None:
        """Take what ports, ascending, have at a new instant. now: int64[n, 3], queue_bytes, paused, tx_bytes."""
        kept = (now[:, :2] > 0).any(axis=1) | (now != self.last[ports]).any(axis=1)
        self.last[ports[kept]] = now[kept]
        self._rows.append(np.column_stack([np.full(kept.sum(), instant), ports[kept], now[kept]]))

    def start_with(self, rows: np.ndarray) -> None:
        """Have rows that were there before, int64[n, N_COLUMN]."""
        self._rows = [rows]

    def table(self) -> np.ndarray:
        """All rows, int64[n, N_COLUMN], by instant and port."""
        self._rows = [np.concatenate(self._rows)]
        return self._rows[0]

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    def thin(self, kept: np.ndarray) -> None:
        """Keep the instants kept[i], int64 ascending, and number them by i.

        A row of an instant that goes moves to the next one that stays, unless the port has one there: then it is idle.
        """
        rows = self.table()
        place = np.searchsorted(kept, rows[:, 0])
        rows, place = rows[place < len(kept)], place[place < len(kept)]
        order = np.lexsort((rows[:, 0], place, rows[:, 1]))  # by port, new instant, old instant
        rows, place = rows[order], place[order]
        is_last = np.ones(len(rows), bool)
        is_last[:-1] = (rows[1:, 1] != rows[:-1, 1]) | (place[1:] != place[:-1])
        rows, place = rows[is_last], place[is_last]
        rows[rows[:, 0] != kept[place], 2:4] = 0
        rows[:, 0] = place
        before = np.zeros((len(rows), 3), np.int64)
        same = np.flatnonzero(rows[1:, 1] == rows[:-1, 1])
        before[same + 1] = rows[same, 2:]
        rows = rows[(rows[:, 2:4] > 0).any(axis=1) | (rows[:, 2:] != before).any(axis=1)]
        self.last[:] = 0
        self.last[rows[:, 1]] = rows[:, 2:]  # NumPy: of equal indices the last one counts
        self._rows = [rows[np.lexsort((rows[:, 1], rows[:, 0]))]]


class FlowRows:
    """Rows (instant, flow_id, queue pair, rate_bps, window_bytes, in_flight_bytes, acked_bytes)."""

    N_COLUMN = 7

    def __init__(self) -> None:
        self._rows = [np.zeros((0, self.N_COLUMN), np.int64)]

    def add(self, instant: int, now: np.ndarray) -> None:
        """Take the rows of a new instant, int64[n, N_COLUMN - 1]."""
        self._rows.append(np.column_stack([np.full(len(now), instant), now]))

    def start_with(self, rows: np.ndarray) -> None:
        """Have rows that were there before, int64[n, N_COLUMN]."""
        self._rows = [rows]

    def table(self) -> np.ndarray:
        """All rows, int64[n, N_COLUMN], in the order in which they came."""
        self._rows = [np.concatenate(self._rows)]
        return self._rows[0]

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    def thin(self, kept: np.ndarray) -> None:
        """Keep the instants kept[i], int64 ascending, and number them by i."""
        rows = self.table()
        place = np.searchsorted(kept, rows[:, 0])
        stays = np.append(kept, -1)[place] == rows[:, 0]
        rows[:, 0] = place
        self._rows = [rows[stays]]
