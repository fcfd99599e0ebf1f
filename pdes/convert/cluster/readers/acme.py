"""Acme's traces (Seren, Kalos): a Slurm log with the type of a job, and users in the place of virtual clusters."""

from pdes.convert.cluster.lines import Head
from pdes.convert.cluster.readers import slurm_log

read = slurm_log.read


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*slurm_log.COLUMNS) and not head.has("vc")
