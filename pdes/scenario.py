"""From a checked config to everything a run is made of: topology, workload, paths, windows, LPs.

A scenario is a function of the config and its input files alone (design R4, R10): rank 0 builds it and sends it to the
others. Together with `simulation` and `cli` it is the only place that knows all packages.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.network.build import NetworkParameters
from models.topology.fat_tree import fat_tree
from models.topology.graph import Topology
from models.topology.leaf_spine import leaf_spine
from models.topology.ns3_file import read_ns3_next_hops, read_ns3_topology
from models.topology.paths_file import read_ns3_paths
from models.topology.rail_optimised import rail_optimised
from models.topology.routing import Paths, max_base_rtt, path_base_rtt, route_pairs
from models.workload.collectives import Collective, plan_collectives
from models.workload.flows import plan_flows, read_csv_flows, read_ns3_flows, to_hosts
from models.workload.plan import WorkloadPlan
from models.workload.training import PRESETS, GptModel, TrainingJob, plan_training
from partition.lps import cut_by_delay, lookahead_ps
from partition.threshold import choose_threshold
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.units import format_duration

MAX_LOOKAHEAD_PS = 10**12  # one LP has no lookahead of its own; rounds then end once per simulated second


@dataclass(frozen=True)
class Scenario:
    """What a run simulates, and how it is cut; the same on every rank."""

    config: Config
    topology: Topology
    plan: WorkloadPlan
    paths: Paths
    max_window_bytes: np.ndarray  # int64[n_pair]
    base_rtt_ps: int
    parameters: NetworkParameters
    port_hops: np.ndarray  # int64[n_port]  expected packet-hops of the whole run
    lp_of_node: np.ndarray
    threshold_ps: int
    threshold_reason: str
    lookahead_ps: int

    @property
    def n_lp(self) -> int:
        """Logical processes."""
        return int(self.lp_of_node.max()) + 1

    @property
    def stop_ps(self) -> int | None:
        """Simulated time at which the run stops, if the config says so."""
        return self.config.simulation.stop_time_ps

    def identity(self) -> dict[str, Any]:
        """The keys that determine the result, with the threshold resolved."""
        keys = self.config.resolved()
        keys["partition"]["delay_threshold_ps"] = self.threshold_ps
        return keys

    def lp_load(self) -> np.ndarray:
        """Expected packet-hops that arrive in each LP, int64[n_lp]."""
        load = np.zeros(self.n_lp, np.int64)
        np.add.at(load, self.lp_of_node[self.topology.port_dst], self.port_hops)
        return load

    def lp_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(LP, LP, expected messages) of every port that joins two LPs."""
        src, dst = self.lp_of_node[self.topology.port_src], self.lp_of_node[self.topology.port_dst]
        between = src != dst
        return src[between], dst[between], self.port_hops[between] + 1


def build_topology(config: Config) -> Topology:
    """The topology that [topology] asks for."""
    t: Any = config.topology
    if t.kind == "fat-tree":
        return fat_tree(t.k, t.host_rate_bps, t.link_rate_bps, t.host_delay_ps, t.link_delay_ps, t.oversubscription)
    if t.kind == "leaf-spine":
        return leaf_spine(
            t.leaves, t.spines, t.hosts_per_leaf, t.host_rate_bps, t.spine_rate_bps, t.host_delay_ps, t.spine_delay_ps
        )
    if t.kind == "roft":
        nvlink_bps = t.nvlink_rate_bps if t.nvlink == "packets" else 0
        return rail_optimised(
            t.gpus, t.gpus_per_server, t.servers_per_rail_switch, t.nic_rate_bps, t.spine_rate_bps, t.nic_delay_ps,
            t.spine_delay_ps, t.oversubscription, nvlink_bps, t.nvlink_delay_ps if nvlink_bps else 0,
        )  # fmt: skip
    return read_ns3_topology(config.input_path(t.file), t.gpus_per_server)


def build_workload(config: Config, topology: Topology) -> WorkloadPlan:
    """The workload that [workload] asks for, on this topology's hosts."""
    w: Any = config.workload
    n_host, n_iteration = topology.n_host, config.simulation.iterations
    if w.kind == "flows":
        path = config.input_path(w.file)
        is_csv = w.format == "csv" or (w.format == "auto" and path.suffix == ".csv")
        flows = read_csv_flows(path) if is_csv else read_ns3_flows(path)
        return plan_flows(to_hosts(flows, topology.host, str(path)), n_host, w.queue_pairs, path.name)
    if w.kind == "collectives":
        jobs = [
            Collective(
                c.name, c.operation, c.size_bytes, tuple(range(n_host)) if c.gpus == "all" else tuple(c.gpus),
                c.start_ps, tuple(c.after),
            )
            for c in _after_what_they_wait_for(w.collective)
        ]  # fmt: skip
        return plan_collectives(jobs, n_host, n_iteration)
    return plan_training(training_job(w), n_host, topology.server[topology.host], n_iteration)


def _after_what_they_wait_for(collectives: list[Any]) -> list[Any]:
    """The collectives in file order, but each behind all that its `after` names; the config has ruled out circles."""
    ordered: list[Any] = []
    waiting = list(collectives)
    while waiting:
        done = {c.name for c in ordered}
        ready = next(c for c in waiting if done.issuperset(c.after))
        ordered.append(ready)
        waiting.remove(ready)
    return ordered


