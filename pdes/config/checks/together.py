"""What the tables must satisfy together or beyond one value, as far as no topology has to be built for it."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from operator import is_
from pathlib import Path

from pdes.config.checks.jobs import jobs_faults
from pdes.config.checks.network import network_faults
from pdes.config.checks.topology import topology_faults, ways_faults
from pdes.config.checks.training import training_faults
from pdes.config.tables.devices import device_faults, gpu_fault
from pdes.config.tables.fields import Fault, Table
from pdes.config.tables.jobs import JobsConfig
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.sections import OutputConfig
from pdes.config.tables.topology import TopologyFileConfig
from pdes.config.tables.transports import transport_faults
from pdes.config.tables.workload import (
    NAMED_SIZES,
    CollectiveConfig,
    CollectivesConfig,
    FlowsConfig,
    PoissonConfig,
    TrainingConfig,
)
from pdes.config.wormhole.checks import wormhole_faults
from pdes.files import missing
from pdes.units import exact_size, shown

MIN_SAMPLE_BYTES = 10**6
MAX_COLLECTIVE_BYTES = 10**15  # sums over steps and iterations stay below 2**63


def cross_faults(tables: Mapping[str, Table], folder: Path) -> list[Fault]:
    """All faults that single values do not show. tables: those that are valid by themselves, by name."""
    given = _Same(tuple(tables.get(name) for name in ("topology", "network", "workload", "wormhole")))
    has_jobs = isinstance(tables.get("workload"), JobsConfig)
    faults = _faults_of(given.tables, folder) if has_jobs else _known_faults(given)
    return list(faults) + list(_file_faults(tables, folder)) + list(_output_faults(tables.get("output")))


class _Same:
    """Tables to be looked up by: the same objects, which never change."""

    def __init__(self, tables: tuple[Table | None, ...]) -> None:
        self.tables = tables

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tables)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and all(map(is_, self.tables, other.tables))


@lru_cache(maxsize=64)
def _known_faults(given: _Same) -> tuple[Fault, ...]:
    """Without jobs, which name files, nothing depends on more than the tables."""
    return _faults_of(given.tables, Path())


def _faults_of(tables: tuple[Table | None, ...], folder: Path) -> tuple[Fault, ...]:
    """But for files of the tables themselves that are not there, and outputs."""
    topology, network, workload, wormhole = tables
    faults = [*topology_faults(topology), *ways_faults(topology, network), *network_faults(network)]
    n_host = None if faults or topology is None else getattr(topology, "n_host", None)
    if isinstance(workload, JobsConfig):
        faults += jobs_faults(workload, n_host)
        for i, job in enumerate(workload.job):
            own = [*_workload_faults(job.workload, job.n_gpu or n_host), *_types_faults(job.workload, topology)]
            own += _file_faults({"workload": job.workload}, folder)
            faults += [_of_job(fault, i) for fault in own]
    faults += [*_workload_faults(workload, n_host), *_types_faults(workload, topology)]
    faults += wormhole_faults(wormhole)
    return tuple(faults)


def _workload_faults(workload: Table | None, n_host: int | None) -> Iterator[Fault]:
    """Of one workload on so many GPUs."""
    if isinstance(workload, CollectivesConfig):
        yield from _collectives_faults(workload, n_host)
    if isinstance(workload, PoissonConfig):
        yield from _poisson_faults(workload, n_host)
    if isinstance(workload, TrainingConfig):
        yield from training_faults(workload, n_host)


def _of_job(fault: Fault, i: int) -> Fault:
    return fault if fault.path[0] == "topology" else fault._replace(path=("job", i, *fault.path))


def _types_faults(workload: Table | None, topology: Table | None) -> Iterator[Fault]:
    """Of [[topology.server]] gpu, where a workload would do with another type."""
    for i, row in enumerate(getattr(topology, "server", [])):
        path = ("topology", "server", i, "gpu")
        if row.gpu is None:
            continue
        if isinstance(workload, TrainingConfig):
            yield from gpu_fault(path, row.gpu, workload.devices)
            if workload.compute.gpu is None:
                yield Fault(path, "is there, but [workload.compute] gpu is not", "Accepted: with a type for all others")
        elif isinstance(workload, CollectivesConfig) and workload.gpu is not None:
            found = "is there, and collectives are planned for [workload] gpu alone"
            yield Fault(path, found, "Accepted: without a type for these servers")


def _collectives_faults(workload: CollectivesConfig, n_host: int | None) -> Iterator[Fault]:
    yield from device_faults(workload.devices)
    yield from transport_faults(workload.transports, [(("workload", "transport"), workload.transport)])
    for name, device in workload.devices.items():
        for key, what in (("kernels", "kernels"), ("layer_times", "layers")):
            if getattr(device, key) is not None:
                found = f"is there, but collectives have no {what}"
                yield Fault(("workload", "devices", name, key), found, 'Accepted: with kind = "training"')
    if workload.devices and workload.gpu is None:
        yield Fault(("workload", "devices"), "is there, but [workload] gpu is not", "Accepted: with gpu")
    row_of: dict[str, int] = {}
    if workload.gpu is None and workload.cross_rail_rings:
        yield Fault(("workload", "cross_rail_rings"), "is true, but gpu is not there", 'Accepted: with gpu = "h100"')
    for i_row, collective in enumerate(workload.collective):
        path = ("workload", "collective", i_row)
        if collective.name in row_of:
            yield Fault((*path, "name"), f"{shown(collective.name)} is there twice", "Accepted: a name of its own")
        row_of.setdefault(collective.name, i_row)
        if collective.size_bytes > MAX_COLLECTIVE_BYTES:
            accepted = f"Accepted: at most {MAX_COLLECTIVE_BYTES} bytes"
            yield Fault((*path, "size"), f"found {collective.size_bytes} bytes", accepted)
        yield from _members_faults(collective, path, n_host)
        if workload.gpu is None:
            yield from _planned_faults(collective, path)
    yield from _order_faults(workload.collective, set(row_of))


def _planned_faults(collective: CollectiveConfig, path: tuple) -> Iterator[Fault]:
    """What is there only as NCCL plans it, for a GPU type."""
    if collective.operation == "broadcast":
        yield Fault((*path, "operation"), 'found "broadcast"', "Accepted: with [workload] gpu")
    for key in ("algorithm", "protocol", "channels", "in_server", "nvls", "msccl"):
        if key in collective.model_fields_set:
            yield Fault((*path, key), "is there, but [workload] gpu is not", 'Accepted: with a GPU type, gpu = "h100"')


def _members_faults(collective: CollectiveConfig, path: tuple, n_host: int | None) -> Iterator[Fault]:
    n_gpu = n_host if collective.gpus == "all" else len(collective.gpus)
    if n_host is not None and collective.gpus != "all" and max(collective.gpus) >= n_host:
        accepted = f"Accepted: 0 to {n_host - 1}, the hosts of [topology]"
        yield Fault((*path, "gpus"), f"names GPU {max(collective.gpus)}", accepted)
    if n_gpu is None:
        return
    if collective.operation == "point-to-point" and n_gpu != 2:
        yield Fault((*path, "gpus"), f"names {n_gpu} GPUs", "Accepted: two for a point-to-point, the sender first")
    elif n_gpu < 2:
        yield Fault((*path, "gpus"), f"names {n_gpu} GPU", f"Accepted: at least two for {collective.operation}")


def _order_faults(collectives: list[CollectiveConfig], names: set[str]) -> Iterator[Fault]:
    """Unknown names in `after`, and collectives that wait for themselves."""
    for i_row, collective in enumerate(collectives):
        for name in collective.after:
            if name not in names:
                accepted = f"Accepted: names of collectives ({', '.join(sorted(names))})"
                yield Fault(("workload", "collective", i_row, "after"), f"found {shown(name)}", accepted)
    waiting = {collective.name: set(collective.after) & names for collective in collectives}
    while ready := {name for name, before in waiting.items() if not before}:
        waiting = {name: before - ready for name, before in waiting.items() if name not in ready}
    for i_row, collective in enumerate(collectives):
        if collective.name in waiting:
            found = f"{shown(collective.name)} waits, directly or not, for collectives that wait in a circle"
            yield Fault(("workload", "collective", i_row, "after"), found, "Accepted: an order without circles")


def _poisson_faults(workload: PoissonConfig, n_host: int | None) -> Iterator[Fault]:
    if (workload.duration_ps is None) == (workload.flows is None):
        found = "is missing, and so is flows" if workload.flows is None else "is there, and so is flows"
        yield Fault(("workload", "duration"), found, "Accepted: one of the two")
    if n_host is None:
        return
    if n_host < 2:
        yield Fault(("workload",), "messages need two hosts, and [topology] has 1", "Accepted: at least two hosts")
    elif workload.incast is not None and workload.incast.fan_in >= n_host:
        accepted = f"Accepted: 1 to {n_host - 1}, the hosts besides the receiver"
        yield Fault(("workload", "incast", "fan_in"), f"found {workload.incast.fan_in}", accepted)


def _output_faults(output: Table | None) -> Iterator[Fault]:
    if not isinstance(output, OutputConfig):
        return
    given = {"sample": "sample", "sample_limit_bytes": "sample_limit"}
    for attribute, key in given.items():
        if output.sample_interval_ps is None and attribute in output.model_fields_set:
            yield Fault(("output", key), "is there, but sample_interval is not", "Accepted: with sample_interval")
    if output.sample_limit_bytes < MIN_SAMPLE_BYTES:
        accepted = f"Accepted: at least {exact_size(MIN_SAMPLE_BYTES)}"
        yield Fault(("output", "sample_limit"), f"found {exact_size(output.sample_limit_bytes)}", accepted)


def _file_faults(tables: Mapping[str, Table], folder: Path) -> Iterator[Fault]:
    topology, network, workload = (tables.get(name) for name in ("topology", "network", "workload"))
    named = []
    if isinstance(topology, TopologyFileConfig):
        named.append((("topology", "file"), topology.file))
    if isinstance(network, NetworkConfig):
        named += [(("network", key), getattr(network, key)) for key in ("next_hops_file", "paths_file")]
    if isinstance(workload, FlowsConfig):
        named.append((("workload", "file"), workload.file))
    if isinstance(workload, PoissonConfig) and workload.sizes not in NAMED_SIZES:
        names = ", ".join(map(shown, NAMED_SIZES))
        if not (folder / workload.sizes).is_file():
            found = missing(folder / workload.sizes)
            yield Fault(("workload", "sizes"), found, f"Accepted: {names}, or a file, relative to the config's folder")
    if isinstance(workload, CollectivesConfig):
        for i_row, collective in enumerate(workload.collective):
            named.append((("workload", "collective", i_row, "msccl"), collective.msccl))
    if isinstance(workload, TrainingConfig):
        for key in ("kernels", "layer_times"):
            named.append((("workload", "compute", key), getattr(workload.compute, key)))
            named += [(("workload", "devices", own, key), getattr(d, key)) for own, d in workload.devices.items()]
    for path, name in named:
        if name is not None and not (folder / name).is_file():
            yield Fault(path, missing(folder / name), "Accepted: a file, relative to the config's folder")
