"""The round mechanism of Gavel (OSDI '20, section 5): shares of time on each pool become jobs that run for a round.

In a round whoever has had least of its share runs first: the priority is share over time received. A round ends after
its time, or as soon as nothing runs; jobs that are new wait for it. Shares are computed anew at the start of a round,
if jobs or servers have come or gone since, and not before `reset_minutes` have passed.
"""

import random
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.scheduler import Scheduler

Shares = dict[int, list[float]]
"""By job number: for each pool, the share of its time that the job shall run there."""


class Rounds(Scheduler):
    """Base of the policies. A subclass has `shares`.

    round_minutes: of a round. reset_minutes: the least time between two computations of shares. seed: of the order of
    pools, which is drawn each round where shuffles is set. strict: jobs without a share do not run.
    """

    options = {"round_minutes": 6.0, "reset_minutes": 32.0, "seed": 0}
    round_minutes: float
    reset_minutes: float
    seed: int
    shuffles, strict = False, False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.active: dict[int, Job] = {}
        self.received_us: dict[int, list[int]] = {}  # since the last reset, without the half round that all begin with
        self.deficit_us: dict[int, list[float]] = {}
        self.allocated: Shares = {}
        self.n_pool = len(self.cluster.machine.pools)
        self.round_start_us, self.round_end_us, self.reset_us, self.is_stale = 0, 0, 0, False
        self.wake_us = 0
        self.n_up: list[int] = []  # GPUs by pool when shares were computed
        self.shuffler = random.Random(self.seed + 5)

    def shares(self) -> Shares:
        """Of all that are active."""
        raise NotImplementedError

    def submitted(self, job: Job) -> None:
        """A new job takes part from the next round on."""
        super().submitted(job)
        if job.number not in self.active:
            self.active[job.number] = job
            self.received_us[job.number] = [0] * self.n_pool
            self.deficit_us[job.number] = [0.0] * self.n_pool
            self.is_stale = True

    def ended(self, job: Job) -> None:
        """Its time counts; a job that is done takes part no more."""
        self._count(job)
        if job.saved_us >= job.request.work_us:
            for by_job in (self.active, self.received_us, self.deficit_us):
                del by_job[job.number]
            self.is_stale = True

    def decide(self) -> None:
        """Nothing within a round."""
        cluster = self.cluster
        if not self.active:
            return
        if cluster.now_us < self.round_end_us and cluster.running:
            self._stay_awake()
            return
        for job in cluster.running.values():
            self._count(job)
        self.is_stale |= self.n_up != cluster.machine.n_up
        if self.is_stale and (not self.reset_us or cluster.now_us - self.reset_us >= self.reset_minutes * 60e6):
            self._reset()
        self.round_start_us = cluster.now_us
        self.round_end_us = cluster.now_us + int(self.round_minutes * 60e6)
        self._run(self._chosen())
        self._stay_awake()

    def _stay_awake(self) -> None:
        """One wake is to come, never more: rounds that begin early would leave theirs behind."""
        if self.wake_us <= self.cluster.now_us:
            self.wake_us = self.round_end_us
            self.cluster.wake(self.wake_us)

    def speed(self, job: Job, pool: int) -> float:
        """Of a job there, 0 if it may not be there."""
        if not self.cluster.may_use(job, pool):
            return 0.0
        return self.cluster.rules.speed(job.request, pool, [(self.cluster.machine.first[pool], job.n_gpu)])

    def left_us(self, job: Job) -> float:
        """Work that is left now."""
        done_us = job.done_us(self.cluster.now_us) if job.number in self.cluster.running else 0
        return max(job.left_us - done_us, 0.0)

    def _count(self, job: Job) -> None:
        since_us = max(job.start_us, self.round_start_us)
        self.received_us[job.number][job.pool] += self.cluster.now_us - since_us

    def _reset(self) -> None:
        """New shares; what somebody has had too little of its old ones is remembered."""
        elapsed_us = self.cluster.now_us - self.reset_us
        nothing = [0.0] * self.n_pool
        for number, received in self.received_us.items():
            share, deficit = self.allocated.get(number, nothing), self.deficit_us[number]
            for pool in range(self.n_pool):
                deficit[pool] += share[pool] * elapsed_us - received[pool]
                received[pool] = 0
        self.reset_us, self.is_stale, self.n_up = self.cluster.now_us, False, list(self.cluster.machine.n_up)
        self.allocated = self.shares()

    def _chosen(self) -> dict[int, int]:
        """The pool of each job that runs in the round. Jobs without shares yet keep a GPU free, as in Gavel."""
        pools, nothing = list(range(self.n_pool)), [0.0] * self.n_pool
        if self.shuffles:
            self.shuffler.shuffle(pools)
        half_us, chosen = self.round_minutes * 30e6, {}
        for pool in pools:
            n_left, line = self.cluster.machine.n_up[pool], []
            for number in self.active:
                share = self.allocated.get(number, nothing)[pool]
                if share > 0 or not self.strict:
                    rank = share / (half_us + self.received_us[number][pool])
                    line.append((rank, self.deficit_us[number][pool], share, -number))
            for *_, negative in sorted(line, reverse=True):
                job = self.active[-negative]
                if n_left <= 0:
                    break
                if job.number not in chosen and job.n_gpu <= n_left and self.cluster.may_use(job, pool):
                    chosen[job.number] = pool
                    n_left -= job.n_gpu
        return {number: pool for number, pool in chosen.items() if number in self.allocated}

    def _run(self, chosen: dict[int, int]) -> None:
        """Whoever stays where it is goes on; others stop before new ones start."""
        cluster = self.cluster
        for job in list(cluster.running.values()):
            if chosen.get(job.number) != job.pool and not job.is_hung:
                self.round_start_us = cluster.now_us  # its time is counted already
                cluster.stop(job)
        for number, pool in chosen.items():
            if number not in cluster.running:
                cluster.start(self.active[number], pool=pool)
