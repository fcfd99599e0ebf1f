"""Rounds in which elastic jobs get another number of GPUs, or another type: what Sia and Pollux have in common.

A configuration is a pool and a number of GPUs: powers of two within a server, then whole servers, and whatever the job
asks for at least, at most and usually; beyond eight servers each is twice the one before it. A rigid job has one in
each pool that it may use. In a round `chosen` gives each job one configuration or none. Whoever keeps its own goes on
where it is; the others stop, with a checkpoint, and start again from where they were.

Deviations of both: goodput is known, not learned, so a job may begin with all the GPUs that it ever gets; nobody is
moved to another server of the same pool to close gaps. A round is for a change: while no job and no server comes or
goes, choices are made anew after 1, 2, 4, .. rounds, as only the jobs' ages change.
"""

from typing import Any, NamedTuple

from models.cluster.job import Job, Place
from models.cluster.machine import Machine
from models.cluster.schedulers.accepted import MINUTES
from models.cluster.schedulers.scheduler import Scheduler

SINGLE_STEPS = 8  # servers up to which each number of whole ones is a configuration
LONGEST_QUIET = 1024  # rounds
LEAST_FACTOR = 1e-3


class Config(NamedTuple):
    """speed: of the job there, on as few servers as possible."""

    pool: int
    n_gpu: int
    speed: float


class ElasticRounds(Scheduler):
    """Base. A subclass has `chosen`. round_minutes: of a round."""

    options = {"round_minutes": 1.0}
    accepted = {"round_minutes": MINUTES}
    round_minutes: float

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.active: dict[int, Job] = {}
        self.configs: dict[int, list[Config]] = {}
        self.is_stale, self.n_quiet = True, 1
        self.solved_us = self.due_us = -1
        self.n_up: list[int] = []  # GPUs by pool at the last choice

    def chosen(self, jobs: list[Job], room: list[int]) -> dict[int, Config]:
        """By job number, of the jobs that can be stopped; none without GPUs. room: GPUs by pool that they may have."""
        raise NotImplementedError

    def submitted(self, job: Job) -> None:
        """A new job takes part from the next round on."""
        super().submitted(job)
        self.is_stale = True
        if job.number not in self.active:
            self.active[job.number] = job
            self.configs[job.number] = self._configs(job)

    def ended(self, job: Job) -> None:
        """A job that is done takes part no more."""
        self.is_stale = True
        if job.saved_us >= job.request.work_us:
            del self.active[job.number], self.configs[job.number]

    def decide(self) -> None:
        """Nothing within a round, unless nobody runs."""
        cluster = self.cluster
        if not self.active:
            return
        now_us, round_us = cluster.now_us, int(self.round_minutes * 60e6)
        self.is_stale |= self.n_up != cluster.machine.n_up
        if self.is_stale:
            n_round = max(-(-(now_us - self.solved_us) // round_us), 1)
            self.due_us = min(self.due_us, self.solved_us + n_round * round_us)
        if now_us >= self.due_us or self.solved_us < 0 or not cluster.running:
            self.n_quiet = 1 if self.is_stale else min(2 * self.n_quiet, LONGEST_QUIET)
            self.solved_us, self.due_us = now_us, now_us + self.n_quiet * round_us
            self.n_up = list(cluster.machine.n_up)
            self.is_stale = not self._apply(self.changes())
            if self.is_stale:
                self.due_us = now_us + round_us
        cluster.wake(self.due_us)

    def factor(self, job: Job) -> float:
        """What of its goodput a running job keeps if it changes now, by its age and its restarts (Sia, section 3.3).

        (T - N S) / (T + S): age T, N restarts until now, S that one takes.
        """
        rules = job.rules
        costs_us = rules.write_us + rules.restart_us + rules.begin_us
        age_us = self.cluster.now_us - job.request.submit_us
        if not costs_us or not age_us:
            return 1.0 if not costs_us else LEAST_FACTOR
        return max((age_us - (job.n_start - 1) * costs_us) / (age_us + costs_us), LEAST_FACTOR)

    def speeds_now(self, job: Job) -> list[float]:
        """Of its configurations, less what a change costs it."""
        configs = self.configs[job.number]
        if job.number not in self.cluster.running:
            return [config.speed for config in configs]
        kept = self.factor(job)
        return [c.speed * (1.0 if (c.pool, c.n_gpu) == (job.pool, job.n_held) else kept) for c in configs]

    def changes(self) -> dict[int, Config | None]:
        """By number, of the jobs that do not stay as they are: what they get, None to stop."""
        room, jobs, running = list(self.cluster.machine.n_free), [], self.cluster.running
        for job in self.active.values():
            if job.is_hung:
                continue
            if job.number in running:
                room[job.pool] += job.n_held
            jobs.append(job)
        found, changes = self.chosen(jobs, room), {}
        for job in jobs:
            config = found.get(job.number)
            has = (job.pool, job.n_held) if job.number in running else None
            if has != (None if config is None else (config.pool, config.n_gpu)):
                changes[job.number] = config
        return changes

    def _apply(self, changes: dict[int, Config | None]) -> bool:
        """Whether everybody has what was chosen; the largest start first, so that they are on few servers."""
        cluster, waits = self.cluster, []
        for number in sorted(changes):
            config = changes[number]
            if number in cluster.running:
                cluster.stop(self.active[number])
            if config is not None:
                waits.append((-config.n_gpu, number, config))
        started = [cluster.start(self.active[number], c.pool, c.n_gpu) for _, number, c in sorted(waits)]
        return all(started)

    def _configs(self, job: Job) -> list[Config]:
        """All that it may have of servers that are up or down."""
        machine, found = self.cluster.machine, []
        for i, pool in enumerate(machine.pools):
            if self.cluster.may_use(job, i):
                for n_gpu in counts(job, pool.n_gpu, pool.n_server):
                    speed = self.cluster.rules.speed(job.request, i, usual_place(machine, i, n_gpu))
                    found.append(Config(i, n_gpu, speed))
        return found


def counts(job: Job, per_server: int, n_server: int) -> list[int]:
    """Numbers of GPUs that a job may have of such servers, ascending."""
    request, whole = job.request, per_server * n_server
    if not request.max_gpu:
        return [job.n_gpu] if job.n_gpu <= whole else []
    found = {request.min_gpu, request.max_gpu, job.n_gpu}
    n = 1
    while n < per_server:
        found.add(n)
        n *= 2
    n = 1
    while n <= n_server:
        found.add(n * per_server)
        n = n + 1 if n < SINGLE_STEPS else 2 * n
    return sorted(n for n in found if request.min_gpu <= n <= min(request.max_gpu, whole))


def usual_place(machine: Machine, pool: int, n_gpu: int) -> Place:
    """As few servers of an empty pool as possible."""
    per_server, first = machine.pools[pool].n_gpu, machine.first[pool]
    n_whole, rest = divmod(n_gpu, per_server)
    return [(first + k, per_server) for k in range(n_whole)] + [(first + n_whole, rest)] * (rest > 0)
