"""A [workload] of kind "trace": from its table to a plan."""

import sys
from pathlib import Path
from typing import Any

from models.topology.graph import Topology
from models.workload.importers.chakra import Device
from models.workload.importers.formats import TraceSource, read_trace
from models.workload.importers.own_streams import is_own, plan_own
from models.workload.importers.system_file import read_system
from models.workload.plan import WorkloadPlan
from models.workload.trace.collectives import CollectiveRules
from models.workload.trace.plan import plan_trace
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.units import BITS_PER_BYTE


def trace_source(config: Config, w: Any) -> TraceSource:
    """What is to be read."""

    def path(name: str | None) -> Path | None:
        return None if name is None else config.input_path(name)

    return TraceSource(
        format=w.format,
        path=config.input_path(w.file),
        communicators=path(w.communicators),
        gpus=w.gpus,
        tolerant=w.tolerant,
        device=Device(w.device.flops, w.device.memory_bandwidth_bps // BITS_PER_BYTE),
    )


def trace_plan(config: Config, w: Any, topology: Topology) -> WorkloadPlan:
    """The plan of a trace; warnings of a tolerant reader go to stderr. Raises ConfigError."""
    if w.format == "chakra" and is_own(config.input_path(w.file)):
        return plan_own(config.input_path(w.file), topology.n_host, config.simulation.iterations)
    if config.simulation.iterations > 1:
        raise ConfigError(
            "[simulation] iterations", f"{config.simulation.iterations}, and the workload is a trace", "1 with a trace"
        )
    if config.network.routing.queue_pairs_per_flow > 1:
        found = f"{config.network.routing.queue_pairs_per_flow}, and the workload is a trace"
        raise ConfigError("[network.routing] queue_pairs_per_flow", found, "1 with a trace")
    graph, order = read_trace(trace_source(config, w), topology.n_host)
    for warning in graph.warnings:
        print(f"pdes-sim: warning: {warning}", file=sys.stderr)
    dimensions = tuple(w.dimensions)
    rules = CollectiveRules(dimensions)
    if w.system is not None:
        rules = read_system(config.input_path(w.system), dimensions)
    return plan_trace(graph, order, topology.n_host, rules)
