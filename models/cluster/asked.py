"""What a scheduler asks of the event loop, checked: one of a user's own may ask for anything."""

from collections.abc import Mapping

from models.cluster.job import DONE, Job

Jobs = Mapping[int, Job]


class StuckError(Exception):
    """Jobs wait, and nothing will ever happen."""


class AskError(Exception):
    """A scheduler asks for what cannot be. Nothing has been changed."""


def check_start(job: Job, n_gpu: int, waiting: Jobs, running: Jobs) -> None:
    """AskError: the job does not wait, or may not have so many GPUs; 0 are as many as it asks for.

    waiting, running: jobs by number.
    """
    if job.number not in waiting:
        why = "is done" if job.state == DONE else "runs already" if job.number in running else "is not there"
        raise AskError(f"start of job {job.request.name}, which does not wait: it {why}")
    least, most = (job.request.min_gpu, job.request.max_gpu) if job.request.max_gpu else (job.n_gpu, job.n_gpu)
    if n_gpu and not least <= n_gpu <= most:
        may = f"{least} to {most}" if least < most else f"{most}"
        raise AskError(f"start of job {job.request.name} on {n_gpu} GPUs, which may have {may}")


def check_stop(job: Job, running: Jobs) -> None:
    """AskError: the job does not run, or hangs after a failure, so that it can only be waited for."""
    if job.number not in running:
        raise AskError(f"stop of job {job.request.name}, which does not run")
    if job.is_hung:
        raise AskError(f"stop of job {job.request.name}, which hangs after a failure (is_hung)")
