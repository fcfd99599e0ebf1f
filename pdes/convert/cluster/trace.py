"""`pdes-sim convert cluster FOLDER_OR_FILE -o config.toml`: a config of a trace, jobs.csv and audit.csv beside it."""

from pathlib import Path

from pdes.convert.cluster import jobs_csv
from pdes.convert.cluster.audit import Audit
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import JobTable
from pdes.convert.cluster.machines import Given, Pool, load_lines, load_of, place, pools_of
from pdes.convert.cluster.recognition import FORMATS, find
from pdes.convert.toml_text import Tables, toml_text, whole_file, write_whole
from pdes.errors import ConfigError

JOBS_NAME, AUDIT_NAME = "jobs.csv", "audit.csv"
SCHEDULER = "fcfs"
MOST_POOLS = 4  # that the summary names


def convert(source: str | Path, output: str | Path, form: str | None = None, given: Given | None = None) -> list[str]:
    """Write `output`, jobs.csv and audit.csv; return the summary, line by line. ConfigError: nothing can be converted.

    form: the name of the format, if the file is not to say it. given: the machines.
    """
    given, target = given or Given(), Path(output)
    given.check()
    path, name = find(Path(source), form)
    jobs_file, audit_file = (target.with_name(beside) for beside in (JOBS_NAME, AUDIT_NAME))
    for file in (target, jobs_file, audit_file):
        if file.exists() and file.samefile(path):
            raise ConfigError(str(file), "is the input, and would be written over", "an output in another folder")
    if target.name in (JOBS_NAME, AUDIT_NAME):
        raise ConfigError(str(target), "is the name of a file that comes beside the config", "another name")
    with whole_file(audit_file) as file:
        audit = Audit(file, path.name)
        intake = Intake(audit, JobTable())
        intake.begin_file(path)
        FORMATS[name].read(path, intake)
        intake.end()
        _require_jobs(len(intake.table), path, intake)
        pools = pools_of(intake, given)
        order = intake.table.order(place(intake, pools, path.name))
        _require_jobs(len(order), path, intake)
        first_us = intake.table.submit_us[order[0]]
        load = load_lines(intake, load_of(intake, order), pools, path.name)
        with whole_file(jobs_file) as jobs:
            jobs_csv.write(jobs, intake.table.jobs(order), first_us)
    write_whole(target, toml_text(f"Made by `pdes-sim convert cluster` of {path.name}, as {name}.", _tables(pools)))
    head = f"{path.name}, {name}: {intake.n_row:,} rows, {len(order):,} jobs on {_machines(pools, intake, given)}"
    found = f"{audit.n_finding:,} findings in {audit_file}"
    return [head, *load, found if audit.n_finding else "nothing found that is wrong", *audit.summary()]


def _require_jobs(n_job: int, path: Path, intake: Intake) -> None:
    if n_job == 0:
        first = intake.audit.first()
        what = f"no usable row of {intake.n_row:,}" + f"; the first that is not: {first}" * bool(first)
        raise ConfigError(str(path), what, "at least one job with a submit time, GPUs and a duration")


def _tables(pools: list[Pool]) -> Tables:
    rows: list[dict[str, object]] = [
        {"gpu": pool.gpu, "servers": pool.servers, "gpus_per_server": pool.gpus_per_server} for pool in pools
    ]
    return {"cluster": {"jobs": JOBS_NAME, "scheduler": SCHEDULER}, "cluster.pool": rows}


def _machines(pools: list[Pool], intake: Intake, given: Given) -> str:
    texts = [f"{pool.servers:,} x {pool.gpus_per_server} {pool.gpu}" for pool in pools[:MOST_POOLS]]
    more = f" and {len(pools) - MOST_POOLS} more kinds of servers" if len(pools) > MOST_POOLS else ""
    named = given == Given() and intake.machines
    return f"{', '.join(texts)}{more}" + (f", as {intake.machine_file} says" if named else "")
