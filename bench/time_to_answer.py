"""How long a question takes: dense training jobs on ever more GPUs, from the command to the result, on one core.

    python bench/time_to_answer.py [--gpus 64,128,256,512,1024,2048] [--modes exact,auto,flow] [--set key=value ...]
                                   [--limit-minutes 10] [--quick] [--out FOLDER]

The job is examples/llama3-70b-64.toml (LLaMA 3 70B, TP4-CP2-PP4, five chunks per stage, 64 microbatches a replica)
with as many replicas as there are GPUs for. Each run is a process of its own, kernels are compiled before. CPU is that
of the process; with other work on the machine it says more than the time. A mode that takes longer than the limit is
given up, and not tried on more GPUs. With --out a plot, and the results.
"""

import argparse
import resource
import subprocess
import tempfile
from pathlib import Path

from cases import print_last
from plots import draw
from runs import compile_ahead, simulate
from wormhole import EXAMPLES

EXAMPLE, LEAST_GPUS = EXAMPLES / "llama3-70b-64.toml", 64


def overrides(n_gpu: int, mode: str) -> list[str]:
    """The example on so many GPUs."""
    n = n_gpu // LEAST_GPUS
    return [
        f"topology.gpus={n_gpu}", f"workload.parallel.dp={2 * n}", f"workload.global_batch={128 * n}",
        f"wormhole.mode={mode}", "output.tasks=false",
    ]  # fmt: skip


def measured(n_gpu: int, mode: str, sets: list[str], folder: Path, limit_s: float) -> dict:
    """A run's row; without times if it was given up."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    row = {"gpus": n_gpu, "mode": mode, "seconds": None, "cpu_seconds": None, "iteration_s": None}
    try:
        done = simulate(EXAMPLE, [*overrides(n_gpu, mode), *sets], folder / f"{mode}-{n_gpu}", limit_s=limit_s)
    except subprocess.TimeoutExpired:
        return row
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = done.result
    return row | {
        "seconds": done.start_to_result_s,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "iteration_s": found["iteration_time_ps"][-1] / 1e12,
        "packet_hops": found["packet_hops"],
        "all_packet_hops": found["packet_hops"] + found["skipped_packet_hops"],
    }


def main() -> None:
    """Run all, print a row each, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="64,128,256,512,1024,2048", help="numbers of GPUs, comma separated")
    parser.add_argument("--modes", default="exact,auto,flow", help="of fast-forwarding, comma separated")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="a key of all configs")
    parser.add_argument("--limit-minutes", type=float, default=10, help="after which a run is given up")
    parser.add_argument("--quick", action="store_true", help="64 and 128 GPUs, modes auto and flow")
    parser.add_argument("--out", type=Path, help="keep the results there, with a plot")
    arguments = parser.parse_args()
    numbers = [64, 128] if arguments.quick else [int(text) for text in arguments.gpus.split(",")]
    modes = ["auto", "flow"] if arguments.quick else arguments.modes.split(",")
    rows, limit_s = [], 60 * arguments.limit_minutes
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        print("mode    GPUs   seconds   CPU s   iteration s   packet-hops   simulated", flush=True)
        for mode in modes:
            compile_ahead(EXAMPLE, [*overrides(numbers[0], mode), *arguments.sets], out)
            for n_gpu in numbers:
                row = measured(n_gpu, mode, arguments.sets, out, limit_s)
                rows.append(row)
                if row["seconds"] is None:
                    print(f"{mode:<6} {n_gpu:>5}   given up after {arguments.limit_minutes:g} minutes", flush=True)
                    break
                times = f"{row['seconds']:>9.1f} {row['cpu_seconds']:>7.1f} {row['iteration_s']:>13.4f}"
                hops = f"{row['all_packet_hops']:>13.3g} {row['packet_hops']:>11.3g}"
                print(f"{mode:<6} {n_gpu:>5} {times} {hops}", flush=True)
        if arguments.out:
            found = [row for row in rows if row["seconds"] is not None]
            curves = {
                mode: ([row["gpus"] for row in found if row["mode"] == mode],
                       [row["cpu_seconds"] for row in found if row["mode"] == mode])
                for mode in modes
            }  # fmt: skip
            draw(out / "time-to-answer.svg", "Time to answer", {"LLaMA 3 70B on H100s": curves}, "GPUs", "CPU, s",
                 log_y=True, log_x=True)  # fmt: skip
    print_last({"rows": rows})


if __name__ == "__main__":
    main()
