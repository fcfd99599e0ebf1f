"""A long run at full load: is its memory flat, and its rate, and does what it knows twice agree at every check?

    python bench/soak.py [--minutes 60] [--ranks 2] [--every 10] [--quick]

Training iterations of 32 GPUs with start-up jitter, DCQCN, switches with shared buffers and PFC, without
fast-forwarding: as many as take so long, by a run of a few. The program checks itself every so often (`--check-every`:
conservation of bytes by queue pair, order, books of buffers and pools; design R8), writes checkpoints, and writes flows
and tasks as ever. The bench notes every line of progress, with memory and processor time of its ranks.

memory: of all ranks, the mean over a part of the run. rate: packet-hops per second of processor time, which other work
on the machine disturbs less than it does wall time. The first tenth fills pools and buffers of the files, and is not
counted. --quick: half a minute.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cases import print_last
from kill_resume import ROOT, processes

CONFIG = """\
[simulation]
iterations = {iterations}
[topology]
kind = "roft"
gpus = 32
[network]
congestion_control = "dcqcn"
[network.buffer]
size = "2MB"
[workload]
kind = "training"
start_jitter = "20us"
[workload.model]
layers = 8
hidden = 2048
vocabulary = 8192
sequence = 2048
[workload.parallel]
tp = 2
dp = 8
pp = 2
[checkpoint]
every = "5min"
"""
CHECK_EVERY = "25ms"  # of simulated time, which is about a second of wall time
CALIBRATION = 4  # iterations
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
RATE = re.compile(r"([\d.,]+)(?: ([kMG]))? packet-hops/s")
TICKS_PER_S = 100


class Sample(NamedTuple):
    """At a line of progress. Seconds of wall time since the start; of all ranks: processor seconds, resident bytes."""

    wall_s: float
    packet_hops_per_s: float
    cpu_s: float
    rss_bytes: int


def rate_in(line: str) -> float | None:
    """The packet-hops per second that a line of progress says."""
    found = RATE.search(line)
    return None if found is None else float(found[1].replace(",", "")) * UNITS[found[2] or ""]


def usage(root: int) -> tuple[float, int]:
    """(processor seconds, resident bytes) of the ranks under a process: those that run the program."""
    cpu_s, rss_bytes = 0.0, 0
    for process in processes(root):
        try:
            if b"pdes" not in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[1:3]:
                continue
            words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:  # it is gone
            continue
        cpu_s += (int(words[11]) + int(words[12])) / TICKS_PER_S
        rss_bytes += 1024 * int(status.split("VmRSS:")[1].split()[0])
    return cpu_s, rss_bytes


def command(n_rank: int, config: Path, out: Path) -> list[str]:
    """The program as a user starts it."""
    words = [sys.executable, "-m", "pdes", str(config), "--out", str(out)]
    return words if n_rank == 1 else [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *words]


def watch(n_rank: int, config: Path, out: Path) -> tuple[list[Sample], list[str]]:
    """Run with checks and progress; samples, and the other lines of stderr."""
    words = [*command(n_rank, config, out), "--check-every", CHECK_EVERY, "--progress"]
    begin_s, samples, others = time.perf_counter(), [], []
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            rate = rate_in(line)
            if rate is None:
                others.append(line.rstrip())
                continue
            samples.append(Sample(time.perf_counter() - begin_s, rate, *usage(process.pid)))
    if process.returncode != 0:
        raise SystemExit("\n".join(others))
    return samples, others


def per_cpu_second(samples: list[Sample]) -> np.ndarray:
    """float64[n - 1]: packet-hops per processor second between samples."""
    table = np.array(samples)
    step_s = np.diff(table[:, 0])
    return table[1:, 1] * step_s / np.maximum(np.diff(table[:, 2]), 1 / TICKS_PER_S)


def parts(values: np.ndarray, n_part: int) -> list[float]:
    """Means of the values in so many parts, one after the other, without their first tenth."""
    rest = values[len(values) // 10 :]
    return [float(part.mean()) for part in np.array_split(rest, min(n_part, len(rest)))]


def main() -> None:
    """Print a row for each part of the run, and last the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the run (default 60)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--parts", type=int, default=6, help="rows to print (default 6)")
    parser.add_argument("--quick", action="store_true", help="half a minute")
    arguments = parser.parse_args()
    minutes = 0.5 if arguments.quick else arguments.minutes
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        config, out = Path(name) / "soak.toml", Path(name) / "out"
        for _ in range(2):  # the first one compiles
            config.write_text(CONFIG.format(iterations=CALIBRATION))
            subprocess.run([*command(arguments.ranks, config, out), "--quiet"], cwd=ROOT, check=True)
        run = json.loads((out / "run.json").read_text())
        n_iteration = max(CALIBRATION, int(CALIBRATION * 60 * minutes / run["loop_seconds"]))
        config.write_text(CONFIG.format(iterations=n_iteration))
        samples, said = watch(arguments.ranks, config, out)
        result, run = (json.loads((out / file).read_text()) for file in ("result.json", "run.json"))
        written = sum(path.stat().st_size for path in out.glob("*.parquet"))
    memory = parts(np.array([sample.rss_bytes for sample in samples], float) / 1e6, arguments.parts)
    rates = parts(per_cpu_second(samples) / 1e6, arguments.parts)
    print(f"{'part':>4} {'memory, MB':>11} {'M packet-hops per processor second':>36}")
    for i, (megabytes, rate) in enumerate(zip(memory, rates, strict=False)):
        print(f"{i + 1:4} {megabytes:11.1f} {rate:36.2f}")
    checked = [line for line in said if "checked" in line]
    print("\n".join(checked))
    print_last(
        {
            "ranks": arguments.ranks,
            "seconds": run["loop_seconds"],
            "iterations": n_iteration,
            "packet_hops": result["packet_hops"],
            "flows": result["flows"],
            "flows_finished": result["flows_finished"],
            "memory_growth": memory[-1] / memory[0] - 1,
            "memory_mb": memory,
            "rate": rates,
            "rate_last_over_first": rates[-1] / rates[0],
            "written_bytes": written,
            "checked": checked,
        }
    )
    if result["flows_finished"] != result["flows"] or not checked:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
