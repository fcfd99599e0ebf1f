"""README's table of speed, all of it measured by one version in one go.

    python bench/speed_table.py [--only packet_hops,scaling] [--write]

Runs the benchmarks of `BENCHES` one after the other, which takes about twenty minutes on two cores that nothing else
uses, and prints the table. --write: puts it into README.md, between the two comments that mark its place, and the
figures with the version, the machine and its load into bench/speed_table.json, from which a test makes it again. The
version is a commit, so its files must be as they were committed.
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
    """A row of the table. values: of what its benchmark printed last."""

    figure: str
    bench: str
    values: Callable[[Figures], list[str]]


def _rate(*names: str) -> Callable[[Figures], list[str]]:
    return lambda figures: [f"{figures[f'packet_hops_per_second{name}'] / 1e6:.1f} M" for name in names]


def _of_laws(*laws: str) -> Callable[[Figures], list[str]]:
    return lambda figures: [f"{figures['packet_hops_per_second'][law] / 1e6:.1f} M" for law in laws]


def _shares(*cases: str) -> Callable[[Figures], list[str]]:
    return lambda figures: [f"{figures['of_dctcp'][case]:.2f}" for case in cases]


def _speedups(figures: Figures) -> list[str]:
    return [f"{case['speedup']:.2f}" for case in figures["cases"]]


def _times(figures: Figures) -> list[str]:
    return [f"{case['seconds'][0]:.1f} s, {case['seconds'][-1]:.1f} s" for case in figures["cases"]]


def _errors(figures: Figures) -> list[str]:
    return [f"{name}: {100 * error:+.1f} %" for name, error in figures["error"].items()]


ROWS = (
    Row("packet-hops/s, DCTCP, permutation on fat-trees of 128, 1,024 and 8,192 hosts; 128 GPUs, NVLink as packets; "
        "8 flows on 1,024 hosts", "packet_hops", _rate("", "_k16", "_k32", "_mixed", "_sparse")),
    Row("a cached quick start as a process", "packet_hops", lambda f: [f"{f['cached_start_seconds']:.2f} s"]),
    Row("packet-hops/s on k=8, 4 MB flows: DCTCP, DCQCN, HPCC, TIMELY, Swift, NSCC", "congestion_speed",
        _of_laws("dctcp", "dcqcn", "hpcc", "timely", "swift", "nscc")),
    Row("of DCTCP's: with the switch that knows buffers and classes; a buffer; and PFC; and 8 classes; HPCC with "
        "INT, PFC and 8 classes; `examples/my_cc.py`", "congestion_speed",
        _shares("dctcp, managed switch", "dctcp, buffer", "dctcp, buffer, PFC", "dctcp, buffer, PFC, 8 classes",
                "hpcc, PFC, 8 classes, INT", "examples/my_cc.py")),
    Row("a user's file over the same control built in", "congestion_speed",
        lambda f: [f"{f['user_to_built_in']:.2f}"]),
    Row("2 ranks over 1: permutation and incast on k=8", "permutation", _speedups),
    Row("2 ranks over 1, an iteration packet by packet: GPT-7B, 13B, 22B on 64, 128, 256 GPUs, HPCC and DCTCP each",
        "training", _speedups),
    Row("what these take on 1 and on 2", "training", _times),
    Row("2 ranks over 1 beside a process at nice 19, which gets a core: GPT-7B, HPCC and DCTCP", "beside", _speedups),
    Row("time that `plan --ranks` expects over time taken, by case and ranks", "plan_ranks", _errors),
    Row("from a clone to the answer of a first run; a traced run after it, which compiles again; a run from then on",
        "install", lambda f: [f"{f['clone_to_answer_s']:.0f} s", f"{f['traced_s']:.0f} s",
                              f"{statistics.median(f['warm_s']):.2f} s"]),
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
    """The table, of what was kept: version, machine, cores, load, date, and figures by benchmark."""
    head = (
        f"Of version {kept['version']}, {kept['date']}, {kept['cores']} cores of {kept['machine']}, load before each "
        f"{', '.join(f'{load:.1f}' for load in kept['load'])}:"
    )
    lines = [head, "", "| figure | command | value |", "| --- | --- | --- |"]
    for row in ROWS:
        if row.bench in kept["figures"]:
            values = "; ".join(row.values(kept["figures"][row.bench]))
            lines.append(f"| {row.figure} | `python bench/{BENCHES[row.bench]}` | {values} |")
    return "\n".join(lines)


def put_into(text: str, new: str) -> str:
    """README with another table. SystemExit if it has no place for it."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"README.md needs one {BEGIN} and one {END}")
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
    parser.add_argument("--write", action="store_true", help="into README.md and bench/speed_table.json")
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
        readme = ROOT / "README.md"
        readme.write_text(put_into(readme.read_text(), table(kept)))


if __name__ == "__main__":
    main()
