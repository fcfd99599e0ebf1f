"""What happens when something fails: jobs are interrupted, servers are down until they are repaired or replaced."""

from typing import Protocol

from models.cluster.failures import JOB, Failures
from models.cluster.job import Job
from models.cluster.machine import Machine
from models.cluster.progress import done_in, time_us
from models.cluster.rules import BACK, BACK_AGAIN, FAIL, FAILED, INTERRUPTED, REPAIRED, UP
from models.cluster.spares import Spares


class Loop(Protocol):
    """The event loop, as far as incidents need it. jobs_on: those that run, by server, where anything can fail."""

    now_us: int
    machine: Machine
    failures: Failures
    spares: Spares
    jobs_on: dict[int, list[Job]]
    lost_gpu_us: dict[str, int]
    n_failure: dict[str, int]

    def push(self, at_us: int, kind: int, number: int, version: int) -> None:
        """An event to come."""
        ...

    def happened(self, what: str, job: Job | None, server: int = -1, why: str = "") -> None:
        """Tell whoever watches."""
        ...

    def queue_again(self, job: Job) -> None:
        """A running job gives back its GPUs, and waits."""
        ...


class Incidents:
    """n_out: servers that are to come back."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.n_out = 0

    def begin(self) -> None:
        """Each component's first failure is to come."""
        for component in range(len(self.loop.failures.components)):
            self._expect_failure(component, 0)

    def _expect_failure(self, component: int, since_us: int) -> None:
        self.loop.push(self.loop.failures.next_us(component, since_us), FAIL, component, 0)

    def fail(self, component: int) -> None:
        """A component fails: what it takes is down, and jobs that it hits compute no more."""
        loop = self.loop
        failures, machine, now_us = loop.failures, loop.machine, loop.now_us
        process = failures.processes[failures.components[component].process]
        servers = failures.servers(component)
        noticed_us = now_us + failures.detection_us(component)
        if process.takes == JOB:
            there = [job for server in servers for job in loop.jobs_on.get(server, ())]
            hit = self._drawn(component, there) if process.per == "gpu" else there
        else:
            hit = [job for server in servers if machine.is_up(server) for job in loop.jobs_on.get(server, ())]
        if process.takes != JOB or hit:
            loop.n_failure[process.component] = loop.n_failure.get(process.component, 0) + 1
            loop.happened(FAILED, None, servers.start, process.component)
        for job in dict.fromkeys(hit):
            if not job.is_hung:
                self._interrupt(job, noticed_us, process.component)
        down_until_us = now_us
        if process.takes != JOB:
            down_until_us = noticed_us + failures.repair_us(component)
            for server in servers:
                if machine.is_up(server):
                    machine.fail(server)
                    self.n_out += 1
                    up_us = loop.spares.back_us(machine.pool_of[server], noticed_us, down_until_us)
                    loop.push(up_us, UP, server, 0)
        self._expect_failure(component, down_until_us)

    def _drawn(self, component: int, jobs: list[Job]) -> list[Job]:
        """The job that has the GPU that failed: none if that was free."""
        failures, machine = self.loop.failures, self.loop.machine
        server = failures.components[component].first
        place = failures.victim(component, machine.pools[machine.pool_of[server]].n_gpu)
        for job in jobs:
            place -= next(n for other, n in job.place if other == server)
            if place < 0:
                return [job]
        return []

    def _interrupt(self, job: Job, noticed_us: int, why: str) -> None:
        """It loses what no checkpoint has, and holds its GPUs until that is noticed."""
        loop, now_us = self.loop, self.loop.now_us
        done = done_in(now_us - job.begin_us, job.left_us, job.speed, job.rules)
        lost_us = now_us - max(min(job.begin_us, now_us), job.start_us) - done.writing_us
        lost_us -= time_us(done.saved_us, job.speed, job.rules._replace(interval_us=0))
        lost_gpu_us = (max(lost_us, 0) + noticed_us - now_us) * job.n_held
        job.overhead_gpu_us += (done.writing_us + min(job.begin_us, now_us) - job.start_us) * job.n_held
        job.lost_gpu_us += lost_gpu_us
        loop.lost_gpu_us[why] = loop.lost_gpu_us.get(why, 0) + lost_gpu_us
        job.saved_us += done.saved_us
        job.n_failure += 1
        job.version += 1
        job.is_hung, job.back_us, job.cause = True, noticed_us, why
        loop.push(noticed_us, BACK, job.number, job.version)
        loop.happened(INTERRUPTED, job, -1, why)

    def noticed(self, job: Job) -> None:
        """Somebody has noticed that it hangs."""
        self.loop.happened(BACK_AGAIN, job)
        self.loop.queue_again(job)

    def come_back(self, server: int) -> None:
        """It is repaired, or a spare stands in."""
        loop = self.loop
        if loop.machine.taken[server]:  # a job still hangs there, of an earlier failure
            back_us = max(job.back_us for job in loop.jobs_on[server])
            loop.push(back_us, UP, server, 0)
            return
        self.n_out -= 1
        loop.machine.repair(server)
        loop.happened(REPAIRED, None, server)
