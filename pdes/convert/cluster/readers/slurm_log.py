"""What the logs of Acme and Helios have in common: a line per job of Slurm, with dates and seconds.

job_id,user,gpu_num,node_num,state,submit_time,start_time,end_time,duration,.. A job runs from its start to its end; the
duration that is written is that time in some logs (Helios, Seren), the time since submission in another (Kalos).
"""

from pathlib import Path

from pdes.convert.cluster.fields import PER_UNIT, date_us, decimal, is_nothing, millionths, status_of
from pdes.convert.cluster.intake import (
    AS_SPAN,
    BAD_DURATION,
    EARLY_START,
    NO_DURATION,
    OTHER_DURATION,
    Intake,
)
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import records
from pdes.convert.cluster.variants import SLURM

COLUMNS = ("job_id", "user", "gpu_num", "state", "submit_time", "start_time", "end_time", "duration")
OPTIONAL = ("node_num", "vc", "type")
KEPT = "kept"


def read(path: Path, intake: Intake) -> None:
    """All jobs that need GPUs."""
    intake.is_dated = True
    for line, words in records(path, intake.audit, COLUMNS, OPTIONAL, SLURM):
        job, user, gpus, state, submitted, started, ended, duration, nodes, vc, kind = words
        intake.begin(line, job)
        n_gpu = intake.gpus("gpu_num", gpus, may_be_none=True)
        if n_gpu is None:
            continue
        submit_us = intake.submit("submit_time", submitted, date_us)
        start_us, end_us = (intake.time(*one, date_us) for one in (("start_time", started), ("end_time", ended)))
        if submit_us is not None and start_us is not None and start_us < submit_us:
            intake.wrong(EARLY_START, "start_time", f"{decimal(submit_us - start_us)} s before it", KEPT)
        duration_us = _duration_us(duration, start_us, end_us, intake)
        if submit_us is not None and duration_us is not None:
            row = Job(line, "", submit_us, duration_us, n_gpu, vc or user, kind=kind, status=status_of(state))
            intake.take(row._replace(is_on_one=nodes in ("1", "1.0")), "submit_time")


def _duration_us(word: str, start_us: int | None, end_us: int | None, intake: Intake) -> int | None:
    """From start to end; what is written only where one of these is missing."""
    if start_us is None or end_us is None:
        return intake.duration("duration", word)
    span_us = intake.span(start_us, end_us, ("start_time", "end_time"))
    if span_us is None:
        return None
    value = millionths(word)
    if value is None:
        kind = NO_DURATION if is_nothing(word) else BAD_DURATION
        intake.wrong(kind, "duration", f'"{word[:60]}"' if word else "", AS_SPAN)
    elif abs(value - span_us) > PER_UNIT:
        intake.wrong(OTHER_DURATION, "duration", f"{decimal(value)} s, not {decimal(span_us)} s", AS_SPAN)
    return intake.positive("end_time", span_us)
