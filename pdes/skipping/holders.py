"""Who holds a port: what is frozen, or goes as an earlier wave did. Whoever comes to such a port interrupts that.

One table for both, as nobody else may hold a port then. Models have tables of their own of what hosts must know when
they post a message: whether a port is hidden, and whether flows at flow level send there. A port may be both: data at
flow level may go where acknowledgements of a frozen partition come by.
"""

import numpy as np

NOBODY = -1


class Holders:
    """Holders by numbers that never come again, in their order; alike on every rank."""

    def __init__(self, n_port: int) -> None:
        self._of_port = np.full(n_port, NOBODY, np.int64)
        self._n = 0

    def hold(self, ports: np.ndarray) -> int:
        """Somebody holds ports from now on; its number."""
        assert (self._of_port[ports] == NOBODY).all(), "a port would be held twice"
        self._of_port[ports] = self._n
        self._n += 1
        return self._n - 1

    def free(self, ports: np.ndarray) -> None:
        """Nobody holds these any more."""
        self._of_port[ports] = NOBODY

    def at(self, port: int) -> int:
        """Who holds a port, NOBODY: nobody does."""
        return int(self._of_port[port])

    def of(self, ports: np.ndarray) -> list[int]:
        """Who holds any of these, ascending."""
        return sorted(set(self._of_port[ports].tolist()) - {NOBODY})
