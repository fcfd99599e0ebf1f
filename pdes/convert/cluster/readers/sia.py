"""Workloads of Pollux and Sia: name,time,application,num_replicas,batch_size; seconds, and a GPU per replica.

As they are published they do not say how long a job runs: their simulators have tables of each application's speed.
Either the file has a column `duration`, or a table beside it says it: application,num_replicas,duration, where a row
without num_replicas is about all others of its application; or these tables are there, see `sia_tables`.
"""

from pathlib import Path

from pdes.convert.cluster.audit import LEFT_OUT, Finding, quoted
from pdes.convert.cluster.companions import beside
from pdes.convert.cluster.fields import PER_UNIT, millionths
from pdes.convert.cluster.intake import BAD_DURATION, BAD_GPUS, NO_DURATION, Intake
from pdes.convert.cluster.jobs import NONE, Job
from pdes.convert.cluster.lines import Head, read_head, records
from pdes.convert.cluster.readers.sia_tables import Applications
from pdes.convert.cluster.variants import SIA
from pdes.errors import ConfigError

COLUMNS = ("time", "application", "num_replicas")
FOLDER = "traces"  # of tables, beside a workload
NO_SPEED = "no tables of its application"
Durations = dict[tuple[str, int | None], str]
"""Seconds as they are written, by application and replicas; None: all others."""


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*COLUMNS)


def is_durations(head: Head) -> bool:
    """Whether the file says how long jobs of an application run."""
    named = head.as_published(SIA)
    return named.has("application", "duration") and not named.has("time")


def read(path: Path, intake: Intake) -> None:
    """All jobs. ConfigError: nothing says how long they run."""
    columns = read_head(path).as_published(SIA).columns
    folder = _applications(path, columns, intake)
    if folder is not None:
        _read_steps(path, Applications(folder, intake.audit), "name" in columns, intake)
        return
    table: Durations | None = None
    if "duration" not in columns:
        table = _durations(path, intake)
    lines = records(path, intake.audit, COLUMNS, ("name", "duration"), SIA)
    for n_before, (line, (time, application, gpus, job, duration)) in enumerate(lines):
        intake.begin(line, job if "name" in columns else str(n_before))
        submit_us = intake.submit("time", time, millionths)
        n_gpu = intake.gpus("num_replicas", gpus)
        if table is not None:
            duration = table.get((application, n_gpu), table.get((application, None), ""))
            if not duration:
                intake.wrong(NO_DURATION, "application", f"{quoted(application)} on {gpus} GPUs")
                continue
        duration_us = intake.duration("duration", duration)
        if submit_us is not None and duration_us is not None and n_gpu is not None:
            intake.take(Job(line, "", submit_us, duration_us, n_gpu, kind=application), "time")


def _applications(path: Path, columns: tuple[str, ...], intake: Intake) -> Path | None:
    """The folder of tables that the command names, or else that lies beside a workload without durations."""
    if intake.profiles is not None or "duration" in columns or beside(path, is_durations) is not None:
        return intake.profiles
    folder = path.parent / FOLDER
    return folder if folder.is_dir() else None


def _read_steps(path: Path, applications: Applications, has_name: bool, intake: Intake) -> None:
    """All jobs of which there are tables: steps in place of a duration, and how fast they are."""
    asked: set[tuple[str, int]] = set()
    for n_before, (line, (time, name, gpus, job)) in enumerate(records(path, intake.audit, COLUMNS, ("name",), SIA)):
        intake.begin(line, job if has_name else str(n_before))
        submit_us, n_gpu = intake.submit("time", time, millionths), intake.gpus("num_replicas", gpus)
        application = applications.get(name)
        if application is None:
            intake.wrong(NO_SPEED, "application", quoted(name))
        elif submit_us is not None and n_gpu is not None:
            asked.add((name, n_gpu))
            intake.take(Job(line, "", submit_us, NONE, n_gpu, kind=name, steps=application.steps), "time")
    intake.rates = applications.speeds(asked)


def _durations(path: Path, intake: Intake) -> Durations:
    """What the table beside a workload says; its bad rows are findings."""
    other = beside(path, is_durations)
    if other is None:
        found = "no column duration: how long a job runs follows from a table of its application's speeds"
        accepted = (
            "a column duration, the seconds that a job runs on its num_replicas GPUs, or a table beside it: "
            "application,num_replicas,duration; or --profiles with the folder of Sia's tables"
        )
        raise ConfigError(f"{path}, line 1", found, accepted)
    table: Durations = {}
    for line, (application, duration, gpus) in records(
        other, intake.audit, ("application", "duration"), ("num_replicas",), SIA
    ):
        value, n_gpu = millionths(duration), millionths(gpus) if gpus else None
        if value is None or value <= 0:
            intake.audit.add(Finding(BAD_DURATION, other.name, line, "", "duration", quoted(duration), LEFT_OUT))
        elif gpus and (n_gpu is None or n_gpu <= 0 or n_gpu % PER_UNIT):
            intake.audit.add(Finding(BAD_GPUS, other.name, line, "", "num_replicas", quoted(gpus), LEFT_OUT))
        else:
            table[application, None if n_gpu is None else n_gpu // PER_UNIT] = duration
    return table
