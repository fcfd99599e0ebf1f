"""The scenario of a config: all parts together, cut into LPs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from models.network.flow_mode.make import least_latency_ps
from models.network.state.parameters import NetworkParameters, used_ports
from models.topology.delays import check_delays
from models.topology.graph import Topology
from models.topology.ns3_time import truncated
from models.topology.routing import NextHops, Paths
from models.workload.plan import WorkloadPlan
from partition.lps import NO_LOOKAHEAD_PS, NO_TIES, Ties, cut_by_delay, lookahead_ps, ties_lookahead_ps
from partition.placement import Method, place
from partition.threshold import choose_threshold
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario.control import Control, find_control, law_identity
from pdes.scenario.inputs import build_paths, build_workload, given_next_hops
from pdes.scenario.network import network_parameters
from pdes.scenario.routing import override_paths
from pdes.scenario.skipping import usable
from pdes.scenario.topology import build_topology, delays_from
from pdes.scenario.windows import find_windows
from pdes.units import PS_PER_NS, PS_PER_S, format_duration

ROUNDS_PER_SAMPLE = 4
MAX_LOOKAHEAD_PS = 10**7  # where something looks at the network: it does so at round ends
HOPS_PER_ROUND = 2**23  # elsewhere, so that signals and progress wait for a third of a second at most


@dataclass(frozen=True)
class Scenario:
    """What a run simulates, and how it is cut; the same on every rank."""

    config: Config
    topology: Topology
    plan: WorkloadPlan
    paths: Paths
    max_window_bytes: np.ndarray  # int64[n_pair]
    base_rtt_ps: int
    path_rtt_ps: np.ndarray  # int64[n_pair]  base round trips on the pairs' own paths
    control: Control
    parameters: NetworkParameters
    port_hops: np.ndarray  # int64[n_port]  expected packet-hops of the whole run
    lp_of_node: np.ndarray
    threshold_ps: int
    threshold_reason: str
    lookahead_ps: int
    short_round_ps: int
    """For who looks at rounds: the least delay of a link between LPs; if there is none, the longest of a link."""
    longest_round_ps: int
    """Of rounds that end by what may leave an LP first, not by the next event; 0: there are none."""

    @property
    def n_lp(self) -> int:
        """Logical processes."""
        return int(self.lp_of_node.max()) + 1

    @property
    def stop_ps(self) -> int | None:
        """Last instant of the run, if the config names one. ns-3's is cut off to whole ns, and not simulated itself."""
        stop_ps = self.config.simulation.stop_time_ps
        if stop_ps is None or not self.config.network.is_ns3:
            return stop_ps
        return truncated(stop_ps / PS_PER_S) * PS_PER_NS - 1

    def identity(self) -> dict[str, Any]:
        """The keys that determine the result: threshold, the control's parameters and flow mode's numbers resolved."""
        keys = self.config.resolved()
        keys["partition"]["delay_threshold_ps"] = self.threshold_ps
        keys["network"] = law_identity(keys["network"], self.control)
        if self.parameters.flow is not None:
            keys["wormhole"]["flow"]["numbers"] = self.parameters.flow.facts
        return keys

    def lp_load(self) -> np.ndarray:
        """Expected packet-hops that arrive in each LP, int64[n_lp]."""
        load = np.zeros(self.n_lp, np.int64)
        np.add.at(load, self.lp_of_node[self.topology.port_dst], self.port_hops)
        return load

    def rank_of_lp(self, n_rank: int, load: np.ndarray | None = None) -> np.ndarray:
        """Placement of the LPs on ranks, int64[n_lp]. load: [n_lp], what each has taken; None: what is expected."""
        return place(self.lp_load() if load is None else load, self.lp_edges(), n_rank, self.placement)

    @property
    def placement(self) -> Method:
        """How LPs are placed, which "auto" leaves to whether anything can be skipped."""
        chosen = self.config.partition.placement
        if chosen != "auto":
            return chosen
        return "dealt" if usable(self.config, self.parameters)[0] else "metis"

    @property
    def may_begin_alone(self) -> bool:
        """Whether rank 0 begins by itself where there are several, see `pdes.simulation.spreading`."""
        may_skip = self.config.wormhole.mode == "flow" or bool(usable(self.config, self.parameters)[0])
        return self.config.partition.start == "auto" and may_skip

    def lp_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(LP, LP, expected messages) of every port that joins two LPs."""
        src, dst = self.lp_of_node[self.topology.port_src], self.lp_of_node[self.topology.port_dst]
        between = src != dst
        return src[between], dst[between], self.port_hops[between] + 1


class Cut(NamedTuple):
    """A network cut into LPs, and why at this threshold."""

    lp_of_node: np.ndarray
    threshold_ps: int
    reason: str
    lookahead_ps: int
    short_round_ps: int


def expected_port_hops(plan: WorkloadPlan, paths: Paths, n_port: int, payload_bytes: int) -> np.ndarray:
    """Packets, data and ACKs, that the workload's traffic puts on every port; int64[n_port]."""
    packets = np.repeat(-(-plan.pair_bytes // payload_bytes), 2)
    hops = np.zeros(n_port, np.int64)
    np.add.at(hops, paths.port, np.repeat(packets, np.diff(paths.start)))
    return hops


def shortest_time_s(config: Config, topology: Topology, port_hops: np.ndarray) -> float:
    """The run's length is not known beforehand: the busiest port, always sending, is taken as the measure of time."""
    packet_bits = 8 * (config.network.payload_bytes + config.network.header_bytes)
    return float(np.max(port_hops / topology.port_rate_bps)) * packet_bits / 2


def _ties(topology: Topology, plan: WorkloadPlan) -> Ties:
    """What GPUs of a server do together: a timed collective, each member with the next."""
    if not len(plan.group_stream):
        return NO_TIES
    node = topology.host[plan.streams["gpu"][plan.group_stream]].astype(np.int64)
    group = np.repeat(np.arange(len(plan.group_time_ps)), np.diff(plan.group_start))
    in_one = np.flatnonzero(group[1:] == group[:-1])
    return Ties(node[in_one], node[in_one + 1], plan.group_time_ps[group[in_one]])


def _cut(
    config: Config, topology: Topology, plan: WorkloadPlan, port_hops: np.ndarray, used: np.ndarray, time_s: float
) -> Cut:  # fmt: skip
    """Without fast-forwarding only links that carry something count, as they do for the lookahead.

    A server is then cut between its GPUs, too, where their collectives last long enough. used: bool[n_port].
    time_s: of `shortest_time_s`.
    """
    ports = (topology.port_src, topology.port_dst, topology.port_delay_ps)
    server, ties = topology.server, NO_TIES
    if config.wormhole.mode == "off":
        server, ties = np.full(topology.n_node, -1, np.int64), _ties(topology, plan)
        ports = (ports[0][used], ports[1][used], ports[2][used])
    graph = (topology.n_node, *ports, server)
    threshold_ps, reason, lp_of_node = config.partition.delay_threshold_ps, "given", None
    if threshold_ps is None:
        node_load = np.bincount(topology.port_dst, weights=port_hops, minlength=topology.n_node) / max(time_s, 1e-9)
        choice = choose_threshold(*graph, node_load, ties)
        threshold_ps, reason, lp_of_node = choice.threshold_ps, choice.reason, choice.lp_of_node
    if threshold_ps <= 0:
        raise ConfigError("[partition] delay_threshold", format_duration(threshold_ps), "a duration above zero")
    if lp_of_node is None:
        lp_of_node = cut_by_delay(*graph, threshold_ps, ties)
    link_ps = lookahead_ps(*ports, lp_of_node)
    ahead_ps = min(link_ps, ties_lookahead_ps(lp_of_node, ties))
    short_ps = link_ps if link_ps < NO_LOOKAHEAD_PS else int(ports[2].max(initial=MAX_LOOKAHEAD_PS))
    return Cut(lp_of_node, threshold_ps, reason, ahead_ps, short_ps)


def _longest_round_ps(config: Config, port_hops: np.ndarray, short_round_ps: int, time_s: float) -> int:
    """So that what looks at the network, at round ends, comes in time; where nothing does, by what a round has to do.

    With fast-forwarding rounds decide what is skipped, so what is sampled does not change them. Ranks that seldom wait
    for each other are not held up where a core is shared with another process.
    """
    if config.wormhole.mode != "off":
        return MAX_LOOKAHEAD_PS
    interval_ps = config.output.sample_interval_ps
    if interval_ps is not None:
        return min(MAX_LOOKAHEAD_PS, max(interval_ps // ROUNDS_PER_SAMPLE, short_round_ps))
    if config.network.deadlock_check_ps is not None:
        return MAX_LOOKAHEAD_PS
    longest_ps, full_ps = MAX_LOOKAHEAD_PS, _full_round_ps(port_hops, time_s)
    while 2 * longest_ps <= min(full_ps, PS_PER_S):
        longest_ps *= 2
    return longest_ps


def _full_round_ps(port_hops: np.ndarray, time_s: float) -> int:
    """In which there are HOPS_PER_ROUND if all ports are as busy as can be. time_s: of `shortest_time_s`."""
    hops_per_s = float(port_hops.sum()) / max(time_s, 1e-9)
    return int(HOPS_PER_ROUND * PS_PER_S / max(hops_per_s, 1.0))


def _output_round_ps(config: Config, plan: WorkloadPlan, parameters: NetworkParameters, longest_ps: int) -> int:
    """See Scenario.longest_round_ps. Where packets may be dropped, pause others or choose their way, nobody knows when
    the last of a message has gone; nor what a trace's graph posts next. Looks want rounds that begin at events."""
    p = parameters
    if config.output.sample_interval_ps is not None:
        return 0
    may_repeat = p.transport is not None or p.buffer is not None or p.loss_probability is not None
    is_plain = p.routing is None and not p.link_changes and p.ns3 is None and not p.may_skip and p.flow is None
    return longest_ps if is_plain and not may_repeat and plan.graph is None and plan.n_part == 1 else 0


def build_scenario(config: Config, topology_of: Callable[[Config], Topology] = build_topology) -> Scenario:
    """Everything a run needs, checked. topology_of: for who knows it already. Raises ConfigError."""
    with said_of(config):
        begun = begin(config, find_control(config), topology_of(config))
        return complete(begun, build_paths(config, begun.topology, begun.plan, begun.next_hops))


@contextmanager
def said_of(config: Config) -> Iterator[None]:
    """What is wrong is said with its place in the config's file."""
    try:
        yield
    except OverflowError as error:
        found = "sizes, counts or times in it multiply to more than 64 bits hold"
        raise ConfigError(f"{config.source}: [workload]", found, "Accepted: smaller ones") from error
    except ConfigError as error:
        if not error.where.startswith("["):  # a file that the config names
            raise
        raise ConfigError(config.place(error.where), error.found, error.accepted) from error


class Begun(NamedTuple):
    """A scenario without the ways of its queue pairs, and what follows from them."""

    config: Config
    control: Control
    topology: Topology
    plan: WorkloadPlan
    next_hops: NextHops | None


class AlongPaths(NamedTuple):
    """What follows from paths that [network] leaves as they are."""

    rtt: tuple[np.ndarray, np.ndarray]  # of `path_base_rtt`
    port_hops: np.ndarray  # of `expected_port_hops`


def begin(config: Config, control: Control, topology: Topology) -> Begun:
    """What it sends, and by which tables. Raises ConfigError, within `said_of`."""
    return Begun(config, control, topology, build_workload(config, topology), given_next_hops(config))


def complete(begun: Begun, routes: Paths, known: AlongPaths | None = None) -> Scenario:
    """routes: of `build_paths`. known: for who has it already. Raises ConfigError, within `said_of`."""
    config, control, topology, plan, next_hops = begun
    n = config.network
    paths, fixed = override_paths(n, topology, plan, routes)
    fixed |= n.paths_file is not None
    check_delays(topology, paths, delays_from(config))
    windows = find_windows(n, control, topology, plan, paths, next_hops, None if known is None else known.rtt)
    parameters = network_parameters(config, control, topology, plan, windows, fixed)
    port_hops = expected_port_hops(plan, paths, topology.n_port, n.payload_bytes) if known is None else known.port_hops
    time_s = shortest_time_s(config, topology, port_hops)
    cut = _cut(config, topology, plan, port_hops, used_ports(topology, paths.port, parameters), time_s)
    ahead_ps = cut.lookahead_ps
    if parameters.flow is not None:
        ahead_ps = min(ahead_ps, least_latency_ps(topology, paths, parameters))
    longest_ps = _longest_round_ps(config, port_hops, cut.short_round_ps, time_s)
    return Scenario(
        config=config,
        topology=topology,
        plan=plan,
        paths=paths,
        max_window_bytes=windows.max_window_bytes,
        base_rtt_ps=windows.base_rtt_ps,
        path_rtt_ps=windows.path_rtt_ps,
        control=control,
        parameters=parameters,
        port_hops=port_hops,
        lp_of_node=cut.lp_of_node,
        threshold_ps=int(cut.threshold_ps),
        threshold_reason=cut.reason,
        lookahead_ps=min(ahead_ps, longest_ps),
        short_round_ps=min(cut.lookahead_ps, MAX_LOOKAHEAD_PS, max(1, cut.short_round_ps)),
        longest_round_ps=_output_round_ps(config, plan, parameters, longest_ps),
    )
