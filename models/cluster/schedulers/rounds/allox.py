"""AlloX (Le et al., EuroSys '20) in rounds: jobs to GPUs so that the mean completion time is least, by a matching.

A job in the k-th place from the end of a GPU's line adds k times its own run time there to the sum of all. That is so
of jobs of one GPU, and of jobs that all ask for the same number of GPUs, so many of which are a place then. Jobs of
several sizes in one line do not add up so, and there is no matching of them.
"""

from typing import Any

import numpy as np

from models.cluster.job import Job
from models.cluster.schedulers.accepted import Number
from models.cluster.schedulers.rounds.rounds import Rounds, Shares
from models.cluster.schedulers.rounds.solver import optimize

FORBIDDEN_S = 1e12


class Allox(Rounds):
    """Jobs that all have as many GPUs. Who has a place keeps it until it is done.

    alpha: the share of those waiting that is looked at.
    """

    one_size = True
    options = {**Rounds.options, "alpha": 1.0}
    accepted = {**Rounds.accepted, "alpha": Number(0, 1)}
    alpha: float

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.optimize = optimize()
        self.pool_of: dict[int, int] = {}

    def shares(self) -> Shares:
        """All of one place's time to each job that is first in its line."""
        self.pool_of = {number: pool for number, pool in self.pool_of.items() if number in self.active}
        size = max((job.n_gpu for job in self.active.values()), default=1)
        places = [n_up // size for n_up in self.cluster.machine.n_up]
        for pool in self.pool_of.values():
            places[pool] -= 1
        slots = [pool for pool in range(self.n_pool) for _ in range(places[pool])]
        waiting = sorted(number for number in self.active if number not in self.pool_of)
        n_job = min(max(len(slots), int(self.alpha * len(waiting))), len(waiting))
        if slots and n_job:
            self._match(waiting[:n_job], slots)
        return {
            number: [float(pool == self.pool_of.get(number, -1)) for pool in range(self.n_pool)]
            for number in self.active
        }

    def _match(self, numbers: list[int], slots: list[int]) -> None:
        jobs = [self.active[number] for number in numbers]
        took = np.array([[self._took_s(job, pool) for pool in slots] for job in jobs])
        cost = np.concatenate([took * place for place in range(1, len(jobs) + 1)], axis=1)
        rows, columns = self.optimize.linear_sum_assignment(cost)
        first: dict[int, tuple[int, int]] = {}  # the one in the place furthest from the end of its line begins
        for row, column in zip(rows, columns, strict=True):
            place, slot = divmod(int(column), len(slots))
            first[slot] = max(first.get(slot, (-1, -1)), (place, int(row)))
        for slot, (_, row) in first.items():
            if self.cluster.may_use(jobs[row], slots[slot]):
                self.pool_of[numbers[row]] = slots[slot]

    def _took_s(self, job: Job, pool: int) -> float:
        speed = self.speed(job, pool)
        return self.left_us(job) / speed / 1e6 if speed else FORBIDDEN_S
