"""Microsoft's Philly jobs as one CSV, as the artifacts of Sia, Pollux and Saturn carry it.

timestamp,duration,num_gpus,gpu_time,cluster: submission as a date, seconds, GPUs, GPU-seconds, virtual cluster. Jobs
have no id: they get the number of their row, from 0.
"""

from pathlib import Path

from pdes.convert.cluster.fields import date_us
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import Head, records
from pdes.convert.cluster.variants import PHILLY_CSV

COLUMNS = ("timestamp", "duration", "num_gpus")


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*COLUMNS)


def read(path: Path, intake: Intake) -> None:
    """All jobs."""
    intake.is_dated = True
    for n_before, (line, words) in enumerate(records(path, intake.audit, COLUMNS, ("cluster",), PHILLY_CSV)):
        time, duration, gpus, cluster = words
        intake.begin(line, str(n_before))
        submit_us = intake.submit("timestamp", time, date_us)
        duration_us = intake.duration("duration", duration)
        n_gpu = intake.gpus("num_gpus", gpus)
        if submit_us is not None and duration_us is not None and n_gpu is not None:
            intake.take(Job(line, "", submit_us, duration_us, n_gpu, tenant=cluster), "timestamp")
