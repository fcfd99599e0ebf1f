"""What a memo that runs share saves: a config without it, with it again, and another point of a sweep.

    python bench/wormhole_memo.py [--config FILE] [--set key=value ...] [--point key=value ...] [--quick] [--out FOLDER]

The runs, a process each: one that finds an empty memo, the same again, then the sweep's second point (--point, default:
more efficient GPUs and another iteration) without and with the memo. A hit is a network partition that need not be
simulated because an entry says what it comes to; those that follow another one of the same run are not counted.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cases import print_last
from pdes.errors import ConfigError
from pdes.units import format_count
from runs import ROOT, Finished, compile_ahead, only, simulate

POINT = ["simulation.iterations=2", "workload.compute.efficiency=0.6"]
TABLES = ("flows", "tasks")
MODES = {"replay": [only("replay")], "exact": []}
NAMES = {"first": "empty memo", "second": "again", "point_alone": "point, empty memo", "point": "point, with the memo"}


def figures_of(run: Finished) -> dict[str, Any]:
    """What the JSON says of a run."""
    memo, result = run.run["memo"], run.result
    if "why_not" in memo:
        raise ConfigError("--config", f"this network has no memo: {memo['why_not']}")
    counters = memo["counters"]
    asked = counters["hits"] + counters["misses"]
    return {
        "entries_read": memo["entries_read"], "entries_added": memo["entries_added"], "counters": counters,
        "hit_rate": counters["hits_read"] / asked if asked else 0.0,
        "packet_hops": result["packet_hops"], "loop_seconds": run.run["loop_seconds"],
        "start_to_result_seconds": run.start_to_result_s,
    }  # fmt: skip


def same_tables(one: Finished, other: Finished) -> bool:
    """Whether flows and tasks are the same bytes."""
    names = [f"{name}.parquet" for name in TABLES]
    return all((one.folder / name).read_bytes() == (other.folder / name).read_bytes() for name in names)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all four; what the JSON says."""
    out, config = arguments.out, arguments.config
    out.mkdir(parents=True, exist_ok=True)
    common = ["wormhole.mode=exact", *MODES[arguments.mode], *arguments.overrides]
    compile_ahead(config, common, out)
    files = {name: (out / f"{name}.memo").resolve() for name in ("shared", "alone")}
    for file in files.values():
        file.unlink(missing_ok=True)
    point = [*common, *(arguments.point or POINT)]
    runs = {}
    for name, overrides, file in (
        ("first", common, "shared"), ("second", common, "shared"),
        ("point_alone", point, "alone"), ("point", point, "shared"),
    ):  # fmt: skip
        sets = [*overrides, f'wormhole.memo="{files[file]}"']
        runs[name] = simulate(config, sets, _folder(out / name), arguments.ranks)
    found: dict[str, Any] = {name: figures_of(run) for name, run in runs.items()}
    pairs = {"again": ("first", "second"), "point": ("point_alone", "point")}
    for name, (before, after) in pairs.items():
        for key in ("packet_hops", "loop_seconds", "start_to_result_seconds"):
            found[f"{name}_{key}_factor"] = found[before][key] / max(found[after][key], 1e-9)
        found[f"{name}_same_tables"] = same_tables(runs[before], runs[after])
    return found | {
        "config": str(config), "mode": arguments.mode, "point_set": point, "ranks": arguments.ranks,
        "memo_bytes": files["shared"].stat().st_size if files["shared"].exists() else 0,
        "exercised": found["second"]["hit_rate"] > 0,
    }  # fmt: skip


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def show(found: dict[str, Any]) -> None:
    """The table."""
    print(f"{Path(found['config']).stem}, mode {found['mode']}; the memo has {format_count(found['memo_bytes'])} bytes")
    print(f"{'':<22} {'entries read':>12} {'hit rate':>9} {'packet-hops':>12} {'loop, s':>8} {'start to end, s':>16}")
    for name, text in NAMES.items():
        f = found[name]
        print(f"{text:<22} {f['entries_read']:>12} {100 * f['hit_rate']:>7.1f} % {format_count(f['packet_hops']):>12} "
              f"{f['loop_seconds']:>8.3g} {f['start_to_result_seconds']:>16.3g}")  # fmt: skip
    for name in ("again", "point"):
        hops, loop, whole = (found[f"{name}_{key}_factor"] for key in
                             ("packet_hops", "loop_seconds", "start_to_result_seconds"))  # fmt: skip
        is_same = "the same" if found[f"{name}_same_tables"] else "not the same"
        print(f"{name}: packet-hops {hops:.2f} times less, loop {loop:.2f} times, start to results {whole:.2f} times; "
              f"flows and tasks are {is_same}")  # fmt: skip
    if not found["exercised"]:
        print("NOT EXERCISED: nothing that the first run has found was of use to the second")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "gpt-7b-64.toml", help="(default gpt-7b-64)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key, in all runs; may be repeated")  # fmt: skip
    parser.add_argument("--point", action="append", metavar="TABLE.KEY=VALUE", help=f"(default {' '.join(POINT)})")
    parser.add_argument("--mode", choices=tuple(MODES), default="exact", help="forecasts: replay alone, or all")
    parser.add_argument("--quick", action="store_true", help="one microbatch per replica")
    parser.add_argument("--out", type=Path, default=Path("results/bench-wormhole-memo"), help="folder for the runs")
    parser.add_argument("--ranks", type=int, default=1, help="(default 1)")
    return parser.parse_args(argv)


def main() -> int:
    """Run, print the table and one line of JSON."""
    arguments = parse()
    try:
        if arguments.quick:
            arguments.overrides = ["workload.microbatches=1", *arguments.overrides]
        found = measure(arguments)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(found)
    print_last(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
