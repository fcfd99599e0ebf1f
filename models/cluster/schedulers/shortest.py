"""Shortest job first, and shortest remaining time first, which stops whoever has longer to go."""

from collections.abc import Iterator

from models.cluster.job import Job
from models.cluster.schedulers.by_end import ByEnd
from models.cluster.schedulers.scheduler import Scheduler


class Sjf(Scheduler):
    """By the time that a job takes, or by that times its GPUs (service = true)."""

    options = {"service": False, "strict": False}
    service: bool
    strict: bool

    def key(self, job: Job) -> tuple:
        """What is left of it."""
        return (job.estimate_us * (job.n_gpu if self.service else 1),)

    def decide(self) -> None:
        """The shortest of those that fit."""
        if self.strict:
            self.start_in_order()
        else:
            self.start_what_fits()


class Srtf(ByEnd):
    """Shortest remaining time first: a job that waits takes the GPUs of those that have longer to go.

    Whoever is stopped goes on later from where it was, and pays for a checkpoint and a restart.
    """

    def decide(self) -> None:
        """The shortest of all takes from those with longer to go, as long as that is enough for it; others may fit."""
        while (job := self.waiting.first()) is not None:
            if not self.cluster.start(job) and not self.start_instead(job, self._longer(job)):
                break
        self.start_what_fits()

    def _longer(self, job: Job) -> Iterator[Job]:
        """Those with more work left than it has, those that end last first.

        Work alone is compared: were start-up counted, which only running jobs have before them, two jobs as long would
        stop each other forever.
        """
        now_us, own_us = self.cluster.now_us, job.estimate_us
        for other in reversed(self.by_end):
            if other.estimated_end_us - now_us <= own_us:
                return
            if other.estimate_us - other.done_us(now_us) > own_us:
                yield other
