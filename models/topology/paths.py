"""The routes of queue pairs, as lists of ports. Who makes them: `routing` (ECMP) and `paths_file` (given ones)."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Paths:
    """The ports of n_pair routes: row 2 * i is the data path of pair i, row 2 * i + 1 the path of its ACKs."""

    start: np.ndarray
    """int64[2 * n_pair + 1]; row r is port[start[r] : start[r + 1]]."""
    port: np.ndarray
    """int32[start[-1]]; port ids in order of travel."""

    def row(self, i_row: int) -> np.ndarray:
        """Ports of one row, int32."""
        return self.port[self.start[i_row] : self.start[i_row + 1]]
