"""Gavel's published job completion times (OSDI '20), on 36 V100, 36 P100 and 36 K80 GPUs: ours, theirs, the error.

python bench/gavel.py --case FOLDER [--policy fifo_perf ..] [--rates 0.4 ..] [--quick]
"""

import argparse
import multiprocessing
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gavel_fair import FairAsFirstCoded
from gavel_fifo import FifoOfGavel
from gavel_jobs import GPUS, draw, read_speeds
from models.cluster.failures import Failures
from models.cluster.find import SCHEDULERS
from models.cluster.job import Job, Place, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from models.cluster.rules import Rules

FIRST, LAST = 4000, 5000
AS_CODED, FIRST_CODED = "fifo_as_coded", "finish_time_fairness_perf_as_first_coded"
PUBLISHED_AS = {AS_CODED: "fifo", FIRST_CODED: "finish_time_fairness_perf"}
POLICY_CLASSES = {**SCHEDULERS, "fifo-of-gavel": FifoOfGavel, "fair-as-first-coded": FairAsFirstCoded}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "fifo": ("fifo-rounds", {"pick": "last"}),
    AS_CODED: ("fifo-of-gavel", {}),
    "fifo_perf": ("fifo-perf", {}),
    "max_min_fairness": ("max-min", {}),
    "max_min_fairness_perf": ("max-min-perf", {}),
    "finish_time_fairness_perf": ("finish-time-fair", {}),
    FIRST_CODED: ("fair-as-first-coded", {}),
    "allox": ("allox", {}),
}
EXACT = {  # seed, mean gap in seconds: average seconds, with AlloX
    (42, 4500): 59770.441018, (1234, 4500): 64695.450528, (15, 4500): 55072.401336,
    (42, 9000): 59492.106756, (1234, 9000): 64494.582453, (15, 9000): 54834.129989,
}  # fmt: skip


class _OverError(Exception):
    """All jobs of interest are done."""


class _Watch:
    def __init__(self) -> None:
        self.took_us: list[int] = []

    def happened(self, now_us: int, what: str, job: Job | None, server: int, why: str) -> None:
        """Not needed."""

    def left(self, job: Job) -> None:
        """A job is done."""
        if FIRST <= job.number < LAST:
            self.took_us.append(self.cluster.now_us - job.request.submit_us)
            if len(self.took_us) == LAST - FIRST:
                raise _OverError

    cluster: Cluster


def average_s(case: Path, policy: str, seed: int, mean_gap_s: float, draws: int | None = None) -> float:
    """Mean completion time of the jobs of interest. draws: seed of the policy's draws, else that of jobs."""
    speeds = read_speeds(case)
    best = {kind: max(by_gpu.values()) for kind, by_gpu in speeds.items()}

    def requests() -> Iterator[Request]:
        for number, job in enumerate(draw(seed, mean_gap_s, speeds)):
            work_us = max(round(job.steps / best[job.kind] * 1e6), 1)
            yield Request(number, str(number), round(job.submit_s * 1e6), 1, work_us, kind=job.kind)

    def speed(request: Request, pool: int, place: Place) -> float:
        return speeds[request.kind][GPUS[pool]] / best[request.kind]

    machine, watch = Machine([Pool(gpu, 36, 1, 36, 1.0) for gpu in GPUS]), _Watch()
    rules = Rules(POLICIES["packed"], speed, lambda request, n: Checkpoints())
    cluster = watch.cluster = Cluster(machine, rules, requests(), Failures([], machine, 0), watch)
    name, options = OURS[policy]
    try:
        cluster.run(POLICY_CLASSES[name](cluster, {"seed": seed if draws is None else draws, **options}))
    except _OverError:
        pass
    return sum(watch.took_us) / len(watch.took_us) / 1e6


def published(case: Path) -> dict[str, dict[float, float]]:
    """Hours, by policy and rate: the first table that a policy is in, which is that of completion times."""
    found: dict[str, dict[float, float]] = {}
    rate = 0.0
    for line in (case / "published_jct_continuous_jobs.txt").read_text().splitlines():
        if match := re.fullmatch(r"Input job rate: ([\d.]+)", line):
            rate = float(match[1])
        elif match := re.fullmatch(r"(\w+): ([\d.]+)", line):
            found.setdefault(match[1], {}).setdefault(rate, float(match[2]))
    return found


def _one(task: tuple[Path, str, int, float]) -> tuple[str, int, float, float]:
    return *task[1:], average_s(*task)


def _drawn(task: tuple[Path, str, int, float, int]) -> float:
    return average_s(*task) / 3600


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=Path, required=True, help="folder with the speeds and the published results")
    parser.add_argument("--policy", nargs="+", choices=list(OURS), default=list(OURS))
    parser.add_argument("--rates", nargs="+", type=float, help="jobs per hour; all that are published")
    parser.add_argument("--quick", action="store_true", help="seed 0 only, and no exact seeds")
    parser.add_argument(
        "--draws", type=int, default=0, help="jobs of seed 0, and so many seeds of what the policy draws"
    )
    parser.add_argument("--processes", type=int, default=2, choices=(1, 2))
    given = parser.parse_args()
    theirs, began_s = published(given.case), time.perf_counter()
    theirs |= {ours: theirs[name] for ours, name in PUBLISHED_AS.items()}
    seeds = (0,) if given.quick else (0, 1, 2)
    rows = [(p, r, h) for p in given.policy for r, h in theirs[p].items() if not given.rates or r in given.rates]
    if given.draws:
        for policy, rate, hours in rows:
            with multiprocessing.Pool(given.processes) as pool:
                some = pool.map(_drawn, [(given.case, policy, 0, 3600 / rate, i) for i in range(given.draws)], 1)
            print(f"{policy:21} {rate:8.2f} {min(some):8.2f} to {max(some):.2f}, published {hours:.2f}", flush=True)
        return
    tasks = [(given.case, policy, seed, 3600 / rate) for policy, rate, _ in rows for seed in seeds]
    exact = EXACT if "allox" in given.policy and not given.quick else {}
    tasks += [(given.case, "allox", seed, float(gap)) for seed, gap in exact]
    with multiprocessing.Pool(given.processes) as pool:
        got = {(p, seed, gap): s for p, seed, gap, s in pool.imap_unordered(_one, tasks, chunksize=1)}
    print(f"{'policy':21} {'per hour':>8} {'ours h':>8} {'published':>9} {'error':>7}")
    for policy, rate, hours in rows:
        ours = sum(got[policy, seed, 3600 / rate] for seed in seeds) / len(seeds) / 3600
        print(f"{policy:21} {rate:8.2f} {ours:8.2f} {hours:9.2f} {ours / hours - 1:+7.1%}")
    for (seed, gap), wanted in exact.items():
        ours = got["allox", seed, float(gap)]
        print(f"allox seed {seed:4} gap {gap} s: {ours:.3f} s, published {wanted:.3f} s, {ours / wanted - 1:+.3%}")
    print(f"{len(tasks)} runs in {time.perf_counter() - began_s:.0f} s")


if __name__ == "__main__":
    main()
