"""Pollux (Qiao et al., OSDI '21, section 4.2): the power mean of all jobs' speedups is made the most, here greedily.

A job's speedup is its goodput over that on an equal share of the cluster. Deviations: Pollux searches by a genetic
algorithm; here new jobs get their least configuration in the order of submission, then GPUs go where the mean of
powers gains most for each of them; the same from nothing, and the better one is taken. Pollux takes all GPUs to be
alike; here a job's goodput in each pool is known.
"""

import heapq

from models.cluster.job import Job
from models.cluster.schedulers.accepted import Number
from models.cluster.schedulers.rounds.elastic import Config, ElasticRounds


class Pollux(ElasticRounds):
    """power: of the mean, below 0; the smaller the fairer."""

    options = {**ElasticRounds.options, "power": -1.0}
    accepted = {**ElasticRounds.accepted, "power": Number(-10, 0, without_zero=True)}
    power: float

    def chosen(self, jobs: list[Job], room: list[int]) -> dict[int, Config]:
        """The better one of two: from nothing, and from what there is, where only new jobs take GPUs from others."""
        share = max(sum(self.n_up) // max(len(jobs), 1), 1)
        costs = {job.number: self._costs(job, share) for job in sorted(jobs, key=lambda job: job.number)}
        found = []
        for held in ({}, self._held(jobs)):
            left = list(room)
            for number, i in held.items():
                left[self.configs[number][i].pool] -= self.configs[number][i].n_gpu
            for number in costs:
                if number not in held:
                    self._serve(number, costs, held, left)
            while self._improve(costs, held, left):
                pass
            found.append((-len(held), sum(costs[number][i] for number, i in held.items()), len(found), held))
        return {number: self.configs[number][i] for number, i in min(found)[3].items()}

    def _held(self, jobs: list[Job]) -> dict[int, int]:
        """The configuration that each running job has."""
        found = {}
        for job in jobs:
            if job.number in self.cluster.running:
                own = [(c.pool, c.n_gpu) for c in self.configs[job.number]]
                found[job.number] = own.index((job.pool, job.n_held))
        return found

    def _serve(self, number: int, costs: dict[int, list[float]], held: dict[int, int], room: list[int]) -> None:
        """Its least configuration, if need be of GPUs that others lose least by."""
        own = self.configs[number]
        if not own:
            return
        for _, _, i in sorted((c.n_gpu, cost, i) for i, (c, cost) in enumerate(zip(own, costs[number], strict=True))):
            pool, n_gpu = own[i].pool, own[i].n_gpu
            if n_gpu <= room[pool]:
                break
        else:
            pool, n_gpu, i = min(((c.pool, c.n_gpu, i) for i, c in enumerate(own)), key=lambda entry: entry[1])
            losses: list[tuple[float, int, int]] = []
            for other, now in held.items():
                configs = self.configs[other]
                smaller = [k for k, c in enumerate(configs) if c.pool == pool == configs[now].pool]
                smaller = [k for k in smaller if configs[k].n_gpu < configs[now].n_gpu]
                losses += [
                    ((costs[other][k] - costs[other][now]) / (configs[now].n_gpu - configs[k].n_gpu), other, k)
                    for k in smaller
                ]
            changed: dict[int, int] = {}
            free = room[pool]
            for _, other, k in sorted(losses):
                if free < n_gpu and other not in changed:
                    changed[other] = k
                    free += self.configs[other][held[other]].n_gpu - self.configs[other][k].n_gpu
            if free < n_gpu:
                return
            held.update(changed)
            room[pool] = free
        held[number] = i
        room[pool] -= n_gpu

    def _improve(self, costs: dict[int, list[float]], held: dict[int, int], room: list[int]) -> bool:
        """Take steps, the one that gains most per GPU first, as long as there is room; whether there was one."""
        heap = [step for number, i in held.items() for step in self._steps(costs[number], number, i)]
        heapq.heapify(heap)
        has_moved = False
        while heap:
            _, number, i_from, i_to = heapq.heappop(heap)
            now, then = self.configs[number][i_from], self.configs[number][i_to]
            if held[number] == i_from and then.n_gpu - now.n_gpu * (now.pool == then.pool) <= room[then.pool]:
                room[now.pool] += now.n_gpu
                room[then.pool] -= then.n_gpu
                held[number], has_moved = i_to, True
                for step in self._steps(costs[number], number, i_to):
                    heapq.heappush(heap, step)
        return has_moved

    def _costs(self, job: Job, share: int) -> list[float]:
        configs = self.configs[job.number]
        fair = max((c.speed for c in configs if c.n_gpu <= share), default=min((c.speed for c in configs), default=1.0))
        return [(speed / fair) ** self.power for speed in self.speeds_now(job)]

    def _steps(self, own: list[float], number: int, now: int) -> list[tuple[float, int, int, int]]:
        """(minus the gain for each GPU more, job, from which configuration, to which)."""
        n_gpu = self.configs[number][now].n_gpu
        return [
            ((cost - own[now]) / max(config.n_gpu - n_gpu, 1), number, now, i)
            for i, (config, cost) in enumerate(zip(self.configs[number], own, strict=True))
            if cost < own[now]
        ]
