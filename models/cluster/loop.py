"""The event loop of the cluster: jobs come, start, end and are interrupted; servers fail and come back.

Events of one instant happen in the order of their kinds, then of jobs or components; then the scheduler decides once.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from models.cluster.failures import JOB, Failures
from models.cluster.job import DONE, RUNNING, WAITING, Job, Place, Request
from models.cluster.machine import Machine
from models.cluster.placement import Policy
from models.cluster.progress import Checkpoints, done_in, time_us
from models.cluster.spares import Spares
from models.cluster.usage import Usage

END, FAIL, BACK, UP, ARRIVE, WAKE = range(6)
NEVER_US = 2**62
MOST_IDLE = 1000
STARTED, STOPPED, ENDED, INTERRUPTED, BACK_AGAIN = "start", "stop", "end", "interrupt", "requeue"
FAILED, REPAIRED = "fail", "repair"


class Speeds(Protocol):
    """How fast jobs are."""

    def __call__(self, request: Request, pool: int, place: Place) -> float:
        """Work per time of a job in its place; above 0."""
        ...


class Watch(Protocol):
    """Who is told of everything that happens: tables, progress."""

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        """server: -1 if it is a job's. why: the component that failed, or ""."""
        ...

    def left(self, job: Job) -> None:
        """A job is done."""
        ...


class Decides(Protocol):
    """A scheduler, as the loop knows it; `schedulers.scheduler` says what it may do."""

    def submitted(self, job: Job) -> None:
        """It waits."""
        ...

    def started(self, job: Job) -> None:
        """It runs."""
        ...

    def ended(self, job: Job) -> None:
        """It runs no more."""
        ...

    def decide(self) -> None:
        """All else of an instant has happened."""
        ...


class Rules(NamedTuple):
    """How the cluster works. checkpoints: of a job with so many servers. stop_us: nothing happens after it."""

    place: Policy
    speed: Speeds
    checkpoints: Callable[[Request, int], Checkpoints]
    stop_us: int = NEVER_US


class StuckError(Exception):
    """Jobs wait, and nothing will ever happen."""


