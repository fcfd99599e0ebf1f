"""Priorities: the larger one goes first, and takes the GPUs of those with a smaller one."""

from collections.abc import Iterator
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.scheduler import Scheduler


class Priority(Scheduler):
    """preempt = false: nobody is stopped. Jobs of one priority go as they were submitted.

    strict = false: whoever fits goes past those that do not.
    """

    options = {"preempt": True, "strict": True}
    preempt: bool
    strict: bool

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.running: dict[int, dict[int, Job]] = {}  # by priority, as they started

    def key(self, job: Job) -> tuple:
        """Priority, then submission."""
        return (-job.priority, job.request.submit_us)

    def started(self, job: Job) -> None:
        """It may be stopped for jobs of higher priority."""
        super().started(job)
        self.running.setdefault(job.priority, {})[job.number] = job

    def ended(self, job: Job) -> None:
        """It runs no more."""
        del self.running[job.priority][job.number]

    def decide(self) -> None:
        """Whoever cannot start takes GPUs from those that have least priority, the last started first."""
        while (job := self.waiting.first()) is not None:
            if not self.cluster.start(job) and not (self.preempt and self.start_instead(job, self._lower(job))):
                break
        if not self.strict:
            self.start_what_fits()

    def _lower(self, job: Job) -> Iterator[Job]:
        for priority in sorted(self.running):
            if priority >= job.priority:
                return
            yield from list(reversed(self.running[priority].values()))
