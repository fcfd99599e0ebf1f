"""Finish-time fairness (Themis, NSDI '20) in Gavel's rounds (OSDI '20, section 4.2): the worst-off job first of all.

A job's rho is the time that it will have taken over that with an equal share of each pool all along. What it will take
is how long it has been there, and what is left over its speed by the new shares; in isolation likewise, by the equal
shares of each time. Shares make the largest rho as small as can be: for a rho that is a linear programme, whose answer
has a smaller one, so a few programmes come to the least (Dinkelbach 1967). The first asks for the rho of the last
shares: most often that is nearly right, and if it is too small, shares that come nearest to it are a start. A job of
several GPUs has an equal share of the cluster's GPUs in isolation, as any other.
"""

from typing import Any

import numpy as np

from models.cluster.schedulers.rounds.max_min import MaxMinPerf
from models.cluster.schedulers.rounds.rounds import Shares

MOST_PROGRAMMES, CLOSE = 50, 1e-4


class FinishTimeFair(MaxMinPerf):
    """isolated_us: by job, what it would have taken in isolation until its shares were last computed. before: its work
    that was left then, and its speed in isolation from then on. rho: the largest by the last shares.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.isolated_us: dict[int, float] = {}
        self.before: dict[int, tuple[float, float]] = {}
        self.rho = float("inf")

    def shares(self) -> Shares:
        """Variables: each job's share of each pool, then how many times what the last rho asks for all jobs get."""
        numbers, n_pool, now_us = list(self.active), self.n_pool, self.cluster.now_us
        equal, sizes = self.equal_shares(), self.sizes()
        speeds = np.array([[self.speed(self.active[n], pool) for pool in range(n_pool)] for n in numbers])
        alone = (speeds * np.array([equal[n] for n in numbers])).sum(axis=1)
        if not (alone > 0).all():
            return super().shares()  # all that a job may use is down
        left_us = np.array([max(self.left_us(self.active[n]), 1.0) for n in numbers])
        there_us = np.array([float(now_us - self.active[n].request.submit_us) for n in numbers])
        isolated_us = self.in_isolation_us(numbers, left_us, alone)
        shares = np.array([equal[n] for n in numbers])
        rho = ((there_us + left_us / alone) / isolated_us).max()
        least = ((there_us + left_us / speeds.max(axis=1)) / isolated_us).max()  # were each on its best pool, alone
        asked = min(max(self.rho, least), rho)
        for _ in range(MOST_PROGRAMMES):
            wanted = left_us / np.maximum(asked * isolated_us - there_us, 1e-9)  # asked is above there / isolated
            found = self.most(speeds, wanted, sizes)
            got = ((there_us + left_us / np.maximum((speeds * found).sum(axis=1), 1e-12)) / isolated_us).max()
            is_close = abs(got - asked) <= CLOSE * asked or (asked >= rho and got >= rho)
            if got < rho:
                rho, shares = got, found
            if is_close:
                break
            asked = rho
        self.rho = float(rho)
        return {number: [float(x) for x in row] for number, row in zip(numbers, shares, strict=True)}

    def in_isolation_us(self, numbers: list[int], left_us: np.ndarray, alone: np.ndarray) -> np.ndarray:
        """What each job would take in isolation, all of it, float64[n]. alone: its speed so, from now on."""
        found, before = {}, {}
        for number, left, speed in zip(numbers, left_us.tolist(), alone.tolist(), strict=True):
            left_before, speed_before = self.before.get(number, (left, speed))
            found[number] = self.isolated_us.get(number, 0.0) + max(left_before - left, 0.0) / speed_before
            before[number] = left, speed
        self.isolated_us, self.before = found, before
        return np.array([found[n] for n in numbers]) + left_us / alone
