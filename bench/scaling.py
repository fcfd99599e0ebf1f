"""Speed on several ranks against one, with the time split up.

    python bench/scaling.py [--quick] [--ranks 1,2,4] [--k 8] [--case permutation|incast|gpt|gpt-skipping]

permutation: on a k=8 fat-tree, ns-3's case h. incast: there, in every group of 16 hosts 15 send to one. gpt: the
beginning of examples/gpt-22b-256.toml, packet by packet, until SHARE of its bytes have arrived (a run with
fast-forwarding says when that is). gpt-skipping: all of it, with fast-forwarding. The last two are runs of the program,
whose loop is timed.

Every rank count runs in its own mpirun, the counts in turn, best of several turns: a machine that others use too
delays both ranks whenever it takes one core away. compute: running events, packing and unpacking; wait: in the
reduction, until the slowest rank is there; exchange: with the neighbours. In every turn as many runs of one rank, which
know nothing of each other, run at the same time: how much longer these take than one alone is what the machine takes
away, and no program with these ranks is faster than the ranks over that.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cases import fat_tree_permutation, make_model, print_last, scenario_of
from models.network.state import PACKET_HOPS
from pdes.engine.exchange import world
from pdes.engine.round import COMPUTE_NS, EXCHANGE_NS, N_ROUND, WAIT_NS, run_rounds
from pdes.scenario import Scenario
from runs import simulate

N_TURN = 5
SHARE, QUICK_SHARE = 0.03, 0.003
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "gpt-22b-256.toml"
CASES = ("permutation", "incast", "gpt", "gpt-skipping")


def incast(k: int, size_bytes: int) -> Scenario:
    """In every group of 16 hosts 15 send to one, a quarter of the bytes each."""
    src = [host for host in range(k**3 // 4) if host % 16]
    return scenario_of({"kind": "fat-tree", "k": k}, src, [i // 16 * 16 for i in src], [size_bytes // 4] * len(src))


def run_here(case: str, k: int, size_bytes: int) -> None:
    """Run the case on the ranks that mpirun started; rank 0 prints a line of JSON."""
    ranks = world()
    warm_up, loop = make_model(fat_tree_permutation(4, 10_000), ranks)
    run_rounds(warm_up, loop, warm_up.exchange)
    scenario = (fat_tree_permutation if case == "permutation" else incast)(k, size_bytes)
    best = None
    for _ in range(3):
        model, loop = make_model(scenario, ranks)
        ranks.barrier()
        begin_s = time.perf_counter()
        run_rounds(model, loop, model.exchange)
        ranks.barrier()
        seconds = time.perf_counter() - begin_s
        own = [int(loop[i]) / 1e9 for i in (COMPUTE_NS, WAIT_NS, EXCHANGE_NS)]
        parts, hops = ranks.allgather(own), sum(ranks.allgather(int(model.state.fabric.counters[PACKET_HOPS])))
        assert hops == int(scenario.port_hops.sum()), "faster because wrong"
        if best is None or seconds < best["seconds"]:
            best = {"seconds": seconds, "hops": hops, "rounds": int(loop[N_ROUND]), "parts": parts}
    if ranks.rank == 0:
        print(json.dumps(best), flush=True)


def arrival_of(share: float) -> int:
    """When so much of the example's payload has arrived, in ps."""
    with tempfile.TemporaryDirectory() as out:
        flows = simulate(EXAMPLE, [], Path(out)).columns("flows", ["finish_ps", "size_bytes"])
    order = np.argsort(flows["finish_ps"], kind="stable")
    arrived = np.cumsum(flows["size_bytes"][order])
    return int(flows["finish_ps"][order][np.searchsorted(arrived, share * arrived[-1])])


def start_program(n_rank: int, stop_ps: int | None) -> dict:
    """The same figures of a run of the program. stop_ps: without fast-forwarding, and no further; None: with it."""
    sets = [] if stop_ps is None else ["wormhole.mode=off", f"simulation.stop_time={stop_ps}ps"]
    with tempfile.TemporaryDirectory() as out:
        done = simulate(EXAMPLE, sets, Path(out), n_rank)
        run, result = done.run, done.result
    parts = zip(*(run[f"{name}_seconds"] for name in ("compute", "wait", "exchange")), strict=True)
    return {
        "seconds": run["loop_seconds"], "hops": result["packet_hops"], "rounds": run["rounds"],
        "parts": [list(part) for part in parts],
    }  # fmt: skip


