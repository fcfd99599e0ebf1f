"""Schedulers that go by when running jobs are expected to end."""

from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.waiting import Sorted


class ByEnd(Scheduler):
    """by_end: running jobs, by their estimated ends."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.by_end = Sorted()

    def started(self, job: Job) -> None:
        """It is expected to run until its estimated end."""
        super().started(job)
        self.by_end.add(job, job.estimated_end_us)

    def changed(self, job: Job) -> None:
        """Its end has moved."""
        self.by_end.remove(job)
        self.by_end.add(job, job.estimated_end_us)

    def ended(self, job: Job) -> None:
        """It runs no more."""
        self.by_end.remove(job)
