"""Jobs of a run as people read them: when they ran, how long an iteration took, what sharing the fabric cost them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdes.files import read_json
from pdes.units import format_duration

ALONE_FILE = "alone.json"
HEADINGS = ("job", "GPUs", "begin", "end", "iteration", "shared ports", "slowdown")


def mean_ps(job: Mapping[str, Any]) -> int | None:
    """What a job takes: an iteration on average, without iterations all of it; None: it has not ended."""
    times_ps = job.get("iteration_time_ps") or []
    if times_ps:
        return sum(times_ps) // len(times_ps)
    if job.get("begin_ps") is None or job.get("end_ps") is None:
        return None
    return job["end_ps"] - job["begin_ps"]


def slowdown(job: Mapping[str, Any], alone: Mapping[str, Any] | None) -> float | None:
    """How many times as long as alone a job took; None: not known."""
    together_ps, alone_ps = mean_ps(job), None if alone is None else mean_ps(alone)
    return together_ps / alone_ps if together_ps is not None and alone_ps else None


def read_alone(folder: Path) -> dict[str, Any]:
    """What the jobs of a result folder took alone, by name; {} if nobody has asked."""
    path = folder / ALONE_FILE
    return read_json(path) if path.is_file() else {}


def placements(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why jobs are where they are, of those whose places were found by runs."""
    return [placement(job["name"], job["workload"]) for job in jobs if "placement" in job["workload"]]


def placement(name: str, facts: Mapping[str, Any]) -> str:
    """Why one job is where it is. facts: of its workload."""
    return f"{name} {facts['placement']}"


def job_rows(jobs: Sequence[Mapping[str, Any]], alone: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row of HEADINGS for each job."""
    found = []
    for job in jobs:
        ran = [format_duration(job[key]) if job.get(key) is not None else "-" for key in ("begin_ps", "end_ps")]
        times_ps = job.get("iteration_time_ps") or []
        time = format_duration(sum(times_ps) // len(times_ps), 4) if times_ps else "-"
        shared, times = f"{job['shared_ports']} of {job['ports']}", slowdown(job, alone.get(job["name"]))
        shown = "-" if times is None else f"{times:.3f}"
        found.append((job["name"], str(len(job["gpus"])), *ran, time, shared, shown))
    return found
