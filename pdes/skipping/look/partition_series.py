"""How many network partitions there are and how many stand still, look by look; of bounded size."""

import numpy as np

COLUMNS = ("time_ps", "partitions", "steady", "replayed", "flows", "flows_frozen")
"""steady, replayed: frozen partitions, those that have settled, and those that wait for what another one comes to, or
for what an entry of the memo says. flows: active ones; flows_frozen: when the look is over. partitions: -1 where nobody
had to know, because no message is long enough to be skipped."""
MAX_ROWS = 1 << 16


class PartitionSeries:
    """Rows of COLUMNS: of every look, or, where these are too many, of every 2nd, 4th, 8th .. look."""

    def __init__(self, max_rows: int = MAX_ROWS) -> None:
        """max_rows: even."""
        self._rows = np.zeros((max_rows, len(COLUMNS)), np.int64)
        self._n_row, self._n_look, self._stride = 0, 0, 1

    def add(self, *row: int) -> None:
        """Note a look."""
        if self._n_look % self._stride == 0:
            if self._n_row == len(self._rows):
                self._n_row //= 2
                self._rows[: self._n_row] = self._rows[::2]
                self._stride *= 2
            self._rows[self._n_row] = row
            self._n_row += 1
        self._n_look += 1

    def columns(self) -> dict[str, np.ndarray]:
        """The table."""
        return dict(zip(COLUMNS, self._rows[: self._n_row].T.copy(), strict=True))
