"""Alibaba's GPU cluster of 2023: a list of pods (openb_pod_list_*.csv), and beside it one of nodes.

Pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time;
they run from scheduled_time to deletion_time. Nodes: sn,cpu_milli,memory_mib,gpu,model. A pod that may run on several
types ("V100M16|V100M32") gets the one of which there are most GPUs.
"""

from pathlib import Path

from pdes.convert.cluster.companions import beside
from pdes.convert.cluster.fields import PER_UNIT, is_nothing, millionths, status_of
from pdes.convert.cluster.intake import BAD_GPUS, NO_DURATION, Intake
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import Head, records

COLUMNS = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
OPTIONAL = ("gpu_spec", "qos", "pod_phase")
NODES = ("sn", "gpu", "model")
MILLI = 1000 * PER_UNIT
SEVERAL, NEVER_RAN = "several types of GPU", "never scheduled"


def matches(head: Head) -> bool:
    """Whether the file begins as a list of pods."""
    return head.has(*COLUMNS)


def is_nodes(head: Head) -> bool:
    """Whether the file begins as a list of nodes."""
    return head.has(*NODES)


def read(path: Path, intake: Intake) -> None:
    """All pods that need GPUs, and the nodes."""
    nodes = beside(path, is_nodes)
    if nodes is not None:
        intake.begin_file(nodes)
        for line, (name, gpu, model) in records(nodes, intake.audit, NODES):
            intake.machine(line, name, model, "gpu", gpu)
        intake.machine_file = nodes.name
    intake.begin_file(path)
    for line, words in records(path, intake.audit, COLUMNS, OPTIONAL):
        name, num_gpu, milli, created, deleted, scheduled, spec, qos, phase = words
        intake.begin(line, name)
        submit_us = intake.submit("creation_time", created, millionths)
        n_gpu = _gpus(num_gpu, milli, intake)
        if n_gpu is None:
            continue
        duration_us = _duration_us(scheduled, deleted, intake)
        if submit_us is not None and duration_us is not None:
            job = Job(line, "", submit_us, duration_us, n_gpu, kind=qos, gpu_type=_type(spec, intake))
            intake.take(job._replace(status=status_of(phase), is_on_one=True), "creation_time")


def _gpus(num_gpu: str, milli: str, intake: Intake) -> int | None:
    """Whole GPUs. gpu_milli is less than 1000 only where a pod shares one GPU."""
    n_gpu = intake.gpus("num_gpu", num_gpu, may_be_none=True)
    if n_gpu is None or is_nothing(milli):
        return n_gpu
    value = millionths(milli)
    if value is None or value < 0:
        intake.wrong(BAD_GPUS, "gpu_milli", f'"{milli[:60]}"', "taken as whole GPUs")
        return n_gpu
    if 0 < value < MILLI and n_gpu == 1:
        return intake.whole_gpus("gpu_milli", value, MILLI)
    return n_gpu


def _duration_us(scheduled: str, deleted: str, intake: Intake) -> int | None:
    if is_nothing(scheduled):
        intake.wrong(NEVER_RAN, "scheduled_time")
        return None
    times = [millionths(word) for word in (scheduled, deleted)]
    if None in times:
        column = "scheduled_time" if times[0] is None else "deletion_time"
        intake.wrong(NO_DURATION, column, f'"{(deleted if times[0] is not None else scheduled)[:60]}"')
        return None
    span_us = intake.span(times[0], times[1], ("scheduled_time", "deletion_time"))
    return intake.positive("deletion_time", span_us) if span_us is not None else None


def _type(spec: str, intake: Intake) -> str:
    types = [word for word in spec.split("|") if not is_nothing(word)]
    if len(types) < 2:
        return types[0] if types else ""
    n_gpu: dict[str, int] = {}
    for (model, gpus), n in intake.machines.items():
        n_gpu[model] = n_gpu.get(model, 0) + gpus * n
    chosen = max(types, key=lambda name: n_gpu.get(name, 0))
    if n_gpu and set(n_gpu) <= set(types):
        return ""
    intake.wrong(SEVERAL, "gpu_spec", spec[:80], f"taken as {chosen}")
    return chosen
