"""EASY backfilling (Lifka 1995): first come, first served, but a job may go ahead if the first one is not held up.

The first job that does not fit gets a reservation: the instant by which enough running jobs will have ended, going by
what they are estimated to take. Others start that end before it, or need only GPUs that it will leave free.
"""

from models.cluster.job import Job
from models.cluster.schedulers.accepted import Number
from models.cluster.schedulers.by_end import ByEnd

NEVER_US = 2**62  # only a repair can help the first job


class Backfill(ByEnd):
    """depth: how many of the jobs of one size are looked at for one that is short enough."""

    options = {"depth": 100}
    accepted = {"depth": Number(1, 10**9, is_whole=True)}
    depth: int

    def decide(self) -> None:
        """One reservation at a time."""
        self.start_in_order()
        head = self.waiting.first()
        if head is None or not self.cluster.n_free:
            return
        at_us, n_extra = self._reservation(head)
        while (job := self._fitting(head, at_us, n_extra)) is not None:
            if self.cluster.now_us + job.estimate_us > at_us:
                n_extra -= job.n_gpu
            if not self.cluster.start(job):
                return

    def _reservation(self, head: Job) -> tuple[int, int]:
        """When the head can start, and how many GPUs are free beside it then."""
        cluster = self.cluster
        n_free = cluster.n_free_for(head)
        for job in self.by_end:
            if cluster.may_use(head, job.pool):
                n_free += job.n_held
            if n_free >= head.n_gpu:
                return max(job.estimated_end_us, cluster.now_us), n_free - head.n_gpu
        return NEVER_US, 0

    def _fitting(self, head: Job, at_us: int, n_extra: int) -> Job | None:
        """The first in the line that may go ahead."""
        cluster, found = self.cluster, []
        for line in self.waiting.lines.values():
            if not cluster.fits(line[0][2]):
                continue
            for entry in line[: self.depth]:
                job = entry[2]
                if job is not head and (job.n_gpu <= n_extra or cluster.now_us + job.estimate_us <= at_us):
                    found.append(entry)
                    break
        return min(found)[2] if found else None
