"""Alibaba's PAI jobs of 2020 as one CSV, as its simulator reads them (pai_job_duration_estimate_100K.csv).

job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user and others. num_gpu: GPUs of the whole job, as a
decimal; plan_gpu, where it stands in its place, hundredths of a GPU of each of num_inst instances.
"""

from pathlib import Path

from pdes.convert.cluster.fields import PER_UNIT, is_nothing, millionths, status_of
from pdes.convert.cluster.intake import Intake
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import Head, records

COLUMNS = ("job_id", "submit_time", "duration")
OPTIONAL = ("num_gpu", "plan_gpu", "num_inst", "user", "gpu_type", "workload", "status")
BAD_INSTANCES = "instances that are none"
MOST_INSTANCES = 10**6
HUNDRED = 100 * PER_UNIT


def matches(head: Head) -> bool:
    """Whether the file begins as this format does."""
    return head.has(*COLUMNS) and (head.has("num_gpu") or head.has("plan_gpu"))


def is_results(head: Head) -> bool:
    """Whether the file begins as pai-jct.log, what Alibaba's simulator says of each policy."""
    return any(line.startswith("alloc,preempt,avg_jct,") for line in head.lines)


def read(path: Path, intake: Intake) -> None:
    """All jobs that need GPUs."""
    for line, words in records(path, intake.audit, COLUMNS, OPTIONAL):
        job, time, duration, num_gpu, plan_gpu, num_inst, user, gpu_type, workload, status = words
        intake.begin(line, job)
        submit_us = intake.submit("submit_time", time, millionths)
        duration_us = intake.duration("duration", duration)
        n_gpu = _gpus(num_gpu, plan_gpu, num_inst, intake)
        if submit_us is not None and duration_us is not None and n_gpu is not None:
            row = Job(line, "", submit_us, duration_us, n_gpu, user, kind=workload, gpu_type=type_of(gpu_type))
            row = row._replace(status=status_of(status), is_on_one=num_inst in ("1", "1.0"))
            intake.take(row, "submit_time")


def _gpus(num_gpu: str, plan_gpu: str, num_inst: str, intake: Intake) -> int | None:
    if num_gpu or not plan_gpu:
        return intake.gpus("num_gpu", num_gpu, may_be_none=True)
    n = 1
    if not is_nothing(num_inst):
        n = max(intake.whole("num_inst", num_inst, BAD_INSTANCES, MOST_INSTANCES, 1), 1)
    return intake.gpus("plan_gpu", plan_gpu, HUNDRED, n, may_be_none=True)


def type_of(word: str) -> str:
    """The type of GPU; "CPU" stands for none."""
    return "" if word.upper() == "CPU" else word
