"""Pollux (Qiao et al., OSDI '21, section 4.2): the power mean of all jobs' speedups is made the most, here greedily.

A job's speedup is its goodput over that on an equal share of the cluster. Deviations: Pollux searches by a genetic
algorithm; here each job gets its least configuration in the order of submission, then GPUs go where the mean of powers
gains most for each of them. Pollux takes all GPUs to be alike; here a job's first pool is the one where it is fastest.
"""

import heapq
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.rounds.elastic import Config, ElasticRounds


class Pollux(ElasticRounds):
    """power: of the mean, below 0; the smaller the fairer."""

    options = {**ElasticRounds.options, "power": -1.0}
    power: float

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.power = min(self.power, -1e-3)

    def chosen(self, jobs: list[Job], room: list[int]) -> dict[int, Config]:
        """room: is used up."""
        share = max(sum(self.n_up) // max(len(jobs), 1), 1)
        held: dict[int, tuple[Config, float]] = {}
        costs: dict[int, list[tuple[Config, float]]] = {}
        for job in sorted(jobs, key=lambda job: job.number):
            own = costs[job.number] = self._costs(job, share)
            fitting = [(c.n_gpu, cost, i) for i, (c, cost) in enumerate(own) if c.n_gpu <= room[c.pool]]
            if fitting:
                held[job.number] = own[min(fitting)[2]]
                room[held[job.number][0].pool] -= held[job.number][0].n_gpu
        heap = [entry for number, now in held.items() for entry in self._steps(costs[number], now, number)]
        heapq.heapify(heap)
        while heap:
            _, number, n_from, n_to = heapq.heappop(heap)
            now = held[number]
            pool, n_now = now[0].pool, now[0].n_gpu
            if n_from == n_now and n_to - n_now <= room[pool]:
                room[pool] -= n_to - n_now
                held[number] = next(e for e in costs[number] if (e[0].pool, e[0].n_gpu) == (pool, n_to))
                for entry in self._steps(costs[number], held[number], number):
                    heapq.heappush(heap, entry)
        return {number: config for number, (config, _) in held.items()}

    def _costs(self, job: Job, share: int) -> list[tuple[Config, float]]:
        configs = self.configs[job.number]
        fair = max((c.speed for c in configs if c.n_gpu <= share), default=min((c.speed for c in configs), default=1.0))
        return [(c, (speed / fair) ** self.power) for c, speed in zip(configs, self.speeds_now(job), strict=True)]

    def _steps(
        self, own: list[tuple[Config, float]], now: tuple[Config, float], number: int
    ) -> list[tuple[float, int, int, int]]:
        """(minus the gain per GPU, job, GPUs now, GPUs then): to more of the same pool."""
        config, cost = now
        return [
            ((then_cost - cost) / (then.n_gpu - config.n_gpu), number, config.n_gpu, then.n_gpu)
            for then, then_cost in own
            if then.pool == config.pool and then.n_gpu > config.n_gpu and then_cost < cost
        ]
