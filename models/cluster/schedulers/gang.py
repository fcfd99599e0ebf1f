"""Gang scheduling: jobs take turns of a fixed length, each with all its GPUs at once (Feitelson and Jette 1997)."""

from models.cluster.job import Job
from models.cluster.schedulers.accepted import MINUTES
from models.cluster.schedulers.scheduler import Scheduler


class Gang(Scheduler):
    """slice_minutes: after so long those who wait get a turn, whoever has waited longest first."""

    options = {"slice_minutes": 60.0}
    accepted = {"slice_minutes": MINUTES}
    turn = "slice_minutes"
    slice_minutes: float

    def key(self, job: Job) -> tuple:
        """Since when it waits."""
        return (job.ready_us, job.request.submit_us)

    def decide(self) -> None:
        """Stop whoever has had its turn as long as somebody waits."""
        cluster, slice_us = self.cluster, int(self.slice_minutes * 60e6)
        self.start_what_fits()
        if not len(self.waiting):
            return
        over: list[Job] = []
        for job in cluster.running.values():  # as they started
            if job.start_us + slice_us > cluster.now_us:
                cluster.wake(job.start_us + slice_us)
                break
            over.append(job)
        for job in over:
            if not job.is_hung:
                cluster.stop(job)
        if over:
            self.start_what_fits()
            cluster.wake(cluster.now_us + slice_us)
