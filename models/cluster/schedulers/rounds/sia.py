"""Sia (Jayaram Subramanya et al., SOSP '23, section 3): a configuration for each job by an integer programme.

A job's goodputs are divided by the least of them and multiplied by the GPUs that it needs at least. The sum of their
powers p is made the most, or the least if p is below 0; a job without GPUs costs a fixed `unserved` more. Whatever a
running job is not on now is discounted by what a restart takes. Deviation: so is all that a job was stopped on and
waits for, without which jobs are stopped for each other in turns when there are more than there is room for. Jobs with
the same costs are one group with a count; of these whoever has something keeps it, and the first to come are the first
to get the rest.
"""

from heapq import merge
from typing import Any

import numpy as np

from models.cluster.job import Job
from models.cluster.schedulers.accepted import Number
from models.cluster.schedulers.rounds.alike import Group, Kind, Kinds, handed_out
from models.cluster.schedulers.rounds.elastic import LEAST_FACTOR, Config, ElasticRounds
from models.cluster.schedulers.rounds.knapsack import Choices, counts_of_each
from models.cluster.schedulers.rounds.solver import optimize

STEPS = 64  # of what is left of a stopped job's goodput, so that many such jobs are few groups


class Sia(ElasticRounds):
    """power: p, the smaller the fairer. unserved: lambda. gap: of the optimum, that the solver may leave.

    discount_stopped: a stopped job pays for its restart in the objective; without it, it is as a new one, as in Sia's
    simulator.
    """

    options = {**ElasticRounds.options, "power": -0.5, "unserved": 1.1, "gap": 1e-4, "discount_stopped": True}
    accepted = {
        **ElasticRounds.accepted,
        "power": Number(-10, 10, without_zero=True),
        "unserved": Number(0),
        "gap": Number(0, 1),
    }
    power: float
    unserved: float
    gap: float
    discount_stopped: bool

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        optimize()  # says so at once if it is missing
        self.kinds = Kinds()
        self.held_gpus = [0] * len(self.cluster.machine.pools)  # of running jobs, by pool

    def submitted(self, job: Job) -> None:
        """It waits with those of its kind."""
        super().submitted(job)
        self.kinds.waits(job, self.configs[job.number])

    def started(self, job: Job) -> None:
        """It has GPUs."""
        super().started(job)
        self.kinds.started(job)
        self.held_gpus[job.pool] += job.n_held

    def ended(self, job: Job) -> None:
        """It has none."""
        super().ended(job)
        self.kinds.ended(job, job.number not in self.active)
        self.held_gpus[job.pool] -= job.n_held

    def changes(self) -> dict[int, Config | None]:
        """The optimum."""
        hung = {job.number: job for job in self.cluster.running.values() if job.is_hung}
        room = np.add(self.cluster.machine.n_free, self.held_gpus)
        for job in hung.values():
            room[job.pool] -= job.n_held
        groups = [group for kind in self.kinds if kind.configs for group in self.groups(kind, hung)]
        if not groups:
            return {}
        return handed_out(groups, counts_of_each(as_choices(groups), room, self.gap))

    def groups(self, kind: Kind, hung: dict[int, Job]) -> list[Group]:
        """Of jobs with the same costs; hung: take no part."""
        first: dict[int, list[int]] = {}
        stopped = self.stopped_jobs(kind)
        waits = list(merge(kind.waits, stopped.pop(1.0))) if 1.0 in stopped else kind.waits
        groups = [Group(kind, self.costs(kind), first, waits)]
        groups += [Group(kind, self.costs(kind, kept), {}, numbers) for kept, numbers in stopped.items()]
        moved: dict[tuple[float, int], list[int]] = {}
        for i, numbers in enumerate(kind.held):
            if hung:
                numbers = [number for number in numbers if number not in hung]
            if len(kind.configs) == 1:
                first[i] = numbers
                continue
            for number in numbers:
                kept = self.factor(self.active[number])
                (first.setdefault(i, []) if kept == 1.0 else moved.setdefault((kept, i), [])).append(number)
        return groups + [Group(kind, self.costs(kind, *key), {key[1]: own}, []) for key, own in moved.items()]

    def stopped_jobs(self, kind: Kind) -> dict[float, list[int]]:
        """Those that have run and wait, by what of their goodput is left if they go on; all of it if that is free."""
        if not self.discount_stopped:
            return {1.0: kind.stopped}
        found: dict[float, list[int]] = {}
        for number in kind.stopped:
            kept = int(self.factor(self.active[number]) * STEPS) / STEPS
            found.setdefault(max(kept, LEAST_FACTOR), []).append(number)
        return found

    def costs(self, kind: Kind, kept: float = 1.0, held: int = -1) -> np.ndarray:
        """Of each configuration, beside having none. kept: of its goodput, but where it is held, if anywhere."""
        if kind.rest is None:
            least, n_least = min(c.speed for c in kind.configs), min(c.n_gpu for c in kind.configs)
            kind.rest = np.array([n_least * c.speed / least for c in kind.configs]) ** self.power
        sign = 1.0 if self.power < 0 else -1.0
        if kept == 1.0:
            return sign * kind.rest - self.unserved
        found = sign * kept**self.power * kind.rest - self.unserved
        if held >= 0:
            found[held] = sign * kind.rest[held] - self.unserved
        return found


def as_choices(groups: list[Group]) -> Choices:
    """Every configuration of every group, in order."""
    configs = [config for group in groups for config in group.kind.configs]
    return Choices(
        np.concatenate([group.costs for group in groups]),
        np.repeat(np.arange(len(groups)), [len(group.kind.configs) for group in groups]),
        np.array([config.pool for config in configs]),
        np.array([config.n_gpu for config in configs]),
        np.array([group.n_job for group in groups]),
    )
