"""What waiting would be saved if a rank ran what other ranks wait for first, and the rest while it waits for theirs.

    python bench/overlap.py [--quick] [--ranks 2] [--k 8] [--case permutation|incast]

An early logical process has a link to another rank. A rank that ran those first could publish their packets, run the
others, and only then wait: it would be ahead of its neighbour by these others' work of one round at most. Here the
rounds of a run on so many ranks are timed one by one (the least of several runs, so that what remains is work) and
replayed: together, all wait at every round's end, as they do; overlapped, as above, for nothing; apart, no rank ever
waits, as if only the sums counted. spread: of the difference between the first rank's work and the mean, by the round
and by the mean of 100 rounds: overlap hides what differs by the round, not what lasts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from scaling import incast

from cases import fat_tree_permutation, make_model, print_last
from models.network.model import NetworkModel
from pdes.engine.exchange import world
from pdes.engine.round import COMPUTE_NS, run_rounds

N_TURN, N_MEAN = 8, 100


def early_nodes(model: NetworkModel, lp_of_node: np.ndarray, rank: int) -> np.ndarray:
    """bool[n_node]: of this rank's logical processes with a link to another rank."""
    src, dst = model.topology.port_src, model.topology.port_dst
    crosses = (model.rank_of_node[src] == rank) & (model.rank_of_node[dst] != rank)
    return np.isin(lp_of_node, lp_of_node[src[crosses]])


def replay(work_ns: np.ndarray, early_ns: np.ndarray) -> tuple[float, float, float]:
    """ns of all rounds (together, overlapped, apart). work_ns, and of it early_ns: float64[n_rank, n_round]."""
    at_ns = np.zeros(len(work_ns))
    for work, early in zip(work_ns.T, early_ns.T, strict=True):
        at_ns = np.maximum(at_ns + work, (at_ns + early).max())
    return float(work_ns.max(axis=0).sum()), float(at_ns.max()), float(work_ns.sum(axis=1).max())


def run_here(case: str, k: int, size_bytes: int) -> None:
    """Run the case on the ranks that mpirun started; rank 0 prints a line of JSON."""
    ranks = world()
    scenario = (fat_tree_permutation if case == "permutation" else incast)(k, size_bytes)
    turns, early = [], np.zeros(0)
    for _ in range(N_TURN):
        model, loop = make_model(scenario, ranks)
        is_early, n_step = early_nodes(model, scenario.lp_of_node, ranks.rank), model.state.fabric.n_step
        busy_ns, steps = [0], [(0, 0)]

        def tick(loop=loop, n_step=n_step, is_early=is_early, busy_ns=busy_ns, steps=steps) -> None:
            busy_ns.append(int(loop[COMPUTE_NS]))
            steps.append((int(n_step[is_early].sum()), int(n_step.sum())))

        ranks.barrier()
        run_rounds(model, loop, model.exchange, tick, pause_every_s=0)
        turns.append(np.diff(busy_ns))
        did = np.diff(steps, axis=0)
        early = did[:, 0] / np.maximum(did[:, 1], 1)
    parts = ranks.allgather((np.min(turns, axis=0), early))
    work_ns, share = np.array([part[0] for part in parts], np.float64), np.array([part[1] for part in parts])
    together, overlapped, apart = replay(work_ns, work_ns * share)
    off_ns = work_ns[0] - work_ns.mean(axis=0)
    off_ns = off_ns[: len(off_ns) // N_MEAN * N_MEAN]
    found = {
        "rounds": work_ns.shape[1], "early_share": float((work_ns * share).sum() / work_ns.sum()),
        "work_ms": float(work_ns.sum()) / ranks.size / 1e6, "together_ms": together / 1e6,
        "overlapped_ms": overlapped / 1e6, "apart_ms": apart / 1e6,
        "spread_us": float(off_ns.std()) / 1e3,
        "lasting_spread_us": float(off_ns.reshape(-1, N_MEAN).mean(axis=1).std()) / 1e3,
    }  # fmt: skip
    if ranks.rank == 0:
        print(json.dumps(found), flush=True)


def main() -> None:
    """Print what rounds would take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the bytes")
    parser.add_argument("--ranks", type=int, default=2, help="how many (default 2)")
    parser.add_argument("--k", type=int, default=8, help="size of the fat-tree (default 8)")
    parser.add_argument("--case", choices=("permutation", "incast"), default="permutation", help="what to simulate")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.case, arguments.k, 2_000_000 if arguments.quick else 20_000_000)
        return
    if arguments.ranks < 2:
        parser.error("--ranks: found less than 2; one rank waits for nobody")
    mpirun = Path(sys.executable).with_name("mpirun")
    command = [str(mpirun), "-n", str(arguments.ranks), sys.executable, __file__, "--here", *sys.argv[1:]]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{arguments.case}, {arguments.ranks} ranks, {len(os.sched_getaffinity(0))} cores, {found['rounds']} rounds")
    print("ms: work per rank  together  overlapped     apart    early work    spread by round  by 100 rounds")
    print(
        f"{found['work_ms']:>17.1f} {found['together_ms']:>9.1f} {found['overlapped_ms']:>11.1f} "
        f"{found['apart_ms']:>9.1f} {100 * found['early_share']:>11.0f} % {found['spread_us']:>15.1f} us "
        f"{found['lasting_spread_us']:>11.1f} us"
    )
    print_last({"case": arguments.case, "ranks": arguments.ranks} | found)


if __name__ == "__main__":
    main()
