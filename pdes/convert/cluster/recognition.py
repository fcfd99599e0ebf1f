"""Which trace a file is: told by how it begins, not by its name."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pdes.convert.cluster import jobs_csv
from pdes.convert.cluster.companions import files_of
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.lines import NO_VARIANTS, Head, read_head
from pdes.convert.cluster.names import CLUSTER_FORMATS
from pdes.convert.cluster.readers import (
    acme,
    alibaba_2020,
    alibaba_2023,
    gavel,
    gavel_tables,
    helios,
    pai_tables,
    philly_csv,
    philly_log,
    sia,
)
from pdes.convert.cluster.variants import PHILLY_CSV, SIA, SLURM, Variants
from pdes.errors import ConfigError
from pdes.files import missing


class Format(NamedTuple):
    """One kind of trace."""

    matches: Callable[[Head], bool]
    read: Callable[[Path, Intake], None]
    variants: Variants = NO_VARIANTS  # other names of its columns


FORMATS = {
    "philly-csv": Format(philly_csv.matches, philly_csv.read, PHILLY_CSV),
    "philly": Format(philly_log.matches, philly_log.read),
    "sia": Format(sia.matches, sia.read, SIA),
    "gavel": Format(gavel.matches, gavel.read),
    "alibaba-2020": Format(alibaba_2020.matches, alibaba_2020.read),
    "alibaba-2020-tables": Format(pai_tables.matches, pai_tables.read),
    "alibaba-2023": Format(alibaba_2023.matches, alibaba_2023.read),
    "acme": Format(acme.matches, acme.read, SLURM),
    "helios": Format(helios.matches, helios.read, SLURM),
    "jobs": Format(jobs_csv.matches, jobs_csv.read),
}
COMPANIONS = (  # what is no trace of jobs, but belongs to one
    (alibaba_2023.is_nodes, "a list of nodes", "the list of pods in the same folder"),
    (philly_log.is_machines, "a list of machines", "cluster_job_log in the same folder"),
    (pai_tables.is_jobs, "a table of jobs without their GPUs", "pai_task_table in the same folder"),
    (sia.is_durations, "a table of durations", "the workload in the same folder"),
    (gavel_tables.is_rates, "a table of speeds", "the trace in the same folder, or --profiles with another one"),
    (gavel_tables.is_specs, "a list of GPUs", "the trace in the same folder"),
    (acme.is_summary, "a summary of clusters", "the trace itself, trace_seren.csv or trace_kalos.csv"),
    (alibaba_2020.is_results, "a simulator's results", "the trace itself, pai_job_duration_estimate_100K.csv"),
    (helios.is_numbers, "a table of GPUs by day", "cluster_log.csv in the same folder"),
)
PACKED = (
    (b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip"), (b"BZh", "bzip2"), (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)  # fmt: skip
ACCEPTED = "; ".join(f"{name}: {what}" for name, what in CLUSTER_FORMATS.items())


def find(source: Path, wanted: str | None) -> tuple[Path, str]:
    """(the file, its format). ConfigError: there is none, several, or it is of no known format."""
    if source.is_dir():
        return _find_in(source, wanted)
    if not source.is_file():
        raise ConfigError(str(source), missing(source), f"a trace of jobs, or a folder with one. {ACCEPTED}")
    head = read_head(source)
    if wanted is not None:
        return source, wanted
    found = _format_of(head)
    if found is not None:
        return source, found
    for matches, what, other in COMPANIONS:
        if matches(head):
            raise ConfigError(str(source), f"is {what}, not of jobs", other)
    with source.open("rb") as file:
        start = file.read(8)
    for magic, name in PACKED:
        if start.startswith(magic):
            raise ConfigError(str(source), f"is packed with {name}", "the trace itself: unpack it first")
    if not head.lines:
        raise ConfigError(str(source), "is empty", f"a trace of jobs. {ACCEPTED}")
    raise ConfigError(str(source), f"is no known trace; it begins {_beginning(head)}", f"--format NAME, or {ACCEPTED}")


def _beginning(head: Head) -> str:
    text = head.lines[0][:60]
    return f'"{"".join(char if char.isprintable() else "?" for char in text)}"'


def _format_of(head: Head) -> str | None:
    """As published, else with columns by other names; of these the one with most columns of its own goes first."""
    found = next((name for name, form in FORMATS.items() if form.matches(head)), None)
    if found is not None:
        return found
    varied = ((name, form) for name, form in reversed(FORMATS.items()) if form.variants)
    return next((name for name, form in varied if form.matches(head.as_published(form.variants))), None)


def _instead(folder: Path) -> str:
    """What the folder has of what belongs to traces."""
    for path in files_of(folder):
        try:
            head = read_head(path)
        except ConfigError:
            continue
        for matches, what, other in COMPANIONS:
            if matches(head):
                return f"; {path.name} is {what}, and what is missing is {other}"
    return ""


def _find_in(folder: Path, wanted: str | None) -> tuple[Path, str]:
    found: list[tuple[Path, str]] = []
    for path in files_of(folder):
        try:
            name = _format_of(read_head(path))
        except ConfigError:
            continue
        if name is not None and wanted in (None, name):
            found.append((path, name))
    if wanted is None:  # our own jobs.csv of an earlier time is not the trace, if there is another one
        found = [one for one in found if one[1] != "jobs"] or found
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{path.name} ({name})" for path, name in found[:8])
    what = f"{len(found)} files are traces: {names}" if found else f"no file is a known trace{_instead(folder)}"
    raise ConfigError(str(folder), what, f"a folder with one trace, or the file itself. {ACCEPTED}")
