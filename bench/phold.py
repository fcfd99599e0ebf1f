"""PHOLD: events per second of the engine without a network, against ROSS's.

    python bench/phold.py [--quick]                  one rank and, if there are two cores and an mpirun, two in turn
    mpirun -n 2 python bench/phold.py --here         on the ranks that mpirun started

Exactly what ROSS's PHOLD does with --mean=2.0 --lookahead=1.0 and one event per LP, 1.0 of its time units being 1 us.
Rate = events / running time without set-up. ROSS's figures were measured once, by the same rule, on two cores of a Xeon
with 2 MiB of L2 each: a machine like this one, but neither this one nor this session, so ratios are good to a factor of
1.5 or so. Ours is divided by the best of ROSS's: sequential on one rank, conservative on two.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cases import print_last, spread
from models.phold import N_EVENT, Phold, PholdConfig, run_phold
from pdes.engine.exchange import World, world
from pdes.engine.round import run_rounds

US = 1_000_000
MPIRUN = Path(sys.executable).parent / "mpirun"
MILLION = 1 << 20
CASES = (  # LPs, remote, simulated us
    (1024, 1.0, 2000), (1024, 0.1, 2000), (65536, 1.0, 100), (65536, 0.1, 100), (MILLION, 1.0, 20), (MILLION, 0.1, 20),
)  # fmt: skip
ROSS_M = {  # M events/s, the best that was measured, by (LPs, remote): sequential; conservative on two ranks
    (1024, 1.0): (3.0, 2.30), (65536, 1.0): (0.46, 0.59), (65536, 0.1): (0.60, 1.13), (MILLION, 1.0): (0.18, 0.07),
    (MILLION, 0.1): (0.22, 0.19),
}  # fmt: skip
UNFINISHED = {(MILLION, 1.0), (MILLION, 0.1)}  # ROSS's runs on two ranks, which were ended: it may do better
N_TURN, N_RUN = 3, 2


def expected_events(config: PholdConfig) -> tuple[float, float]:
    """(mean, standard deviation) of the number of events: a renewal process per LP (Cox 1962, section 4.2).

    Increments are lookahead + Exp(m), so their mean is mu and their standard deviation sigma = m; up to time t there
    are t/mu + (sigma^2/mu^2 - 1)/2 on average with variance t sigma^2 / mu^3.
    """
    mu, sigma = config.mean_ps, config.mean_ps - config.lookahead_ps
    mean = config.end_ps / mu + (sigma**2 / mu**2 - 1) / 2
    return config.n_lp * mean, math.sqrt(config.n_lp * config.end_ps * sigma**2 / mu**3)


def measure(config: PholdConfig, ranks: World, n_run: int) -> tuple[list[float], int]:
    """(events per second of each run, events)."""
    rates, n_event = [], 0
    for _ in range(n_run):
        model = Phold(config, ranks)
        ranks.barrier()
        begin_s = time.perf_counter()
        run_rounds(model, model.loop, model.exchange)
        ranks.barrier()
        elapsed_s = time.perf_counter() - begin_s
        n_event = sum(ranks.allgather(int(model.state.counters[N_EVENT])))
        rates.append(n_event / elapsed_s)
    mean, deviation = expected_events(config)
    assert abs(n_event - mean) < 4 * deviation, f"{n_event} events, expected {mean:.0f} +- {deviation:.0f}"
    return rates, n_event


def run_here(quick: bool, i_case: int | None) -> None:
    """One case, or all, on the ranks of this process; rank 0 prints a line of JSON for each."""
    ranks = world()
    run_phold(PholdConfig(n_lp=64, end_ps=3 * US), ranks)
    for n_lp, remote_frac, end_us in CASES if i_case is None else CASES[i_case : i_case + 1]:
        end_ps = end_us * US // (10 if quick else 1)
        config = PholdConfig(n_lp=n_lp, remote_frac=remote_frac, end_ps=end_ps)
        rates, n_event = measure(config, ranks, N_RUN)
        if ranks.rank == 0:
            figures = {"lps": n_lp, "remote": remote_frac, "ranks": ranks.size, "events": n_event, "rates": rates}
            print_last(figures | {"events_per_second": statistics.median(rates)})


def start(n_rank: int, i_case: int, quick: bool) -> dict[str, Any]:
    """The figures of a case, in processes of its own."""
    command = [sys.executable, __file__, "--here", "--case", str(i_case), *(["--quick"] if quick else [])]
    if n_rank > 1:
        command = [str(MPIRUN), "-n", str(n_rank), *command]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def against_ross(n_lp: int, remote_frac: float, n_rank: int, rate: float) -> tuple[str, float | None]:
    """(ROSS's figure and the ratio for people, the ratio)."""
    ross = ROSS_M.get((n_lp, remote_frac))
    if ross is None:
        return f"{'-':>7} {'-':>6}", None
    ross_m = ross[n_rank - 1]
    least = ">=" if n_rank > 1 and (n_lp, remote_frac) in UNFINISHED else ""
    ratio = rate / (ross_m * 1e6)
    return f"{least + format(ross_m, '.2f'):>7} {ratio:>6.1f}", ratio


def main() -> None:
    """One rank and two, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulated time, one turn, no 1 M LPs")
    parser.add_argument("--here", action="store_true", help="only on the ranks that mpirun started")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.quick, arguments.case)
        return
    counts = (1, 2) if MPIRUN.exists() and len(os.sched_getaffinity(0)) > 1 else (1,)
    figures: dict[str, Any] = {}
    print(f"{'':20} ranks {'M events/s':>24} {'ROSS':>7} {'ratio':>6}  speed-up")
    for i, (n_lp, remote_frac, _) in enumerate(CASES[: 4 if arguments.quick else len(CASES)]):
        rates: dict[int, list[float]] = {n: [] for n in counts}
        for _ in range(1 if arguments.quick else N_TURN):
            for n_rank in counts:
                rates[n_rank] += start(n_rank, i, arguments.quick)["rates"]
        one = statistics.median(rates[1])
        for n_rank, found in rates.items():
            rate = statistics.median(found)
            text, ratio = against_ross(n_lp, remote_frac, n_rank, rate)
            speedup = f"{rate / one:.2f}" if n_rank > 1 else ""
            name, key = f"{n_lp:,} LPs, {remote_frac}", f"{n_lp}_{remote_frac}_{n_rank}"
            print(f"{name:20} {n_rank:>5} {spread([r / 1e6 for r in found]):>24} {text}  {speedup}", flush=True)
            figures |= {f"rate_{key}": rate, f"ratio_to_ross_{key}": ratio, f"speedup_{key}": rate / one}
    print_last({"events_per_second": figures["rate_65536_1.0_1"], "ranks": 1, **figures})


if __name__ == "__main__":
    main()
