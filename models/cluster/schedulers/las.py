"""Least attained service, in levels, as in Tiresias (NSDI '19, section 3.2): nobody knows how long jobs are.

A job begins in the first level and falls a level with each threshold of GPU time that it has had. Lower levels run only
with what higher ones leave; within a level first come, first served.
"""

import heapq
from collections.abc import Iterator
from typing import Any

from models.cluster.job import Job
from models.cluster.schedulers.accepted import Ascending, Number
from models.cluster.schedulers.scheduler import Scheduler

HOUR_US = 3600 * 10**6


class Las(Scheduler):
    """gpu_hours: the thresholds between levels."""

    options = {"gpu_hours": [1.0, 10.0]}
    accepted = {"gpu_hours": Ascending(Number(0, 10**9, without_zero=True))}
    gpu_hours: list[float]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.thresholds_us = [int(hours * HOUR_US) for hours in self.gpu_hours]
        self.levels: list[dict[int, Job]] = [{} for _ in range(len(self.thresholds_us) + 1)]
        self.falls: list[tuple[int, int, int]] = []  # when, job, its start

    def key(self, job: Job) -> tuple:
        """The level, then submission."""
        job.level = sum(job.gpu_us >= threshold for threshold in self.thresholds_us)
        return (job.level, job.request.submit_us)

    def started(self, job: Job) -> None:
        """It falls when it has had enough."""
        super().started(job)
        self.levels[job.level][job.number] = job
        self._expect_fall(job)

    def ended(self, job: Job) -> None:
        """It runs no more."""
        del self.levels[job.level][job.number]

    def decide(self) -> None:
        """Let running jobs fall, and give GPUs to whoever is in the highest levels."""
        now_us = self.cluster.now_us
        while self.falls and self.falls[0][0] <= now_us:
            _, number, start_us = heapq.heappop(self.falls)
            job = self.cluster.running.get(number)
            if job is not None and job.start_us == start_us:
                del self.levels[job.level][number]
                job.level += 1
                self.levels[job.level][number] = job
                self._expect_fall(job)
        while (job := self.waiting.first()) is not None:
            if not self.cluster.start(job) and not self.start_instead(job, self._lower(job)):
                break
        self.start_what_fits()
        if len(self.waiting) and self.falls:
            self.cluster.wake(self.falls[0][0])

    def _expect_fall(self, job: Job) -> None:
        if job.level < len(self.thresholds_us):
            left_us = self.thresholds_us[job.level] - job.gpu_us
            heapq.heappush(self.falls, (job.start_us - (-left_us // job.n_held), job.number, job.start_us))

    def _lower(self, job: Job) -> Iterator[Job]:
        """Those in lower levels, the lowest first, and of one level those submitted last."""
        for level in self.levels[: job.level : -1]:
            yield from sorted(level.values(), key=lambda other: -other.number)
