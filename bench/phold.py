"""PHOLD: events per second of the engine without a network.

    python bench/phold.py [--quick]                  one rank, and two if there are two cores and an mpirun
    mpirun -n 2 python bench/phold.py --here         on the ranks that mpirun started

Exactly what ROSS's PHOLD does with --mean=2.0 --lookahead=1.0 and one event per LP, 1.0 of its time units being 1 us.
Rate = events / running time without set-up.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from cases import print_last, spread
from models.phold import N_EVENT, Phold, PholdConfig, run_phold
from pdes.engine.exchange import World, world
from pdes.engine.round import run_rounds

US = 1_000_000
CASES = ((1024, 1.0, 2000), (1024, 0.1, 2000), (65536, 1.0, 100), (65536, 0.1, 100), (1 << 20, 1.0, 20))


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


def run_here(quick: bool) -> None:
    """All cases on the ranks of this process."""
    ranks = world()
    run_phold(PholdConfig(n_lp=64, end_ps=3 * US), ranks)
    figures: dict[str, object] = {"ranks": ranks.size}
    for n_lp, remote_frac, end_us in CASES[: 4 if quick else 5]:
        end_ps = end_us * US // (10 if quick else 1)
        config = PholdConfig(n_lp=n_lp, remote_frac=remote_frac, end_ps=end_ps)
        rates, n_event = measure(config, ranks, 2 if quick else 5)
        if ranks.rank == 0:
            name = f"{n_lp:>9,} LPs, remote {remote_frac}"
            rate = spread([r / 1e6 for r in rates])
            print(f"{ranks.size} rank(s) {name:<26} {rate:>22} M events/s {n_event:>11,} events", flush=True)
            figures[f"events_per_second_{n_lp}_{remote_frac}"] = statistics.median(rates)
    if ranks.rank == 0:
        print_last({"events_per_second": figures["events_per_second_65536_1.0"], **figures})


def main() -> None:
    """One rank in this process, two ranks through mpirun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulated time, two runs each")
    parser.add_argument("--here", action="store_true", help="only on the ranks that mpirun started")
    arguments = parser.parse_args()
    mpirun = Path(sys.executable).parent / "mpirun"
    if not arguments.here and mpirun.exists() and len(os.sched_getaffinity(0)) > 1:
        extra = ["--quick"] if arguments.quick else []
        subprocess.run([mpirun, "-n", "2", sys.executable, __file__, "--here", *extra], check=True)
    run_here(arguments.quick)


if __name__ == "__main__":
    main()
