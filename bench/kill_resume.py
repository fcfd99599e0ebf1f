"""Runs that are killed (-9) at random moments, on a random rank, and resumed on a random number of ranks.

    python bench/kill_resume.py [--runs N] [--quick] [--seed S]

The files of every run are compared byte for byte with an uninterrupted run's. Half of the runs skip what is steady or
repeats. A moment is drawn between the first checkpoint and the end that the uninterrupted run's time lets expect, so
that most kills find something to resume and something left to do; a run is killed once or twice. Links are long, so
that rounds are few: three ranks on two cores take turns at every round.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cases import print_last

ROOT = Path(__file__).resolve().parent.parent
EVERY = "50ms"
MAX_RANKS = 3
TRAINING = """\
[simulation]
iterations = {iterations}
[topology]
kind = "roft"
gpus = 16
nic_delay = "5us"
spine_delay = "10us"
[workload]
kind = "training"
[workload.model]
layers = 4
hidden = 1024
vocabulary = 8192
sequence = 1024
[workload.parallel]
tp = 4
dp = 2
pp = 2
"""
TRAFFIC = """\
[topology]
kind = "fat-tree"
k = 4
link_delay = "5us"
host_delay = "5us"
[network]
congestion_control = "dcqcn"
[network.buffer]
size = "1MB"
[workload]
kind = "poisson"
sizes = "web-search"
load = 0.6
flows = {flows}
[output]
sample_interval = "50us"
sample_limit = "4MB"
"""
EXPERTS = """\
[simulation]
iterations = {iterations}
[topology]
kind = "roft"
gpus = 32
gpus_per_server = 4
nic_delay = "5us"
spine_delay = "5us"
[network]
congestion_control = "hpcc"
[workload]
kind = "training"
microbatch = 1
start_jitter = "20us"
[workload.model]
layers = 4
hidden = 1024
vocabulary = 8192
sequence = 1024
experts = 8
top_k = 2
[workload.parallel]
tp = 4
dp = 4
pp = 2
ep = 8
[wormhole]
mode = "auto"
tolerance = 0.3
audit = 0.1
iteration_repeats = 0
[wormhole.paper]
forecasts = ["periodic", "replay", "similar"]
[output]
partitions = true
"""
SKIPPING = '[wormhole]\nmode = "exact"\niteration_repeats = 0\n'


@dataclass(frozen=True)
class Case:
    """A config, with as much to do as lasts for many checkpoints."""

    name: str
    text: str
    skips: bool


def cases() -> list[Case]:
    """Two without fast-forwarding, two with it."""
    return [
        Case("training", TRAINING.format(iterations=5), False),
        Case("traffic", TRAFFIC.format(flows=250), False),
        Case("training, skipping", TRAINING.format(iterations=5) + SKIPPING, True),
        Case("experts, skipping", EXPERTS.format(iterations=1), True),
    ]


@dataclass
class Outcome:
    """What became of one run."""

    case: Case
    ranks: list[int] = field(default_factory=list)  # of each process group
    restored: list[int] = field(default_factory=list)  # rounds that were gone on from
    n_kill: int = 0
    n_kill_between: int = 0  # after a checkpoint and before the result
    is_identical: bool = False


def start(n_rank: int, *arguments: object) -> "subprocess.Popen[str]":
    """The program on some ranks."""
    command = [sys.executable, "-m", "pdes", *map(str, arguments), "--quiet"]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def processes(root: int) -> list[int]:
    """A process and all that it has started, by their parents."""
    parent_of = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent_of[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # it is gone
            continue
    found = [root]
    for process in found:
        found += [child for child, parent in parent_of.items() if parent == process]
    return found


def rank_process(root: int, rank: int) -> int:
    """The process of a rank; the one that was started, if it is alone."""
    for process in processes(root):
        try:
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PMI_RANK={rank}".encode() in words:
            return process
    return root


def newest(folder: Path) -> int:
    """The number of the newest checkpoint, 0 if there is none."""
    return max((int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*")), default=0)


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait; what it said, "" if that was asked before."""
    if process.stderr is None or process.stderr.closed:
        return ""
    _, said = process.communicate()
    return said


def kill(process: "subprocess.Popen[str]", out: Path, n_rank: int, wait_s: float, draw: random.Random) -> bool:
    """Kill one rank some time after the next checkpoint; whether the run was still at work."""
    before = newest(out / "checkpoint")
    while process.poll() is None and newest(out / "checkpoint") <= before:
        time.sleep(0.005)
    until_s = time.monotonic() + wait_s
    while process.poll() is None and time.monotonic() < until_s:
        time.sleep(0.005)
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it has ended just now
            os.kill(rank_process(process.pid, draw.randrange(n_rank)), signal.SIGKILL)
    finish(process)
    return process.returncode != 0


