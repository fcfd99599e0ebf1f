"""Backfilling that sees only so many jobs at a time: a queue of constant length, as long as there are more jobs."""

from collections import deque
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.backfill import Backfill


class Queue(Backfill):
    """length: how many jobs wait in it; the others come in as it gets shorter."""

    options = {**Backfill.options, "length": 500}
    length: int

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.later: deque[Job] = deque()

    def submitted(self, job: Job) -> None:
        """It waits in the queue, or before it."""
        if len(self.waiting) < self.length:
            super().submitted(job)
        else:
            self.later.append(job)

    def started(self, job: Job) -> None:
        """The next one comes in."""
        super().started(job)
        if self.later:
            super().submitted(self.later.popleft())
