"""Acme's traces (Seren, Kalos): a Slurm log with the type of a job, and users in the place of virtual clusters."""

from pdes.convert.cluster.lines import Head
from pdes.convert.cluster.readers import slurm_log

read = slurm_log.read


def is_summary(head: Head) -> bool:
    """Whether the file begins as cluster_summary.csv, with a row of means for each cluster."""
    return head.has("id", "job_num", "gpu_job_num", "avg_gpu_num")


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*slurm_log.COLUMNS) and not head.has("vc")
