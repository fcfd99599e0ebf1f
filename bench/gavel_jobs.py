"""The jobs of Gavel's continuous traces (OSDI '20): the same for a seed and a rate, with measured speeds.

python bench/gavel_jobs.py --case FOLDER --out OUT --seed 0 --per-hour 4 --jobs 6000  writes OUT/jobs.csv and speeds.csv
"""

import argparse
import csv
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pdes.convert.cluster.rates import Rates, write
from pdes.convert.cluster.readers.gavel_tables import TYPES as GPUS
from pdes.convert.cluster.readers.gavel_tables import read_rates

SIZES = {
    "ResNet-18": (16, 32, 64, 128, 256),
    "ResNet-50": (16, 32, 64, 128),
    "Transformer": (16, 32, 64, 128, 256),
    "LM": (5, 10, 20, 40, 80),
    "Recommendation": (512, 1024, 2048, 4096, 8192),
}
KINDS = [f"{name} (batch size {size})" for name, sizes in SIZES.items() for size in sizes] + ["A3C", "CycleGAN"]


class Drawn(NamedTuple):
    """A job. steps: run time on a V100 times the speed there."""

    submit_s: float
    kind: str
    steps: float


def read_speeds(folder: Path) -> dict[str, dict[str, float]]:
    """Steps per second of each kind alone on one GPU of each type."""
    found = read_rates(folder / "simulation_throughputs.json").table
    return {kind: {gpu: found[kind, 1, gpu] for gpu in GPUS} for kind in KINDS}


def draw(seed: int, mean_gap_s: float, speeds: dict[str, dict[str, float]]) -> Iterator[Drawn]:
    """Without end. Each job takes a number for its GPUs, which single-GPU traces do not use."""
    jobs, gaps, submit_s = random.Random(seed + 2), random.Random(seed + 3), 0.0
    while True:
        jobs.uniform(0, 1)
        low, high = (3, 4) if jobs.random() >= 0.8 else (1.5, 3)
        run_s = 60 * 10 ** jobs.uniform(low, high)
        kind = jobs.choice(KINDS)
        yield Drawn(submit_s, kind, run_s * speeds[kind]["v100"])
        submit_s += -math.log(1.0 - gaps.random()) * mean_gap_s


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=Path, required=True, help="folder with simulation_throughputs.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-hour", type=float, default=4.0)
    parser.add_argument("--jobs", type=int, default=6000)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    speeds = read_speeds(given.case)
    with (given.out / "speeds.csv").open("w", newline="") as file:
        rates = {(kind, 1, gpu): speed for kind, by_gpu in speeds.items() for gpu, speed in by_gpu.items()}
        write(file, rates, Rates("", rates))
    with (given.out / "jobs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["job", "submit_s", "gpus", "kind", "steps"])
        for number, job in zip(range(given.jobs), draw(given.seed, 3600 / given.per_hour, speeds), strict=False):
            rows.writerow([number, f"{job.submit_s:.6f}", 1, job.kind, job.steps])


if __name__ == "__main__":
    main()
