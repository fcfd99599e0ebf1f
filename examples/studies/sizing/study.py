"""How large a cluster should be: GPUs that stand idle while 500 jobs wait, and how long these wait.

python examples/studies/sizing/study.py [--quick] [--out FOLDER] [--publish]
"""

import math
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, study

LENGTH = 500  # of the queue
SERVERS = (256, 512, 1024, 2048)
SCALES = (1, 2, 4)  # of jobs' sizes
SIZES = {8: 40, 16: 20, 24: 15, 56: 12, 136: 8, 248: 4, 504: 1}
MEAN_MIN, USUAL = 110, 0.8  # of durations: their mean, and sigma of the lognormal
SIGMAS = (0.3, 0.8, 1.3)
HOUR_US = 3600e6


class Found(NamedTuple):
    """idle: share of all GPUs. wait_h: from coming into the queue to the start. jobs_per_h: that start."""

    idle: float
    wait_h: float
    jobs_per_h: float


def mean_size(scale: int) -> float:
    """GPUs of a job."""
    return scale * sum(size * weight for size, weight in SIZES.items()) / sum(SIZES.values())


def steady(folder: Path, n_gpu: int) -> Found:
    """While the queue is full, without the first fourth of the jobs."""
    import pyarrow.parquet as pq

    jobs = pq.read_table(folder / "jobs.parquet")
    start_us = jobs.column("start_us").to_numpy()
    in_order = np.sort(start_us)
    entered_us = np.concatenate([np.zeros(LENGTH), in_order[: len(start_us) - LENGTH]])
    first = len(start_us) // 4
    from_us, to_us = in_order[first], in_order[-LENGTH]
    usage = pq.read_table(folder / "usage.parquet")
    begin_us, held = usage.column("begin_us").to_numpy(), usage.column("held_gpus_us").to_numpy()
    within = (begin_us >= from_us) & (begin_us + HOUR_US <= to_us)
    own = (entered_us >= from_us) & (start_us <= to_us)
    n_start = ((start_us >= from_us) & (start_us < to_us)).sum()
    return Found(
        1 - held[within].sum() / (within.sum() * HOUR_US * n_gpu),
        float((start_us - entered_us)[own].mean()) / HOUR_US,
        float(n_start) / (to_us - from_us) * HOUR_US,
    )


def make_rows(found: dict[tuple[float, int, int], Found]) -> list[Row]:
    """A row for each cluster, size of jobs and spread of durations."""
    rows = []
    for (sigma, scale, n_server), here in found.items():
        half = found.get((sigma, scale, n_server // 2))
        rows.append({
            "sigma of durations": sigma,
            "GPUs of a job": f"{mean_size(scale):.0f}",
            "servers": n_server,
            "idle": f"{here.idle:.2%}",
            "idle GPUs": f"{here.idle * n_server * 8:.0f}",
            "mean wait, h": f"{here.wait_h:.2f}",
            "500 / starts per h": f"{LENGTH / here.jobs_per_h:.2f}",
            "wait / half the servers' wait": "" if half is None else f"{here.wait_h / half.wait_h:.2f}",
            "idle GPUs / half the servers'": "" if half is None else f"{2 * here.idle / max(half.idle, 1e-9):.2f}",
        })  # fmt: skip
    return rows


def draw(
    asked: Study, found: dict[tuple[float, int, int], Found], servers: Sequence[int], scales: Sequence[int]
) -> None:
    """Idle GPUs and waits by size of jobs, a curve for each cluster."""

    def curves(axes: Any) -> None:
        names = [f"{mean_size(scale):.0f}" for scale in scales]
        for n_server in servers:
            here = [found[USUAL, scale, n_server] for scale in scales]
            axes[0].plot(names, [100 * one.idle for one in here], marker="o", label=f"{n_server:,} servers")
            axes[1].plot(names, [one.wait_h for one in here], marker="o", label=f"{n_server:,} servers")
        label_panel(axes[0], "Idle GPUs, %", "GPUs of a job, on average", "")
        label_panel(axes[1], "Mean wait, h", "GPUs of a job, on average", "")
        legend_below(axes[0])

    asked.draw("idle", 2, curves)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("sizing", __doc__, arguments)
    servers, scales, jobs = ((256, 512), (1,), 3000) if asked.is_quick else (SERVERS, SCALES, 8000)
    found = {}
    for sigma, scale, n_server in product(SIGMAS, scales, servers):
        if sigma != USUAL and scale != scales[0]:
            continue
        gpus = ", ".join(f"{size * scale} = {weight}" for size, weight in SIZES.items())
        median_s = 60 * MEAN_MIN / math.exp(sigma**2 / 2)
        folder = asked.simulate_cluster(
            f"{sigma}-{scale}-{n_server}", f"cluster.arrivals.jobs={jobs}",
            f"cluster.arrivals.gpus={{{gpus}}}", f"cluster.pool.0.servers={n_server}",
            f'cluster.arrivals.duration={{distribution="lognormal", median="{median_s:.0f}s", sigma={sigma}}}',
        )  # fmt: skip
        found[sigma, scale, n_server] = steady(folder, n_server * 8)
    rows = make_rows(found)
    asked.tell(rows)
    draw(asked, found, servers, scales)
    return rows


if __name__ == "__main__":
    main()
