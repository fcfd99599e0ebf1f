"""The round mechanism of Gavel (OSDI '20, section 5): shares of time on each pool become jobs that run for a round.

In a round whoever has had least of its share runs first: the priority is share over time received. A round ends after
its time, or as soon as nothing runs; jobs that are new wait for it. Shares are computed anew at the start of a round,
if jobs or servers have come or gone since, and not before `reset_minutes` have passed.
"""

import random
from typing import Any

import numpy as np

from models.cluster.job import Job
from models.cluster.schedulers.accepted import MINUTES, Number
from models.cluster.schedulers.rounds.elastic import usual_place
from models.cluster.schedulers.rounds.ledger import Ledger, that_fit
from models.cluster.schedulers.scheduler import Scheduler

Shares = dict[int, list[float]]
"""By job number: for each pool, the share of its time that the job shall run there."""


class Rounds(Scheduler):
    """Base of the policies. A subclass has `shares`.

    round_minutes: of a round. reset_minutes: the least time between two computations of shares. seed: of the order of
    pools, which is drawn each round where shuffles is set. strict: jobs without a share do not run.
    """

    options = {"round_minutes": 6.0, "reset_minutes": 32.0, "seed": 0}
    accepted = {"round_minutes": MINUTES, "reset_minutes": Number(0)}
    round_minutes: float
    reset_minutes: float
    seed: int
    shuffles, strict = False, False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.active: dict[int, Job] = {}
        self.n_pool = len(self.cluster.machine.pools)
        self.ledger = Ledger(self.n_pool)
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
            self.ledger.add(job, [self.cluster.may_use(job, pool) for pool in range(self.n_pool)])
            self.is_stale = True

    def started(self, job: Job) -> None:
        """Its time begins."""
        super().started(job)
        self.ledger.started(job)

    def ended(self, job: Job) -> None:
        """Its time counts; a job that is done takes part no more."""
        self.ledger.ended(job, self.round_start_us, self.cluster.now_us)
        if job.saved_us >= job.request.work_us:
            del self.active[job.number]
            self.ledger.remove(job)
            self.is_stale = True

    def decide(self) -> None:
        """Nothing within a round."""
        cluster = self.cluster
        if not self.active:
            return
        if cluster.now_us < self.round_end_us and cluster.running:
            self._stay_awake()
            return
        self.ledger.count(self.round_start_us, cluster.now_us)
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
        """Of a job there, on as few servers as possible; 0 if it may not be there, or is larger than what is up."""
        machine = self.cluster.machine
        n_gpu = machine.n_up[pool] or machine.pools[pool].n_server * machine.pools[pool].n_gpu
        if not self.cluster.may_use(job, pool) or job.n_gpu > n_gpu:
            return 0.0
        return self.cluster.rules.speed(job.request, pool, usual_place(machine, pool, job.n_gpu))

    def left_us(self, job: Job) -> float:
        """Work that is left now."""
        done_us = job.done_us(self.cluster.now_us) if job.number in self.cluster.running else 0
        return max(job.left_us - done_us, 0.0)

    def _reset(self) -> None:
        """New shares; what somebody has had too little of its old ones is remembered."""
        self.ledger.reset(self.cluster.now_us - self.reset_us)
        self.reset_us, self.is_stale, self.n_up = self.cluster.now_us, False, list(self.cluster.machine.n_up)
        self.ledger.give(self.shares())

    def _chosen(self) -> np.ndarray:
        """[number, pool] of each job that runs in the round. Jobs without shares yet keep GPUs free, as in Gavel."""
        pools, ledger = list(range(self.n_pool)), self.ledger
        if self.shuffles:
            self.shuffler.shuffle(pools)
        is_free, chosen = np.ones(ledger.n, bool), [np.zeros((0, 2), np.int64)]
        for pool in pools:
            line = ledger.line(pool, self.round_minutes * 30e6, self.strict)
            line = line[is_free[line]]
            line = line[that_fit(ledger.n_gpu[line], self.cluster.machine.n_up[pool])]
            is_free[line] = False
            line = line[ledger.has_share[line]]
            chosen.append(np.stack([ledger.number[line], np.full(len(line), pool)], axis=1))
        return np.concatenate(chosen)

    def _run(self, chosen: np.ndarray) -> None:
        """Whoever stays where it is goes on; others stop before new ones start."""
        cluster, ledger = self.cluster, self.ledger
        wanted = np.full(ledger.n, -1)
        rows = np.array([ledger.row_of[number] for number in chosen[:, 0].tolist()], np.int64)
        wanted[rows] = chosen[:, 1]
        starts = chosen[ledger.pool[rows] != chosen[:, 1]].tolist()
        stops = np.flatnonzero((ledger.pool >= 0) & (ledger.pool != wanted))
        for number in ledger.number[stops[np.argsort(ledger.turn[stops])]].tolist():
            if not self.active[number].is_hung:
                self.round_start_us = cluster.now_us  # its time is counted already
                cluster.stop(self.active[number])
        for number, pool in starts:
            if number not in cluster.running:
                cluster.start(self.active[number], pool=pool)
