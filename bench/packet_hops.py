"""Packet-hops per second of one core: each packet, data or ACK, over each link it crosses.

    python bench/packet_hops.py [--quick]

Cases: k=8 and k=16 fat-trees, 100 Gbps, 1 us, permutation of 20 MB flows (k=8: hosts, flows and paths of ns-3's RoCE
case h); ROFT of 128 GPUs with NVLink as packets (25 ns), rails (500 ns) and spines (1.5 us), threshold auto; 8 flows
on k=16. Set-up is not counted. Compile time and cached start are whole processes with an empty and a filled cache.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cases import fat_tree_permutation, make_model, mixed_delays, print_last, spread
from models.congestion.law import find_law
from models.network.build.arrays import NetworkState
from models.network.state.pair_records import MESSAGE, QUEUE_PAIR
from models.network.state.records import PACKET, PACKET_HOPS, PORT, PORT_INFO
from pdes.engine.exchange import World
from pdes.engine.round import N_ROUND, run_rounds
from pdes.scenario import Scenario

QUICK_START = Path(__file__).resolve().parent.parent / "examples" / "quickstart.toml"


def state_bytes(state: NetworkState) -> int:
    """Memory of everything that the kernels work on."""
    return _bytes_of(state) - state.fabric.packet_words.nbytes


def _bytes_of(part: np.ndarray | tuple) -> int:
    """Of an array, or of all arrays in nested tuples of them."""
    return sum(map(_bytes_of, part)) if isinstance(part, tuple) else part.nbytes


def measure(scenario: Scenario, n_run: int) -> tuple[list[float], int, int, int]:
    """(packet-hops per second of each run, hops, rounds, bytes of state per host)."""
    rates, expected = [], int(scenario.port_hops.sum())
    hops = rounds = per_host = 0
    for _ in range(n_run):
        model, loop = make_model(scenario, World())
        begin_s = time.perf_counter()
        run_rounds(model, loop, model.exchange)
        elapsed_s = time.perf_counter() - begin_s
        hops, rounds = int(model.state.fabric.counters[PACKET_HOPS]), int(loop[N_ROUND])
        per_host = state_bytes(model.state) // scenario.topology.n_host
        assert hops == expected, f"{hops} packet-hops, expected {expected}: faster because wrong"
        rates.append(hops / elapsed_s)
    return rates, hops, rounds, per_host


def start_seconds() -> tuple[float, float]:
    """Seconds of the quick start as a process: with an empty cache of compiled code, and with the filled one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PDES_CACHE_DIR": f"{folder}/cache"}
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [sys.executable, "-m", "pdes", str(QUICK_START), "--quiet", "--out", f"{folder}/out"]
        seconds = []
        for _ in range(2):
            begin_s = time.perf_counter()
            subprocess.run(command, check=True, env=environment, cwd=QUICK_START.parent.parent)
            seconds.append(time.perf_counter() - begin_s)
    return seconds[0], seconds[1]


def main() -> None:
    """Run all cases and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short flows, one run each")
    quick = parser.parse_args().quick
    size_bytes, n_run = (1_000_000, 2) if quick else (20_000_000, 5)
    cases = {
        "k=8, 128 hosts": fat_tree_permutation(8, size_bytes),
        "k=16, 1024 hosts": fat_tree_permutation(16, size_bytes),
        "k=32, 8192 hosts": fat_tree_permutation(32, size_bytes // 40),
        "mixed delays, 128 GPUs": mixed_delays(size_bytes // 4),
        "8 flows on k=16": fat_tree_permutation(16, size_bytes, 8),
    }
    measure(fat_tree_permutation(8, 10_000), 1)
    rates = {}
    print(
        f"{'case':<24} {'M packet-hops/s':>22} {'ns/hop':>7} {'hops':>12} {'rounds':>7} {'LPs':>6} {'bytes/host':>10}"
    )
    for name, scenario in cases.items():
        found, hops, rounds, per_host = measure(scenario, n_run if scenario.topology.n_host < 1000 else min(n_run, 3))
        rates[name] = statistics.median(found)
        print(
            f"{name:<24} {spread([r / 1e6 for r in found]):>22} {1e9 / rates[name]:>7.1f} {hops:>12,} {rounds:>7,} "
            f"{scenario.n_lp:>6,} {per_host:>10,}"
        )
    per_pair = QUEUE_PAIR.itemsize + find_law("dctcp").flow_dtype.itemsize
    print(f"bytes: {PACKET.itemsize + 8} a queued packet, {PORT.itemsize + PORT_INFO.itemsize} a port,", end=" ")
    print(
        f"{per_pair} a queue pair, {MESSAGE.itemsize} a message; no allocation in the event loop (kernels without NRT)"
    )
    compile_s, cached_s = start_seconds()
    print(f"quick start as a process: {compile_s:.1f} s with nothing compiled before, {cached_s:.2f} s from then on")
    print_last({
        "packet_hops_per_second": rates["k=8, 128 hosts"], "hosts": 128,
        "packet_hops_per_second_k16": rates["k=16, 1024 hosts"],
        "packet_hops_per_second_k32": rates["k=32, 8192 hosts"],
        "packet_hops_per_second_mixed": rates["mixed delays, 128 GPUs"],
        "packet_hops_per_second_sparse": rates["8 flows on k=16"],
        "compile_seconds": compile_s - cached_s, "cached_start_seconds": cached_s,
    })  # fmt: skip


if __name__ == "__main__":
    main()
