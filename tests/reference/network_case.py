"""A small network with flows, as the engine's inputs: what tests of `models.network` build, run and compare."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from models.network.build import NetworkParameters
from models.network.model import NetworkModel
from models.topology.graph import Topology
from models.topology.routing import Paths, max_base_rtt, route_pairs
from models.workload.flows import FlowList, plan_flows
from models.workload.plan import WorkloadPlan
from partition.lps import cut_by_delay, lookahead_ps
from pdes.engine.exchange import World
from pdes.engine.round import make_loop, run_rounds
from pdes.engine.time_index import NEVER
from reference.network_twin import NetworkTwin, TwinFlow, TwinParameters

MAX_LOOKAHEAD_PS = 10**12
Flow = tuple[int, int, int, int]
"""(source host, destination host, bytes, start in ps)"""


@dataclass
class Outcome:
    """What a run gave: every flow as (start, delivered, finish, marks) by id, every port by id, every task row."""

    flows: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    ports: list[tuple[int, int, int]] = field(default_factory=list)  # (tx bytes, largest queue, marks)
    tasks: list[tuple[int, ...]] = field(default_factory=list)  # columns of `state.TASK_COLUMNS`, by id
    n_hop: int = 0
    model: NetworkModel | None = None


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

        def sink(flow: np.ndarray, arrival: np.ndarray, task: np.ndarray) -> None:
            delivered.update(map(tuple, arrival.tolist()))
            for flow_id, _, _, start_ps, finish_ps, marks, _ in flow.tolist():
                assert flow_id not in outcome.flows, f"flow {flow_id} finished twice"
                outcome.flows[flow_id] = start_ps, delivered.pop(flow_id), finish_ps, marks
            outcome.tasks.extend(tuple(row) for row in task.tolist())

        rank_of_lp = np.zeros(int(lp_of_node.max()) + 1, np.int64)
        model = NetworkModel(
            t,
            self.paths,
            self.plan,
            self.window_bytes,
            lp_of_node,
            rank_of_lp,
            ahead_ps,
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
    ) -> Outcome:
        """Run the case on the engine. each_round is called with the model after every round."""
        outcome = Outcome()
        model, ahead_ps = self.model(threshold_ps or self.thresholds_ps()[0], outcome)
        loop = make_loop(ahead_ps, stop_ps)
        tick = (lambda: each_round(model)) if each_round else None
        run_rounds(model, loop, model.exchange, tick, pause_every_s=0 if each_round else 0.2)
        model.flush()
        outcome.tasks.sort()
        ports, marks = model.state.fabric.ports, model.state.fabric.port_info["ecn_marks"]
        columns = (ports["tx_bytes"].tolist(), ports["max_queued_bytes"].tolist(), marks.tolist())
        outcome.ports = list(zip(*columns, strict=True))
        outcome.n_hop, outcome.model = int(model.state.fabric.counters[0]), model
        return outcome

    def run_twin(self) -> Outcome:
        """Run the same flows on the plain twin."""
        p = self.parameters
        twin = NetworkTwin(
            self.topology,
            self.paths,
            [TwinFlow(*flow) for flow in self.flow_list],
            self.window_bytes.tolist(),
            TwinParameters(
                p.payload_bytes, p.header_bytes, p.ack_bytes, p.seed, p.ecn_min_bytes.tolist(),
                p.ecn_max_bytes.tolist(), p.ecn_max_probability, p.dctcp_gain, p.dctcp_rate_increase_bps,
                p.dctcp_min_rate_bps,
            ),
        ).run()  # fmt: skip
        flows = {i: (f.start_ps, f.delivered_ps, f.finish_ps, f.ecn_marks) for i, f in twin.flows.items()}
        return Outcome(flows, [(p.tx_bytes, p.max_queue_bytes, p.ecn_marks) for p in twin.ports], [], twin.n_hop)


def make_parameters(topology: Topology, ecn_at_100g: tuple[int, int] = (300_000, 300_000), **keys) -> NetworkParameters:
    """Parameters with every default written out, so that engine and twin are told the same."""
    low, high = ([b * int(rate) // 10**11 for rate in topology.port_rate_bps] for b in ecn_at_100g)
    given = {"dctcp_rate_increase_bps": 615_000_000} | keys
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
) -> NetworkCase:
    """A case of a flow list; flow ids are the order of the list."""
    table = np.array(flows, np.int64).reshape(-1, 4)
    columns = [table[:, k].copy() for k in range(4)]
    plan = plan_flows(FlowList(*columns, np.full(len(flows), 100), ("",) * len(flows)), topology.n_host, queue_pairs)
    case = make_plan_case(topology, plan, parameters, window_bytes)
    order = np.argsort(plan.operations["flow"])
    pair = plan.slots[order].tolist()
    listed = tuple((i, pair[i], size, start) for i, (_, _, size, start) in enumerate(flows))
    return replace(case, flow_list=listed)
