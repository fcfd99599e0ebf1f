"""What happens when something fails or is maintained: jobs are interrupted, slow or moved, servers are down.

A job goes at the speed of its slowest server. A server that has lost a part of its network slows a job on several
servers by what the network takes of its time (`Rules.network_share`): a share c at full speed is c / l at a share l of
it. One in several racks, with an uplink of one of them down, goes as a run around that link says. Assumptions: what a
job does not lose so, it does as before; whatever is slow in a server slows all jobs there.
"""

from collections.abc import Iterable
from typing import Protocol

from models.cluster.failures import JOB, NETWORK, SLOWS, UPLINK, Failures, Process
from models.cluster.job import Job
from models.cluster.machine import Machine
from models.cluster.progress import Done
from models.cluster.rules import (
    BACK,
    BACK_AGAIN,
    CLOSE,
    CLOSED,
    FAIL,
    FAILED,
    INTERRUPTED,
    OVER,
    RECOVERED,
    REPAIRED,
    UP,
    Rules,
)
from models.cluster.spares import Spares

INPUT = "input"


class Loop(Protocol):
    """The event loop, as far as incidents need it. jobs_on: those that run, by server, where anything can fail."""

    now_us: int
    machine: Machine
    failures: Failures
    spares: Spares
    jobs_on: dict[int, list[Job]]
    lost_gpu_us: dict[str, int]
    n_failure: dict[str, int]
    rules: Rules

    def push(self, at_us: int, kind: int, number: int, version: int) -> None:
        """An event to come."""
        ...

    def happened(self, what: str, job: Job | None, server: int = -1, why: str = "") -> None:
        """Tell whoever watches."""
        ...

    def count(self, job: Job) -> Done:
        """What a job has had since its start, as it is interrupted."""
        ...

    def set_speed(self, job: Job, speed: float, cause: str = "") -> None:
        """From now on."""
        ...

    def move(self, job: Job) -> None:
        """A running job stops, with a checkpoint, and waits."""
        ...

    def queue_again(self, job: Job) -> None:
        """A running job gives back its GPUs, and waits."""
        ...


