"""The cluster level: how fast it is, what it costs per job, and failures beside what others have measured.

    python bench/cluster.py [--quick] [--case speed,jobs,simpy,daly,renewal,meta,llama] [--most N] [--figure FILE]
                            [--scheduler NAME ..]

speed: 100,000 jobs of examples/cluster/month.toml by scheduler, at the load there and at one above what there is; allox
and pollux have 10,000 jobs on a tenth or less of it, at about the load there. jobs:
the same cluster with 1,000 to 1,000,000 jobs (--most): time and memory per job, each in a process of its own, and a
figure (--figure). simpy: the event loop beside SimPy (pip install simpy) on M/M/c, the same draws, whose waits must be
equal. daly: the interval between checkpoints that costs least by simulation, beside Daly's. renewal: servers that are
up, and the speed of a job with stragglers, beside alternating renewal processes. meta: mean time between failures at
16,384 and 131,072 GPUs. llama: examples/cluster/llama3-54-days.toml with ten seeds. --quick: small cases.
"""

import argparse
import heapq
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from models.cluster.arrivals import Arrivals, requests
from models.cluster.checkpoint_rule import daly_us
from models.cluster.distribution import NEVER, Distribution, table_of
from models.cluster.failures import Failures, Process
from models.cluster.job import Job, Request
from models.cluster.loop import Cluster
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.progress import Checkpoints
from models.cluster.rules import NEVER_US, Rules
from models.cluster.schedulers.fcfs import Fcfs
from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from plots import draw

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "cluster"
MINUTE, HOUR, DAY = 60 * 10**6, 3600 * 10**6, 86400 * 10**6
REGION = '{gpu="H100",servers=1024,hot_spares=4},'
QUOTAS = ("cluster.arrivals.tenants={a=4,b=3,c=2,d=1}", "cluster.options.quotas={a=13000,b=9800,c=6500,d=3200}")
SCHEDULERS: dict[str, tuple[str, ...]] = {  # with overrides
    **dict.fromkeys(("fcfs", "backfill", "sjf", "srtf", "priority", "las", "gang"), ()),
    "quota": QUOTAS,
    "mast": (*QUOTAS, f"cluster.pool=[{4 * REGION}]"),
    **dict.fromkeys(("fifo-rounds", "fifo-perf", "sia"), ()),
    # A stop costs six minutes there, as long as their rounds are: who moves in each would never be done.
    **dict.fromkeys(("max-min", "max-min-perf", "finish-time-fair"), ("cluster.options.round_minutes=30.0",)),
}
OF_64_SERVERS = 'cluster.pool=[{gpu="H100",servers=64,hot_spares=4}]'
TENTH = (
    'cluster.pool=[{gpu="H100",servers=410,hot_spares=4}]',
    "cluster.arrivals.gpus={1=40,2=10,4=10,8=25,64=10,512=5}",
)
OF_ONE_GPU = (OF_64_SERVERS, "cluster.arrivals.gpus={1=1}")
SOLVERS: dict[str, tuple[int, tuple[str, ...]]] = {  # jobs per hour, overrides
    "allox": (100, OF_ONE_GPU),
    "pollux": (18, TENTH),
}


class Done:
    """Keeps the jobs that are done."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def happened(self, *_: object) -> None:
        """Nothing."""

    def left(self, job: Job) -> None:
        """A job is done."""
        self.jobs.append(job)


def simulated(jobs: list[Request], n_server: int, process: Process | None = None, **more) -> tuple[Cluster, Done]:
    """A cluster of servers with one GPU each, first come, first served."""
    machine, watch = Machine([Pool("G", n_server, 1, 16, 1.0)]), Done()
    checkpoints = more.get("checkpoints", Checkpoints())
    rules = Rules(POLICIES["packed"], lambda *_: 1.0, lambda *_: checkpoints, more.get("stop_us", NEVER_US))
    failures = Failures([process] if process else [], machine, more.get("seed", 1))
    cluster = Cluster(machine, rules, jobs, failures, watch)
    cluster.run(Fcfs(cluster, {}))
    return cluster, watch


def example(name: str, *overrides: str) -> tuple[dict, float]:
    """result.json of an example, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_cluster(EXAMPLES / f"{name}.toml", [f'output.dir="{folder}"', *overrides])
        began_s = time.perf_counter()
        return run_cluster(loaded, True), time.perf_counter() - began_s


