"""Runs the program with LPs that move between ranks at random rounds, to random ranks, whatever the load is.

mpirun -n 2 python tests/mpi/forced_moves.py SEED EVERY config.toml --out DIR ...    EVERY: rounds, on the average
"""

import random
import sys
from typing import Any
from unittest import mock

import numpy as np

from partition.rebalance import Advice
from pdes import cli
from pdes.simulation.balance import Balancer

SETS = ("--quiet", "--set", "partition.rebalance_interval=1us")  # ticks at every round


class Forced(Balancer):
    """In the place of the one that measures."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._draw, self._every, self._is_due = random.Random(int(sys.argv[1])), int(sys.argv[2]), False

    @property
    def is_due(self) -> bool:
        """At random, and then until it is done."""
        self._is_due |= self._job.world.rank == 0 and self._draw.randrange(self._every) == 0
        return self._is_due

    def _advise(self, parts: list[Any]) -> Advice:
        self._is_due = False
        n_rank, n_lp = self._job.world.size, self._job.scenario.n_lp
        assert all(busy_ns >= 0 and (steps >= 0).all() for busy_ns, steps in parts)
        kind = self._draw.randrange(4)
        if kind == 0:  # to one rank, so that others have nothing
            return Advice(0, 0.0, 0, np.full(n_lp, self._draw.randrange(n_rank), np.int64))
        if kind == 1:  # one LP
            rank_of_lp = self._job.rank_of_lp.copy()
            rank_of_lp[self._draw.randrange(n_lp)] = self._draw.randrange(n_rank)
            return Advice(0, 0.0, 0, rank_of_lp)
        return Advice(0, 0.0, 0, np.array([self._draw.randrange(n_rank) for _ in range(n_lp)], np.int64))


if __name__ == "__main__":
    with mock.patch("pdes.simulation.loop.Balancer", Forced):
        sys.exit(cli.main([*sys.argv[3:], *SETS]))
