"""Flow mode at its largest: random flows between 100,000 hosts, and a training job on 65,536 GPUs, on one rank each.

    python bench/flow_scale.py [--quick] [--case flows,4096,16384,65536] [--out FOLDER]

flows: a million messages of the web search distribution between random hosts of a fat-tree with k = 74, 101,306 hosts,
at 30 % load. A number: examples/llama3-405b-65536.toml on so many GPUs, with fewer replicas. Other: building
the network, and writing results. Memory: the largest resident size of the process. Every run must have had all its
messages. --quick: 4,000 messages on 1,024 hosts, and 2,048 GPUs with 4 microbatches.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cases import print_last
from pdes.units import format_size
from runs import ROOT, Finished, compile_ahead

JOB = ROOT / "examples" / "llama3-405b-65536.toml"
GPUS_PER_REPLICA = 128
CASES, QUICK = "flows,4096,16384,65536", "flows,2048"
FLOWS = """\
[topology]
kind = "fat-tree"
k = {k}
link_rate = "100Gbps"
[workload]
kind = "poisson"
sizes = "web-search"
load = 0.3
flows = {n_flow}
[wormhole]
mode = "flow"
[output]
dir = "unused"
"""


def find_case(name: str, is_quick: bool, folder: Path) -> tuple[Path, list[str]]:
    """(config, overrides) of a case."""
    if name == "flows":
        path = folder / "flows.toml"
        path.write_text(FLOWS.format(k=16, n_flow=4000) if is_quick else FLOWS.format(k=74, n_flow=1_000_000))
        return path, []
    sets = [f"topology.gpus={name}", f"workload.parallel.dp={int(name) // GPUS_PER_REPLICA}"]
    return JOB, [*sets, *(["workload.microbatches=4"] if is_quick else [])]


def measured(config: Path, sets: list[str], out: Path) -> dict[str, Any]:
    """A run in a process of its own. SystemExit: it fails."""
    command = [sys.executable, "-m", "pdes", str(config.resolve()), "--quiet", "--out", str(out)]
    for text in sets:
        command += ["--set", text]
    begin_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    done = Finished(out, time.perf_counter() - begin_s, "")
    result, run = done.result, done.run
    assert result["flows_finished"] == result["flows"] > 0, "faster because wrong"
    return {
        "hosts": result["hosts"], "flows": result["flows"], "events": result["events"],
        "instants": result["fast_forward"]["flow_mode"]["instants"], "loop_s": run["loop_seconds"],
        "other_s": done.start_to_result_s - run["loop_seconds"], "cpu_s": usage.ru_utime + usage.ru_stime,
        "events_per_s": run["events_per_second"], "memory_bytes": usage.ru_maxrss * 1024,
    }  # fmt: skip


def main() -> int:
    """A line as soon as its run is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help=f"default {CASES}")
    parser.add_argument("--quick", action="store_true", help="small cases")
    parser.add_argument("--out", type=Path, help="keep results there")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        out = (asked.out or folder).resolve()
        compile_ahead(*find_case("flows", True, folder), folder)
        head = f"{'case':<8} {'hosts':>8} {'messages':>12} {'events':>14} {'loop, s':>9} {'other, s':>9} {'CPU, s':>9}"
        print(f"{head} {'events/s':>12} {'memory':>9}")
        for name in (asked.case or (QUICK if asked.quick else CASES)).split(","):
            row = {"case": name} | measured(*find_case(name, asked.quick, folder), out / name)
            text = f"{name:<8} {row['hosts']:>8,} {row['flows']:>12,} {row['events']:>14,} {row['loop_s']:>9.1f}"
            text += f" {row['other_s']:>9.1f} {row['cpu_s']:>9.1f} {row['events_per_s']:>12,.0f}"
            print(f"{text} {format_size(row['memory_bytes']):>9}", flush=True)
            rows.append(row)
    print_last({"rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