def speed(n_job: int, names: list[str]) -> None:
    """By scheduler: seconds of a core, which other work does not change much."""
    print(f"{n_job:,} jobs on 4,096 servers x 8 GPUs, 35 days at load 0.9; and at twice the load")
    print(f"{'scheduler':16} {'CPU s':>7} {'wait, h':>8} {'stopped':>9}   {'CPU s':>7} {'wait, h':>8} {'stopped':>9}")
    for name in (name for name in SCHEDULERS if name in names):
        cells = [_timed(name, n_job, per_hour, SCHEDULERS[name]) for per_hour in (120, 240)]
        print(f"{name:16} {'   '.join(cells)}", flush=True)
    print(f"{n_job // 10:,} jobs; of one GPU on 64 servers x 8 GPUs; pollux: of all sizes on 410")
    for name in (name for name in SOLVERS if name in names):
        print(f"{name:16} {_timed(name, n_job // 10, *SOLVERS[name])}", flush=True)


def _timed(name: str, n_job: int, per_hour: int, overrides: tuple[str, ...]) -> str:
    began_s = time.process_time()
    result, _ = example(
        "month", f"cluster.scheduler={name}", f"cluster.arrivals.jobs={n_job}",
        f"cluster.arrivals.per_hour={per_hour}", "cluster.arrivals.priorities={0=7,1=3}", *overrides,
    )  # fmt: skip
    cpu_s = time.process_time() - began_s
    return f"{cpu_s:7.1f} {result['wait_s']['mean'] / 3600:8.2f} {result['preemptions']:9,}"


def jobs(most: int, figure: Path | None) -> None:
    """By how many jobs there are: time and memory per job. Events are not kept. figure: of the time per job."""
    print(f"{'jobs':>9} {'s':>7} {'us a job':>9} {'CPU us a job':>13} {'memory, MB':>11}")
    sizes, costs = [n for k in range(3, 8) for n in (10**k, 3 * 10**k) if n <= most], []
    for n in sizes:
        code = f"import cluster; cluster.one({n})"
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
        )
        wall_s, cpu_s, memory = map(float, found.stdout.split())
        costs.append(cpu_s / n * 1e6)
        print(f"{n:9,} {wall_s:7.2f} {wall_s / n * 1e6:9.1f} {costs[-1]:13.1f} {memory / 1e6:11.0f}", flush=True)
    if figure is not None:
        curves = {"first come, first served": (sizes, costs)}
        title = "Time of the processor for each job, 4,096 servers x 8 GPUs"
        draw(figure, title, {"one core": curves}, "jobs", "us", points=list(curves), log_x=True)


