"""The memory that a run was expected to take, and what it took: the largest resident size of its process.

    python bench/memory.py [--quick]

Each case is a run of its own, in a process of its own, that stops after a while of simulated time. The kernels are
compiled before, as compiling takes memory of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cases import print_last
from pdes.config import load_config
from pdes.scenario import build_scenario
from pdes.simulation.memory import expected_bytes
from pdes.units import format_size

ROOT = Path(__file__).resolve().parent.parent
COLLECTIVE = """\
[topology]
kind = "fat-tree"
k = {k}
[workload]
kind = "collectives"
[[workload.collective]]
name = "one"
operation = "{operation}"
size = "{size}"
[simulation]
stop_time = "{stop}"
"""
RING, EXCHANGE = "all-reduce", "all-to-all"
CASES = {  # name: (k, operation, size, stop)
    "ring of 128": (8, RING, "1MB", "50us"),
    "ring of 1,024": (16, RING, "100MB", "50us"),
    "ring of 8,192": (32, RING, "100MB", "20us"),
    "exchange of 128": (8, EXCHANGE, "100MB", "300us"),
    "exchange of 432": (12, EXCHANGE, "400MB", "300us"),
    "exchange of 1,024": (16, EXCHANGE, "400MB", "100us"),
}
EXAMPLES = ("gpt-7b-64", "moe-8x7b-64", "gpt-175b-1024", "llama3-70b-64")
QUICK = ("ring of 128", "exchange of 128")


def measured_bytes(config: Path, sets: list[str], out: Path) -> int:
    """Largest resident size of a run's process."""
    overrides = [word for text in sets for word in ("--set", text)]
    command = [sys.executable, "-m", "pdes", str(config), "--quiet", "--out", str(out), *overrides]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{config.name}: status {process.returncode}")
    return usage.ru_maxrss * 1024


def main() -> None:
    """Print a row for every case, and last the ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small cases")
    arguments = parser.parse_args()
    ratios = {}
    print(f"{'case':20} {'queue pairs':>12} {'ports':>8} {'expected':>10} {'measured':>10}  expected / measured")
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        cases: list[tuple[str, Path, list[str]]] = []
        for case, (k, operation, size, stop) in CASES.items():
            config = folder / f"{case}.toml"
            config.write_text(COLLECTIVE.format(k=k, operation=operation, size=size, stop=stop))
            cases.append((case, config, []))
        cases += [(case, ROOT / "examples" / f"{case}.toml", ["simulation.stop_time=300us"]) for case in EXAMPLES]
        for case, config, sets in cases:
            if arguments.quick and case not in QUICK:
                continue
            scenario = build_scenario(load_config(config, sets))
            expected = expected_bytes(scenario)
            n_pair, n_port = len(scenario.plan.pair_src), scenario.topology.n_port
            del scenario
            measured_bytes(config, sets, folder / "compiled")
            measured = measured_bytes(config, sets, folder / "out")
            ratios[case] = expected / measured
            sizes = f"{format_size(expected):>10} {format_size(measured):>10}"
            print(f"{case:20} {n_pair:>12,} {n_port:>8,} {sizes}  {ratios[case]:.2f}", flush=True)
    print_last({"expected_over_measured": ratios, "least": min(ratios.values()), "most": max(ratios.values())})


if __name__ == "__main__":
    main()
