"""Helios' traces: a Slurm log with virtual clusters, and beside it cluster_gpu_number.csv.

That says how many GPUs there were, by day: date,<virtual clusters>,total. The number changes over the months: the
largest is taken, on servers of eight.
"""

from pathlib import Path

from pdes.convert.cluster.audit import Finding
from pdes.convert.cluster.companions import beside
from pdes.convert.cluster.fields import PER_UNIT, millionths
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.lines import Head, records
from pdes.convert.cluster.readers import slurm_log

PER_SERVER = 8  # of all its clusters, as the paper says
CHANGES = "GPUs change from day to day"


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*slurm_log.COLUMNS, "vc")


def is_numbers(head: Head) -> bool:
    """Whether the file says numbers of GPUs by day."""
    return len(head.columns) > 2 and head.columns[0] == "date" and head.columns[-1] == "total"


def read(path: Path, intake: Intake) -> None:
    """All jobs that need GPUs, and how many GPUs there were."""
    numbers = beside(path, is_numbers)
    if numbers is not None:
        found = [millionths(total) for _, (total,) in records(numbers, intake.audit, ("total",))]
        totals = [value // PER_UNIT for value in found if value is not None and value >= PER_UNIT]
        if totals:
            intake.machines["", PER_SERVER] = -(-max(totals) // PER_SERVER)
            intake.machine_file = numbers.name
        if totals and min(totals) < max(totals):
            word, done = f"{min(totals)} to {max(totals)}", f"{max(totals)} taken"
            intake.audit.add(Finding(CHANGES, numbers.name, 0, "", "total", word, done))
    slurm_log.read(path, intake)
