"""Workload and paths of a config: from its tables to what the models make of them."""

import heapq
from dataclasses import replace
from typing import Any

import numpy as np

from models.topology.direct.ways import Pairs, dragonfly_paths
from models.topology.graph import Topology
from models.topology.ns3_file import read_ns3_next_hops
from models.topology.paths_file import read_ns3_paths
from models.topology.routing import NextHops, Paths, route_pairs
from models.workload.collectives import Collective, plan_collectives
from models.workload.nccl.options import CollectiveOptions
from models.workload.nccl.own_type import in_server_type
from models.workload.nccl.planner import NCCL_OPERATIONS, NcclPlanner, Planned
from models.workload.plan import WorkloadPlan
from models.workload.queue_pair_scaling import scale_queue_pairs
from models.workload.traffic.flows import NO_PRIORITY, FlowList, plan_flows, read_csv_flows, read_ns3_flows, to_hosts
from models.workload.traffic.input_data import plan_input
from models.workload.traffic.poisson import Incast, Traffic, poisson_flows
from models.workload.traffic.size_distribution import BUILT_IN, FOLDER, read_sizes
from models.workload.traffic.start_jitter import delay_flows, delay_streams
from pdes.config import Config
from pdes.config.tables.jobs import JobsConfig
from pdes.config.tables.sections import AUTO, MOST_TASKS, OutputConfig
from pdes.scenario.devices import own_devices
from pdes.scenario.jobs import build_jobs
from pdes.scenario.traces import trace_plan
from pdes.scenario.training import build_training
from pdes.scenario.transports import own_transports
from pdes.units import PS_PER_NS

NEVER = 2**62