def start(case: str, n_rank: int, k: int, size_bytes: int, n_beside: int = 1) -> dict:
    """The figures of one mpirun; of n_beside of them at the same time, those of the slowest."""
    command = [sys.executable, __file__, "--here", "--case", case, "--k", str(k), "--bytes", str(size_bytes)]
    if n_rank > 1:
        command = [str(Path(sys.executable).parent / "mpirun"), "-n", str(n_rank), *command]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(n_beside)
    ]
    found = []
    for process in runs:
        said, error = process.communicate()
        if process.returncode:
            raise SystemExit(error)
        found.append(json.loads(said.splitlines()[-1]))
    return max(found, key=lambda run: run["seconds"])


def main() -> None:
    """Run every rank count in turn and print the best turn of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the bytes, two turns")
    parser.add_argument("--ranks", help="rank counts, comma separated (default: 1, 2, 4 .. cores)")
    parser.add_argument("--k", type=int, default=8, help="size of the fat-tree (default 8)")
    parser.add_argument("--case", choices=CASES, default=CASES[0], help="what to simulate (default: permutation)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, default=20_000_000, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.case, arguments.k, arguments.bytes)
        return
    n_core = len(os.sched_getaffinity(0))
    counts = [1 << i for i in range(10) if 1 << i <= n_core]
    if arguments.ranks:
        counts = [int(n) for n in arguments.ranks.split(",")]
    size_bytes = 2_000_000 if arguments.quick else arguments.bytes
    stop_ps = arrival_of(QUICK_SHARE if arguments.quick else SHARE) if arguments.case == "gpt" else None
    turns: dict[int, list[dict]] = {n: [] for n in counts}
    beside: list[dict] = []
    for _ in range(2 if arguments.quick else N_TURN):
        for n_rank in counts:
            if arguments.case.startswith("gpt"):
                turns[n_rank].append(start_program(n_rank, stop_ps))
            else:
                turns[n_rank].append(start(arguments.case, n_rank, arguments.k, size_bytes))
        if not arguments.case.startswith("gpt") and 1 in counts and counts[-1] > 1:
            beside.append(start(arguments.case, 1, arguments.k, size_bytes, counts[-1]))
    best = {n: min(found, key=lambda run: run["seconds"]) for n, found in turns.items()}
    print(f"{arguments.case}, {n_core} cores")
    print("ranks  seconds  M packet-hops/s  speedup    compute       wait   exchange  (seconds of the slowest rank)")
    for n_rank, run in best.items():
        speedup = best[counts[0]]["seconds"] * counts[0] / run["seconds"]
        parts = " ".join(f"{max(part[i] for part in run['parts']):>10.3f}" for i in range(3))
        rate = run["hops"] / run["seconds"] / 1e6
        print(f"{n_rank:>5} {run['seconds']:>8.3f} {rate:>16.1f} {speedup:>8.2f} {parts}")
    last = best[counts[-1]]
    speedup = best[counts[0]]["seconds"] * counts[0] / last["seconds"]
    facts = {"case": arguments.case, "speedup": speedup, "ranks": counts[-1], "rounds": last["rounds"],
             "parts": last["parts"]}  # fmt: skip
    if len(counts) > 1:
        pairs = zip(turns[counts[0]], turns[counts[-1]], strict=True)
        each = sorted(one["seconds"] * counts[0] / many["seconds"] for one, many in pairs)
        print(f"speedup of {counts[-1]} ranks turn by turn: " + " ".join(f"{ratio:.2f}" for ratio in each))
        facts["by_turn"] = each
    if beside:
        alone_s, beside_s = (min(run["seconds"] for run in runs) for runs in (turns[1], beside))
        most = counts[-1] * alone_s / beside_s
        print(f"{counts[-1]} runs of one rank beside each other: {beside_s / alone_s:.2f} times as long as one alone,")
        print(f"so {counts[-1]} ranks can gain {most:.2f} at most here; {speedup / most:.0%} of that is had")
        facts["most"] = most
    print_last(facts)


if __name__ == "__main__":
    main()
