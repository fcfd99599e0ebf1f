"""Which network partitions are worth a key: not those whose episodes others break again and again.

A key costs more than a look: the packet state of a network partition is written out and digested, and its episode is
looked at until it is over. Where somebody comes to its ports before that, nothing is known. A network partition, told
by its first flow, of which that is so for the FREE-th time in a row is keyed at every second chance only, then at every
fourth, and so on, until one of its episodes comes to its end.
"""

import numpy as np

FREE = 4  # episodes in a row that may be broken
MOST = 8  # at every 2**MOST-th chance at the least


class Patience:
    """Alike on every rank. firsts, below: int64[], the first flow of each network partition."""

    def __init__(self, n_flow: int) -> None:
        self._n_broken, self._n_passed = np.zeros(n_flow, np.int64), np.zeros(n_flow, np.int64)

    def takes(self, firsts: np.ndarray) -> np.ndarray:
        """bool[n]: which of these have their turn; each call is a chance."""
        self._n_passed[firsts] += 1
        takes = self._n_passed[firsts] >= 1 << np.clip(self._n_broken[firsts] - FREE + 1, 0, MOST)
        self._n_passed[firsts[takes]] = 0
        return takes

    def note(self, firsts: np.ndarray, is_broken: bool) -> None:
        """Episodes were broken, or have come to their ends."""
        if is_broken:
            self._n_broken[firsts] += 1
        else:
            self._n_broken[firsts] = 0
