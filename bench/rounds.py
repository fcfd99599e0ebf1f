"""What a round costs in which nothing happens, on several ranks, against the floor of MPI itself.

    python bench/rounds.py [--quick] [--ranks 2,3,4,8]

A round is what the engine does at its end: exchange with all neighbours, here without a record, and agree on the next
event. shared: through memory that the ranks of a machine share; mpi: by MPI calls, as between machines (PDES_WAIT=mpi).
floor: one MPI_Allreduce of 8 bytes, called from the same compiled loop. line: by MPI, of ranks in a line, with a
reduction in every round and with one in LONGEST_RUN + 1. More ranks than cores are what an idle wait must not slow
down: work is the time in which all ranks together compute a fixed amount, each with a share, meeting every 100 us or
so, over that of the ideal.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from cases import print_last
from pdes.engine.exchange import ALLREDUCE, COMM, INT64, MIN, WAIT_VARIABLE, world
from pdes.engine.foreign import call6
from pdes.engine.jit import kernel
from pdes.engine.round import LONGEST_RUN
from pdes.engine.round_exchange import make_exchange, reduce_min, swap

N_TURN = 5
MEETINGS_OF_WORK = 200
STEPS_OF_WORK = 100_000  # between two meetings, of one rank alone


@kernel
def empty_rounds(ex, n_round):
    """Rounds without events; the least value of the last one."""
    least_ps = np.int64(-1)
    for i in range(n_round):
        if not ex.is_complete[0]:
            least_ps = reduce_min(ex, i)
        least_ps = swap(ex, i)
    return least_ps


@kernel
def floor(ex, n_round):
    """As many reductions by MPI."""
    mpi, address = ex.mpi, ex.reduced.ctypes.data
    for _ in range(n_round):
        call6(mpi[ALLREDUCE], address, address + 8, 1, mpi[INT64], mpi[MIN], mpi[COMM])
    return ex.reduced[1, 0]


@kernel
def line_rounds(ex, n_round, every):
    """Rounds of ranks that are not all neighbours, every so many with a reduction."""
    least_ps = np.int64(-1)
    for i in range(n_round):
        if i % every == 0:
            least_ps = reduce_min(ex, i)
        swap(ex, i)
    return least_ps


@kernel
def work(ex, n_round, n_step):
    """Computing between meetings; something that depends on all of it."""
    x = np.int64(1)
    for i in range(n_round):
        for _ in range(n_step):
            x = (x ^ (x >> 13)) * 6364136223846793005 + i
        swap(ex, i)
    return x


def run_here(n_round: int) -> None:
    """Measure on the ranks that mpirun started; rank 0 prints a line of JSON."""
    ranks = world()
    ex = make_exchange(ranks, [rank for rank in range(ranks.size) if rank != ranks.rank], 8)
    line = make_exchange(ranks, [rank for rank in (ranks.rank - 1, ranks.rank + 1) if 0 <= rank < ranks.size], 8)

    def timed(run, *arguments, of=ex) -> float:
        ranks.barrier()
        begin_s = time.perf_counter()
        run(of, *arguments)
        return max(ranks.allgather(time.perf_counter() - begin_s))

    n_core = len(set().union(*ranks.allgather(os.sched_getaffinity(0))))
    share = STEPS_OF_WORK // ranks.size * min(ranks.size, n_core)
    for run, arguments in ((empty_rounds, (1,)), (floor, (1,)), (work, (1, 1)), (line_rounds, (1, 1))):
        run(ex, *arguments)
    found = {
        "round_us": timed(empty_rounds, n_round) / n_round * 1e6,
        "floor_us": timed(floor, n_round) / n_round * 1e6,
        "line_us": timed(line_rounds, n_round, 1, of=line) / n_round * 1e6,
        "run_us": timed(line_rounds, n_round, LONGEST_RUN + 1, of=line) / n_round * 1e6,
        "work_s": timed(work, MEETINGS_OF_WORK, share),
        "least": int(empty_rounds(ex, 5)),
    }
    assert found["least"] == 4, "faster because wrong"
    if ranks.rank == 0:
        print(json.dumps(found), flush=True)


def start(n_rank: int, n_round: int, wait: str) -> dict:
    """The figures of one mpirun."""
    mpirun = str(Path(sys.executable).parent / "mpirun")
    command = [mpirun, "-n", str(n_rank), sys.executable, __file__, "--here", str(n_round)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {WAIT_VARIABLE: wait})
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run every rank count in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 and 4 ranks, one turn")
    parser.add_argument("--ranks", default="2,3,4,8", help="rank counts, comma separated (default 2,3,4,8)")
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.here)
        return
    counts = [2, 4] if arguments.quick else [int(n) for n in arguments.ranks.split(",")]
    n_core, figures = len(os.sched_getaffinity(0)), {}
    print(f"{n_core} cores; medians, us per round")
    print("ranks  shared  of it floor     mpi  MPI floor   line     run   work, s: shared     mpi   one rank")
    alone_s = alone()
    for n_rank in counts:
        turns = {"shared": [], "mpi": []}
        for _ in range(1 if arguments.quick else N_TURN):
            for wait, found in turns.items():
                found.append(start(n_rank, 200 if arguments.quick else 1000, wait))
        middle = {w: {k: statistics.median(f[k] for f in found) for k in found[0]} for w, found in turns.items()}
        shared, mpi = middle["shared"], middle["mpi"]
        floor_us = min(shared["floor_us"], mpi["floor_us"])
        ratio = shared["round_us"] / floor_us
        figures[n_rank] = {
            "shared_us": shared["round_us"], "mpi_us": mpi["round_us"], "floor_us": floor_us,
            "line_us": mpi["line_us"], "run_us": mpi["run_us"],
            "work_shared_s": shared["work_s"], "work_mpi_s": mpi["work_s"],
        }  # fmt: skip
        print(
            f"{n_rank:>5} {shared['round_us']:>7.2f} {ratio:>12.2f} {mpi['round_us']:>7.1f} {floor_us:>10.2f} "
            f"{mpi['line_us']:>6.1f} {mpi['run_us']:>7.1f} "
            f"{shared['work_s']:>17.4f} {mpi['work_s']:>7.4f} {alone_s:>10.4f}"
        )
    print_last({"cores": n_core, "work_alone_s": alone_s, "ranks": figures})


def alone() -> float:
    """Seconds of the same amount of work per core, on one rank that meets nobody."""
    ranks = world()
    ex = make_exchange(ranks, [], 8)
    work(ex, 1, 1)
    begin_s = time.perf_counter()
    work(ex, MEETINGS_OF_WORK, STEPS_OF_WORK)
    return time.perf_counter() - begin_s


if __name__ == "__main__":
    main()
