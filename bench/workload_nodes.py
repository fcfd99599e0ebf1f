"""A training job of 100 million operations, executed one by one: how long it takes, and how much memory.

16 GPUs in two servers, tensor parallelism inside, so many microbatches that computations and collectives of all layers
add up to it. A program keeps its loops, so what is stored does not grow with them. The operations that end are counted
while they run, and compared with what the plan says.
"""

import argparse
import json
import resource
from pathlib import Path

from rich.console import Console

from pdes.convert.toml_text import toml_text
from runs import simulate

TASKS_PER_MICROBATCH = 1728  # of all GPUs, with 8 layers
GIGA = 10**9


def config_text(n_microbatch: int) -> str:
    """The job's config."""
    tables = {
        "topology": {"kind": "roft", "gpus": 16},
        "workload": {"kind": "training", "microbatches": n_microbatch, "zero": 1},
        "workload.model": {"layers": 8, "hidden": 4096, "heads": 32},
        "workload.parallel": {"tp": 8, "dp": 2, "pp": 1},
        "workload.compute": {"gpu": "h100"},
        "wormhole": {"mode": "exact"},
        "output": {"tasks": False, "flows": False},
    }
    return toml_text("a training job of many microbatches", tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, default=100.0, help="operations, in millions")
    parser.add_argument("--out", type=Path, default=Path("results/workload-nodes"))
    parser.add_argument("--quick", action="store_true", help="one million")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = 1e6 if arguments.quick else arguments.millions * 1e6
    config = arguments.out / "job.toml"
    config.write_text(config_text(max(1, round(wanted / TASKS_PER_MICROBATCH))))
    done = simulate(config, (), arguments.out / "job")
    n_task, loop_s = done.result["tasks"], done.run["loop_seconds"]
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert len(done.result["iteration_time_ps"]) == 1, "an iteration is whole if as many tasks ended as the plan has"
    Console().print(
        f"{n_task:,} operations in {loop_s:.1f} s, {n_task / loop_s / 1e6:.2f} M/s, at most {peak_bytes / GIGA:.2f} GB"
    )
    print(json.dumps({"nodes": n_task, "loop_seconds": loop_s, "peak_bytes": peak_bytes}))


if __name__ == "__main__":
    main()
