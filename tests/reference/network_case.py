"""A small network with flows, as the engine's inputs: what tests of `models.network` build, run and compare."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from models.congestion.law import find_law
from models.network.model import LogicalProcesses, NetworkModel
from models.network.state.parameters import WEIGHTED, BufferParameters, NetworkParameters, TransportParameters
from models.network.state.records import FLOW_COLUMNS, LAST_EVENT_PS, N_TIMEOUT, PACKET_HOPS
from models.network.watch.parts import LATEST, PartCollector
from models.network.watch.results import port_columns
from models.topology.base_rtt import max_base_rtt, path_base_rtt
from models.topology.graph import Topology, make_topology
from models.topology.routing import Paths, route_pairs
from models.workload.plan import WorkloadPlan
from models.workload.queue_pair_scaling import scale_queue_pairs
from models.workload.traffic.flows import FlowList, plan_flows
from partition.lps import cut_by_delay, lookahead_ps
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.engine.time_index import NEVER
from reference.network_twin import NetworkTwin, TwinFlow

MAX_LOOKAHEAD_PS = 10**12
US = 10**6
Flow = tuple[int, int, int, int]
"""(source host, destination host, bytes, start in ps)"""
LOSS_COLUMNS = ("drops_buffer", "drops_loss", "paused_ps", "pause_frames", "drops_link")


@dataclass
class Outcome:
    """What a run gave: every flow as (start, delivered, finish, marks) by id, every port by id, every task row."""

    flows: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    resent_bytes: dict[int, int] = field(default_factory=dict)  # by flow
    ports: list[tuple[int, ...]] = field(default_factory=list)  # (tx bytes, largest queue, marks)
    losses: list[tuple[int, ...]] = field(default_factory=list)  # see LOSS_COLUMNS; by port
    tasks: list[tuple[int, ...]] = field(default_factory=list)  # columns of `state.TASK_COLUMNS`, by id
    spent: list[tuple[int, ...]] = field(default_factory=list)  # SPENT_COLUMNS and program.PARTS, in order of ends
    n_hop: int = 0
    n_timeout: int = 0
    sent_bytes: int = 0  # payload, resends included
    last_event_ps: int = 0
    model: Any = None  # the engine's NetworkModel


@dataclass(frozen=True)
class NetworkCase:
    """A topology with a workload, its paths, windows and parameters."""

    topology: Topology
    plan: WorkloadPlan
    paths: Paths
    window_bytes: np.ndarray
    parameters: NetworkParameters
    flow_list: tuple[tuple[int, int, int, int], ...] = ()  # (id, queue pair, bytes, start) if it is a flow list

    def thresholds_ps(self) -> list[int]:
        """One delay threshold for each way to cut the topology, finest first."""
        return sorted({1, *(int(d) + 1 for d in self.topology.port_delay_ps)})

    def model(self, threshold_ps: int, outcome: Outcome) -> tuple[NetworkModel, int]:
        """A model of the case on one rank, and its lookahead; finished rows go to the outcome."""
        t = self.topology
        lp_of_node = cut_by_delay(t.n_node, t.port_src, t.port_dst, t.port_delay_ps, t.server, threshold_ps)
        ahead_ps = min(lookahead_ps(t.port_src, t.port_dst, t.port_delay_ps, lp_of_node), MAX_LOOKAHEAD_PS)
        delivered: dict[int, int] = {}

        parts = PartCollector(self.plan.n_part)

        def sink(flow: np.ndarray, arrival: np.ndarray, task: np.ndarray, spent: np.ndarray) -> None:
            if self.plan.n_part > 1:
                flow, arrival = _join(parts, flow), parts.arrivals(arrival)
            delivered.update(map(tuple, arrival.tolist()))
            for flow_id, _, _, start_ps, finish_ps, marks, _, resent in flow.tolist():
                assert flow_id not in outcome.flows, f"flow {flow_id} finished twice"
                outcome.resent_bytes[flow_id] = resent
                outcome.flows[flow_id] = start_ps, delivered.pop(flow_id), finish_ps, marks
            outcome.tasks.extend(tuple(row) for row in task.tolist())
            outcome.spent.extend(tuple(row) for row in spent.tolist())

        rank_of_lp = np.zeros(int(lp_of_node.max()) + 1, np.int64)
        model = NetworkModel(
            t,
            self.paths,
            self.plan,
            self.window_bytes,
            LogicalProcesses(lp_of_node, rank_of_lp, ahead_ps),
            World(),
            self.parameters,
            sink,
        )
        return model, ahead_ps

    def run(
        self,
        threshold_ps: int | None = None,
        each_round: Callable[[NetworkModel], None] | None = None,
        stop_ps: int = NEVER - 1,
        prepare: Callable[[NetworkModel], None] | None = None,
        longest_round_ps: int = MAX_LOOKAHEAD_PS,
    ) -> Outcome:
        """Run the case on the engine. each_round is called with the model after every round, prepare before all."""
        outcome = Outcome()
        model, ahead_ps = self.model(threshold_ps or self.thresholds_ps()[0], outcome)
        if prepare:
            prepare(model)
        loop = make_loop(min(ahead_ps, longest_round_ps), stop_ps, model.first_look_ps())
        tick = (lambda: each_round(model)) if each_round else None
        run_rounds(model, loop, model.exchange, tick, pause_every_s=0 if each_round else 0.2)
        model.flush()
        outcome.tasks.sort()
        nodes = np.zeros(self.topology.n_node, np.int64)
        columns = port_columns(model.state, self.topology, nodes, 0)
        outcome.ports = _rows(columns, ("tx_bytes", "max_queue_bytes", "ecn_marks"))
        outcome.losses = _rows(columns, LOSS_COLUMNS)
        counters = model.state.fabric.counters
        outcome.n_hop, outcome.n_timeout, outcome.last_event_ps = (
            int(counters[i]) for i in (PACKET_HOPS, N_TIMEOUT, LAST_EVENT_PS)
        )
        outcome.sent_bytes = int(model.state.nic.queue_pairs["sent_bytes"].sum())
        outcome.model = model
        return outcome

    def run_twin(self, max_hop: int = 10**7) -> Outcome:
        """Run the same flows on the plain twin, or the first max_hop transmissions of it."""
        flows = [TwinFlow(*flow) for flow in self.flow_list]
        windows, p = self.window_bytes.tolist(), self.parameters
        twin = NetworkTwin(self.topology, self.paths, flows, windows, p, self.plan.n_part).run(max_hop)
        return Outcome(
            flows={i: (f.start_ps, f.delivered_ps, f.finish_ps, f.ecn_marks) for i, f in twin.flows.items()},
            resent_bytes={i: f.resent_bytes for i, f in twin.flows.items()},
            ports=[(p.tx_bytes, p.max_queue_bytes, p.ecn_marks) for p in twin.ports],
            losses=[_losses(port) for port in twin.ports],
            n_hop=twin.n_hop,
            n_timeout=twin.n_timeout,
            sent_bytes=twin.sent_bytes,
            last_event_ps=twin.last_event_ps,
        )


def _losses(port: Any) -> tuple[int, ...]:
    return port.drops["buffer"], port.drops["loss"], port.paused_ps, port.n_pause, port.drops["link"]


def _join(parts: PartCollector, rows: np.ndarray) -> np.ndarray:
    """Rows of flows from rows of their parts. rows: int64[n, 8], columns of `state.FLOW_COLUMNS`."""
    names = [*FLOW_COLUMNS[1:], *LATEST[1:]]
    columns = dict(zip(names, np.pad(rows[:, 1:], ((0, 0), (0, 2))).T, strict=True))
    ids, columns = parts.flows(rows[:, 0], columns)
    return np.stack([ids, *(columns[name] for name in FLOW_COLUMNS[1:])], axis=1)


def _rows(columns: dict[str, np.ndarray], names: tuple[str, ...]) -> list[tuple[int, ...]]:
    return list(zip(*(columns[name].tolist() for name in names), strict=True))


def assert_equal(engine: Outcome, twin: Outcome) -> None:
    """The same flows to the picosecond, the same ports to the byte."""
    assert engine.flows == twin.flows
    assert engine.resent_bytes == twin.resent_bytes
    for what in ("ports", "losses"):
        pairs = zip(getattr(engine, what), getattr(twin, what), strict=True)
        differ = {i: (e, t) for i, (e, t) in enumerate(pairs) if e != t}
        assert not differ, f"{what} (engine, twin): {differ}"
    for what in ("n_hop", "n_timeout", "sent_bytes", "last_event_ps"):
        assert getattr(engine, what) == getattr(twin, what), what


def make_parameters(topology: Topology, ecn_at_100g: tuple[int, int] = (300_000, 300_000), **keys) -> NetworkParameters:
    """Parameters with every default written out, so that engine and twin are told the same."""
    low, high = ([b * int(rate) // 10**11 for rate in topology.port_rate_bps] for b in ecn_at_100g)
    law = {key.removeprefix("dctcp_"): keys.pop(key) for key in list(keys) if key.startswith("dctcp_")}
    values = {"gain": 0.0625, "rate_increase_bps": 615_000_000, "min_rate_bps": 10**9} | law
    given = {"ecn_max_probability": 1.0, "law_values": values} | keys
    return NetworkParameters(ecn_min_bytes=np.array(low), ecn_max_bytes=np.array(high), **given)


def make_plan_case(
    topology: Topology, plan: WorkloadPlan, parameters: NetworkParameters | None = None, window_bytes: int | None = None
) -> NetworkCase:
    """A case of any workload; without a window, one bandwidth-delay product for all."""
    p = parameters or make_parameters(topology)
    src, dst = topology.host[plan.pair_src], topology.host[plan.pair_dst]
    paths = route_pairs(topology, src, dst, plan.pair_sport, plan.pair_dport)
    if window_bytes is None:
        window_bytes = max_base_rtt(topology, p.payload_bytes + p.header_bytes, p.ack_bytes)[1]
    return NetworkCase(topology, plan, paths, np.full(len(plan.pair_src), window_bytes, np.int64), p)


def make_flow_case(
    topology: Topology,
    flows: list[Flow],
    parameters: NetworkParameters | None = None,
    window_bytes: int | None = None,
    queue_pairs: str = "per-flow",
    n_part: int = 1,
) -> NetworkCase:
    """A case of a flow list; flow ids are the order of the list. n_part: queue pairs that share each message."""
    table = np.array(flows, np.int64).reshape(-1, 4)
    src, dst, size_bytes, start_ps = (table[:, k].copy() for k in range(4))
    listed = FlowList(src, dst, size_bytes, start_ps, np.full(len(flows), 100), ("",) * len(flows))
    plan = scale_queue_pairs(plan_flows(listed, topology.n_host, queue_pairs), n_part)
    case = make_plan_case(topology, plan, parameters, window_bytes)
    order = np.argsort(plan.operations["flow"])
    pair = plan.slots[order].tolist()
    flow_list = tuple((i, pair[i], size, start) for i, (_, _, size, start) in enumerate(flows))
    return replace(case, flow_list=flow_list)


def squeezed(law_name: str, n_pool: int, pfc: bool, loss: float = 0.0, **keys) -> NetworkCase:
    """Six hosts send to one through two switches, with room for n_pool packets and three priorities."""
    links = [(i, 7 + (i == 6), 10**11, US) for i in range(7)] + [(7, 8, 4 * 10**10, US // 2)]
    names = [f"host{i}" for i in range(7)] + ["left", "right"]
    topology = make_topology("squeeze", names, [False] * 7 + [True] * 2, [*range(7), -1, -1], links)
    law = find_law(law_name)
    largest = 1048 + law.header_bytes
    flows = [(i % 6, 6, 40_000 + 997 * i, US * i // 3 + (i > 11) * 300 * US) for i in range(15)]
    headroom = np.where(topology.is_switch[topology.port_dst], 60_000 * pfc, 0)
    aside = np.bincount(topology.port_dst, weights=(headroom + 2 * largest) * 3, minlength=9).astype(np.int64)
    buffer = BufferParameters(aside + n_pool * largest, np.full(topology.n_port, 512), headroom, 2 * largest, pfc)
    parameters = NetworkParameters(
        header_bytes=48 + law.header_bytes, law=law, n_queue=4, scheduler=WEIGHTED, queue_weight=(1, 3, 2, 1),
        buffer=buffer, loss_probability=np.full(topology.n_port, loss),
        transport=TransportParameters(timeout_ps=200 * US, nack_interval_ps=20 * US, cnp_interval_ps=4 * US),
    )  # fmt: skip
    case = make_flow_case(topology, flows, replace(parameters, **keys), queue_pairs="per-pair")
    rtt_ps = path_base_rtt(topology, case.paths, largest, 60)[0]
    queue = 1 + np.arange(len(rtt_ps)) % 3
    return replace(case, parameters=replace(case.parameters, base_rtt_ps=rtt_ps, pair_queue=queue))
