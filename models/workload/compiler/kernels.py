"""The kernels that a job runs, how often, and how many of them a table of measured times has."""

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

from models.compute.devices import Device
from models.compute.kernel_table import COLUMNS, Key, key_of
from models.compute.kernel_time import kernel_ps
from models.compute.layout import Layout
from models.compute.lower import steps_of
from models.compute.operators import Kernel
from models.compute.parameters import optimizer_kernel
from models.workload.compiler.job import Job
from models.workload.compiler.parts import chunk_parts, updated_parameters
from pdes.errors import ConfigError
from pdes.units import PS_PER_US


def job_kernels(job: Job) -> Counter[Kernel]:
    """Kernels of an iteration on one GPU of each pipeline stage, and how often they run."""
    found: Counter[Kernel] = Counter()
    if job.layout.stage_tp:  # of each stage with each of its sizes
        for stage, sizes in enumerate(job.layout.stage_tp):
            for replica in {tp: i for i, tp in reversed(list(enumerate(sizes)))}.values():
                own = replace(job, layout=job.layout.of_group(stage, replica))
                found[optimizer_kernel(own.layout, updated_parameters(own, stage))] += 1
                for part, n in chunk_parts(own, stage, 0):
                    for kernel in _part_kernels(own, own.layout, part):
                        found[kernel] += n * own.layout.n_microbatch
        return found
    parts: Counter[str] = Counter()
    for stage in range(job.layout.n_program):
        found[optimizer_kernel(job.layout, updated_parameters(job, stage))] += 1
        for chunk in range(job.layout.n_chunk):
            parts.update(dict(chunk_parts(job, stage, chunk)))
    for layout in job.expert_layouts():
        for part, n in parts.items():
            for kernel in _part_kernels(job, layout, part):
                found[kernel] += n * layout.n_microbatch
    return found


def _part_kernels(job: Job, layout: Layout, part: str) -> list[Kernel]:
    passes = ("forward", "backward")
    return [
        step for which in passes for _, step in steps_of(job.shape, layout, part, which) if isinstance(step, Kernel)
    ]


def measured_text(job: Job, device: Device) -> str:
    """How much of a job a type's table has, such as "12 of 40, 93 % of the time". ConfigError if it has none."""
    assert device.table is not None
    kernels = job_kernels(job)
    times_ps = {kernel: n * kernel_ps(kernel, device) for kernel, n in kernels.items()}
    measured = [kernel for kernel in kernels if device.table.time_ps(kernel) is not None]
    if not measured:
        found = f"none of the {len(kernels)} kernels of this job"
        raise ConfigError(device.table.name, found, 'kernels as "pdes-sim export kernels" lists them')
    share = sum(times_ps[kernel] for kernel in measured) / sum(times_ps.values())
    return f"{len(measured)} of {len(kernels)}, {100 * share:.3g} % of the time"


def write_kernels(job: Job, device: Device, path: Path) -> None:
    """The job's kernels on a type of GPU as a table that `read_kernel_table` reads, those that take longest first.

    Of kernels that a table cannot tell apart the mean is written, over how often they run.
    """
    total_ps: Counter[Key] = Counter()
    n_run: Counter[Key] = Counter()
    for kernel, n in job_kernels(job).items():
        total_ps[key_of(kernel)] += n * kernel_ps(kernel, device)
        n_run[key_of(kernel)] += n
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for key in sorted(total_ps, key=lambda key: (-total_ps[key], key)):
            rows.writerow((*key, f"{round(total_ps[key] / n_run[key]) / PS_PER_US:.6f}"))
