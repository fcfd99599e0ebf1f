"""Iterations that are extrapolated against the same iterations simulated: how far off, and how many were simulated.

    python bench/wormhole_iterations.py [--iterations 20] [--cases a,b] [--set key=value ...] [--tolerance 0.001,0.005]
                                        [--quick] [--out FOLDER] [--fresh]

Each case is run with all of its iterations simulated, and with `[wormhole] iteration_tolerance` at each of the
tolerances; what else is fast-forwarded is the same in both. The errors are of the mean of those that were extrapolated,
and of all iterations together. `bound` is what the run itself said of the first; `scatter` is (max - min) / mean of the
iterations' times.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cases import print_last
from fidelity import relative
from pdes.config import load_config
from pdes.errors import ConfigError
from runs import Finished, compile_ahead, only, simulate_once
from wormhole import EXAMPLES, percent

QUICKSTART, GPT = EXAMPLES / "quickstart.toml", EXAMPLES / "gpt-7b-64.toml"
REPLAY = ["wormhole.mode=exact", only("replay")]  # what two equal network partitions do is simulated once
CASES: dict[str, tuple[Path, list[str]]] = {
    "dctcp": (QUICKSTART, [*REPLAY, "network.congestion_control=dctcp"]),
    "hpcc": (QUICKSTART, [*REPLAY, "network.congestion_control=hpcc"]),
    "dcqcn": (QUICKSTART, [*REPLAY, "network.congestion_control=dcqcn"]),
    "moe-hpcc": (
        QUICKSTART,
        [*REPLAY, "network.congestion_control=hpcc", "workload.model.experts=4", "workload.parallel.ep=4"],
    ),
    "gpt-7b-64": (GPT, ["wormhole.mode=exact"]),
}
QUICK = ("dctcp", "dcqcn")
Row = dict[str, Any]


def compare(full: Finished, fast: Finished) -> Row:
    """What is said of a case at one tolerance."""
    facts = fast.result["fast_forward"]
    times_ps, fast_ps = (np.array(run.result["iteration_time_ps"], np.int64) for run in (full, fast))
    n = facts["iterations_simulated"]
    row = {
        "iterations": len(times_ps), "simulated": n, "cycle": facts["iteration_cycle"],
        "bound": facts["iteration_error_bound"], "scatter": float(np.ptp(times_ps) / times_ps.mean()),
        "total_error": relative(int(times_ps.sum()), int(fast_ps.sum())), "rest_error": None,
        "packet_hop_factor": full.result["packet_hops"] / fast.result["packet_hops"],
        "exercised": n < len(times_ps), "same_code": full.code == fast.code,
    }  # fmt: skip
    if row["exercised"]:
        row["rest_error"] = relative(int(times_ps[n:].sum()), int(fast_ps[n:].sum()))
    return row


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Row]:
    """Run a case; its rows by tolerance."""
    config, sets = CASES[name]
    sets = [*sets, f"simulation.iterations={arguments.iterations}", *arguments.overrides]
    compile_ahead(config, sets, arguments.out)
    print(f"{name}: {arguments.iterations} iterations simulated", file=sys.stderr, flush=True)
    all_of_them = [*sets, "wormhole.iteration_repeats=0"]
    full = simulate_once(config, all_of_them, arguments.out, fresh=arguments.fresh)
    found = {}
    for tolerance in arguments.tolerance.split(","):
        print(f"{name}: extrapolated, tolerance {tolerance}", file=sys.stderr, flush=True)
        fast = simulate_once(
            config, [*sets, f"wormhole.iteration_tolerance={tolerance}"], arguments.out / "forwarded", fresh=True
        )
        found[tolerance] = compare(full, fast)
    return found


def show(found: dict[str, dict[str, Row]]) -> None:
    """The table."""
    heads = ("tolerance", "simulated", "of", "cycle", "bound", "error, rest", "error, all", "scatter")
    print(f"\n{'case':<12}" + "".join(f"{head:>12}" for head in heads))
    for name, rows in found.items():
        for tolerance, r in rows.items():
            cells = (
                tolerance, r["simulated"], r["iterations"], r["cycle"], percent(r["bound"]), percent(r["rest_error"]),
                percent(r["total_error"]), percent(r["scatter"]),
            )  # fmt: skip
            note = ("" if r["exercised"] else "  not exercised") + ("" if r["same_code"] else "  (full: other code)")
            print(f"{name:<12}" + "".join(f"{cell!s:>12}" for cell in cells) + note)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=20, help="(default 20)")
    parser.add_argument("--cases", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--tolerance", default="0.001,0.005", help="comma separated (default 0.001,0.005)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole"), help="folder for runs")
    parser.add_argument("--fresh", action="store_true", help="simulate all iterations even if such a run is kept")
    return parser.parse_args(argv)


def main() -> int:
    """Run the cases; print the table and one line of JSON."""
    arguments = parse()
    names = arguments.cases.split(",") if arguments.cases else list(QUICK if arguments.quick else CASES)
    try:
        if unknown := [name for name in names if name not in CASES]:
            raise ConfigError("--cases", f"found {unknown[0]}", f"Accepted: {', '.join(CASES)}")
        for name in names:
            config, sets = CASES[name]
            for tolerance in arguments.tolerance.split(","):
                load_config(config, [*sets, *arguments.overrides, f"wormhole.iteration_tolerance={tolerance}"])
        found = {name: measure(name, arguments) for name in names}
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(found)
    rows = [row for by_tolerance in found.values() for row in by_tolerance.values()]
    print_last({"cases": found, "exercised": sum(row["exercised"] for row in rows), "rows": len(rows)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
