"""Sia (Jayaram Subramanya et al., SOSP '23, section 3): a configuration for each job by an integer programme.

A job's goodputs are divided by the least of them and multiplied by the GPUs that it needs at least. The sum of their
powers p is made the most, or the least if p is below 0; a job without GPUs costs a fixed `unserved` more.
"""

from typing import Any

import numpy as np

from models.cluster.job import Job
from models.cluster.schedulers.rounds.elastic import Config, ElasticRounds
from models.cluster.schedulers.rounds.solver import chosen_of_each, optimize
from pdes.errors import ConfigError
from pdes.units import shown


class Sia(ElasticRounds):
    """power: p, the smaller the fairer. unserved: lambda. gap: of the optimum, that the solver may leave.

    at_rest: costs by job, where no change has its price: of one that waits, or that has one configuration alone.
    """

    options = {**ElasticRounds.options, "power": -0.5, "unserved": 1.1, "gap": 1e-4}
    power: float
    unserved: float
    gap: float

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        optimize()  # says so at once if it is missing
        self.at_rest: dict[int, list[float]] = {}
        if not self.power or abs(self.power) > 10:
            raise ConfigError("[cluster.options] power", f"found {shown(self.power)}", "-10 to 10, without 0")

    def ended(self, job: Job) -> None:
        """A job that is done has no costs."""
        super().ended(job)
        if job.number not in self.active:
            self.at_rest.pop(job.number, None)

    def chosen(self, jobs: list[Job], room: list[int]) -> dict[int, Config]:
        """The optimum."""
        owners, configs, costs = [], [], []
        for i, job in enumerate(jobs):
            own = self.configs[job.number]
            owners += [i] * len(own)
            configs += own
            costs += self.costs(job)
        picked = chosen_of_each(
            np.array(costs), np.array(owners), np.array([c.pool for c in configs]),
            np.array([c.n_gpu for c in configs], float), np.array(room, float), self.gap,
        )  # fmt: skip
        return {jobs[owners[k]].number: configs[k] for k in picked}

    def costs(self, job: Job) -> list[float]:
        """Of each configuration, beside having none: below 0."""
        configs, sign = self.configs[job.number], 1.0 if self.power < 0 else -1.0
        if not configs:
            return []
        can_change = len(configs) > 1 and job.number in self.cluster.running
        if not can_change and (found := self.at_rest.get(job.number)) is not None:
            return found
        least, n_least = min(c.speed for c in configs), min(c.n_gpu for c in configs)
        values = [n_least * speed / least for speed in self.speeds_now(job)]
        found = [sign * value**self.power - self.unserved for value in values]
        if not can_change:
            self.at_rest[job.number] = found
        return found
