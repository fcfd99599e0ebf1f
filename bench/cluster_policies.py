"""Elastic jobs and comparisons at the cluster level: what docs/cluster-elastic.md and docs/cluster-compare.md say.

python bench/cluster_policies.py                      # everything, minutes
python bench/cluster_policies.py --case elastic       # policies on examples/cluster/elastic.toml, over seeds
python bench/cluster_policies.py --case overload      # Sia and Pollux there, with two and four times the jobs an hour
python bench/cluster_policies.py --case choices       # how long Sia's and Pollux' choices take, by jobs
python bench/cluster_policies.py --case coverage      # how often an interval has the truth in it, on M/M/2
"""

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np

from models.cluster.failures import Failures
from models.cluster.find import SCHEDULERS
from models.cluster.goodput import Amdahl, Curves, Model
from models.cluster.job import Job, Request
from models.cluster.loop import Cluster, Rules
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from pdes.cluster.outcome import outcome
from pdes.config.cluster.load import load_cluster
from pdes.sweeps.paired import paired, quantile

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "cluster" / "elastic.toml"
HOUR_US = 3600 * 10**6
POLICIES_SHOWN = ("sia", "pollux", "srtf", "backfill", "fcfs")
QUEUE = """
[cluster]
[[cluster.pool]]
servers = 2
gpus_per_server = 1
[cluster.arrivals]
jobs = 1000
per_hour = 1.0
duration = { distribution = "exponential", mean = "1h" }
"""


class Nobody:
    """Watches nothing."""

    def happened(self, *_: object) -> None:
        """Nothing."""

    def left(self, _: Job) -> None:
        """Nothing."""


def elastic(n_seed: int, n_job: int) -> None:
    """Mean completion, and how much later than with Sia."""
    print(f"examples/cluster/elastic.toml, {n_job} jobs, {n_seed} seeds: 95 % intervals of paired differences")
    print(
        f"{'scheduler':10} {'completion, min':>16} {'later than Sia, min':>20} {'wait, min':>10} {'stopped a job':>14}"
    )
    first: list[float] = []
    for name in POLICIES_SHOWN:
        results = [
            outcome(load_cluster(EXAMPLE, [*own, f"cluster.seed={k + 1}"]))
            for own in [[f"cluster.scheduler={name}", f"cluster.first={n_job}"]]
            for k in range(n_seed)
        ]  # fmt: skip
        minutes = [result["completion_s"]["mean"] / 60 for result in results]
        first = first or minutes
        found = paired(first, minutes)
        later = "" if name == POLICIES_SHOWN[0] else f"{found.mean:.1f} ± {found.half:.1f}"
        wait = np.mean([result["wait_s"]["mean"] / 60 for result in results])
        stopped = np.mean([result["preemptions"] / result["jobs"] for result in results])
        print(f"{name:10} {found.b:16.1f} {later:>20} {wait:10.2f} {stopped:14.2f}", flush=True)


def overload(n_seed: int, n_job: int) -> None:
    """More jobs an hour than the cluster can do."""
    print(f"{'jobs an hour':>12} {'scheduler':10} {'completion, min':>16} {'stopped a job':>14}")
    for per_hour in (12, 24, 48):
        for name in POLICIES_SHOWN[:2]:
            own = [f"cluster.scheduler={name}", f"cluster.first={n_job}", f"cluster.arrivals.per_hour={per_hour}"]
            results = [outcome(load_cluster(EXAMPLE, [*own, f"cluster.seed={k + 1}"])) for k in range(n_seed)]
            minutes = np.mean([result["completion_s"]["mean"] / 60 for result in results])
            stopped = np.mean([result["preemptions"] / result["jobs"] for result in results])
            print(f"{per_hour:12} {name:10} {minutes:16.1f} {stopped:14.2f}", flush=True)


def choices(most: int) -> None:
    """One choice for so many jobs that all came at once, on as many GPUs as jobs, and on eight times as many."""
    print(f"{'jobs':>6} {'GPUs':>6} {'sia, ms':>9} {'pollux, ms':>11}")
    for n_job in (10, 100, 1000):
        for times in (1, 8):
            if n_job > most:
                continue
            pools = [Pool("A", n_job * times // 16 + 1, 8, 16, 1.0), Pool("B", n_job * times // 16 + 1, 8, 16, 2.0)]
            models = {str(k): Model(Amdahl((0.02, 0.1, 0.15, 0.3)[k]), 1, 64) for k in range(4)}
            curves, took = Curves(pools, models), []
            for name in ("sia", "pollux"):
                machine = Machine(pools)
                rules = Rules(POLICIES["packed"], curves.speed, lambda *_: Checkpoints())
                scheduler = SCHEDULERS[name](Cluster(machine, rules, [], Failures([], machine, 0), Nobody()), {})
                jobs = [
                    Job(Request(i, "", 0, 4, HOUR_US, kind=str(i % 4), min_gpu=1, max_gpu=64)) for i in range(n_job)
                ]
                for job in jobs:
                    scheduler.submitted(job)
                scheduler.n_up = list(machine.n_up)
                began_s = time.perf_counter()
                scheduler.changes()
                took.append((time.perf_counter() - began_s) * 1e3)
            print(f"{n_job:6,} {sum(machine.n_up):6,} {took[0]:9.1f} {took[1]:11.1f}", flush=True)


def coverage(n_block: int, n_seed: int = 10) -> None:
    """Mean waits of M/M/2 at load 1, whose mean is a third of a service time, in blocks of seeds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queue.toml"
        path.write_text(QUEUE)
        waits = [
            outcome(load_cluster(path, [f"cluster.seed={seed}"]))["wait_s"]["mean"] / 3600
            for seed in range(n_block * n_seed)
        ]
    blocks = np.array(waits).reshape(n_block, n_seed)
    halves = quantile(n_seed) * blocks.std(axis=1, ddof=1) / math.sqrt(n_seed)
    n_hit = int((abs(blocks.mean(axis=1) - 1 / 3) <= halves).sum())
    print(
        f"M/M/2 at load 1, 1,000 jobs, {n_block} blocks of {n_seed} seeds: the 95 % interval has the mean wait in ",
        end="",
    )
    print(f"{n_hit} of {n_block}, {100 * n_hit / n_block:.0f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="elastic,overload,choices,coverage")
    parser.add_argument("--quick", action="store_true", help="small cases")
    arguments = parser.parse_args()
    small = arguments.quick
    cases = {
        "elastic": lambda: elastic(2, 30) if small else elastic(10, 400),
        "overload": lambda: overload(1, 30) if small else overload(3, 400),
        "choices": lambda: choices(100 if small else 1000),
        "coverage": lambda: coverage(3 if small else 100),
    }
    for name in arguments.case.split(","):
        if name not in cases:
            parser.error(f"--case: found {name!r}. Accepted: {', '.join(cases)}")
        cases[name]()


if __name__ == "__main__":
    main()
