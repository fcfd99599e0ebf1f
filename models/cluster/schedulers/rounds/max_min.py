"""Least attained service as max-min fairness (Gavel, OSDI '20, section 4.1): all jobs progress alike, if they can.

A job's progress is its mean speed over that of an equal share of each pool.
"""

from typing import Any

import numpy as np

from models.cluster.schedulers.rounds.rounds import Rounds, Shares
from models.cluster.schedulers.rounds.solver import optimize


class MaxMin(Rounds):
    """All GPUs are the same to it: an equal share of each pool for each job. Jobs of one GPU."""

    shuffles = True

    def shares(self) -> Shares:
        """Those of all."""
        return self.equal_shares()

    def equal_shares(self) -> Shares:
        """Together at most all of a job's time."""
        n_up = self.cluster.machine.n_up
        n = max(len(self.active), sum(n_up))
        return {number: [n_here / n for n_here in n_up] for number in self.active}


class MaxMinPerf(MaxMin):
    """It knows how fast each job is on each GPU: a linear programme."""

    shuffles = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.optimize = optimize()

    def shares(self) -> Shares:
        """Of all that may use anything that is up, the least progress is the most there can be."""
        equal, n_pool = self.equal_shares(), self.n_pool
        numbers = list(self.active)
        speeds = np.array([[self.speed(self.active[n], pool) for pool in range(n_pool)] for n in numbers])
        progress = np.array([own @ np.array(equal[n]) for own, n in zip(speeds, numbers, strict=True)])
        if not (progress > 0).any():
            return equal
        found = self.most(speeds, progress)
        return {number: [float(x) for x in row] for number, row in zip(numbers, found, strict=True)}

    def most(self, speeds: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Shares, float[n_job, n_pool], by which all jobs get the most times the speed that they want.

        speeds: of each job in each pool. wanted: 0 for a job that all it may use is down for. Variables: each job's
        share of each pool, then that number of times.
        """
        (n_job, n_pool), n_up = speeds.shape, self.cluster.machine.n_up
        width = n_job * n_pool + 1
        limits, most = np.zeros((2 * n_job + n_pool, width)), np.zeros(2 * n_job + n_pool)
        for i in range(n_job):
            own = slice(i * n_pool, (i + 1) * n_pool)
            if wanted[i] > 0:
                limits[i, own], limits[i, -1] = -speeds[i] / wanted[i], 1.0
            limits[n_job + i, own], most[n_job + i] = 1.0, 1.0
        for pool in range(n_pool):
            limits[2 * n_job + pool, pool:-1:n_pool], most[2 * n_job + pool] = 1.0, n_up[pool]
        target = np.zeros(width)
        target[-1] = -1.0
        found = self.optimize.linprog(target, A_ub=limits, b_ub=most, method="highs").x[:-1]
        return found.reshape(n_job, n_pool).clip(0, 1)
