"""`pdes-sim convert cluster FOLDER_OR_FILE -o config.toml`: a config of a trace, jobs.csv and audit.csv beside it."""

from collections.abc import Sequence
from pathlib import Path

from pdes.convert.cluster import jobs_csv, rates
from pdes.convert.cluster.audit import Audit
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import JobTable
from pdes.convert.cluster.machines import Given, Pool, load_lines, load_of, place, pools_of
from pdes.convert.cluster.recognition import FORMATS, find
from pdes.convert.cluster.runnable import check_pools, durations, restrict
from pdes.convert.toml_text import Tables, toml_text, whole_file, write_whole
from pdes.errors import ConfigError

JOBS_NAME, AUDIT_NAME, SPEEDS_NAME = "jobs.csv", "audit.csv", "speeds.csv"
WITH_PROFILES = ("gavel", "sia")
SCHEDULER = "fcfs"
MOST_POOLS = 4  # that the summary names


def convert(
    source: str | Path,
    output: str | Path,
    form: str | None = None,
    given: Given | None = None,
    profiles: str | Path | None = None,
) -> list[str]:
    """Write `output`, jobs.csv and audit.csv, and speeds.csv if there are speeds; return the summary, line by line.

    form: the name of the format, if the file is not to say it. given: the machines. profiles: where the speeds are, if
    not beside the trace. ConfigError: nothing can be converted.
    """
    given, target = given or Given(), Path(output)
    given.check()
    path, name = find(Path(source), form)
    jobs_file, audit_file, speeds_file = (target.with_name(one) for one in (JOBS_NAME, AUDIT_NAME, SPEEDS_NAME))
    _check_files(target, (jobs_file, audit_file, speeds_file), path, profiles)
    if profiles is not None and name not in WITH_PROFILES:
        raise ConfigError("--profiles", f"for a trace of {name}", f"--profiles for {' and '.join(WITH_PROFILES)}")
    with whole_file(audit_file) as file:
        audit = Audit(file, path.name)
        intake = Intake(audit, JobTable())
        intake.profiles, intake.has_machines = Path(profiles) if profiles else None, given.has_all()
        intake.begin_file(path)
        FORMATS[name].read(path, intake)
        intake.end()
        _require_jobs(len(intake.table), path, intake)
        pools, is_left_out, took_us = _machines_of(intake, given, path)
        order = intake.table.order(place(intake, pools, path.name, is_left_out))
        _require_jobs(len(order), path, intake)
        first_us = intake.table.submit_us[order[0]]
        load = load_lines(intake, load_of(intake, order, took_us), pools, path.name)
        keys = intake.rates.of(intake.table, order) if intake.rates else []
        if intake.rates:
            with whole_file(speeds_file) as speeds:
                rates.write(speeds, keys, intake.rates)
        with whole_file(jobs_file) as jobs:
            jobs_csv.write(jobs, intake.table.jobs(order), first_us)
    tables = _tables(pools, intake.rates, {kind for kind, _, _ in keys})
    write_whole(target, toml_text(f"Made by `pdes-sim convert cluster` of {path.name}, as {name}.", tables))
    head = f"{path.name}, {name}: {intake.n_row:,} rows, {len(order):,} jobs on {_machines(pools, intake, given)}"
    found = f"{audit.n_finding:,} findings in {audit_file}"
    if intake.rates:
        load.append(f"speeds: {len(keys):,} of {intake.rates.file}, in {speeds_file}")
    return [head, *load, found if audit.n_finding else "nothing found that is wrong", *audit.summary()]


def _check_files(target: Path, beside: Sequence[Path], path: Path, profiles: str | Path | None) -> None:
    """ConfigError: what is to be written is an input, or has the name of another file."""
    for file in (target, *beside):
        for read in (path, *([Path(profiles)] if profiles else [])):
            if file.exists() and read.exists() and file.samefile(read):
                raise ConfigError(str(file), "is the input, and would be written over", "an output in another folder")
    if target.name in (file.name for file in beside):
        raise ConfigError(str(target), "is the name of a file that comes beside the config", "another name")


def _machines_of(intake: Intake, given: Given, path: Path) -> tuple[list[Pool], bytearray, Sequence[int]]:
    """(pools, jobs that none of them has a speed of, how long each job takes in microseconds)."""
    table, known = intake.table, intake.rates
    if known is not None and not (intake.machines or given.has_all() or given.gpu):
        found, gpu = "nothing says how many GPUs of which type there are", known.types()[0]
        raise ConfigError(str(path), found, f"--pool TYPE=SERVERS for {', '.join(known.types())}, as --pool {gpu}=36")
    pools = pools_of(intake, given)
    if known is None:
        return pools, bytearray(len(table)), table.duration_us
    check_pools(known, pools)
    is_left_out = restrict(intake, known, pools, path.name)
    return pools, is_left_out, durations(table, known, pools)


def _require_jobs(n_job: int, path: Path, intake: Intake) -> None:
    if n_job == 0:
        first = intake.audit.first()
        what = f"no usable row of {intake.n_row:,}" + f"; the first that is not: {first}" * bool(first)
        raise ConfigError(str(path), what, "at least one job with a submit time, GPUs and a duration")


def _tables(pools: list[Pool], known: rates.Rates | None, kinds: set[str]) -> Tables:
    rows: list[dict[str, object]] = [
        {"gpu": pool.gpu, "servers": pool.servers, "gpus_per_server": pool.gpus_per_server} for pool in pools
    ]
    cluster: dict[str, object] = {"jobs": JOBS_NAME, "scheduler": SCHEDULER}
    if known is None:
        return {"cluster": cluster, "cluster.pool": rows}
    elastic: list[dict[str, object]] = [
        {"kind": kind, "least_gpus": least, "most_gpus": most}
        for kind, (least, most) in sorted(known.elastic.items()) if kind in kinds
    ]  # fmt: skip
    return {"cluster": cluster | {"speeds": SPEEDS_NAME}, "cluster.pool": rows, "cluster.elastic": elastic}


def _machines(pools: list[Pool], intake: Intake, given: Given) -> str:
    texts = [f"{pool.servers:,} x {pool.gpus_per_server} {pool.gpu}" for pool in pools[:MOST_POOLS]]
    more = f" and {len(pools) - MOST_POOLS} more kinds of servers" if len(pools) > MOST_POOLS else ""
    named = given == Given() and intake.machine_file
    return f"{', '.join(texts)}{more}" + (f", as {intake.machine_file} says" if named else "")
