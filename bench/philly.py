"""Microsoft's Philly trace, whole: converted, and run with several schedulers.

python bench/philly.py FOLDER [--servers 311] [--gpus-per-server 8] [--scheduler fcfs backfill quota]

FOLDER: with the trace, or the trace itself, in any form that `pdes-sim convert cluster` reads. Without --servers there
are as many as make a load of 80 %. Prints jobs, mean and median wait, utilisation (GPU time that jobs hold, of all),
and wall time. quota: each tenant has GPUs by the share of GPU time that its jobs ask for, and borrows.
"""

import argparse
import csv
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.trace import convert
from pdes.errors import SimError

SCHEDULERS = ("fcfs", "backfill", "quota")


def quotas(jobs: Path, n_gpu: int) -> dict[str, int]:
    """Whole GPUs by tenant, by the GPU time that its jobs ask for; together at most n_gpu."""
    asked: Counter[str] = Counter()
    with jobs.open(newline="") as file:
        for row in csv.DictReader(file):
            asked[row["tenant"]] += round(int(row["gpus"]) * float(row["duration_s"]) * 1e6)
    return {tenant: n_gpu * gpu_us // asked.total() for tenant, gpu_us in sorted(asked.items())}


def run(config: Path, scheduler: str) -> tuple[dict[str, Any], float]:
    """result.json, and the seconds that the run took."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f'output.dir="{folder}"', "output.events=false", f"cluster.scheduler={scheduler}"]
        if scheduler == "quota":
            pools = load_cluster(config, []).run.cluster.pool
            n_gpu = sum(pool.servers * pool.gpus_per_server for pool in pools)
            shares = quotas(config.with_name("jobs.csv"), n_gpu)
            texts = (f"{json.dumps(name)}={n}" for name, n in shares.items())
            words.append(f"cluster.options.quotas={{{', '.join(texts)}}}")
        loaded, began_s = load_cluster(config, words), time.perf_counter()
        return run_cluster(loaded, True), time.perf_counter() - began_s


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--servers", type=int)
    parser.add_argument("--gpus-per-server", type=int)
    parser.add_argument("--scheduler", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "philly.toml"
        try:
            print(*convert(given.folder, config, None, Given(given.servers, given.gpus_per_server))[:2], sep="\n")
            print(f"{'scheduler':9} {'jobs':>8} {'wait, h':>9} {'median':>9} {'used':>7} {'stopped':>8} {'wall s':>7}")
            for scheduler in given.scheduler:
                result, wall_s = run(config, scheduler)
                wait = result["wait_s"]
                cells = f"{wait['mean'] / 3600:9.2f} {wait['p50'] / 3600:9.2f} {result['held_share']:7.1%}"
                text = f"{scheduler:9} {result['jobs_done']:8,} {cells} {result['preemptions']:8,} {wall_s:7.1f}"
                print(text, flush=True)
        except SimError as error:
            print(f"bench/philly.py: {error}", file=sys.stderr)
            sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
