"""Sweeps: kills, intervals whose truth is known, and runs per second.

    python bench/sweeps.py [--case kills,coverage,speed] [--quick]

kills: `pdes-sim sweep` is killed 20 times at random instants; runs that had ended must be in its store, and must not
run again. Once with a metric that is a Python function, so that each run goes by itself and is counted, and once with
runs that go through one loop together. coverage: 400 sweeps of 8 seeds of a cluster whose jobs' durations are drawn
from a known distribution; how many of the 95 % intervals have its mean in them. speed: runs per second of a small
config, each by itself, by processes and ranks, and of separate calls of the program.
"""

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cases import print_last
from pdes.sweeps.load import sweep_of
from pdes.sweeps.run import run_sweep
from pdes.workers import here

BASE = """
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 8
[workload]
kind = "poisson"
sizes = "web-search"
load = 0.3
flows = 50
"""
SWEEP = """
[sweep]
config = "base.toml"
seeds = {seeds}
metrics = ["fct_mean"]
[[sweep.axis]]
key = "network.congestion_control"
values = ["dctcp", "hpcc"]
[[sweep.axis]]
key = "workload.load"
from = 0.2
to = 0.6
count = 5
"""
LOGGED = """
[[sweep.metric]]
name = "flows done"
function = "log.py:logged"
"""
LOG = """
import os, pathlib
def logged(result):
    line = f"{result.summary['packet_hops']} {result.summary['events']}\\n"
    file = os.open(pathlib.Path(__file__).with_name("log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    return result.summary["flows_finished"]
"""
CLUSTER = {
    "cluster": {
        "pool": [{"servers": 4, "gpus_per_server": 1}],
        "arrivals": {"jobs": 40, "per_hour": 1.0, "duration": {"distribution": "exponential", "mean": "1h"}},
        "scheduler": "fcfs",
    }
}


def kills(n_kill: int, are_together: bool) -> dict:
    """Kill, and go on."""
    draw, n_seed = random.Random(1), (20 if are_together else 3) * n_kill
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "base.toml").write_text(BASE)
        (folder / "log.py").write_text(LOG)
        (folder / "sweep.toml").write_text(SWEEP.format(seeds=n_seed) + ("" if are_together else LOGGED))
        words = [sys.executable, "-m", "pdes", "sweep", "sweep.toml", "--out", "out", "--quiet"]
        store, known, lost, n_killed = folder / "out" / "runs.sqlite", set[str](), 0, 0
        for _ in range(n_kill):
            child = subprocess.Popen(words, cwd=folder)
            begin = len(known)
            while child.poll() is None and len(_keys(store)) <= begin:
                time.sleep(0.01)
            time.sleep(draw.random())
            child.send_signal(signal.SIGKILL)
            n_killed += child.wait() == -signal.SIGKILL
            now = _keys(store)
            lost += len(known - now)
            known = now
        subprocess.run(words, cwd=folder, check=True)
        n_row = len(_keys(store))
        if are_together:
            print(f"killed {n_killed} times: {lost} runs lost, {n_row} of {10 * n_seed} runs in the store, in one loop")
            return {"kills": n_killed, "lost": lost, "runs": n_row}
        n_left = len((folder / "log").read_text().splitlines())
    print(f"killed {n_killed} times: {lost} runs lost, {n_row} runs in the store, {n_left} were begun and measured")
    print(f"so at most {n_left - n_row} of them again, which had not ended when it was killed")
    return {"kills": n_killed, "lost": lost, "runs": n_row, "measured": n_left}


def _keys(store: Path) -> set[str]:
    if not store.exists():
        return set()
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as base:
        try:
            return {key for (key,) in base.execute("select key from runs")}
        except sqlite3.OperationalError:
            return set()


def coverage(n: int) -> dict:
    """Of the mean duration that jobs take on free servers: an hour."""
    n_hit, began_s = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        for k in range(n):
            seeds = list(range(8 * k, 8 * k + 8))
            more = {"seeds": seeds, "metric": [{"name": "work", "path": "gpu_hours.productive"}]}
            sweep = sweep_of(CLUSTER, Path("base.toml"), {"cluster.scheduler": ["fcfs"]}, Path(name) / str(k), more)
            own = run_sweep(sweep, here)
            found = own.intervals(own.metric("work"))[0]
            n_hit += abs(found.mean - 40.0) <= found.half
    share = n_hit / n
    print(f"{n} sweeps of 8 seeds: {100 * share:.1f} % of the intervals have the truth, 40 GPU hours, in them")
    print(f"({time.perf_counter() - began_s:.0f} s)")
    return {"sweeps": n, "share": share}


def speed(n_seed: int) -> dict:
    """Runs per second, the first sweep of each kind left out."""
    rates = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "base.toml").write_text(BASE)
        (folder / "log.py").write_text(LOG)
        (folder / "sweep.toml").write_text(SWEEP.format(seeds=n_seed) + LOGGED)
        program = [sys.executable, "-m", "pdes"]
        kinds = {
            "one process": program,
            "two processes": program,
            "three ranks, two of which work": ["mpirun", "-n", "3", *program],
        }
        for kind, start in kinds.items():
            more = ["--processes", "2"] if kind == "two processes" else []
            for seeds in (1, n_seed):
                out = ["--out", f"{kind} {seeds}", "--set", f"sweep.seeds={seeds}", "--quiet", *more]
                began_s = time.perf_counter()
                subprocess.run([*start, "sweep", "sweep.toml", *out], cwd=folder, check=True)
                rates[kind] = 10 * seeds / (time.perf_counter() - began_s)
        began_s = time.perf_counter()
        for seed in range(10):
            words = ["base.toml", "--set", f"simulation.seed={seed}", "--out", "alone", "--quiet"]
            subprocess.run([*program, *words], cwd=folder, check=True)
        rates["separate calls of the program"] = 10 / (time.perf_counter() - began_s)
    for kind, rate in rates.items():
        print(f"{kind:<34} {rate:6.1f} runs/s, start-up and report in it")
    return rates


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="kills,coverage,speed")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    found = {}
    for case in arguments.case.split(","):
        if case == "kills":
            n_kill = 3 if arguments.quick else 20
            found[case] = {"apart": kills(n_kill, False), "together": kills(n_kill, True)}
        elif case == "coverage":
            found[case] = coverage(40 if arguments.quick else 400)
        else:
            found[case] = speed(5 if arguments.quick else 30)
    print_last(found)


if __name__ == "__main__":
    main()
