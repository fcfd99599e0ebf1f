"""jobs.csv: a job a line, as `pdes-sim convert cluster` writes it."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from models.cluster.job import Request
from pdes.errors import ConfigError
from pdes.files import missing, require_file
from pdes.units import US_PER_S, shown

NEEDED, OPTIONAL = (
    ("submit_s", "gpus"),
    ("job", "duration_s", "tenant", "priority", "kind", "gpu_type", "steps", "estimate_s", "min_gpus", "max_gpus"),
)
ACCEPTED = f"a CSV with a header line and the columns {', '.join(NEEDED)}, duration_s or steps, and more if there are"
MOST_US, MOST_GPUS = 2**60, 10**7
StepTime = Callable[[str, int], float | None]
"""Seconds of a step of a kind of job on so many GPUs at speed 1; None: unknown."""


def read_jobs(path: Path, step_s: StepTime, skip: int = 0) -> Iterator[Request]:
    """All jobs in order. ConfigError names file and line. step_s: for jobs with steps instead of a duration.

    skip: so many are read and not given.
    """
    if not path.is_file():
        raise ConfigError(str(path), missing(path), ACCEPTED)
    last_us, number = 0, 0
    with require_file(path).open(encoding="utf-8-sig", newline="", errors="replace") as file:
        rows = csv.reader(file)
        names = [name.strip() for name in next(rows, [])]
        wrong = [name for name in NEEDED if names.count(name) != 1]
        if wrong or not {"duration_s", "steps"} & set(names):
            what = f"no column {wrong[0]}" if wrong else "neither duration_s nor steps"
            raise ConfigError(f"{path}, line 1", f"{what} in {shown(','.join(names)[:200])}", ACCEPTED)
        at = {name: names.index(name) for name in (*NEEDED, *OPTIONAL) if name in names}
        try:
            for row in rows:
                if row:
                    request = _request(row, at, number, f"{path}, line {rows.line_num}", step_s)
                    if request.submit_us < last_us:
                        found = "submit_s is before that of the line before it"
                        raise ConfigError(f"{path}, line {rows.line_num}", found, "lines in the order of submission")
                    if number >= skip:
                        yield request
                    last_us, number = request.submit_us, number + 1
        except csv.Error as error:
            raise ConfigError(f"{path}, line {rows.line_num}", str(error), ACCEPTED) from error
    if not number:
        raise ConfigError(str(path), "has no jobs", ACCEPTED)


def _request(row: list[str], at: dict[str, int], number: int, where: str, step_s: StepTime) -> Request:
    def text(name: str) -> str:
        return row[at[name]].strip() if name in at and at[name] < len(row) else ""

    submit_us = _us(text("submit_s"), f"{where}, submit_s", 0)
    n_gpu = _whole(text("gpus"), f"{where}, gpus", 1, MOST_GPUS)
    kind, priority = text("kind"), text("priority")
    if text("duration_s"):
        work_us = _us(text("duration_s"), f"{where}, duration_s", 1)
    else:
        step = step_s(kind, n_gpu)
        if step is None or not text("steps"):
            unknown = f"no speed of kind {shown(kind)} on {n_gpu} GPUs"
            what = unknown if text("steps") else "neither duration_s nor steps"
            raise ConfigError(where, what, "a duration, or steps and a kind that the table of [cluster] speeds has")
        work_us = max(int(_number(text("steps"), f"{where}, steps") * step * US_PER_S + 0.5), 1)
    least, most = n_gpu, 0
    if text("min_gpus") or text("max_gpus"):
        least = _whole(text("min_gpus"), f"{where}, min_gpus", 1, n_gpu) if text("min_gpus") else n_gpu
        most = _whole(text("max_gpus"), f"{where}, max_gpus", n_gpu, MOST_GPUS) if text("max_gpus") else n_gpu
    return Request(
        number, text("job") or str(number), submit_us, n_gpu, work_us, text("tenant"),
        _whole(priority, f"{where}, priority", -MOST_GPUS, MOST_GPUS) if priority else 0, kind, text("gpu_type"),
        _us(text("estimate_s"), f"{where}, estimate_s", 1) if text("estimate_s") else 0, least * (most > 0), most,
    )  # fmt: skip


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MOST_US / US_PER_S:
        raise ConfigError(where, f"found {shown(text)}", "a number from 0")
    return value


def _us(text: str, where: str, least: int) -> int:
    value = int(_number(text, where) * US_PER_S + 0.5)
    if value < least:
        raise ConfigError(where, f"found {shown(text)}", "a number above 0")
    return value


def _whole(text: str, where: str, least: int, most: int) -> int:
    try:
        value = int(text) if len(text) < 20 else most + 1
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ConfigError(where, f"found {shown(text)}", f"a whole number, {least} to {most:,}")
    return value
