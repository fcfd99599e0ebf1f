"""Least attained service as max-min fairness (Gavel, OSDI '20, section 4.1): all jobs progress alike, if they can.

A job's progress is its mean speed over that of an equal share of each pool.
"""

import importlib
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
        self.sparse = importlib.import_module("scipy.sparse")

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
        (n_job, n_pool), n_up = speeds.shape, np.array(self.cluster.machine.n_up, float)
        width, shares = n_job * n_pool + 1, np.arange(n_job * n_pool)
        owners, asks = shares // n_pool, np.flatnonzero(wanted > 0)
        ratio = -(speeds[asks] / wanted[asks, None]).ravel()
        rows = np.concatenate([np.repeat(asks, n_pool), asks, n_job + owners, 2 * n_job + shares % n_pool])
        columns = np.concatenate(
            [shares.reshape(n_job, n_pool)[asks].ravel(), np.full(len(asks), width - 1), shares, shares]
        )
        values = np.concatenate([ratio, np.ones(len(asks) + 2 * len(shares))])
        limits = self.sparse.csc_array((values, (rows, columns)), shape=(2 * n_job + n_pool, width))
        limits.eliminate_zeros()
        most = np.concatenate([np.zeros(n_job), np.ones(n_job), n_up])
        target = np.zeros(width)
        target[-1] = -1.0
        found = self.optimize.linprog(target, A_ub=limits, b_ub=most, method="highs").x[:-1]
        return found.reshape(n_job, n_pool).clip(0, 1)
