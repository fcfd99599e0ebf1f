"""From [cluster.runs] to what asks for iteration times; every kind's config is checked before anything runs."""

from collections.abc import Iterator
from typing import Any

from models.cluster.job import Request
from models.cluster.machine import Machine, Pool
from pdes.cluster.iterations.fabric import check_fabric, racks_per_pod
from pdes.cluster.iterations.memo import IterationMemo
from pdes.cluster.iterations.run import Bench, share_of, tables_of
from pdes.cluster.iterations.shape import packed
from pdes.cluster.iterations.speeds import RunAll, RunSpeeds
from pdes.config.cluster.load import Loaded
from pdes.config.cluster.runs import RunsConfig
from pdes.errors import ConfigError
from pdes.units import shown


def build_runs(loaded: Loaded, machine: Machine, run_all: RunAll) -> RunSpeeds | None:
    """None without [cluster.runs]. Raises ConfigError."""
    config = loaded.run.cluster.runs
    if config is None:
        return None
    _check(loaded, config)
    kinds = {one.kind: one.workload for one in config.kind}
    benches = [_bench(loaded, config, kinds, pool) for pool in machine.pools]
    memo = IterationMemo(None if config.memo is None else loaded.source.parent / config.memo)
    speeds = RunSpeeds(machine, benches, memo, run_all, config.check)
    for i, one in enumerate(config.kind):
        _try(loaded, i, speeds, share_of(one.workload))
    return speeds


def _bench(loaded: Loaded, config: RunsConfig, kinds: dict[str, dict[str, Any]], pool: Pool) -> Bench:
    from models.compute.devices import DEVICES
    from pdes.simulation.versions import program  # with the compiler, which a run without models does not load

    gpu = pool.gpu if pool.gpu in DEVICES else ""
    tables = {"network": config.network, "wormhole": config.wormhole}
    folder = str(loaded.source.parent.absolute())
    sizes = pool.n_gpu, pool.servers_per_rack
    return Bench(tables, config.fabric, kinds, *sizes, gpu, config.iterations, folder, program())


def pods_of(loaded: Loaded, gpus_per_server: int, servers_per_rack: int) -> int:
    """Racks in a pod of the fabric that runs are on; 0: it has none, or there are no runs. Raises ConfigError."""
    config = loaded.run.cluster.runs
    if config is None:
        return 0
    try:
        check_fabric(config.fabric)
        return racks_per_pod(config.fabric, gpus_per_server, servers_per_rack)
    except ConfigError as error:
        raise loaded.fault(error.where, error.found, error.accepted) from error


def _check(loaded: Loaded, config: RunsConfig) -> None:
    mode = config.wormhole.get("mode")
    if config.check and mode != "flow":
        raise loaded.fault(
            "[cluster.runs] check", f"{config.check}, and mode is {shown(mode)}", 'Accepted: with mode = "flow"'
        )
    elastic, seen = {one.kind for one in loaded.run.cluster.elastic}, set[str]()
    for i, one in enumerate(config.kind):
        where, parallel = f"[[cluster.runs.kind]] {i + 1}", one.workload.get("parallel")
        if one.kind in seen or one.kind in elastic or "" in elastic:
            what = "is there twice" if one.kind in seen else "is elastic, too"
            accepted = "Accepted: each kind once, in one of both"
            raise loaded.fault(f"{where}: kind", f"{shown(one.kind)} {what}", accepted)
        seen.add(one.kind)
        if one.workload.get("kind") != "training" or not isinstance(parallel, dict):
            accepted = 'Accepted: kind = "training", with a table parallel'
            raise loaded.fault(f"{where}: workload", f"found {shown(one.workload.get('kind'))}", accepted)
        sizes = [parallel.get(name, 1) for name in ("tp", "pp", "cp", "ep", "etp")]
        if "dp" in parallel or any(type(size) is not int or size < 1 for size in sizes):
            found = "dp is there" if "dp" in parallel else f"tp, pp, cp, ep, etp are {sizes}"
            accepted = "Accepted: whole numbers from 1, and no dp, which follows from a job's GPUs"
            raise loaded.fault(f"{where}: workload.parallel", found, accepted)


def _try(loaded: Loaded, i: int, speeds: RunSpeeds, n_gpu: int) -> None:
    """Read the config of one replica of a kind, in every pool that it fits."""
    from pdes.config.values import make_config
    from pdes.scenario import build_scenario

    kind = loaded.run.cluster.runs.kind[i].kind if loaded.run.cluster.runs is not None else ""
    for number, bench in enumerate(speeds.benches):
        try:
            shape = packed(speeds.machine, number, kind, n_gpu)
            build_scenario(make_config(tables_of(bench, shape, {}), folder=bench.folder))
        except ConfigError as error:
            found, accepted = f"its run with {n_gpu} GPUs: {error}", "Accepted: a workload that can be run"
            raise loaded.fault(f"[[cluster.runs.kind]] {i + 1}", found, accepted) from error


def fitting(loaded: Loaded, jobs: Iterator[Request], runs: RunSpeeds | None) -> Iterator[Request]:
    """Jobs whose GPUs are whole replicas of their model. ConfigError: one has others."""
    for job in jobs:
        if runs is not None and runs.knows(job.kind) and job.n_gpu % runs.replica(job.kind):
            n = runs.replica(job.kind)
            found = f"job {shown(job.name)} of kind {shown(job.kind)} has {job.n_gpu} GPUs, and those come in {n}"
            raise loaded.fault("[cluster] runs", found, f"Accepted: multiples of {n}")
        yield job
