"""The event loop of the cluster: jobs come, start, end and are interrupted; servers fail and come back.

Events of one instant happen in the order of their kinds, then of jobs or components; then the scheduler decides once.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator

from models.cluster.asked import StuckError, check_start, check_stop
from models.cluster.failures import Failures
from models.cluster.incidents import Incidents
from models.cluster.job import DONE, RUNNING, WAITING, Job, Place, Request
from models.cluster.machine import Machine
from models.cluster.progress import FROM_START, Done, done_in, mark_of, time_us
from models.cluster.rules import (
    ARRIVE,
    BACK,
    CLOSE,
    END,
    ENDED,
    FAIL,
    MOVED,
    OVER,
    SPED,
    STARTED,
    STOPPED,
    UP,
    WAKE,
    Decides,
    Rules,
    Watch,
)
from models.cluster.sharing import Sharing
from models.cluster.spares import Spares
from models.cluster.usage import Usage

MOST_IDLE = 1000


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
        self.next: Request | None = None  # that comes next
        self._wakes: set[int] = set()
        self._n_idle = 0  # instants in a row at which nothing ran or was to come but the scheduler's own wakes
        self._scheduler: Decides
        self.incidents = Incidents(self)
        self.sharing: Sharing | None = None  # where jobs that share links change each other's speed

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
        """Start a job that waits; False: there is no place. pool: -1 for any. n_gpu: of an elastic job, 0: as asked.

        AskError: it does not wait, or may not have so many.
        """
        check_start(job, n_gpu, self.waiting, self.running)
        for i in range(len(self.machine.pools)) if pool < 0 else (pool,):
            if self.may_use(job, i) and (place := self._place(job, i, n_gpu or job.n_gpu)) is not None:
                self._start(job, i, place)
                return True
        return False

    def stop(self, job: Job) -> None:
        """Stop a running job, with a checkpoint; it waits then. AskError: it does not run, or hangs."""
        check_stop(job, self.running)
        job.n_preemption += 1
        self._leave(job, STOPPED)

    def wake(self, at_us: int) -> None:
        """Let the scheduler decide then, too."""
        if at_us > self.now_us and at_us not in self._wakes:
            self._wakes.add(at_us)
            heapq.heappush(self._events, (at_us, WAKE, 0, 0))

    def isolated_us(self, job: Job) -> int:
        """What a job that ends now would have taken with its equal share of the GPUs that it may use, by itself.

        Themis' time in isolation (Mahajan et al. 2020, section 3): the share is one over the mean number of jobs in the
        cluster while it was there, itself among them; on fewer GPUs than it asks for it takes longer in proportion.
        """
        pools = [pool for i, pool in enumerate(self.machine.pools) if self.may_use(job, i)]
        n_gpu = sum(pool.n_server * pool.n_gpu for pool in pools)
        span_us = max(self.now_us - job.request.submit_us, 1)
        work_us = job.request.work_us
        return max(work_us, work_us * job.n_gpu * (self.usage.jobs_us - job.crowd_us) // (n_gpu * span_us))

    def settle(self, job: Job) -> None:
        """Count what a running job has had, as the run stops here: what is under way counts as work."""
        job.gpu_us += (self.now_us - job.start_us) * job.n_held
        if job.is_hung:
            not_yet_us = (job.back_us - self.now_us) * job.n_held
            job.lost_gpu_us -= not_yet_us
            self.lost_gpu_us[job.cause] -= not_yet_us
            return
        job.saved_us += self.count(job).work_us

    def set_speed(self, job: Job, speed: float, cause: str = "") -> None:
        """From now on a running job does so much work per time, with the checkpoints that it would have written anyway.

        cause: of what it loses beside its full speed; "": this is its full speed from now on.
        """
        assert not job.is_hung
        done = self._progress(job)
        self._count_slow(job, done)
        job.speed, job.slow_cause = speed, cause
        if not cause:
            job.full_speed = speed
        job.mark = mark_of(done, speed, job.full_speed)
        self._expect_end(job)
        self._scheduler.changed(job)
        self.happened(SPED, job, -1, cause)

    def set_full_speed(self, job: Job, speed: float) -> None:
        """The same of what it is without what slows it, which goes on to do so, maybe to another share."""
        if speed != job.full_speed:
            self.set_speed(job, speed)
        if self.incidents.slow or self.rules.storage is not None:
            share, cause = self.incidents.share_of_speed(job)
            if share * speed != job.speed or cause != job.slow_cause:
                self.set_speed(job, share * speed, cause)

    # The loop

    def run(self, scheduler: Decides, rests: Callable[[], bool] | None = None) -> bool:
        """Until all jobs are done, or until the rules' stop. StuckError: jobs wait that nothing will start.

        rests: asked at the end of every instant whether the run shall break off; it may save what there is then.
        False: it was broken off.
        """
        self._scheduler, stop_us, events = scheduler, self.rules.stop_us, self._events
        if not self.n_event:  # else it goes on
            self.incidents.begin()
            self._pull()
        while self.running or self.waiting or self.next is not None:
            if not self._can_go_on():
                raise StuckError
            if events[0][0] > stop_us:
                break
            self._advance(events[0][0])
            while events and events[0][0] == self.now_us:
                self._handle(heapq.heappop(events))
            scheduler.decide()
            if rests is not None and rests():
                return False
        if events and events[0][0] > stop_us:
            self._advance(stop_us)
        self.usage.finish()
        self.incidents.finish()
        return True

    def _can_go_on(self) -> bool:
        """Whether anything is to come that lets a job start or end: failures alone do not."""
        if self.running or self.next is not None or self.incidents.n_out:
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
            assert self.next is not None
            job = Job(self.next)
            job.crowd_us = self.usage.jobs_us
            self._wait(job)
            self._pull()
        elif kind == FAIL:
            self.incidents.fail(number)
        elif kind == BACK:
            job = self.running.get(number)
            if job is not None and job.version == version:
                self.incidents.noticed(job)
        elif kind == UP:
            self.incidents.come_back(number)
        elif kind == OVER:
            self.incidents.end_slowness(number)
        elif kind == CLOSE:
            self.incidents.close(number)
        else:
            self._wakes.discard(self.now_us)

    def _pull(self) -> None:
        """The next job's arrival."""
        self.next = next(self.requests, None)
        if self.next is not None:
            heapq.heappush(self._events, (max(self.next.submit_us, self.now_us), ARRIVE, self.next.number, 0))

    def _wait(self, job: Job) -> None:
        job.state, job.ready_us = WAITING, self.now_us
        self.waiting[job.number] = job
        self.waiting_gpus += job.n_gpu
        self._scheduler.submitted(job)

    def _place(self, job: Job, pool: int, n_gpu: int) -> Place | None:
        if self.rules.choose is not None:
            return self.rules.choose(self.machine, pool, n_gpu, job)
        return self.rules.place(self.machine, pool, n_gpu)

    def _start(self, job: Job, pool: int, place: Place) -> None:
        del self.waiting[job.number]
        self.waiting_gpus -= job.n_gpu
        now_us, n_gpu = self.now_us, sum(n for _, n in place)
        rules = self.rules.checkpoints(job.request._replace(n_gpu=n_gpu), len(place))
        job.state, job.place, job.pool, job.n_held, job.rules = RUNNING, place, pool, n_gpu, rules
        job.speed = job.full_speed = self.rules.speed(job.request, pool, place)
        job.mark, job.slow_cause = FROM_START, ""
        job.waited_us += now_us - job.ready_us
        if job.first_start_us < 0:
            job.first_start_us = now_us
        job.n_start += 1
        job.start_us = now_us
        job.begin_us = now_us + rules.begin_us + job.owes_us + (rules.restart_us if job.n_start > 1 else 0)
        job.owes_us = 0
        self.held_gpus += job.n_held
        self.running[job.number] = job
        if self.failures.reach_jobs:
            for server, _ in place:
                self.jobs_on.setdefault(server, []).append(job)
        if self.incidents.slow or self.rules.storage is not None:
            share, cause = self.incidents.share_of_speed(job)
            if cause:
                job.speed, job.slow_cause, job.mark = share * job.full_speed, cause, FROM_START._replace(slow=1 - share)
        self._expect_end(job)
        self._scheduler.started(job)
        self.happened(STARTED, job)
        if self.sharing is not None:
            self.sharing.started(self, job)

    def _expect_end(self, job: Job) -> None:
        """As it goes now."""
        job.version += 1
        end_us = job.begin_us + time_us(job.left_us, job.speed, job.rules, job.mark)
        job.end_us = end_us
        if not job.request.estimate_us:
            job.estimated_end_us = end_us
        elif job.estimate_us > job.mark.work_us:
            job.estimated_end_us = job.begin_us + time_us(job.estimate_us, job.speed, job.rules, job.mark)
        heapq.heappush(self._events, (end_us, END, job.number, job.version))

    def _progress(self, job: Job) -> Done:
        return done_in(self.now_us - job.begin_us, job.left_us, job.speed, job.rules, job.mark)

    def _count_slow(self, job: Job, done: Done) -> None:
        """What it has lost since its speed changed last."""
        lost_gpu_us = (done.slow_us - job.mark.slow_us) * job.n_held
        if lost_gpu_us:
            job.lost_gpu_us += lost_gpu_us
            self.lost_gpu_us[job.slow_cause] = self.lost_gpu_us.get(job.slow_cause, 0) + lost_gpu_us

    def _leave(self, job: Job, what: str) -> None:
        """It gives back its GPUs, with a checkpoint, and waits."""
        job.saved_us += self.count(job).work_us
        job.owes_us = job.rules.write_us
        self.happened(what, job)
        self._release(job)
        self._wait(job)

    def _release(self, job: Job) -> None:
        """Its GPUs are free, and it is nowhere."""
        self.machine.give(job.place)
        self.held_gpus -= job.n_held
        job.gpu_us += (self.now_us - job.start_us) * job.n_held
        job.version += 1
        job.is_hung = False
        del self.running[job.number]
        if self.failures.reach_jobs:
            for server, _ in job.place:
                self.jobs_on[server].remove(job)
        self._scheduler.ended(job)
        if self.sharing is not None:
            self.sharing.ended(self, job)
        job.n_held, job.place = 0, []

    def _end(self, job: Job) -> None:
        self.count(job)
        job.saved_us = job.request.work_us
        self.happened(ENDED, job)
        self._release(job)
        job.state = DONE
        self.watch.left(job)

    # For incidents

    def count(self, job: Job) -> Done:
        """What a running job has had since its start, as it ends or is interrupted now."""
        done = self._progress(job)
        job.overhead_gpu_us += (done.writing_us + min(job.begin_us, self.now_us) - job.start_us) * job.n_held
        self._count_slow(job, done)
        return done

    def move(self, job: Job) -> None:
        """Its server goes: it stops, with a checkpoint, and waits."""
        job.n_move += 1
        self._leave(job, MOVED)

    def push(self, at_us: int, kind: int, number: int, version: int) -> None:
        """An event to come."""
        heapq.heappush(self._events, (at_us, kind, number, version))

    def queue_again(self, job: Job) -> None:
        """A running job gives back its GPUs, and waits."""
        self._release(job)
        self._wait(job)

    def happened(self, what: str, job: Job | None, server: int = -1, why: str = "") -> None:
        """Tell whoever watches."""
        self.watch.happened(self.now_us, what, job, server, why)