class Incidents:
    """n_out: servers that are to come back. slow: by server, the components that slow it. down: by server, since when
    and why. closed: by server, until when it is maintained. repaired_us: of components that drain, when that is over.
    down_gpu_us: GPU time of servers that were down, by cause.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.n_out = 0
        self.slow: dict[int, list[int]] = {}
        self.down: dict[int, tuple[int, str]] = {}
        self.closed: dict[int, int] = {}
        self.repaired_us: dict[int, int] = {}
        self.down_gpu_us: dict[str, int] = {}

    def begin(self) -> None:
        """Each component's first failure is to come, and each window."""
        for component in range(len(self.loop.failures.components)):
            self._expect_failure(component, 0)
        for i, window in enumerate(self.loop.failures.windows):
            self.loop.push(window.from_us, CLOSE, i, 0)

    def finish(self) -> None:
        """Count what is down as the run ends; it stays so."""
        for server, (_, why) in self.down.items():
            self._count_down(server)
            self.down[server] = self.loop.now_us, why

    def _expect_failure(self, component: int, since_us: int) -> None:
        self.loop.push(self.loop.failures.next_us(component, since_us), FAIL, component, 0)

    def _process(self, component: int) -> Process:
        return self.loop.failures.processes[self.loop.failures.components[component].process]

    def fail(self, component: int) -> None:
        """A component fails: what it takes is down, and jobs that it hits compute no more; or they are slow."""
        loop, now_us, process = self.loop, self.loop.now_us, self._process(component)
        failures, servers = loop.failures, loop.failures.servers(component)
        noticed_us = now_us + failures.detection_us(component)
        if process.takes == JOB:
            there = self._jobs_on(servers)
            hit = self._drawn(component, there) if process.per == "gpu" else there
        else:
            hit = self._jobs_on(server for server in servers if loop.machine.is_up(server))
        if process.takes != JOB or hit:
            loop.n_failure[process.component] = loop.n_failure.get(process.component, 0) + 1
            loop.happened(FAILED, None, servers.start, process.component)
        if process.takes == JOB:
            repaired_us = now_us
        else:
            repaired_us = noticed_us + failures.repair_us(component)
        self._expect_failure(component, repaired_us)
        if process.takes in SLOWS:
            self._begin_slowness(component, noticed_us, repaired_us)
            return
        for job in dict.fromkeys(hit):
            if not job.is_hung:
                self._interrupt(job, noticed_us, process.component)
        if process.takes != JOB:
            for server in servers:
                if loop.machine.is_up(server):
                    up_us = loop.spares.back_us(loop.machine.pool_of[server], noticed_us, repaired_us)
                    self._take_down(server, up_us, process.component)

    def _jobs_on(self, servers: Iterable[int]) -> list[Job]:
        """A job once for each of its servers."""
        return [job for server in servers for job in self.loop.jobs_on.get(server, ())]

    def _take_down(self, server: int, up_us: int, why: str) -> None:
        self.loop.machine.fail(server)
        self.n_out += 1
        self.down[server] = self.loop.now_us, why
        self.loop.push(up_us, UP, server, 0)

    def _count_down(self, server: int) -> None:
        since_us, why = self.down[server]
        machine = self.loop.machine
        lost_gpu_us = (self.loop.now_us - since_us) * machine.pools[machine.pool_of[server]].n_gpu
        self.down_gpu_us[why] = self.down_gpu_us.get(why, 0) + lost_gpu_us

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

    # What is slow

    def share_of_speed(self, job: Job) -> tuple[float, str]:
        """What a job in its place has of its full speed, and what takes most of it: input, a component, or ""."""
        share, why, storage = 1.0, "", self.loop.rules.storage
        if storage is not None:
            share = storage.input_share(job.n_held, len(job.place), job.full_speed)
            why = INPUT if share < 1 else ""
        if self.slow:
            lost: dict[int, set[int]] = {}
            for server, _ in job.place:
                for component in self.slow.get(server, ()):
                    process = self._process(component)
                    here = process.leaves
                    if process.takes == UPLINK:
                        lost.setdefault(self.loop.machine.rack_of[server], set()).add(component)
                    if process.takes == NETWORK:
                        network = self.loop.rules.network_share if len(job.place) > 1 else 0.0
                        here = 1 / (1 - network + network / process.leaves)
                    if here < share:
                        share, why = here, process.component
            if lost and (here := self._rerouted(job, lost)) < share:
                share, why = here, self._process(min(min(lost.values(), key=min))).component
        return share, why

    def _rerouted(self, job: Job, lost: dict[int, set[int]]) -> float:
        """lost: by rack, the components that have taken an uplink each."""
        rerouted, rack_of = self.loop.rules.rerouted, self.loop.machine.rack_of
        if rerouted is None or len({rack_of[server] for server, _ in job.place}) < 2:
            return 1.0
        return rerouted(job, {rack: len(lost[rack]) for rack in sorted(lost)})

    def _begin_slowness(self, component: int, noticed_us: int, repaired_us: int) -> None:
        if self._process(component).drains:
            self.repaired_us[component] = repaired_us
        for server in self.loop.failures.servers(component):
            self.slow.setdefault(server, []).append(component)
        self.loop.push(noticed_us if component in self.repaired_us else repaired_us, OVER, component, 0)
        self._change_speeds(component)

    def end_slowness(self, component: int) -> None:
        """What was slow is repaired; or it is noticed, and its servers are drained."""
        loop, process = self.loop, self._process(component)
        servers = loop.failures.servers(component)
        for server in servers:
            self.slow[server].remove(component)
            if not self.slow[server]:
                del self.slow[server]
        loop.happened(RECOVERED, None, servers.start, process.component)
        repaired_us = self.repaired_us.pop(component, loop.now_us)
        if process.drains:
            up = [server for server in servers if loop.machine.is_up(server)]
            self._move_from(up)
            for server in up:
                up_us = loop.spares.back_us(loop.machine.pool_of[server], loop.now_us, repaired_us)
                self._take_down(server, up_us, process.component)
        self._change_speeds(component)

    def _change_speeds(self, component: int) -> None:
        """Of all jobs on the servers of a component that became slow, or is so no more."""
        for job in dict.fromkeys(self._jobs_on(self.loop.failures.servers(component))):
            share, why = self.share_of_speed(job)
            if not job.is_hung and (share * job.full_speed != job.speed or why != job.slow_cause):
                self.loop.set_speed(job, share * job.full_speed, why)

    # What is planned

    def close(self, number: int) -> None:
        """A window begins: jobs leave its servers, with a checkpoint; servers that are down stay so until its end."""
        loop, window = self.loop, self.loop.failures.windows[number]
        until_us = loop.now_us + window.duration_us
        loop.happened(CLOSED, None, window.servers[0], window.name)
        self._move_from(window.servers)
        for server in window.servers:
            self.closed[server] = max(until_us, self.closed.get(server, 0))
            if loop.machine.is_up(server):
                self._take_down(server, until_us, window.name)
        if window.every_us:
            loop.push(loop.now_us + window.every_us, CLOSE, number, 0)

    def _move_from(self, servers: Iterable[int]) -> None:
        for job in dict.fromkeys(self._jobs_on(servers)):
            if not job.is_hung:
                self.loop.move(job)

    # Who is hit

    def _interrupt(self, job: Job, noticed_us: int, why: str) -> None:
        """It loses what no checkpoint has, and holds its GPUs until that is noticed."""
        loop = self.loop
        done = loop.count(job)
        lost_gpu_us = (done.unsaved_us + noticed_us - loop.now_us) * job.n_held
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
        closed_us = self.closed.pop(server, 0)
        if closed_us > loop.now_us:  # it was down already when a window began
            self.closed[server] = closed_us
            loop.push(closed_us, UP, server, 0)
            return
        self.n_out -= 1
        self._count_down(server)
        del self.down[server]
        loop.machine.repair(server)
        loop.happened(REPAIRED, None, server)
