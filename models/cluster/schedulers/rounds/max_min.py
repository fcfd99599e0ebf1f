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
        """Variables: each job's share of each pool, then the least progress."""
        equal, n_pool = super().shares(), self.n_pool
        numbers, n_up = list(self.active), self.cluster.machine.n_up
        n_job, width = len(numbers), len(numbers) * n_pool + 1
        limits, most = np.zeros((2 * n_job + n_pool, width)), np.zeros(2 * n_job + n_pool)
        for i, number in enumerate(numbers):
            speeds = np.array([self.speed(self.active[number], pool) for pool in range(n_pool)])
            own = slice(i * n_pool, (i + 1) * n_pool)
            progress = speeds @ np.array(equal[number])
            if progress > 0:  # else all that it may use is down
                limits[i, own], limits[i, -1] = -speeds / progress, 1.0
            limits[n_job + i, own], most[n_job + i] = 1.0, 1.0
        for pool in range(n_pool):
            limits[2 * n_job + pool, pool:-1:n_pool], most[2 * n_job + pool] = 1.0, n_up[pool]
        if not limits[:n_job, -1].any():
            return equal
        target = np.zeros(width)
        target[-1] = -1.0
        found = self.optimize.linprog(target, A_ub=limits, b_ub=most, method="highs").x[:-1].reshape(n_job, n_pool)
        return {number: [float(x) for x in row] for number, row in zip(numbers, found.clip(0, 1), strict=True)}