def build_workload(config: Config, topology: Topology) -> WorkloadPlan:
    """The workload that [workload] asks for, on this topology's hosts, every queue pair with its priority.

    By ns-3's rules all times are whole ns.
    """
    has_jobs = isinstance(config.workload, JobsConfig)
    plan = build_jobs(config, topology, _workload) if has_jobs else _workload(config, topology, topology.host)
    priority = np.full(len(plan.pair_src), NO_PRIORITY) if plan.pair_priority is None else plan.pair_priority
    priority = np.where(priority == NO_PRIORITY, config.network.priority, priority)
    plan = replace(plan, pair_priority=priority, keeps_tasks=keeps_tasks(config.output, plan.n_task))
    plan = scale_queue_pairs(plan, config.network.routing.queue_pairs_per_flow)
    if not config.network.is_ns3:
        return plan
    operations = plan.operations.copy()
    operations["time_ps"] -= operations["time_ps"] % PS_PER_NS
    streams = plan.streams.copy()
    streams["wake_ps"] -= streams["wake_ps"] % PS_PER_NS
    group_time_ps = np.where(plan.group_time_ps < NEVER, plan.group_time_ps // PS_PER_NS * PS_PER_NS, NEVER)
    graph = None if plan.graph is None else plan.graph.in_whole(PS_PER_NS)
    return replace(plan, operations=operations, streams=streams, group_time_ps=group_time_ps, graph=graph)


def keeps_tasks(output: OutputConfig, n_task: int) -> bool:
    """Whether a run of so many tasks has a table of them."""
    return n_task <= MOST_TASKS if output.tasks == AUTO else bool(output.tasks)


def _workload(config: Config, topology: Topology, numbers: np.ndarray) -> WorkloadPlan:
    """numbers: what lists of flows call the hosts, int64[n_host]."""
    w: Any = config.workload
    n_host = topology.n_host
    if w.kind == "flows":
        path = config.input_path(w.file)
        is_csv = w.format == "csv" or (w.format == "auto" and path.suffix == ".csv")
        flows = read_csv_flows(path) if is_csv else read_ns3_flows(path, config.network.is_ns3)
        return _plan_flows(config, to_hosts(flows, numbers, str(path)), n_host, path.name)
    if w.kind == "poisson":
        return _poisson(config, w, topology)
    if w.kind == "input":
        return plan_input(w.size_bytes, len(w.hosts), n_host)
    if w.kind == "trace":
        return trace_plan(config, w, topology)
    if w.kind == "collectives":
        jobs = [
            Collective(
                c.name, c.operation, c.size_bytes, tuple(range(n_host)) if c.gpus == "all" else tuple(c.gpus),
                c.start_ps, tuple(c.after),
            )
            for c in _after_what_they_wait_for(w.collective)
        ]  # fmt: skip
        plan = _collectives(config, w, jobs, topology)
    else:
        plan = build_training(config, topology)
    return delay_streams(plan, config.simulation.seed, w.start_jitter_ps) if w.start_jitter_ps else plan


def _collectives(config: Config, w: Any, jobs: list[Collective], topology: Topology) -> WorkloadPlan:
    """Packets alone, or as NCCL plans them for a GPU type."""
    if w.gpu is None:
        return plan_collectives(jobs, topology.n_host, config.simulation.iterations)
    payload, header = config.network.payload_bytes, config.network.header_bytes
    goodput_bps = int(topology.nic_rate_bps.min()) * payload // (payload + header)
    transport = own_transports(w.transports)[w.transport]
    choices = {
        c.name: Planned(
            CollectiveOptions(
                algorithm=c.algorithm, protocol=c.protocol, in_server=c.in_server, nvls=c.nvls, transports=(transport,),
                nic_goodput_bps=goodput_bps, cross_rail_rings=w.cross_rail_rings,
            ),
            c.channels or 0, config.input_path(c.msccl) if c.msccl else None,
        )
        for c in w.collective
    }  # fmt: skip
    gpu_type = in_server_type(own_devices(w.devices)[w.gpu]) if w.gpu in w.devices else w.gpu
    planner = NcclPlanner(gpu_type, topology.server[topology.host], choices)
    return plan_collectives(jobs, topology.n_host, config.simulation.iterations, planner.parts, NCCL_OPERATIONS)


def _plan_flows(config: Config, flows: FlowList, n_host: int, name: str) -> WorkloadPlan:
    w: Any = config.workload
    if w.start_jitter_ps:
        flows = delay_flows(flows, config.simulation.seed, w.start_jitter_ps)
    return plan_flows(flows, n_host, w.queue_pairs, name)


def _poisson(config: Config, w: Any, topology: Topology) -> WorkloadPlan:
    path = FOLDER / f"{w.sizes}.txt" if w.sizes in BUILT_IN else config.input_path(w.sizes)
    incast = None if w.incast is None else Incast(w.incast.fan_in, w.incast.size_bytes, w.incast.load)
    traffic = Traffic(read_sizes(path), w.load, config.simulation.seed, w.duration_ps, w.flows, incast)
    name = f"{traffic.sizes.name} at {w.load:.4g} of the hosts' links"
    return _plan_flows(config, poisson_flows(traffic, topology.nic_rate_bps), topology.n_host, name)


def _after_what_they_wait_for(collectives: list[Any]) -> list[Any]:
    """The collectives in file order, but each behind all that its `after` names; the config has ruled out circles."""
    place = {c.name: i for i, c in enumerate(collectives)}
    n_before, behind = [len(set(c.after)) for c in collectives], [[] for _ in collectives]
    for i, c in enumerate(collectives):
        for name in set(c.after):
            behind[place[name]].append(i)
    ready, ordered = [i for i, n in enumerate(n_before) if n == 0], []  # ascending, so a heap
    while ready:
        i = heapq.heappop(ready)
        ordered.append(collectives[i])
        for later in behind[i]:
            n_before[later] -= 1
            if n_before[later] == 0:
                heapq.heappush(ready, later)
    return ordered


def given_next_hops(config: Config) -> NextHops | None:
    """The table of [network] next_hops_file."""
    name = config.network.next_hops_file
    return read_ns3_next_hops(config.input_path(name)) if name else None


def build_paths(config: Config, topology: Topology, plan: WorkloadPlan, next_hops: NextHops | None) -> Paths:
    """Every queue pair's ports, forth and back."""
    src, dst = topology.host[plan.pair_src], topology.host[plan.pair_dst]
    n = config.network
    if n.paths_file:
        return read_ns3_paths(config.input_path(n.paths_file), topology, src, dst, plan.pair_sport, plan.pair_dport)
    paths = route_pairs(topology, src, dst, plan.pair_sport, plan.pair_dport, n.ecmp_seed, next_hops)
    t: Any = config.topology
    if t.kind != "dragonfly" or t.routing == "shortest" or next_hops:
        return paths
    header = np.stack([src, dst, plan.pair_sport, plan.pair_dport], axis=1).astype(np.int64)
    return dragonfly_paths(
        topology, paths, t.routers_per_group, Pairs(header, plan.pair_bytes), n.ecmp_seed, t.routing
    )  # fmt: skip
