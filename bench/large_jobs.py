"""Training jobs of thousands of GPUs with fast-forwarding: how long a run takes, what memory, how much it simulates.

    python bench/large_jobs.py [--quick] [--config FILE ...] [--out FOLDER]

Siblings of two examples that are small enough are simulated packet by packet, too: how far completion times and
iteration times are off. That compiles all kernels. Then examples/llama3-405b-16384.toml and
examples/deepseek-v3-2048.toml, or the configs that are given, run on one rank, a process each. Memory is the largest
resident size of the process. --quick: the siblings alone.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cases import print_last
from pdes.config import load_config
from pdes.errors import ConfigError
from pdes.results.report.headline import mfu
from pdes.units import format_size
from runs import ROOT, Finished, simulate_once

JOBS = ("llama3-405b-16384", "deepseek-v3-2048")
SIBLINGS = {  # of what: overrides
    "llama3-405b-16384": [
        "topology.gpus=128", "topology.servers_per_rail_switch=4", "workload.layers=8", "workload.microbatches=4",
        "workload.parallel.dp=4", "workload.parallel.pp=4", 'workload.gradients="fp32"',
    ],
    "deepseek-v3-2048": [
        "topology.gpus=128", "topology.servers_per_rail_switch=8", "workload.layers=5", "workload.sequence=1024",
        "workload.global_batch=256", "workload.parallel.dp=64", "workload.parallel.pp=2",
    ],
}  # fmt: skip


def measured(config: Path, out: Path) -> dict[str, Any]:
    """A run in a process of its own: its seconds, its memory, and what it says of itself."""
    command = [sys.executable, "-m", "pdes", str(config.resolve()), "--quiet", "--out", str(out.resolve())]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    begin_s = time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    done = Finished(out, time.perf_counter() - begin_s, "")
    result = done.result
    return {
        "seconds": done.start_to_result_s, "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory_bytes": usage.ru_maxrss * 1024, "iteration_s": result["iteration_time_ps"][0] / 1e12,
        "mfu": mfu(result), "flows": result["flows"], "tasks": result["tasks"],
        "packet_hops": result["packet_hops"], "skipped_packet_hops": result["skipped_packet_hops"],
    }  # fmt: skip


def errors(name: str, out: Path) -> dict[str, Any]:
    """How far a sibling of a job is off its own simulation packet by packet."""
    config, overrides = ROOT / "examples" / f"{name}.toml", [*SIBLINGS[name], "output.flows=true"]
    fast = simulate_once(config, overrides, out)
    full = simulate_once(config, [*overrides, 'wormhole.mode="off"'], out)
    times_ps = [run.columns("flows", ["fct_ps"])["fct_ps"] for run in (fast, full)]
    iterations_ps = [run.result["iteration_time_ps"][0] for run in (fast, full)]
    off = np.abs(times_ps[0] / times_ps[1] - 1)
    return {
        "packet_hops": fast.result["packet_hops"], "packet_hops_in_full": full.result["packet_hops"],
        "iteration_error": abs(iterations_ps[0] / iterations_ps[1] - 1), "mean_fct_error": float(off.mean()),
        "p99_fct_error": float(np.quantile(off, 0.99)), "fct_bias": float(times_ps[0].mean() / times_ps[1].mean() - 1),
    }  # fmt: skip


def show_job(name: str, f: dict[str, Any]) -> None:
    """One run."""
    n_hop = f["packet_hops"] + f["skipped_packet_hops"]
    print(f"{name}: {f['seconds']:.0f} s ({f['cpu_seconds']:.0f} s of CPU), {format_size(f['memory_bytes'])}")
    share = "" if f["mfu"] is None else f", MFU {100 * f['mfu']:.1f} %"
    print(f"  iteration {f['iteration_s']:.3f} s{share}; {f['flows']:,} flows, {f['tasks']:,} tasks")
    print(f"  {f['packet_hops'] / 1e9:.3g} G packet-hops simulated of {n_hop / 1e9:.4g} G", flush=True)


def show_error(name: str, f: dict[str, Any]) -> None:
    """One comparison."""
    print(f"sibling of {name}: {f['packet_hops'] / 1e6:.3g} M of {f['packet_hops_in_full'] / 1e6:.4g} M packet-hops")
    off = f"completion times off by {100 * f['mean_fct_error']:.2g} % on average, 99th percentile"
    print(f"  iteration off by {100 * f['iteration_error']:.2g} %, {off} {100 * f['p99_fct_error']:.2g} %", flush=True)


def main() -> int:
    """Run, print the tables and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the small siblings alone")
    parser.add_argument("--config", type=Path, action="append", help="what to run instead of the two examples")
    parser.add_argument("--out", type=Path, default=Path("results/bench-large-jobs"), help="folder of the runs")
    arguments = parser.parse_args()
    configs = arguments.config or [ROOT / "examples" / f"{name}.toml" for name in JOBS]
    jobs, siblings = {}, {}
    try:
        for config in configs:
            load_config(config, [])
        for name in JOBS:
            siblings[name] = errors(name, arguments.out)
            show_error(name, siblings[name])
        for config in [] if arguments.quick else configs:
            jobs[config.stem] = measured(config, arguments.out / config.stem)
            show_job(config.stem, jobs[config.stem])
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print_last({"jobs": jobs, "siblings": siblings})
    return 0


if __name__ == "__main__":
    sys.exit(main())