def one(n_job: int) -> None:
    """For a process of `jobs`: prints seconds and bytes."""
    began_s = time.process_time()
    _, wall_s = example("month", f"cluster.arrivals.jobs={n_job}", "output.events=false", "cluster.scheduler=fcfs")
    print(wall_s, time.process_time() - began_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def drawn(n_job: int, per_hour: float, duration: Distribution) -> list[Request]:
    """Jobs of one GPU."""
    one_value = table_of({1: 1.0}), table_of({0: 1.0})
    arrivals = Arrivals(n_job, per_hour, 0.0, one_value[0], duration, ("",), one_value[1], one_value[1])
    return list(requests(arrivals, 1))


def beside_simpy(n_job: int, n_server: int = 64) -> None:
    """The same jobs in SimPy, as its users write such a queue, and in a bare heap."""
    import simpy

    found = drawn(n_job, n_server * 0.9, Distribution("exponential", float(HOUR)))
    began_s = time.perf_counter()
    _, watch = simulated(found, n_server)
    ours_s = time.perf_counter() - began_s
    waits = {job.number: job.waited_us for job in watch.jobs}

    world, theirs = simpy.Environment(), {}
    servers = simpy.Resource(world, n_server)

    def job(request: Request):
        with servers.request() as wish:
            yield wish
            theirs[request.number] = world.now - request.submit_us
            yield world.timeout(request.work_us)

    def source():
        for request in found:
            yield world.timeout(request.submit_us - world.now)
            world.process(job(request))

    began_s = time.perf_counter()
    world.process(source())
    world.run()
    simpy_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    free, bare = [0] * n_server, {}
    for request in found:
        start_us = max(free[0], request.submit_us)
        heapq.heapreplace(free, start_us + request.work_us)
        bare[request.number] = start_us - request.submit_us
    bare_s = time.perf_counter() - began_s
    assert waits == theirs == bare
    print(f"M/M/{n_server}, {n_job:,} jobs, all waits equal: {ours_s:.2f} s with placement and schedulers, ", end="")
    print(f"SimPy {simpy_s:.2f} s without, {simpy_s / ours_s:.2f} times; a bare heap {bare_s:.2f} s")


def daly(hours: int) -> None:
    """The interval that costs least, by simulation: a parabola through the cost by the logarithm of the interval."""
    print(f"{'write':>6} {'between':>8} {'Daly':>9} {'least':>9} {'off':>7} {'failures':>9}")
    for write_us, between_us in ((MINUTE, 24 * HOUR), (5 * MINUTE, 24 * HOUR), (5 * MINUTE, 3 * HOUR)):
        rule_us = daly_us(write_us, between_us)
        gap = Distribution("exponential", float(between_us))
        process = Process("part", "server", gap, "job", NEVER, NEVER)
        work_us = hours * between_us
        factors = [2 ** (k / 4) for k in range(-4, 5)]
        costs = []
        for factor in factors:
            found = [
                simulated(
                    [Request(0, "0", 0, 1, work_us)], 1, process, seed=seed,
                    checkpoints=Checkpoints(int(rule_us * factor), write_us),
                )[1].jobs[0]
                for seed in range(4)
            ]  # fmt: skip
            costs.append(statistics.mean(job.end_us / work_us for job in found))
        least = math.exp(vertex([math.log(f) for f in factors], costs))
        n_failure = 4 * sum(1 for _ in range(hours))
        texts = f"{write_us / MINUTE:.0f} min", f"{between_us / HOUR:.0f} h", f"{rule_us / MINUTE:.1f} min"
        print(f"{texts[0]:>6} {texts[1]:>8} {texts[2]:>9} {rule_us * least / MINUTE:5.1f} min", end="")
        print(f" {100 * (least - 1):5.1f} % {n_failure:9,}", flush=True)


def vertex(x: list[float], y: list[float]) -> float:
    """Where a cubic that is fitted by least squares has its minimum near zero."""
    import numpy as np

    c = np.polynomial.Polynomial.fit(x, y, 4).convert()
    roots = [root.real for root in c.deriv().roots() if abs(root.imag) < 1e-9 and abs(root.real) < 0.7]
    return min(roots, key=lambda root: c(root))


def renewal(years: int) -> None:
    """A part fails every 100 h, after its last repair, and is repaired in 20 h; or it makes a job slow for so long."""
    span_us, gaps = years * 365 * DAY, (Distribution("exponential", 100.0 * HOUR), Distribution("weibull", 1e11, 0.7))
    for gap in gaps:
        up = gap.mean_us / (gap.mean_us + 20 * HOUR)
        repair = Distribution("lognormal", 20 * HOUR / math.exp(0.5), 1.0)
        process = Process("part", "server", gap, "server", NEVER, repair)
        cluster, _ = simulated([Request(0, "0", 0, 1, 2 * span_us)], 10, process, stop_us=span_us)
        found = cluster.usage.totals[4] / (10 * cluster.now_us)
        print(
            f"{gap.shape:11} up {100 * found:.2f} % of {10 * years} server-years, MTTF / (MTTF + MTTR) {100 * up:.2f} %"
        )
        process = process._replace(takes="speed", leaves=0.5)
        for n in (1, 4, 16):
            cluster, _ = simulated([Request(0, "0", 0, n, 2 * span_us)], n, process, stop_us=span_us)
            job = cluster.running[0]
            cluster.settle(job)
            print(
                f"{'':11} a job on {n} servers, half as fast with one that is slow: {job.saved_us / span_us:.4f}",
                end="",
            )
            print(f" of its speed; 1/2 + 1/2 x {up:.4f}^{n} = {0.5 + 0.5 * up**n:.4f}")


def meta(days: int) -> None:
    """6.5 failures per 1,000 server-days (HPCA 2025)."""
    for n_gpu, published_h in ((16_384, 1.8), (131_072, 0.23)):
        machine, gap = Machine([Pool("G", n_gpu // 8, 8, 16, 1.0)]), Distribution("exponential", 1000 / 6.5 * DAY)
        failures = Failures([Process("server", "server", gap, "server", NEVER, NEVER)], machine, 1)
        rules = Rules(POLICIES["packed"], lambda *_: 1.0, lambda *_: Checkpoints(), days * DAY)
        cluster = Cluster(machine, rules, [Request(0, "0", 0, 1, 2 * days * DAY)], failures, Done())
        cluster.run(Fcfs(cluster, {}))
        n = cluster.n_failure["server"]
        found_h = days * 24 / n
        print(
            f"{n_gpu:7,} GPUs, {days} days: {n:,} failures, one in {found_h:.3f} h; published {published_h} h, ", end=""
        )
        print(f"off {100 * (found_h / published_h - 1):.1f} % (chance alone {100 / math.sqrt(n):.1f} %)")


def llama(n_seed: int, restarts: tuple[str, ...]) -> None:
    """419 unexpected interruptions, 47 planned, more than 90 % effective training time. restarts: what these take."""
    counts, shares = [], []
    for seed in range(n_seed):
        result, _ = example("llama3-54-days", f"cluster.seed={seed}")
        counts.append(sum(n for name, n in result["failures"].items() if name != "planned"))
        shares.append(result["effective_training_time"])
    deviation = (statistics.mean(counts) - 419) / math.sqrt(419 / n_seed)
    print(f"Llama 3, 54 days, {n_seed} seeds: {min(counts)} to {max(counts)} unexpected failures, mean ", end="")
    print(
        f"{statistics.mean(counts):.1f} (419: {deviation:+.1f} standard deviations of the mean); effective training ",
        end="",
    )
    print(f"time {100 * min(shares):.1f} to {100 * max(shares):.1f} % (reported: above 90 %)")
    for restart in restarts:
        result, _ = example("llama3-54-days", f"cluster.checkpoint.restart={restart}")
        print(f"  with restarts of {restart}: {100 * result['effective_training_time']:.1f} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="speed,jobs,simpy,daly,renewal,meta,llama")
    parser.add_argument("--quick", action="store_true", help="small cases")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="of jobs: an SVG or PNG")
    parser.add_argument("--most", type=int, default=1_000_000, metavar="N", help="jobs, of the case jobs (1,000,000)")
    every = [*SCHEDULERS, *SOLVERS]
    parser.add_argument("--scheduler", nargs="+", choices=every, default=every, metavar="NAME", help="of speed (all)")
    arguments = parser.parse_args()
    small = arguments.quick
    cases = {
        "speed": lambda: speed(1000 if small else 100_000, arguments.scheduler),
        "jobs": lambda: jobs(1000 if small else arguments.most, arguments.figure),
        "simpy": lambda: beside_simpy(2000 if small else 200_000),
        "daly": lambda: daly(200 if small else 20_000),
        "renewal": lambda: renewal(2 if small else 400),
        "meta": lambda: meta(10 if small else 400),
        "llama": lambda: llama(1, ()) if small else llama(10, ("3min", "6min", "10min", "15min")),
    }
    for name in arguments.case.split(","):
        if name not in cases:
            parser.error(f"--case: found {name!r}. Accepted: {', '.join(cases)}")
        cases[name]()


if __name__ == "__main__":
    main()
