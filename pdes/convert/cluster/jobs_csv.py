"""jobs.csv, the one form in which jobs of all traces are written; it can be read again as a trace."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from pdes.convert.cluster.fields import STATUSES, decimal, millionths
from pdes.convert.cluster.intake import BAD_PRIORITY, BAD_STEPS, MOST_PRIORITY, MOST_STEPS, Intake
from pdes.convert.cluster.jobs import NONE, Job
from pdes.convert.cluster.lines import Head, records

COLUMNS = (
    "job", "submit_s", "duration_s", "gpus", "tenant", "priority", "kind", "gpu_type", "steps", "status",
)  # fmt: skip
BAD_STATUS = "status that is none"


def write(file: TextIO, jobs: Iterable[Job], first_us: int) -> None:
    """A header and a line per job; times from first_us on."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job in jobs:
        duration = "" if job.duration_us == NONE else decimal(job.duration_us)
        steps = "" if job.steps == NONE else job.steps
        writer.writerow((
            job.job, decimal(job.submit_us - first_us), duration, job.gpus, job.tenant, job.priority, job.kind,
            job.gpu_type, steps, job.status,
        ))  # fmt: skip


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.columns == COLUMNS


def read(path: Path, intake: Intake) -> None:
    """All jobs."""
    for line, words in records(path, intake.audit, COLUMNS):
        job, submitted, duration, gpus, tenant, priority, kind, gpu_type, steps, status = words
        intake.begin(line, job)
        submit_us = intake.submit("submit_s", submitted, millionths)
        n_gpu = intake.gpus("gpus", gpus)
        n_step = intake.whole("steps", steps, BAD_STEPS, MOST_STEPS, NONE) if steps else NONE
        duration_us: int | None = NONE
        if duration or n_step == NONE:
            duration_us = intake.duration("duration_s", duration)
        first = intake.whole("priority", priority, BAD_PRIORITY, MOST_PRIORITY, 0) if priority else 0
        if status and status not in STATUSES.values():
            intake.wrong(BAD_STATUS, "status", f'"{status[:60]}"', "taken as none")
            status = ""
        if submit_us is not None and n_gpu is not None and duration_us is not None:
            row = Job(line, "", submit_us, duration_us, n_gpu, tenant, first, kind, gpu_type, n_step, status)
            intake.take(row, "submit_s")
