"""Microbatches that are left out: what a job costs with ever more of them, and what it is off by.

    python bench/microbatches.py [--cases gpt-7b-64,gpt-13b-128,gpt-175b-1024,moe-8x7b-64] [--times 1,4,16]
                                 [--set key=value ...] [--quick] [--out FOLDER]

Each example is run with so many times as many microbatches as pipeline stages, with fast-forwarding (HPCC, flow level,
a tolerance of 0.02), with `[wormhole] microbatch_repeats` at its default, and 0: then all passes are simulated. The
error is of the iteration against the latter. Packet-hops: those simulated, and all that the run stands for.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from cases import print_last
from fidelity import relative
from pdes.config import load_config
from pdes.config.wormhole.table import FORECASTS
from runs import Finished, compile_ahead, only, simulate
from wormhole import EXAMPLES, percent

CASES = ("gpt-7b-64", "gpt-13b-128", "gpt-175b-1024", "moe-8x7b-64")
SETS = ["wormhole.mode=auto", "wormhole.tolerance=0.02", only(*FORECASTS[:-1]), "output.tasks=false"]
ALL = "wormhole.microbatch_repeats=0"


def row_of(name: str, n: int, fast: Finished, whole: Finished | None) -> dict:
    """What is said of a case with n microbatches."""
    found, passes = fast.result, fast.result["fast_forward"]["passes"]
    row = {
        "case": name, "microbatches": n, "passes_left_out": passes["skipped"], "packet_hops": found["packet_hops"],
        "factor": (found["packet_hops"] + found["skipped_packet_hops"]) / max(found["packet_hops"], 1),
        "loop_seconds": fast.run["loop_seconds"], "start_to_result_s": fast.start_to_result_s,
        "bound": max((jump["error_bound"] for jump in passes["jumps"]), default=None),
        "whole_loop_seconds": None, "iteration_error": None,
    }  # fmt: skip
    if whole is not None:
        row["whole_loop_seconds"] = whole.run["loop_seconds"]
        row["iteration_error"] = relative(whole.result["iteration_time_ps"][0], found["iteration_time_ps"][0])
    return row


def main() -> None:
    """Run the cases and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="examples, comma separated")
    parser.add_argument("--times", default="1,4,16", help="microbatches per pipeline stage, comma separated")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="a key of all configs")
    parser.add_argument("--quick", action="store_true", help="gpt-7b-64 alone")
    parser.add_argument("--out", type=Path, help="keep the results there")
    arguments = parser.parse_args()
    names = ["gpt-7b-64"] if arguments.quick else arguments.cases.split(",")
    rows = []
    print("case            microbatches  left out  packet-hops   factor   loop s  all: loop s  iteration error   bound")
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        for name in names:
            config = EXAMPLES / f"{name}.toml"
            sets = [*SETS, *arguments.sets]
            compile_ahead(config, sets, out)
            n_stage = load_config(config, sets).resolved()["workload"]["parallel"]["pp"]
            for times in map(int, arguments.times.split(",")):
                n = times * n_stage
                mine = [*sets, f"workload.microbatches={n}"]
                fast = simulate(config, mine, out / f"{name}-{n}")
                whole = simulate(config, [*mine, ALL], out / f"{name}-{n}-all")
                row = row_of(name, n, fast, whole)
                rows.append(row)
                print(
                    f"{name:<15} {n:>12} {row['passes_left_out']:>9} {row['packet_hops']:>12,} {row['factor']:>8.1f} "
                    f"{row['loop_seconds']:>8.2f} {row['whole_loop_seconds']:>12.2f} "
                    f"{percent(row['iteration_error']):>16} {percent(row['bound']):>8}"
                )
                sys.stdout.flush()
    print_last({"rows": rows})


if __name__ == "__main__":
    main()
