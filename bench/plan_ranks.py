"""What `pdes-sim plan --ranks` predicts for one and two ranks, against what they take.

    python bench/plan_ranks.py [--quick] [--ranks 1,2] [--case permutation|incast|uneven|gpt-7b]

A case is profiled on one rank and run on each rank count, in turns; the best of several turns counts. Two ranks take
longer than they need as soon as anything else runs here: load is that of the machine at the end of each turn, 2 if
nothing else has. whole: profiled from its beginning to its end; sampled: at instants that are spread over it, as
`plan --ranks` does with what takes long. gpt-7b: examples/gpt-7b-64.toml packet by packet, sampled alone. What an
exchange with a neighbour takes is measured, between as many ranks. Predictions beyond the ranks that run here are
printed, too: nobody has measured them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cases import fat_tree_permutation, make_model, print_last, scenario_of
from partition.round_model import Costs, reduction_by_table
from pdes.config import load_config
from pdes.engine.exchange import World, world
from pdes.engine.jit import loop_kernel
from pdes.engine.round import run_rounds
from pdes.engine.round_exchange import ExchangeState, make_exchange, reduce_min, swap
from pdes.plan_options import REDUCTION_NS
from pdes.plan_ranks import PACKET_NS, predictions
from pdes.scenario import Scenario, build_scenario
from pdes.simulation.profile.make import BEGINNING, SAMPLED, WHOLE, make_profile

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "gpt-7b-64.toml"
N_TIMED = 20_000
BEYOND = (4, 8, 16, 64)


def permutation(size_bytes: int) -> Scenario:
    """k=8, all hosts to all, one flow each."""
    return fat_tree_permutation(8, size_bytes)


def incast(size_bytes: int) -> Scenario:
    """k=8: in every group of 16 hosts, 15 send to one."""
    src = [i for i in range(128) if i % 16]
    dst = [i // 16 * 16 for i in src]
    return scenario_of({"kind": "fat-tree", "k": 8}, src, dst, [size_bytes // 4] * len(src))


def uneven(size_bytes: int) -> Scenario:
    """k=8, a quarter of the hosts sends four times as much as the others."""
    order = np.random.default_rng(3).permutation(128)
    src = np.arange(128)
    sizes = np.where(src < 32, size_bytes, size_bytes // 4).tolist()
    return scenario_of({"kind": "fat-tree", "k": 8}, src[order != src], order[order != src],
                       [sizes[i] for i in src[order != src]])  # fmt: skip


def gpt_7b(size_bytes: int) -> Scenario:
    """Of 64 GPUs, all of its packets; size_bytes does not matter."""
    return build_scenario(load_config(EXAMPLE, ["wormhole.mode=off"]))


CASES: dict[str, Callable[[int], Scenario]] = {
    "permutation": permutation, "incast": incast, "uneven": uneven, "gpt-7b": gpt_7b,
}  # fmt: skip
LONG = ("gpt-7b",)  # cases that are run once a turn, and sampled alone


@loop_kernel
def _reductions(ex: ExchangeState, n):
    for _ in range(n):
        reduce_min(ex, 1)


@loop_kernel
def _swaps(ex: ExchangeState, n):
    for _ in range(n):
        swap(ex, 1)


def floors(ranks: World) -> tuple[float, float]:
    """(ns of a reduction, of an exchange of nothing per neighbour), the least of some runs."""
    peers = [rank for rank in range(ranks.size) if rank != ranks.rank]
    ex, found = make_exchange(ranks, peers, 64), []
    for kernel in (_reductions, _swaps):
        kernel(ex, 10)
        times = []
        for _ in range(10):
            ranks.barrier()
            begin_s = time.perf_counter()
            kernel(ex, N_TIMED // 10)
            times.append((time.perf_counter() - begin_s) * 1e9 / (N_TIMED // 10))
        found.append(min(times))
    return found[0], found[1] / max(1, len(peers))


def run_here(name: str, size_bytes: int) -> None:
    """Run a case on the ranks that mpirun started; rank 0 prints a line of JSON."""
    ranks = world()
    warm_up, loop = make_model(fat_tree_permutation(4, 10_000), ranks)
    run_rounds(warm_up, loop, warm_up.exchange)
    scenario, times = CASES[name](size_bytes), []
    for _ in range(1 if name in LONG else 3):
        model, loop = make_model(scenario, ranks)
        model.compile()
        ranks.barrier()
        begin_s = time.perf_counter()
        run_rounds(model, loop, model.exchange)
        ranks.barrier()
        times.append(time.perf_counter() - begin_s)
    floor = floors(ranks) if ranks.size > 1 else (0.0, 0.0)
    if ranks.rank == 0:
        found = {"seconds": min(times), "reduction_ns": floor[0], "neighbour_ns": floor[1], "load": os.getloadavg()[0]}
        print(json.dumps(found), flush=True)


def start(name: str, size_bytes: int, n_rank: int) -> dict:
    """The figures of one mpirun."""
    command = [sys.executable, __file__, "--here", name, "--bytes", str(size_bytes)]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


Rows = dict[tuple[str, int], tuple[float, float | None]]


def measure(name: str, size_bytes: int, counts: list[int], n_turn: int) -> tuple[Rows, list[float]]:
    """({kind and ranks: (predicted, measured seconds)}, loads); measured None: not run."""
    runs: dict[int, list[dict]] = {n: [] for n in counts}
    kinds = (SAMPLED,) if name in LONG else (WHOLE, SAMPLED)
    scenario, profiles = CASES[name](size_bytes), {kind: [] for kind in kinds}
    for _ in range(n_turn):
        for n_rank in counts:
            runs[n_rank].append(start(name, size_bytes, n_rank))
        for kind in kinds:
            profiles[kind].append(make_profile(scenario, 120.0, SAMPLED if kind == SAMPLED else BEGINNING))
    table, neighbour_ns = dict(REDUCTION_NS), 0.0
    for n_rank in counts:
        if n_rank > 1:
            table[n_rank] = min(run["reduction_ns"] for run in runs[n_rank])
            neighbour_ns = max(neighbour_ns, min(run["neighbour_ns"] for run in runs[n_rank]))
    costs, found = Costs(reduction_by_table(table), neighbour_ns, PACKET_NS), {}
    best = {n: min(run["seconds"] for run in runs[n]) for n in counts}
    for kind in kinds:
        profiled = min(profiles[kind], key=lambda one: one.run.one_rank_ns)
        for row in predictions(scenario, profiled, [*counts, *(n for n in BEYOND if n > max(counts))], costs):
            found[kind, row.n_rank] = (row.total_ns / 1e9, best.get(row.n_rank))
    return found, [run["load"] for run in runs[max(counts)]]


def main() -> None:
    """Print a row per case, kind of profile and rank count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 MB flows, once each, without gpt-7b")
    parser.add_argument("--ranks", default="1,2", help="rank counts to run, comma separated (default 1,2)")
    parser.add_argument("--case", choices=CASES, action="append", help="of the cases only this one; may be repeated")
    parser.add_argument("--turns", type=int, help="how many (default 4)")
    parser.add_argument("--here", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, default=10_000_000, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.here, arguments.bytes)
        return
    size_bytes, n_turn = (2_000_000, 1) if arguments.quick else (arguments.bytes, 4)
    counts, errors = [int(n) for n in arguments.ranks.split(",")], {}
    print("case         profile  ranks  predicted   measured    error")
    for name in arguments.case or [name for name in CASES if not (arguments.quick and name in LONG)]:
        found, loads = measure(name, size_bytes, counts, arguments.turns or n_turn)
        for (kind, n_rank), (predicted_s, measured_s) in found.items():
            text = f"{'-':>10} {'-':>8}"
            if measured_s is not None:
                errors[f"{name}, {kind}, {n_rank}"] = predicted_s / measured_s - 1
                text = f"{measured_s:>8.3f} s {100 * (predicted_s / measured_s - 1):>+6.1f} %"
            print(f"{name:<12} {kind:<8} {n_rank:>5} {predicted_s:>8.3f} s {text}", flush=True)
        print(f"{name}: load at the end of each turn {', '.join(f'{load:.1f}' for load in loads)}")
    print_last({"error": errors, "largest_error": max(abs(error) for error in errors.values())})


if __name__ == "__main__":
    main()
