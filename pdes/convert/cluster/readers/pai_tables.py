"""Alibaba's PAI tables of 2020: jobs, tasks and tags in files of their own, with or without header lines.

pai_task_table says GPUs (plan_gpu hundredths for each of inst_num instances), type of GPU, start and end; a job is all
its tasks that have GPUs, from their first start to their last end. Beside it, pai_job_table says who submitted it and
when (its start_time), pai_group_tag_table what it computes, pai_machine_spec the machines.
"""

from pathlib import Path

from pdes.convert.cluster.audit import LEFT_OUT, Finding, quoted
from pdes.convert.cluster.companions import beside
from pdes.convert.cluster.fields import is_nothing, millionths, status_of
from pdes.convert.cluster.intake import BAD_GPUS, NO_DURATION, Intake
from pdes.convert.cluster.jobs import Job
from pdes.convert.cluster.lines import Head, bare_records
from pdes.convert.cluster.readers.alibaba_2020 import BAD_INSTANCES, HUNDRED, MOST_INSTANCES, type_of

TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TAGS = ("inst_id", "user", "gpu_type_spec", "group", "workload")
SPECS = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
NO_JOB = "job that the table of jobs lacks"
STATES = ("Terminated", "Failed", "Running", "Waiting", "Interrupted")


class Task:
    """What a job's tasks with GPUs come to. gpu: millionths of hundredths of a GPU; times: None if no task says."""

    __slots__ = ("end_us", "gpu", "gpu_type", "line", "n_instance", "start_us", "status")

    def __init__(self, line: int, gpu_type: str, status: str) -> None:
        self.line, self.gpu_type, self.status = line, gpu_type, status
        self.gpu = self.n_instance = 0
        self.start_us: int | None = None
        self.end_us: int | None = None


def matches(head: Head) -> bool:
    """Whether one of the first lines is one of the table of tasks."""
    return any(_is(line, TASKS) for line in head.lines)


def _is(line: str, columns: tuple[str, ...]) -> bool:
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(columns):
        return False
    return words == list(columns) or (columns in (TASKS, JOBS) and words[3] in STATES)


def is_jobs(head: Head) -> bool:
    """Whether it is the table of jobs."""
    return any(_is(line, JOBS) for line in head.lines)


def is_tags(head: Head) -> bool:
    """Whether it is the table of tags: told by its header, or by its long ids."""
    return head.columns == TAGS or (len(head.columns) == len(TAGS) and len(head.columns[0]) > 50)


def is_specs(head: Head) -> bool:
    """Whether it is the table of machines."""
    if head.columns == SPECS:
        return True
    machine, *rest = head.columns or ("",)
    return len(rest) == len(SPECS) - 1 and not machine.isdigit() and None not in map(millionths, rest[1:])


def read(path: Path, intake: Intake) -> None:
    """All jobs that need GPUs."""
    tasks = _tasks(path, intake)
    jobs, tags, specs = (beside(path, one) for one in (is_jobs, is_tags, is_specs))
    if specs is not None:
        _machines(specs, intake)
    workloads = _workloads(tags, intake) if tags is not None else {}
    if jobs is None:
        for name, task in tasks.items():
            intake.begin(task.line, name)
            if task.start_us is not None:
                _take(task, task.start_us, task.line, "", "", intake)
            else:
                intake.wrong(NO_DURATION, "start_time")
        return
    intake.begin_file(jobs)
    unnamed = dict(tasks)
    for line, (name, instance, user, status, submitted, _) in bare_records(jobs, intake.audit, JOBS):
        intake.begin(line, name)
        task = tasks.get(name)
        unnamed.pop(name, None)
        if task is None:
            intake.whole_gpus("plan_gpu", 0, may_be_none=True)
            continue
        submit_us = intake.submit("start_time", submitted, millionths)
        if submit_us is not None:
            task.status = status_of(status)
            _take(task, submit_us, line, user, workloads.get(instance, ""), intake)
    for name, task in unnamed.items():
        intake.audit.add(Finding(NO_JOB, path.name, task.line, name, "job_name", "", LEFT_OUT))


def _tasks(path: Path, intake: Intake) -> dict[str, Task]:
    """Job to its tasks that have GPUs."""
    tasks: dict[str, Task] = {}
    for line, (job, _, n, status, start, end, _, _, gpu, gpu_type) in bare_records(path, intake.audit, TASKS):
        if is_nothing(gpu):
            continue
        intake.begin(line, job)
        value = millionths(gpu)
        if value is None or value < 0:
            intake.wrong(BAD_GPUS, "plan_gpu", quoted(gpu))
        if not value or value < 0:
            continue
        n_instance = max(intake.whole("inst_num", n, BAD_INSTANCES, MOST_INSTANCES, 1), 1)
        task = tasks.get(job)
        if task is None:
            task = tasks[job] = Task(line, type_of(gpu_type), status_of(status))
        task.gpu += value * n_instance
        task.n_instance += n_instance
        start_us = intake.time("start_time", start, millionths)
        end_us = intake.time("end_time", end, millionths)
        if start_us is not None:
            task.start_us = start_us if task.start_us is None else min(task.start_us, start_us)
        if end_us is not None:
            task.end_us = end_us if task.end_us is None else max(task.end_us, end_us)
    return tasks


def _take(task: Task, submit_us: int, line: int, user: str, workload: str, intake: Intake) -> None:
    n_gpu = intake.whole_gpus("plan_gpu", task.gpu, HUNDRED)
    if task.start_us is None or task.end_us is None:
        intake.wrong(NO_DURATION, "start_time" if task.start_us is None else "end_time")
        return
    span_us = intake.span(task.start_us, task.end_us, ("start_time", "end_time"))
    duration_us = intake.positive("end_time", span_us) if span_us is not None else None
    if n_gpu is not None and duration_us is not None:
        job = Job(line, "", submit_us, duration_us, n_gpu, user, kind=workload, gpu_type=task.gpu_type)
        intake.take(job._replace(status=task.status, is_on_one=task.n_instance == 1), "start_time")


def _workloads(path: Path, intake: Intake) -> dict[str, str]:
    """Instance to what it computes."""
    names: dict[str, str] = {}
    found = {}
    for _, (instance, _, _, _, workload) in bare_records(path, intake.audit, TAGS):
        if not is_nothing(workload):
            found[instance] = names.setdefault(workload, workload)
    return found


def _machines(path: Path, intake: Intake) -> None:
    intake.begin_file(path)
    for line, (machine, gpu_type, _, _, gpu) in bare_records(path, intake.audit, SPECS):
        intake.machine(line, machine, gpu_type, "cap_gpu", gpu)
    intake.machine_file = path.name
