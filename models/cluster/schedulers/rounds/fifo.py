"""First in, first out in rounds: a job gets a pool once and keeps it (plain), or the fastest one free (perf)."""

import random
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.accepted import OneOf
from models.cluster.schedulers.rounds.rounds import Rounds, Shares


class FifoRounds(Rounds):
    """pick: "random", a pool that is drawn of those with room; "last", of these the one whose GPU's name sorts last."""

    options = {**Rounds.options, "pick": "random"}
    accepted = {**Rounds.accepted, "pick": OneOf(("random", "last"))}
    pick: str
    strict, shuffles = True, True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.draws = random.Random(self.seed)
        self.pool_of: dict[int, int] = {}
        pools = self.cluster.machine.pools
        self.sorted_pools = sorted(range(self.n_pool), key=lambda pool: pools[pool].gpu)

    def shares(self) -> Shares:
        """All of a pool's time, to the first in the line; those that follow a job that is done take its place."""
        free = list(self.cluster.machine.n_up)
        line = [number for number in sorted(self.active) if number not in self.pool_of]
        for number, pool in sorted(self.pool_of.items()):
            if number in self.active:
                free[pool] -= self.active[number].n_gpu
        for number, pool in sorted(self.pool_of.items()):
            if number not in self.active:
                del self.pool_of[number]
                if line and self._fits(self.active[line[0]], pool, free):
                    self._give(line.pop(0), pool, free)
        for number in line:
            job = self.active[number]
            fitting = [p for p in self.sorted_pools if self._fits(job, p, free)]
            if not fitting:
                break
            self._give(number, self.choose(job, fitting), free)
        return {number: [float(p == mine) for p in range(self.n_pool)] for number, mine in self.pool_of.items()}

    def choose(self, job: Job, pools: list[int]) -> int:
        """One of the pools with room."""
        return pools[-1] if self.pick == "last" else pools[self.draws.randrange(len(pools))]

    def _fits(self, job: Job, pool: int, free: list[int]) -> bool:
        return free[pool] >= job.n_gpu and self.cluster.may_use(job, pool)

    def _give(self, number: int, pool: int, free: list[int]) -> None:
        self.pool_of[number] = pool
        free[pool] -= self.active[number].n_gpu


class FifoPerf(FifoRounds):
    """The fastest pool with room, chosen anew at each reset."""

    options = Rounds.options
    accepted = Rounds.accepted
    pick = "fastest"
    shuffles = False

    def shares(self) -> Shares:
        """From nothing, in the order of submission."""
        self.pool_of = {}
        return super().shares()

    def choose(self, job: Job, pools: list[int]) -> int:
        """The first one of the fastest."""
        return max(pools, key=lambda pool: self.speed(job, pool))
