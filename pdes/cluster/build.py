"""From a config of the cluster level to what its event loop takes."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from models.cluster.arrivals import Arrivals, requests
from models.cluster.checkpoint_rule import CheckpointRule
from models.cluster.distribution import NEVER, Distribution, table_of
from models.cluster.failures import SLOWS, UPLINK, Failures, Process, Window
from models.cluster.find import find_scheduler
from models.cluster.job import Job, Place, Request
from models.cluster.machine import Machine, Pool
from models.cluster.placement import POLICIES
from models.cluster.placement.least_contended import LeastContended
from models.cluster.rules import NEVER_US, Rules
from models.cluster.schedulers.scheduler import Scheduler
from models.cluster.sharing import Case, Sharing
from models.cluster.spares import Spares
from models.cluster.storage import Storage
from pdes.cluster.elastic import read_curves
from pdes.cluster.iterations.build import build_runs, fitting, pods_of
from pdes.cluster.iterations.speeds import RunAll, RunSpeeds
from pdes.cluster.jobs_file import read_jobs
from pdes.cluster.scheduling import check_one_size, options_of
from pdes.cluster.speeds import Speeds, read_speeds
from pdes.cluster.storage import storage_of
from pdes.config.cluster.load import Loaded
from pdes.config.cluster.values import Duration
from pdes.files import read_text, require_file
from pdes.units import US_PER_S, shown
from pdes.workers import here


class Built(NamedTuple):
    """requests: checked as they come. options: of the scheduler."""

    machine: Machine
    requests: Iterator[Request]
    failures: Failures
    rules: Rules
    spares: Spares
    scheduler: type[Scheduler]
    options: dict[str, Any]
    runs: RunSpeeds | None
    sharing: Sharing | None


def build(loaded: Loaded, skip: int = 0, run_all: RunAll = here) -> Built:
    """Everything but the loop itself. skip: so many jobs have been submitted already. Raises ConfigError.

    run_all: where iteration times are run, see `iterations.workers`.
    """
    config = loaded.run.cluster
    pools = [
        Pool(p.gpu, p.servers, p.gpus_per_server, p.servers_per_rack, p.speed,
             pods_of(loaded, p.gpus_per_server, p.servers_per_rack))
        for p in config.pool
    ]  # fmt: skip
    machine = Machine(pools)
    failures = Failures(_processes(loaded, pools), machine, config.seed, _windows(loaded, machine))
    speeds = read_speeds(None if config.speeds is None else loaded.input_path(config.speeds), pools)
    speeds = speeds._replace(curves=read_curves(loaded, speeds))
    runs = build_runs(loaded, machine, run_all)
    speeds = speeds._replace(runs=runs)
    found = find_scheduler(
        config.scheduler,
        loaded.input_path,
        lambda found, accepted: loaded.fault("[cluster] scheduler", found, accepted),
    )
    stop_us = NEVER_US if config.stop_us is None else config.stop_us
    storage = storage_of(loaded, machine, runs)
    interval, *times_us = _checkpoint(loaded, storage)
    checkpoints = CheckpointRule(interval, (times_us[0], times_us[1], times_us[2]), failures, storage)
    sharing, choose = _sharing(loaded, machine, runs)
    place, share = POLICIES.get(config.placement, POLICIES["packed"]), config.network_share or 0.0
    rules = Rules(place, speeds, checkpoints, stop_us, share, storage, choose, _rerouted(sharing, runs))
    spares = Spares([p.hot_spares for p in config.pool], [p.cold_spares for p in config.pool], config.cold_start_us)
    n_job = None if config.first is None else max(config.first - skip, 0)
    asked = fitting(loaded, _elastic(loaded, _requests(loaded, speeds, skip), speeds), runs)
    jobs = islice(_checked(loaded, asked, pools), n_job)
    options = options_of(loaded, found)
    if found.one_size:
        check_one_size(loaded, islice(_requests(loaded, speeds, skip), n_job))
    return Built(machine, jobs, failures, rules, spares, found, options, runs, sharing)


def _sharing(
    loaded: Loaded, machine: Machine, runs: RunSpeeds | None
) -> tuple[Sharing | None, Callable[[Machine, int, int, Job], Place | None] | None]:
    """Who looks at jobs that share links, if anybody does; and who chooses places by that, if it is asked for."""
    config = loaded.run.cluster
    most = 0 if config.runs is None else config.runs.neighbours
    sharing = Sharing(machine, runs, most) if runs is not None and most else None
    if config.placement != "least-contended":
        return sharing, None
    if sharing is None or runs is None:
        accepted = "Accepted: with [cluster.runs], and neighbours above 0"
        raise loaded.fault("[cluster] placement", 'found "least-contended", and nobody knows who slows whom', accepted)
    return sharing, LeastContended(sharing, runs).place


def _rerouted(sharing: Sharing | None, runs: RunSpeeds | None) -> Callable[[Job, Mapping[int, int]], float] | None:
    """Who says how fast a job is with uplinks down; None without runs."""
    if runs is None:
        return None
    return lambda job, lost: runs.rerouted(Case(job, ()) if sharing is None else sharing.case(job), lost)


def _requests(loaded: Loaded, speeds: Speeds, skip: int) -> Iterator[Request]:
    config = loaded.run.cluster
    if config.jobs is not None:
        return read_jobs(loaded.input_path(config.jobs), speeds.step, skip)
    drawn = config.arrivals
    assert drawn is not None
    sizes = {_whole(loaded, "gpus", key, 1): weight for key, weight in drawn.gpus.items()}
    priorities = {_whole(loaded, "priorities", key, -(10**6)): w for key, w in (drawn.priorities or {"0": 1.0}).items()}
    tenants = drawn.tenants or {"": 1.0}
    arrivals = Arrivals(
        drawn.jobs, drawn.per_hour, drawn.day_swing, table_of(sizes),
        _distribution(loaded, drawn.duration, "[cluster.arrivals] duration"), tuple(tenants),
        table_of(dict(enumerate(tenants.values()))), table_of(priorities),
    )  # fmt: skip
    if drawn.kinds:
        arrivals = arrivals._replace(kinds=tuple(drawn.kinds), kind=table_of(dict(enumerate(drawn.kinds.values()))))
    return requests(arrivals, config.seed, skip)


def _elastic(loaded: Loaded, jobs: Iterator[Request], speeds: Speeds) -> Iterator[Request]:
    """Jobs with the ranges of their kinds. ConfigError: one has a range of its own, and nothing says how fast it is."""
    for job in jobs:
        if job.max_gpu and (speeds.curves is None or speeds.curves.model(job.kind) is None):
            found = (
                f"job {shown(job.name)} of kind {shown(job.kind)} has min_gpus and max_gpus, and no table of its kind"
            )
            raise loaded.fault("[cluster] elastic", found, 'Accepted: a table of each kind, or one with kind = ""')
        yield speeds.curves.with_range(job) if speeds.curves is not None else job


def _whole(loaded: Loaded, table: str, key: str, least: int) -> int:
    try:
        value = int(key) if len(key) < 9 else least - 1
    except ValueError:
        value = least - 1
    if value < least:
        raise loaded.fault(f"[cluster.arrivals.{table}] {key}", "is no number of them", f"whole numbers from {least}")
    return value


def _checked(loaded: Loaded, jobs: Iterator[Request], pools: list[Pool]) -> Iterator[Request]:
    """Jobs that the cluster has room for. ConfigError: one will never run."""
    for job in jobs:
        fitting = [pool for pool in pools if not job.gpu_type or pool.gpu == job.gpu_type]
        most = max((pool.n_server * pool.n_gpu for pool in fitting), default=0)
        if job.n_gpu > most:
            what = f"of {shown(job.gpu_type)} " if job.gpu_type else ""
            found = f"job {shown(job.name)} needs {job.n_gpu:,} GPUs {what}and no pool has more than {most:,}"
            raise loaded.fault("[cluster] pool", found, "Accepted: pools that each job fits into one of")
        yield job


def _processes(loaded: Loaded, pools: list[Pool]) -> list[Process]:
    found = []
    for i, failure in enumerate(loaded.run.cluster.failure):
        key = f"[[cluster.failure]] {i + 1}"
        names = [pool.gpu for pool in pools]
        if failure.gpu is not None and failure.gpu not in names:
            accepted = f"Accepted: {', '.join(map(shown, names))}"
            raise loaded.fault(f"{key}: gpu", f"found {shown(failure.gpu)}", accepted)
        if failure.takes == UPLINK and loaded.run.cluster.runs is None:
            accepted = "Accepted: with [cluster.runs], as runs say what that costs"
            raise loaded.fault(f"{key}: takes", 'found "uplink"', accepted)
        detection, repair = (
            NEVER if drawn is None else _distribution(loaded, drawn, f"{key}: {name}")
            for name, drawn in (("detection", failure.detection), ("repair", failure.repair))
        )
        gap = _distribution(loaded, failure.gap, f"{key}: gap")
        process = Process(failure.component, failure.per, gap, failure.takes, detection, repair, failure.gpu or "")
        found.append(process._replace(leaves=failure.leaves or 1.0, drains=failure.drains))
    return found


def _windows(loaded: Loaded, machine: Machine) -> list[Window]:
    found = []
    for i, window in enumerate(loaded.run.cluster.maintenance):
        name, n = ("servers", machine.n_server) if window.racks is None else ("racks", len(machine.rack_free))
        numbers = window.servers if window.racks is None else window.racks
        assert numbers is not None
        if numbers[-1] >= n:
            key = f"[[cluster.maintenance]] {i + 1}: {name}"
            raise loaded.fault(key, f"found {numbers[-1]}", f"Accepted: 0 to {n - 1:,}, as there are {n:,} {name}")
        if window.racks is not None:
            numbers = tuple(server for rack in numbers for server in machine.servers_of_rack(rack))
        found.append(Window(window.name, numbers, window.from_us, window.every_us or 0, window.duration_us))
    return found


def _distribution(loaded: Loaded, drawn: Duration, key: str) -> Distribution:
    kind = drawn.distribution
    if kind == "empirical":
        assert drawn.file is not None
        path = require_file(loaded.input_path(drawn.file))
        try:
            values = sorted(int(float(line) * US_PER_S + 0.5) for line in read_text(path).split())
        except (ValueError, OverflowError) as error:
            raise loaded.fault(key, f"{path}: {error}", "a text file with one duration in seconds a line") from error
        if not values or values[0] < 0:
            raise loaded.fault(key, f"{path} has no durations, or one below 0", "durations in seconds, one a line")
        return Distribution(kind, values_us=tuple(values))
    if kind == "lognormal":
        assert drawn.median_us is not None and drawn.sigma is not None
        return Distribution(kind, float(drawn.median_us), drawn.sigma)
    assert drawn.mean_us is not None
    of_mean = Distribution(kind, float(drawn.mean_us), drawn.shape or 1.0)
    return of_mean._replace(scale_us=drawn.mean_us * drawn.mean_us / of_mean.mean_us) if kind == "weibull" else of_mean


def _checkpoint(loaded: Loaded, storage: Storage | None) -> tuple[str | int, int, int, int]:
    config = loaded.run.cluster.checkpoint
    if isinstance(config.interval, str) and config.interval != "off":
        takes_time = config.write_us or (storage is not None and storage.has_checkpoints)
        if all(each.takes in SLOWS for each in loaded.run.cluster.failure) or not takes_time:
            found = f"found {shown(config.interval)}, without " + ("failures" if takes_time else "write")
            accepted = "Accepted: a rule where checkpoints take time and something fails"
            raise loaded.fault("[cluster.checkpoint] interval", found, accepted)
    return config.interval, config.write_us, config.restart_us, config.begin_us
