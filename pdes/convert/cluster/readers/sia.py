"""Workloads of Pollux and Sia: name,time,application,num_replicas,batch_size; seconds, and a GPU per replica.

As they are published they do not say how long a job runs: their simulators have tables of each application's speed.
Only a file with a column `duration` can be read.
"""

from pathlib import Path

from pdes.convert.cluster.fields import millionths
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import Head, read_head, records
from pdes.errors import ConfigError

COLUMNS = ("time", "application", "num_replicas")
DURATIONS = ("duration", "duration_s", "run_time", "runtime")  # one of these, in seconds


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*COLUMNS)


def read(path: Path, intake: Intake) -> None:
    """All jobs. ConfigError: there is no column of durations."""
    columns = read_head(path).columns
    name = next((name for name in DURATIONS if name in columns), None)
    if name is None:
        found = "no column duration: how long a job runs follows from a table of its application's speeds"
        accepted = "a column duration, the seconds that a job runs on its num_replicas GPUs"
        raise ConfigError(f"{path}, line 1", found, accepted)
    lines = records(path, intake.audit, (*COLUMNS, name), ("name",))
    for n_before, (line, (time, application, gpus, duration, job)) in enumerate(lines):
        intake.begin(line, job if "name" in columns else str(n_before))
        submit_us = intake.submit("time", time, millionths)
        duration_us = intake.duration(name, duration)
        n_gpu = intake.gpus("num_replicas", gpus)
        if submit_us is not None and duration_us is not None and n_gpu is not None:
            intake.take(Job(line, "", submit_us, duration_us, n_gpu, kind=application), "time")