class Cluster:
    """now_us, running, machine: for schedulers to read. running: jobs by number, in the order of their starts."""

    def __init__(
        self, machine: Machine, rules: Rules, requests: Iterable[Request], failures: Failures, watch: Watch
    ) -> None:
        self.machine, self.rules, self.failures, self.watch = machine, rules, failures, watch
        self.requests: Iterator[Request] = iter(requests)
        self.now_us, self.n_event, self.waiting_gpus, self.held_gpus = 0, 0, 0, 0
        self.running: dict[int, Job] = {}
        self.waiting: dict[int, Job] = {}
        self.jobs_on: dict[int, list[Job]] = {}
        self.spares = Spares([0] * len(machine.pools), [0] * len(machine.pools))
        self.usage = Usage(0)
        self.lost_gpu_us: dict[str, int] = {}
        self.n_failure: dict[str, int] = {}
        self._events: list[tuple[int, int, int, int]] = []
        self._next: Request | None = None
        self._wakes: set[int] = set()
        self._n_out = 0  # servers that are to come back
        self._n_idle = 0  # instants in a row at which nothing ran or was to come but the scheduler's own wakes
        self._scheduler: Decides

    # For schedulers

    @property
    def n_free(self) -> int:
        """GPUs that are free, of all pools."""
        return sum(self.machine.n_free)

    def may_use(self, job: Job, pool: int) -> bool:
        """Whether a job's GPUs may be of this pool."""
        return not job.gpu_type or self.machine.pools[pool].gpu == job.gpu_type

    def n_free_for(self, job: Job) -> int:
        """The most GPUs that are free in one pool that it may use."""
        return max((n for pool, n in enumerate(self.machine.n_free) if self.may_use(job, pool)), default=0)

    def fits(self, job: Job) -> bool:
        """Whether enough GPUs are free; where they lie may still hold it up."""
        return self.n_free_for(job) >= job.n_gpu

    def start(self, job: Job, pool: int = -1, n_gpu: int = 0) -> bool:
        """Start a job that waits; False: there is no place. pool: -1 for any. n_gpu: of an elastic job, 0: as asked."""
        for i in range(len(self.machine.pools)) if pool < 0 else (pool,):
            if self.may_use(job, i) and (place := self.rules.place(self.machine, i, n_gpu or job.n_gpu)) is not None:
                self._start(job, i, place)
                return True
        return False

    def stop(self, job: Job) -> None:
        """Stop a running job, with a checkpoint; it waits then."""
        assert not job.is_hung, "a job that hangs can only be waited for"
        done = done_in(self.now_us - job.begin_us, job.left_us, job.speed, job.rules)
        job.saved_us += done.work_us
        job.overhead_gpu_us += (done.writing_us + min(job.begin_us, self.now_us) - job.start_us) * job.n_held
        job.owes_us = job.rules.write_us
        job.n_preemption += 1
        self._happened(STOPPED, job)
        self._release(job)
        self._wait(job)

    def wake(self, at_us: int) -> None:
        """Let the scheduler decide then, too."""
        if at_us > self.now_us and at_us not in self._wakes:
            self._wakes.add(at_us)
            heapq.heappush(self._events, (at_us, WAKE, 0, 0))

    def settle(self, job: Job) -> None:
        """Count what a running job has had, as the run stops here: what is under way counts as work."""
        job.gpu_us += (self.now_us - job.start_us) * job.n_held
        if job.is_hung:
            not_yet_us = (job.back_us - self.now_us) * job.n_held
            job.lost_gpu_us -= not_yet_us
            self.lost_gpu_us[job.cause] -= not_yet_us
            return
        done = done_in(self.now_us - job.begin_us, job.left_us, job.speed, job.rules)
        job.saved_us += done.work_us
        job.overhead_gpu_us += (done.writing_us + min(job.begin_us, self.now_us) - job.start_us) * job.n_held

    # The loop

    def run(self, scheduler: Decides) -> None:
        """Until all jobs are done, or until the rules' stop. StuckError: jobs wait that nothing will start."""
        self._scheduler, stop_us = scheduler, self.rules.stop_us
        for component in range(len(self.failures.components)):
            self._expect_failure(component, 0)
        self._pull()
        events = self._events
        while self.running or self.waiting or self._next is not None:
            if not self._can_go_on():
                raise StuckError
            if events[0][0] > stop_us:
                break
            self._advance(events[0][0])
            while events and events[0][0] == self.now_us:
                self._handle(heapq.heappop(events))
            scheduler.decide()
        if events and events[0][0] > stop_us:
            self._advance(stop_us)
        self.usage.finish()

    def _can_go_on(self) -> bool:
        """Whether anything is to come that lets a job start or end: failures alone do not."""
        if self.running or self._next is not None or self._n_out:
            self._n_idle = 0
            return True
        self._n_idle += 1
        return bool(self._wakes) and self._n_idle < MOST_IDLE

    def _advance(self, now_us: int) -> None:
        level = len(self.waiting), self.waiting_gpus, len(self.running), self.held_gpus, sum(self.machine.n_up)
        self.usage.advance(now_us, level)
        self.now_us = now_us

    def _handle(self, event: tuple[int, int, int, int]) -> None:
        _, kind, number, version = event
        self.n_event += 1
        if kind == END:
            job = self.running.get(number)
            if job is not None and job.version == version:
                self._end(job)
        elif kind == ARRIVE:
            assert self._next is not None
            self._wait(Job(self._next))
            self._pull()
        elif kind == FAIL:
            self._fail(number)
        elif kind == BACK:
            job = self.running.get(number)
            if job is not None and job.version == version:
                self._happened(BACK_AGAIN, job)
                self._release(job)
                self._wait(job)
        elif kind == UP:
            self._come_back(number)
        else:
            self._wakes.discard(self.now_us)

    def _pull(self) -> None:
        """The next job's arrival."""
        self._next = next(self.requests, None)
        if self._next is not None:
            heapq.heappush(self._events, (max(self._next.submit_us, self.now_us), ARRIVE, self._next.number, 0))

    def _wait(self, job: Job) -> None:
        job.state, job.ready_us = WAITING, self.now_us
        self.waiting[job.number] = job
        self.waiting_gpus += job.n_gpu
        self._scheduler.submitted(job)

    def _start(self, job: Job, pool: int, place: Place) -> None:
        del self.waiting[job.number]
        self.waiting_gpus -= job.n_gpu
        now_us, n_gpu = self.now_us, sum(n for _, n in place)
        rules = self.rules.checkpoints(job.request._replace(n_gpu=n_gpu), len(place))
        job.state, job.place, job.pool, job.n_held, job.rules = RUNNING, place, pool, n_gpu, rules
        job.speed = self.rules.speed(job.request, pool, place)
        job.waited_us += now_us - job.ready_us
        if job.first_start_us < 0:
            job.first_start_us = now_us
        job.n_start += 1
        job.start_us = now_us
        job.begin_us = now_us + rules.begin_us + job.owes_us + (rules.restart_us if job.n_start > 1 else 0)
        job.owes_us = 0
        job.version += 1
        self.held_gpus += job.n_held
        end_us = job.begin_us + time_us(job.left_us, job.speed, rules)
        job.end_us = end_us
        is_exact = not job.request.estimate_us
        job.estimated_end_us = end_us if is_exact else job.begin_us + time_us(job.estimate_us, job.speed, rules)
        self.running[job.number] = job
        if self.failures.components:
            for server, _ in place:
                self.jobs_on.setdefault(server, []).append(job)
        heapq.heappush(self._events, (end_us, END, job.number, job.version))
        self._scheduler.started(job)
        self._happened(STARTED, job)

    def _release(self, job: Job) -> None:
        """Its GPUs are free, and it is nowhere."""
        self.machine.give(job.place)
        self.held_gpus -= job.n_held
        job.gpu_us += (self.now_us - job.start_us) * job.n_held
        job.version += 1
        job.is_hung = False
        del self.running[job.number]
        if self.failures.components:
            for server, _ in job.place:
                self.jobs_on[server].remove(job)
        self._scheduler.ended(job)
        job.n_held, job.place = 0, []

    def _end(self, job: Job) -> None:
        done = done_in(self.now_us - job.begin_us, job.left_us, job.speed, job.rules)
        job.overhead_gpu_us += (done.writing_us + job.begin_us - job.start_us) * job.n_held
        job.saved_us = job.request.work_us
        self._happened(ENDED, job)
        self._release(job)
        job.state = DONE
        self.watch.left(job)

    def _happened(self, what: str, job: Job | None, server: int = -1, why: str = "") -> None:
        self.watch.happened(self.now_us, what, job, server, why)

    # Failures

    def _expect_failure(self, component: int, since_us: int) -> None:
        heapq.heappush(self._events, (self.failures.next_us(component, since_us), FAIL, component, 0))

    def _fail(self, component: int) -> None:
        """A component fails: what it takes is down, and jobs that it hits compute no more."""
        failures, now_us = self.failures, self.now_us
        process = failures.processes[failures.components[component].process]
        servers = failures.servers(component)
        noticed_us = now_us + failures.detection_us(component)
        if process.takes == JOB:
            there = [job for server in servers for job in self.jobs_on.get(server, ())]
            hit = self._drawn(component, there) if process.per == "gpu" else there
        else:
            hit = [job for server in servers if self.machine.is_up(server) for job in self.jobs_on.get(server, ())]
        if process.takes != JOB or hit:
            self.n_failure[process.component] = self.n_failure.get(process.component, 0) + 1
            self._happened(FAILED, None, servers.start, process.component)
        for job in dict.fromkeys(hit):
            if not job.is_hung:
                self._interrupt(job, noticed_us, process.component)
        down_until_us = now_us
        if process.takes != JOB:
            down_until_us = noticed_us + failures.repair_us(component)
            for server in servers:
                if self.machine.is_up(server):
                    self.machine.fail(server)
                    self._n_out += 1
                    up_us = self.spares.back_us(self.machine.pool_of[server], noticed_us, down_until_us)
                    heapq.heappush(self._events, (up_us, UP, server, 0))
        self._expect_failure(component, down_until_us)

    def _drawn(self, component: int, jobs: list[Job]) -> list[Job]:
        """The job that has the GPU that failed: none if that was free."""
        server = self.failures.components[component].first
        place = self.failures.victim(component, self.machine.pools[self.machine.pool_of[server]].n_gpu)
        for job in jobs:
            place -= next(n for other, n in job.place if other == server)
            if place < 0:
                return [job]
        return []

    def _interrupt(self, job: Job, noticed_us: int, why: str) -> None:
        """It loses what no checkpoint has, and holds its GPUs until that is noticed."""
        done = done_in(self.now_us - job.begin_us, job.left_us, job.speed, job.rules)
        lost_us = self.now_us - max(min(job.begin_us, self.now_us), job.start_us) - done.writing_us
        lost_us -= time_us(done.saved_us, job.speed, job.rules._replace(interval_us=0))
        lost_gpu_us = (max(lost_us, 0) + noticed_us - self.now_us) * job.n_held
        job.overhead_gpu_us += (done.writing_us + min(job.begin_us, self.now_us) - job.start_us) * job.n_held
        job.lost_gpu_us += lost_gpu_us
        self.lost_gpu_us[why] = self.lost_gpu_us.get(why, 0) + lost_gpu_us
        job.saved_us += done.saved_us
        job.n_failure += 1
        job.version += 1
        job.is_hung, job.back_us, job.cause = True, noticed_us, why
        heapq.heappush(self._events, (noticed_us, BACK, job.number, job.version))
        self._happened(INTERRUPTED, job, -1, why)

    def _come_back(self, server: int) -> None:
        if self.machine.taken[server]:  # a job still hangs there, of an earlier failure
            back_us = max(job.back_us for job in self.jobs_on[server])
            heapq.heappush(self._events, (back_us, UP, server, 0))
            return
        self._n_out -= 1
        self.machine.repair(server)
        self._happened(REPAIRED, None, server)
