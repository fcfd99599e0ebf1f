"""The scheduler of a run: which jobs it can have."""

from collections.abc import Iterable

from models.cluster.job import Request
from pdes.config.cluster.load import Loaded
from pdes.units import shown


def check_one_size(loaded: Loaded, jobs: Iterable[Request]) -> None:
    """For a scheduler of jobs of one size. ConfigError: two ask for different numbers of GPUs."""
    first: Request | None = None
    for job in jobs:
        first = first or job
        if job.n_gpu != first.n_gpu:
            found = (
                f"found {shown(loaded.run.cluster.scheduler)}, whose jobs must all ask for the same number of GPUs: "
            )
            found += f"job {first.name} asks for {first.n_gpu:,}, job {job.name} for {job.n_gpu:,}"
            raise loaded.fault("[cluster] scheduler", found, "Accepted: jobs of one size, or another scheduler")
