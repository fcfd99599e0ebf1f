"""What fast-forwarding costs where it cannot help: random short messages, few of which stay long enough to be steady.

    python bench/wormhole_worst_case.py [--quick] [--mode exact] [--pairs 7] [--control dctcp] [--out FOLDER]

Poisson arrivals at 60 % load: messages of up to 64 kB and Hadoop's on a fat-tree, web search's on a leaf-spine, these
two of HPCC's evaluation. Every case runs with fast-forwarding and without by turns, and in the next pair the other way
round, after a run of each that is not counted; the ratio is that of the seconds in the event loop, its median over the
pairs. If nothing was skipped, the tables must be the same bytes. If something was, the ratio has in it what that saved,
and the case is marked.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from cases import print_last, spread
from pdes.convert.toml_text import toml_text
from pdes.units import format_count
from runs import Finished, simulate

TABLES = ("flows", "ports", "tasks")
LOAD = 0.6
CASES: dict[str, tuple[dict[str, object], str, int]] = {  # topology, sizes, microseconds of arrivals
    "fat-tree, up to 64 kB": ({"kind": "fat-tree", "k": 8}, "up-to-64kB.txt", 8_000),
    "fat-tree, fb-hadoop": ({"kind": "fat-tree", "k": 8}, "fb-hadoop", 8_000),
    "leaf-spine, web-search": (
        {"kind": "leaf-spine", "leaves": 4, "spines": 4, "hosts_per_leaf": 16}, "web-search", 16_000,
    ),
}  # fmt: skip


def write_config(folder: Path, name: str, control: str, quick: bool) -> Path:
    """The config of a case."""
    topology, sizes, duration_us = CASES[name]
    duration = f"{duration_us // 16 if quick else duration_us}us"
    workload = {"kind": "poisson", "sizes": sizes, "load": LOAD, "duration": duration}
    path = folder / f"{Path(sizes).stem}.toml"
    (folder / "up-to-64kB.txt").write_text("1000 0\n64000 100\n")
    tables = {"topology": topology, "network": {"congestion_control": control}, "workload": workload}
    path.write_text(toml_text(name, tables))
    return path


def measure(name: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the pairs of a case; its figures."""
    config = write_config(folder, name, arguments.control, arguments.quick)
    ways = [[f"wormhole.mode={mode}", *arguments.overrides] for mode in (arguments.mode, "off")]
    for overrides in ways:
        simulate(config, overrides, folder / "not-counted")
    seconds: list[list[float]] = [[], []]
    runs: list[Finished] = []
    for i_pair in range(arguments.pairs or (3 if arguments.quick else 7)):
        pair = {}
        for i in (0, 1) if i_pair % 2 else (1, 0):
            pair[i] = simulate(config, ways[i], folder / f"{config.stem}-{i}")
            seconds[i].append(pair[i].run["loop_seconds"])
        runs = [pair[0], pair[1]]
    ratios = [with_it / without for with_it, without in zip(*seconds, strict=True)]
    results = [run.result for run in runs]
    n_skipped = max(results[0]["skipped_packet_hops"], results[1]["packet_hops"] - results[0]["packet_hops"])
    return {
        "ratio": statistics.median(ratios), "ratios": ratios, "loop_seconds": seconds[0],
        "loop_seconds_off": seconds[1], "flows": results[1]["flows"], "packet_hops": results[1]["packet_hops"],
        "skipped_packet_hops": n_skipped, "identical": None if n_skipped else are_identical(*runs),
        "fast_forward": results[0].get("fast_forward", {}),
    }  # fmt: skip


def are_identical(one: Finished, other: Finished) -> bool:
    """Whether the tables are the same bytes."""
    names = [f"{table}.parquet" for table in TABLES]
    return all((one.folder / name).read_bytes() == (other.folder / name).read_bytes() for name in names)


def show(name: str, figures: dict[str, Any]) -> None:
    """One line of the table."""
    f = figures
    tables = {None: "skipped: not a worst case", True: "the same bytes", False: "DIFFER, though nothing was skipped"}
    seconds = f"{statistics.median(f['loop_seconds_off']):.3g}"
    hops, skipped = format_count(f["packet_hops"]), format_count(f["skipped_packet_hops"])
    cells = f"{f['flows']:>9,} {hops:>12} {seconds:>8} {spread(f['ratios']):>26} {skipped:>10}"
    print(f"{name:<24} {cells}  {tables[f['identical']]}", flush=True)


def main() -> int:
    """Run all cases; print a table and one line of JSON. Exit status 1: tables differ that must not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the messages, three pairs")
    parser.add_argument("--mode", default="exact", help='of [wormhole] (default "exact")')
    parser.add_argument("--pairs", type=int, help="runs with and without (default 7)")
    parser.add_argument("--control", default="dctcp", help="congestion control (default dctcp)")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="TABLE.KEY=VALUE",
                        help="override a key of the configs; may be repeated")  # fmt: skip
    parser.add_argument("--out", type=Path, help="folder for the runs (default: none is kept)")
    arguments = parser.parse_args()
    print(f"{arguments.control}, {LOAD:.0%} load, mode {arguments.mode} against off")
    print(
        f"{'case':<24} {'messages':>9} {'packet-hops':>12} {'s off':>8} {'time, on / off':>26} {'skipped':>10}  tables"
    )
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in CASES:
            found[name] = measure(name, folder, arguments)
            show(name, found[name])
    is_wrong = any(f["identical"] is False for f in found.values())
    print_last({
        "ratio": max(f["ratio"] for f in found.values()), "identical": not is_wrong, "cases": found,
        "exercised_no_skip": sum(f["identical"] is not None for f in found.values()),
    })  # fmt: skip
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
