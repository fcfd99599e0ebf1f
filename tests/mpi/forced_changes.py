"""Runs the program with ranks that join rank 0 and fall asleep again at random rounds, whatever pays.

mpirun -n 2 python tests/mpi/forced_changes.py SEED EVERY config.toml --out DIR ...    EVERY: rounds, on the average
"""

import random
import sys
from typing import Any
from unittest import mock

from pdes import cli
from pdes.simulation.spreading import Spreading


class Forced(Spreading):
    """In the place of the one that measures."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._draw, self._every, self._is_due = random.Random(int(sys.argv[1])), int(sys.argv[2]), False

    @property
    def is_due(self) -> bool:
        """At random, and then until it is done."""
        self._is_due |= self._job.everyone.rank == 0 and self._draw.randrange(self._every) == 0
        return self._is_due

    def tick(self) -> bool:
        """Whatever is simulated, flows without packets too."""
        return self.is_due

    def rest(self) -> bool:
        """Always to go over."""
        self._is_due, self._alone_s_per_hop = False, -1.0
        return super().rest()


if __name__ == "__main__":
    with (
        mock.patch("pdes.simulation.loop.Spreading", Forced),
        mock.patch("pdes.simulation.loop.PAUSE_EVERY_S", 0),  # ticks at every round
        mock.patch("pdes.simulation.job.begins_alone", lambda _, n_rank, __: n_rank > 1),  # whatever is skipped
    ):
        sys.exit(cli.main([*sys.argv[3:], "--quiet"]))