def one_run(case: Case, config: Path, whole: Path, out: Path, loop_s: float, draw: random.Random) -> Outcome:
    """Start, kill, resume, compare."""
    found, directory = Outcome(case), out / "checkpoint"
    sets = ["--set", f"checkpoint.every={EVERY}"]
    n_rank, left_s = draw.randint(1, MAX_RANKS), loop_s
    process = start(n_rank, config, "--out", out, *sets)
    for _ in range(draw.randint(1, 2)):
        found.ranks.append(n_rank)
        wait_s = draw.uniform(0, 0.6 * left_s)
        if not kill(process, out, n_rank, wait_s, draw):
            break
        found.n_kill += 1
        found.n_kill_between += newest(directory) > 0 and not (out / "result.json").exists()
        (out / "result.json").unlink(missing_ok=True)  # killed after all was done: the next one makes it again
        n_rank, left_s = draw.randint(1, MAX_RANKS), max(left_s - wait_s, 0.1)
        process = (
            start(n_rank, "--resume", directory) if newest(directory) else start(n_rank, config, "--out", out, *sets)
        )
    found.ranks.append(n_rank)
    said = finish(process)
    if process.returncode != 0:
        print(said, file=sys.stderr)
        return found
    run = json.loads((out / "run.json").read_text())
    found.restored.append(run["resumed_from_round"])
    found.is_identical = different(whole, out) == []
    return found


def different(one: Path, other: Path) -> list[str]:
    """Result files that are not the same bytes in both, or in one alone."""
    names = [{path.name for path in folder.iterdir() if path.is_file()} - {"run.json"} for folder in (one, other)]
    both = names[0] & names[1]
    return sorted(names[0] ^ names[1]) + [n for n in both if (one / n).read_bytes() != (other / n).read_bytes()]


def uninterrupted(case: Case, folder: Path) -> tuple[Path, Path, float]:
    """(config, results, seconds in its rounds) of a run that nobody kills; its kernels are compiled before."""
    folder.mkdir()
    config, out = folder / "config.toml", folder / "whole"
    config.write_text(case.text)
    process = start(1, config, "--out", out)
    said = finish(process)
    if process.returncode != 0:
        raise SystemExit(said)
    return config, out, json.loads((out / "run.json").read_text())["loop_seconds"]


def main() -> None:
    """Print a row for every run, and last the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="4 runs")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    n_run, draw = 4 if arguments.quick else arguments.runs, random.Random(arguments.seed)
    outcomes = []
    print(f"{'run':>4} {'case':20} {'ranks':12} {'kills':>5} {'resumable':>9} {'from round':>10}  same bytes")
    with tempfile.TemporaryDirectory(prefix="kill-resume-") as name:
        found = cases()
        wholes = [uninterrupted(case, Path(name) / str(i)) for i, case in enumerate(found)]
        rounds_of_cases = [json.loads((whole / "run.json").read_text())["rounds"] for _, whole, _ in wholes]
        for i in range(n_run):
            case, (config, whole, loop_s) = found[i % len(found)], wholes[i % len(found)]
            outcome = one_run(case, config, whole, Path(name) / f"run{i}", loop_s, draw)
            outcomes.append(outcome)
            ranks, rounds = " -> ".join(map(str, outcome.ranks)), ", ".join(f"{n:,}" for n in outcome.restored)
            counts = f"{outcome.n_kill:5} {outcome.n_kill_between:9} {rounds:>10}"
            print(
                f"{i + 1:4} {case.name:20} {ranks:12} {counts}  {'yes' if outcome.is_identical else 'NO'}", flush=True
            )
    n_kill = sum(outcome.n_kill for outcome in outcomes)
    n_between = sum(outcome.n_kill_between for outcome in outcomes)
    print_last(
        {
            "runs": n_run,
            "identical": sum(outcome.is_identical for outcome in outcomes),
            "kills": n_kill,
            "kills_after_a_checkpoint": n_between,
            "share_after_a_checkpoint": n_between / max(n_kill, 1),
            "restored_rounds": [n for outcome in outcomes for n in outcome.restored],
            "rounds_of_cases": rounds_of_cases,
            "runs_with_fast_forwarding": sum(outcome.case.skips for outcome in outcomes),
        }
    )
    if not all(outcome.is_identical for outcome in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