def training_job(w: Any) -> TrainingJob:
    """The job of a [workload] of kind "training"."""
    model = (
        PRESETS[w.preset]
        if w.preset
        else GptModel(w.model.layers, w.model.hidden, w.model.vocabulary, w.model.sequence)
    )
    return TrainingJob(
        model=model,
        tp=w.parallel.tp,
        dp=w.parallel.dp,
        pp=w.parallel.pp,
        microbatch=w.microbatch,
        n_microbatch=w.n_microbatch,
        tp_packets=w.tp == "packets",
        flops_per_s=round(w.compute.peak_flops * w.compute.efficiency),
        tp_alpha_ps=w.tp_model.alpha_ps,
        tp_bandwidth_bps=w.tp_model.bandwidth_bps,
    )


def network_parameters(config: Config, topology: Topology) -> NetworkParameters:
    """[network] in the network model's terms."""
    n = config.network
    thresholds = np.array([n.ecn_thresholds_bytes(int(rate)) for rate in topology.port_rate_bps], np.int64)
    return NetworkParameters(
        payload_bytes=n.payload_bytes,
        header_bytes=n.header_bytes,
        ack_bytes=n.ack_bytes,
        seed=config.simulation.seed,
        ecn_min_bytes=thresholds[:, 0],
        ecn_max_bytes=thresholds[:, 1],
        ecn_max_probability=n.ecn_pmax,
        dctcp_gain=n.dctcp.gain,
        dctcp_rate_increase_bps=n.dctcp.rate_increase_bps,
        dctcp_min_rate_bps=n.dctcp.min_rate_bps,
    )


def build_paths(config: Config, topology: Topology, plan: WorkloadPlan) -> Paths:
    """Every queue pair's ports, forth and back."""
    src, dst = topology.host[plan.pair_src], topology.host[plan.pair_dst]
    n = config.network
    if n.paths_file:
        return read_ns3_paths(config.input_path(n.paths_file), topology, src, dst, plan.pair_sport, plan.pair_dport)
    next_hops = read_ns3_next_hops(config.input_path(n.next_hops_file)) if n.next_hops_file else None
    return route_pairs(topology, src, dst, plan.pair_sport, plan.pair_dport, n.ecmp_seed, next_hops)


def windows(config: Config, topology: Topology, paths: Paths, n_pair: int) -> tuple[np.ndarray, int]:
    """(largest window of each queue pair in bytes, largest base round-trip time in ps)."""
    n = config.network
    data_bytes = n.payload_bytes + n.header_bytes
    rtt_ps, bdp_bytes = max_base_rtt(topology, data_bytes, n.ack_bytes)
    if n.window_kind == "pair-bdp":
        return path_base_rtt(topology, paths, data_bytes, n.ack_bytes)[1], rtt_ps
    size = n.window_bytes if n.window_kind == "fixed" else bdp_bytes
    return np.full(n_pair, size, np.int64), rtt_ps


def expected_port_hops(plan: WorkloadPlan, paths: Paths, n_port: int, payload_bytes: int) -> np.ndarray:
    """Packets, data and ACKs, that the workload's traffic puts on every port; int64[n_port]."""
    packets = np.repeat(-(-plan.pair_bytes // payload_bytes), 2)
    hops = np.zeros(n_port, np.int64)
    np.add.at(hops, paths.port, np.repeat(packets, np.diff(paths.start)))
    return hops


def _cut(config: Config, topology: Topology, port_hops: np.ndarray) -> tuple[np.ndarray, int, str]:
    """(LP of every node, threshold, why it was chosen)."""
    graph = (topology.n_node, topology.port_src, topology.port_dst, topology.port_delay_ps, topology.server)
    threshold_ps, reason = config.partition.delay_threshold_ps, "given"
    if threshold_ps is None:
        # The run's length is not known beforehand: the busiest port, always sending, is taken as the measure of time.
        time_s = (
            np.max(port_hops / topology.port_rate_bps)
            * 8
            * (config.network.payload_bytes + config.network.header_bytes)
            / 2
        )
        node_load = np.bincount(topology.port_dst, weights=port_hops, minlength=topology.n_node) / max(time_s, 1e-9)
        choice = choose_threshold(*graph, node_load)
        threshold_ps, reason = choice.threshold_ps, choice.reason
    if threshold_ps <= 0:
        raise ConfigError("[partition] delay_threshold", format_duration(threshold_ps), "a duration above zero")
    return cut_by_delay(*graph, threshold_ps), threshold_ps, reason


def build_scenario(config: Config) -> Scenario:
    """Everything a run needs, checked. Raises ConfigError."""
    try:
        return _build(config)
    except ConfigError as error:
        if not error.where.startswith("["):  # a file that the config names
            raise
        raise ConfigError(f"{config.source}: {error.where}", error.found, error.accepted) from error


def _build(config: Config) -> Scenario:
    topology = build_topology(config)
    plan = build_workload(config, topology)
    paths = build_paths(config, topology, plan)
    max_window_bytes, base_rtt_ps = windows(config, topology, paths, len(plan.pair_src))
    port_hops = expected_port_hops(plan, paths, topology.n_port, config.network.payload_bytes)
    lp_of_node, threshold_ps, reason = _cut(config, topology, port_hops)
    ahead_ps = lookahead_ps(topology.port_src, topology.port_dst, topology.port_delay_ps, lp_of_node)
    return Scenario(
        config=config,
        topology=topology,
        plan=plan,
        paths=paths,
        max_window_bytes=max_window_bytes,
        base_rtt_ps=base_rtt_ps,
        parameters=network_parameters(config, topology),
        port_hops=port_hops,
        lp_of_node=lp_of_node,
        threshold_ps=int(threshold_ps),
        threshold_reason=reason,
        lookahead_ps=min(ahead_ps, MAX_LOOKAHEAD_PS),
    )
