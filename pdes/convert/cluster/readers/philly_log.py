"""Microsoft's Philly traces as published: cluster_job_log, a list of jobs in JSON, and beside it cluster_machine_list.

A job has status, vc, jobid, user, submitted_time and attempts: each with start_time, end_time and, by machine, the GPUs
it had (detail). It runs as long as its attempts together. A time may be missing, null or "None". Machines: machineId,
number of GPUs, single GPU mem.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pdes.convert.cluster.audit import LEFT_OUT, Audit, Finding, quoted
from pdes.convert.cluster.companions import beside
from pdes.convert.cluster.fields import PER_UNIT, date_us, is_nothing, status_of
from pdes.convert.cluster.intake import NO_DURATION, ZERO_GPUS, Intake
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import READABLE, Head, records
from pdes.errors import ConfigError
from pdes.files import require_file

JOB_START = re.compile(r'\{\s{0,200}"(?:status|vc|jobid|attempts|submitted_time|user)"\s{0,200}:')
CHUNK_CHARS, OVERLAP = 2**20, 600  # a start lies in less than the overlap
MOST_CHARS = 2**23  # of one job
NO_JSON = "not JSON"
MACHINES = ("machineid", "number of gpus")
NO_ATTEMPT, BAD_ATTEMPT = "no attempt", "attempt without a time"
OTHER_GPUS = "attempts on other numbers of GPUs"
AS_LARGEST, PASSED = "taken as the largest", "attempt passed over"
_DECODER = json.JSONDecoder()


def matches(head: Head) -> bool:
    """Whether the file begins as a list of jobs in JSON."""
    return head.text.lstrip()[:1] in ("[", "{") and JOB_START.search(head.text) is not None


def is_machines(head: Head) -> bool:
    """Whether the file begins as the list of machines."""
    return head.has(*MACHINES)


def read(path: Path, intake: Intake) -> None:
    """All jobs that ran on GPUs, and the machines."""
    intake.is_dated = True
    machines = beside(path, is_machines)
    if machines is not None:
        intake.begin_file(machines)
        for line, (name, gpus, memory) in records(machines, intake.audit, MACHINES, ("single gpu mem",)):
            intake.machine(line, name, f"GPU-{memory}" if memory else "", "number of GPUs", gpus)
        intake.machine_file = machines.name
    intake.begin_file(path)
    for line, raw in _objects(path, intake.audit):
        job = raw.get("jobid")
        intake.begin(line, job if isinstance(job, str) else "" if job is None else str(job)[:200])
        submit_us = intake.submit("submitted_time", _text(raw, "submitted_time"), date_us)
        ran = _ran(raw.get("attempts"), intake)
        if submit_us is not None and ran is not None:
            tenant = _text(raw, "vc") or _text(raw, "user")
            row = Job(line, "", submit_us, *ran, tenant=tenant, status=status_of(_text(raw, "status")))
            intake.take(row, "submitted_time")


def _text(raw: dict[str, Any], key: str) -> str:
    value = raw.get(key)
    return value.strip() if isinstance(value, str) else "" if value is None else repr(value)[:100]


def _ran(attempts: object, intake: Intake) -> tuple[int, int] | None:
    """(how long, on how many GPUs); None: the job is left out."""
    tries = [one for one in attempts if isinstance(one, dict)] if isinstance(attempts, list) else []
    if not tries:
        intake.wrong(NO_ATTEMPT, "attempts")
        return None
    total_us, n_ran = 0, 0
    for number, one in enumerate(tries, 1):
        span_us = _span_us(one, f"attempt {number}", intake)
        if span_us is not None:
            total_us, n_ran = total_us + span_us, n_ran + 1
    n_gpu = {_n_gpu(one) for one in tries} - {0}
    if not n_gpu:
        intake.wrong(ZERO_GPUS, "attempts.detail")
    if len(n_gpu) > 1:
        intake.wrong(OTHER_GPUS, "attempts.detail", ", ".join(map(str, sorted(n_gpu))), AS_LARGEST)
    if not n_ran:
        intake.wrong(NO_DURATION, "attempts")
        return None
    duration_us = intake.positive("attempts", total_us)
    whole = intake.whole_gpus("attempts.detail", max(n_gpu) * PER_UNIT) if n_gpu else None
    return (duration_us, whole) if duration_us is not None and whole is not None else None


def _span_us(one: dict[str, Any], which: str, intake: Intake) -> int | None:
    times = {}
    for key in ("start_time", "end_time"):
        word = _text(one, key)
        times[key] = None if is_nothing(word) else date_us(word)
        if times[key] is None:
            intake.wrong(BAD_ATTEMPT, f"attempts.{key}", f"{which}: {quoted(word)}", PASSED)
            return None
    return intake.span(times["start_time"], times["end_time"], ("attempts.start_time", "attempts.end_time"))


def _n_gpu(one: dict[str, Any]) -> int:
    detail = one.get("detail")
    machines = [part.get("gpus") for part in detail if isinstance(part, dict)] if isinstance(detail, list) else []
    return sum(len(gpus) for gpus in machines if isinstance(gpus, list))


def _objects(path: Path, audit: Audit) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, object) of each job. What is damaged ends where the next job begins, so it takes no other job with it."""
    for line, text in _pieces(path, audit):
        at = 0
        while (at := text.find("{", at)) >= 0:
            line_here = line + text.count("\n", 0, at)
            try:
                value, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep, or a number too long"
                audit.add(Finding(NO_JSON, path.name, line_here, "", "", what, LEFT_OUT))
                break
            yield line_here, value


def _pieces(path: Path, audit: Audit) -> Iterator[tuple[int, str]]:
    """(line, text from the beginning of a job to that of the next one)."""
    try:
        with require_file(path).open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
            text, line, seen = "", 1, 0
            while chunk := file.read(CHUNK_CHARS):
                text += chunk
                starts = [match.start() for match in JOB_START.finditer(text, max(seen - OVERLAP, 0))]
                cut = 0
                for start in starts:
                    if start > cut:
                        yield line, text[cut:start]
                        line += text.count("\n", cut, start)
                        cut = start
                text = text[cut:]
                seen = len(text)
                if seen > MOST_CHARS:
                    audit.add(Finding(NO_JSON, path.name, line, "", "", f"{MOST_CHARS:,} characters", LEFT_OUT))
                    line += text.count("\n", 0, seen - OVERLAP)
                    text = text[seen - OVERLAP :]
                    seen = len(text)
            yield line, text
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", READABLE) from error
