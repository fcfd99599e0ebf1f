"""Jobs that share links change each other's speed: who shares with whom, and when that is looked at anew.

A job within one rack stays below its leaf switches; one in several racks sends through the uplinks of each. Two jobs
share links where both are in several racks and have one in common; or both in several pods, where racks have pods, and
have one in common. A start or an end changes the speed of the job and of those that share links with it, and of nobody
else.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from models.cluster.job import Job
from models.cluster.machine import Machine


class Case(NamedTuple):
    """A running job, and those that share links with it, in the order of how many racks and pods they share, then of
    number.
    """

    job: Job
    others: tuple[Job, ...]


class SpeedOfCase(Protocol):
    """How fast jobs are beside others."""

    def __call__(self, cases: Sequence[Case]) -> list[float]:
        """Work per time of each case's job; above 0."""
        ...


class Changing(Protocol):
    """The loop, as far as speeds are concerned."""

    def set_full_speed(self, job: Job, speed: float) -> None:
        """Of a running job, from now on, but for what slows it besides."""
        ...


class Sharing:
    """Running jobs in several racks, by rack. most: so many others at most count, those that share most racks."""

    def __init__(self, machine: Machine, speed: SpeedOfCase, most: int) -> None:
        self._rack_of, self._speed, self._most = machine.rack_of, speed, most
        self._pod_of, self._n_rack = machine.pod_of, len(machine.pod_of)
        self._jobs_in: dict[int, dict[int, Job]] = {}
        self._racks: dict[int, tuple[int, ...]] = {}

    def started(self, loop: Changing, job: Job) -> None:
        """A job has been put into its place: it and those that it shares links with have other speeds now."""
        racks = self.racks(job)
        if len(racks) > 1:
            self.add(job)
        self._look(loop, [job, *self._others(racks)] if len(racks) > 1 else [job])

    def ended(self, loop: Changing, job: Job) -> None:
        """A job leaves its place, which it still has."""
        self._look(loop, self._others(self._remove(job)))

    def add(self, job: Job) -> None:
        """A running job, of which nothing changes: as a run goes on."""
        racks = self.racks(job)
        if len(racks) > 1:
            self._racks[job.number] = racks
            for rack in racks:
                self._jobs_in.setdefault(rack, {})[job.number] = job

    def racks(self, job: Job) -> tuple[int, ...]:
        """Where a job is, ascending; behind its racks its pods, numbered from there on, if there are several."""
        racks = {self._rack_of[server] for server, _ in job.place}
        pods = {self._n_rack + self._pod_of[rack] for rack in racks}
        return (*sorted(racks), *(sorted(pods) if len(pods) > 1 else ()))

    def case(self, job: Job) -> Case:
        """A running job and who shares links with it."""
        own = self._racks.get(job.number, ())
        n_common: dict[int, int] = {}
        for rack in own:
            for number in self._jobs_in[rack]:
                n_common[number] = n_common.get(number, 0) + 1
        n_common.pop(job.number, None)
        chosen = sorted(n_common, key=lambda number: (-n_common[number], number))[: self._most]
        known = {number: other for rack in own for number, other in self._jobs_in[rack].items()}
        return Case(job, tuple(known[number] for number in chosen))

    def cases_if(self, job: Job) -> list[Case]:
        """Of a job that does not run, were it in the place that it says, and of those whose speed that would change."""
        racks = self.racks(job)
        if len(racks) < 2:
            return [Case(job, ())]
        self.add(job)
        cases = [self.case(one) for one in [job, *(other for other in self._others(racks) if other is not job)]]
        self._remove(job)
        return [case for case in cases if not case.job.is_hung]

    def _remove(self, job: Job) -> tuple[int, ...]:
        racks = self._racks.pop(job.number, ())
        for rack in racks:
            del self._jobs_in[rack][job.number]
        return racks

    def _others(self, racks: Sequence[int]) -> list[Job]:
        found = {number: job for rack in racks for number, job in self._jobs_in.get(rack, {}).items()}
        return [found[number] for number in sorted(found)]

    def _look(self, loop: Changing, jobs: Sequence[Job]) -> None:
        """Ask for all speeds at once, so that what has to be found out can be at the same time."""
        cases = [self.case(job) for job in {job.number: job for job in jobs if not job.is_hung}.values()]
        for case, speed in zip(cases, self._speed(cases), strict=True):
            loop.set_full_speed(case.job, speed)  # also where that stays: what slows it may depend on the others
