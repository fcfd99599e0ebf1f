"""What the [[job]] tables must satisfy together: names, an order without circles, GPUs that nobody else has."""

from collections.abc import Iterator

from pdes.config.tables.fields import Fault
from pdes.config.tables.jobs import InputConfig, JobConfig, JobsConfig
from pdes.units import shown


def jobs_faults(jobs: JobsConfig, n_host: int | None) -> list[Fault]:
    """Faults of [[job]]. n_host: the cluster's GPUs, None: not known yet."""
    faults = [*_name_faults(jobs.job), *_input_faults(jobs.job, n_host)]
    if not faults:
        faults += [fault for i, job in enumerate(jobs.job) for fault in _gpu_faults(i, job, n_host)]
    return faults or [*_room_faults(jobs)]


def _name_faults(rows: list[JobConfig]) -> Iterator[Fault]:
    names: dict[str, int] = {}
    for i, job in enumerate(rows):
        if job.name in names:
            yield Fault(("job", i, "name"), f"{shown(job.name)} is there twice", "Accepted: a name of its own")
        for other in job.after:
            if other not in names:
                accepted = f"Accepted: names of jobs above it ({', '.join(map(shown, names)) or 'there are none'})"
                yield Fault(("job", i, "after"), f"found {shown(other)}", accepted)
        if len(set(job.after)) < len(job.after):
            yield Fault(("job", i, "after"), "names a job twice", "Accepted: each once")
        names.setdefault(job.name, i)


def _input_faults(rows: list[JobConfig], n_host: int | None) -> Iterator[Fault]:
    """Of storage hosts, and of whom they serve."""
    for i, job in enumerate(rows):
        own = job.workload
        if not isinstance(own, InputConfig):
            continue
        place = ("job", i, "workload")
        waiting = [other.name for other in rows if job.name in other.after]
        if own.to not in waiting:
            names = ", ".join(map(shown, waiting)) or "there is none"
            accepted = f"Accepted: a job with {shown(job.name)} in its `after` ({names})"
            yield Fault((*place, "to"), f"found {shown(own.to)}", accepted)
        if len(set(own.hosts)) < len(own.hosts) or (n_host is not None and max(own.hosts) >= n_host):
            last = "" if n_host is None else f" 0 to {n_host - 1}"
            yield Fault((*place, "hosts"), f"found {shown(own.hosts)}", f"Accepted: hosts{last}, each once")
        for key in sorted({"gpus", "placement", "iterations"} & job.model_fields_set):
            yield Fault(
                ("job", i, key), "is there, and the job moves data", "Accepted: `hosts` and `to` of its workload"
            )


def _gpu_faults(i: int, job: JobConfig, n_host: int | None) -> Iterator[Fault]:
    if isinstance(job.gpus, tuple) and "placement" in job.model_fields_set:
        yield Fault(("job", i, "placement"), "is there, and gpus says which", "Accepted: with a number of GPUs")
    n = job.n_gpu
    parallel = getattr(job.workload, "parallel", None)
    if n is not None and parallel is not None and parallel.n_gpu != n:
        found = f"{shown(n)}, and the layout of its workload has {parallel.n_gpu}"
        yield Fault(("job", i, "gpus"), found, f"Accepted: {parallel.n_gpu}, or sizes whose product is {n}")
    if n_host is None:
        return
    if isinstance(job.gpus, tuple) and max(job.gpus) >= n_host:
        accepted = f"Accepted: 0 to {n_host - 1}, the hosts of [topology]"
        yield Fault(("job", i, "gpus"), f"names GPU {max(job.gpus)}", accepted)
    elif n is not None and n > n_host:
        yield Fault(("job", i, "gpus"), f"{n}, and [topology] has {n_host}", f"Accepted: 1 to {n_host}")


def _room_faults(jobs: JobsConfig) -> Iterator[Fault]:
    """Jobs that may run at the same time want GPUs of their own. Those that name a number are placed later."""
    for i, job in enumerate(jobs.job):
        before = jobs.others_before(i)
        for k in range(i):
            other = jobs.job[k]
            if not isinstance(job.gpus, tuple) or not isinstance(other.gpus, tuple) or k in before:
                continue
            common = sorted(set(job.gpus) & set(other.gpus))
            if common:
                found = f"GPU {common[0]} is also one of {shown(other.name)}'s, which may run at that time"
                yield Fault(("job", i, "gpus"), found, 'Accepted: other GPUs, or "after" that job')
