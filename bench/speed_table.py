"""The tables of speed in docs/benchmarks.md, all of them measured by one version in one go.

    python bench/speed_table.py [--only packet_hops,scaling] [--write]

Runs the benchmarks of `BENCHES` one after the other, which takes about twenty minutes on two cores that nothing else
uses, and prints the tables. --write: puts them into docs/benchmarks.md, between the two comments that mark their place,
and the figures with the version, the machine and its load into bench/speed_table.json, from which a test makes them
again. The version is a commit, so its files must be as they were committed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "bench" / "speed_table.json"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- speed: made by bench/speed_table.py -->", "<!-- end of speed -->"
Figures = dict[str, Any]

BENCHES = {
    "packet_hops": "packet_hops.py",
    "congestion_speed": "congestion_speed.py",
    "permutation": "scaling.py --case permutation,incast --ranks 1,2",
    "training": "scaling.py --case gpt-7b,gpt-13b,gpt-22b --ranks 1,2 --turns 1",
    "beside": "scaling.py --case gpt-7b --ranks 1,2 --turns 1 --beside",
    "plan_ranks": "plan_ranks.py --case permutation --case gpt-7b --turns 2",
    "install": "install.py --clone",
}


@dataclass(frozen=True)
class Row:
    """A table of the page: what a benchmark measured, one figure per cell."""

    title: str
    bench: str
    head: tuple[str, ...]
    rows: Callable[[Figures], list[list[str]]]
    """Of what the benchmark printed last; as many cells as `head` has."""


LAWS = {"dctcp": "DCTCP", "dcqcn": "DCQCN", "hpcc": "HPCC", "timely": "TIMELY", "swift": "Swift", "nscc": "NSCC"}
JOBS = {"gpt-7b": "GPT-7B, 64 GPUs", "gpt-13b": "GPT-13B, 128 GPUs", "gpt-22b": "GPT-22B, 256 GPUs"}
NETWORKS = {
    "permutation on a fat-tree of 128 hosts": "",
    "permutation on a fat-tree of 1,024 hosts": "_k16",
    "permutation on a fat-tree of 8,192 hosts": "_k32",
    "128 GPUs, NVLink as packets": "_mixed",
    "8 flows on 1,024 hosts": "_sparse",
}
FEATURES = {
    "the switch that knows buffers and classes": "dctcp, managed switch",
    "a shared buffer": "dctcp, buffer",
    "a shared buffer and PFC": "dctcp, buffer, PFC",
    "a shared buffer, PFC and 8 classes": "dctcp, buffer, PFC, 8 classes",
    "HPCC with INT, PFC and 8 classes": "hpcc, PFC, 8 classes, INT",
    "`examples/my_cc.py`": "examples/my_cc.py",
}


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.1f} M"


def _of_networks(figures: Figures) -> list[list[str]]:
    return [[text, _millions(figures[f"packet_hops_per_second{name}"])] for text, name in NETWORKS.items()]


def _of_laws(figures: Figures) -> list[list[str]]:
    return [[text, _millions(figures["packet_hops_per_second"][law])] for law, text in LAWS.items()]


def _of_features(figures: Figures) -> list[list[str]]:
    found = [[text, f"{figures['of_dctcp'][case]:.2f}"] for text, case in FEATURES.items()]
    return [*found, ["DCTCP itself, as a user's file", f"{figures['user_to_built_in']:.2f}"]]


def _of_jobs(figures: Figures) -> list[list[str]]:
    return [
        [JOBS[case["case"]], LAWS[case["law"]], *(f"{case['seconds'][i]:.1f} s" for i in (0, -1)),
         f"{case['speedup']:.2f}"]
        for case in figures["cases"]
    ]  # fmt: skip


def _errors(figures: Figures) -> list[list[str]]:
    cases = [name.rpartition(", ") for name in figures["error"]]
    return [[case, ranks, f"{100 * figures['error'][f'{case}, {ranks}']:+.1f} %"] for case, _, ranks in cases]


def _of_installing(figures: Figures) -> list[list[str]]:
    return [
        ["from a clone to the answer of a first run", f"{figures['clone_to_answer_s']:.0f} s"],
        ["a traced run after it, which compiles again", f"{figures['traced_s']:.0f} s"],
        ["a run from then on", f"{statistics.median(figures['warm_s']):.2f} s"],
    ]


OF_JOBS = ("iteration", "control", "1 rank", "2 ranks", "1 rank over 2")
ROWS = (
    Row("Packet-hops per second, by network, with DCTCP", "packet_hops", ("network", "packet-hops/s"), _of_networks),
    Row("A run that does little", "packet_hops", ("what", "time"),
        lambda f: [["a cached quick start as a process", f"{f['cached_start_seconds']:.2f} s"]]),
    Row("Packet-hops per second, by congestion control, on a fat-tree of 128 hosts with flows of 4 MB",
        "congestion_speed", ("control", "packet-hops/s"), _of_laws),
    Row("The rate with more features, over that of plain DCTCP", "congestion_speed", ("with", "rate over DCTCP's"),
        _of_features),
    Row("Two ranks, on a fat-tree of 128 hosts", "permutation", ("traffic", "time of 1 rank over that of 2"),
        lambda f: [[case["case"], f"{case['speedup']:.2f}"] for case in f["cases"]]),
    Row("Two ranks, a training iteration packet by packet", "training", OF_JOBS, _of_jobs),
    Row("Two ranks beside a process at nice 19, which gets a core", "beside", OF_JOBS, _of_jobs),
    Row("What `plan --ranks` expects, against what was taken", "plan_ranks", ("case", "ranks", "error of the time"),
        _errors),
    Row("Installing", "install", ("what", "time"), _of_installing),
)  # fmt: skip


def run(command: str) -> Figures:
    """What a benchmark prints last. SystemExit if it fails."""
    with subprocess.Popen(
        [sys.executable, str(ROOT / "bench" / command.split()[0]), *command.split()[1:]], cwd=ROOT,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = ""
        for said in process.stdout:
            print(said, end="", flush=True)
        if process.wait():
            raise SystemExit(f"{command}: exit status {process.returncode}")
    return json.loads(said)


def table(kept: dict[str, Any]) -> str:
    """The tables, of what was kept: version, machine, cores, load, date, and figures by benchmark."""
    head = (
        f"All of version {kept['version']}, {kept['date']}, on {kept['cores']} cores of {kept['machine']}; load before "
        f"each benchmark {', '.join(f'{load:.1f}' for load in kept['load'])}."
    )
    parts = [head]
    for row in ROWS:
        if row.bench in kept["figures"]:
            lines = [list(row.head), ["---"] * len(row.head), *row.rows(kept["figures"][row.bench])]
            cells = "\n".join(f"| {' | '.join(line)} |" for line in lines)
            parts.append(f"### {row.title}\n\n`python bench/{BENCHES[row.bench]}`\n\n{cells}")
    return "\n\n".join(parts)


def put_into(text: str, new: str) -> str:
    """The page with other tables. SystemExit if it has no place for them."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"docs/benchmarks.md needs one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{new}\n\n{END}{rest.split(END)[1]}"


def _machine() -> str:
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]  # fmt: skip
    return models[0] if models else os.uname().machine


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"some of {', '.join(BENCHES)}")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md and bench/speed_table.json")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(BENCHES)
    changed = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, text=True).stdout
    if changed and arguments.write:
        raise SystemExit(f"error: not as committed, so of no version:\n{changed}")
    version = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    kept: dict[str, Any] = {
        "version": version.strip(), "date": time.strftime("%Y-%m-%d"), "machine": _machine(),
        "cores": len(os.sched_getaffinity(0)), "load": [], "figures": {},
    }  # fmt: skip
    for name in names:
        kept["load"].append(os.getloadavg()[0])
        kept["figures"][name] = run(BENCHES[name])
    print("\n" + table(kept))
    if arguments.write:
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(put_into(PAGE.read_text(), table(kept)))


if __name__ == "__main__":
    main()
