"""The packet network as a model of the engine: one rank's state, its shortages, its rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from models.congestion.interface import EVENT
from models.network.build.arrays import (
    NetworkState,
    QueuePairs,
    arrange_pairs,
    grow_messages,
    grow_packets,
    is_managed,
    make_fabric,
    smallest_packet_bytes,
)
from models.network.build.buffers import make_buffers
from models.network.build.group_peers import other_ranks, with_peers
from models.network.build.nic import grow_ranges, make_nic
from models.network.build.routing import make_routing
from models.network.build.work import make_rows, make_streams, make_work
from models.network.flow_mode.audit import finish_predicted, run_audited_rounds
from models.network.flow_mode.audit_state import SHORT_OF_FOLLOWED, Audit, grow_followed, make_audit, network_of
from models.network.flow_mode.flow_rounds import run_flow_rounds
from models.network.flow_mode.hybrid import run_hybrid_rounds
from models.network.flow_mode.make import make as make_flow_mode
from models.network.flow_mode.sampling import FlowModeSampler
from models.network.flow_mode.state import FlowMode, grow_posts, grow_waiting, n_post_room
from models.network.flow_mode.transfers import SHORT_OF_POSTS, SHORT_OF_WAITING
from models.network.host.congestion import FAULT_LAW_RAISED
from models.network.host.host import run_hosts
from models.network.host.selective import FAULT_TOO_MANY_ROWS
from models.network.host.shortages import SHORT_OF_MESSAGES, SHORT_OF_PACKETS, SHORT_OF_RANGES, SHORT_OF_ROWS
from models.network.link.wire_time import transmission_ps
from models.network.managed_rounds import run_managed_rounds
from models.network.outputs import IS_KNOWN, MOST_PS, find_outputs, no_outputs
from models.network.round_looks import run_managed_rounds_with_looks, run_rounds_with_looks
from models.network.rounds import (
    SHORT_OF_ARRIVING_PACKETS,
    STOPPED_BY_FAULT,
    WORDS_PER_ARRIVAL,
    WORDS_PER_PACKET,
    pack,
    run_rounds,
    take_in,
    unpack_arrivals,
)
from models.network.skip.fast_forward import FastForward
from models.network.state.pair_facts import PairFacts, make_pair_facts
from models.network.state.parameters import NetworkParameters, used_ports
from models.network.state.records import (
    FAULT,
    FAULT_NODE,
    LAW_ON_ACK,
    LAW_ON_CNP,
    LAW_ON_TIMEOUT,
    LAW_ON_TIMER,
    MAY_OVERTAKE,
    N_ARRIVAL_ROW,
    N_EXTRA,
    N_FLOW_ROW,
    N_RTT_ROW,
    N_SPENT_ROW,
    N_TASK_ROW,
)
from models.network.streams.stream import run_stream
from models.network.switch.managed_switch import run_managed_switches
from models.network.switch.switch import FAULT_QUEUE_OVERFLOW, run_switches
from models.network.watch.observers import Observer, look_at, next_look_ps
from models.topology.graph import Topology
from models.topology.routing import Paths
from models.workload.plan import WorkloadPlan
from pdes.engine.compiling.straight import let_go
from pdes.engine.exchange import World
from pdes.engine.foreign import clock_ns
from pdes.engine.round import END_RUN, close_round, make_loop, open_round
from pdes.engine.round_exchange import ExchangeState, make_exchange
from pdes.engine.time_index import NEVER
from pdes.errors import CapacityError, SimError
from pdes.skipping.fluid.flow_table import MOST_MESSAGES

SHORTEST_PS = 500  # ns-3's truncated times can be 0; more than one packet in that time would not leave
HANDLER_NAMES = {
    LAW_ON_ACK: "on_ack", LAW_ON_CNP: "on_cnp", LAW_ON_TIMER: "on_timer", LAW_ON_TIMEOUT: "on_timeout",
}  # fmt: skip

RowSink = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
"""Takes rows of flows, arrivals, tasks and spent time, int64[n, columns of `state`]; the arrays are reused later."""


class LogicalProcesses(NamedTuple):
    """How the nodes are divided into logical processes, and these into ranks."""

    lp_of_node: np.ndarray  # int64[n_node]
    rank_of_lp: np.ndarray  # int64[n_lp]
    lookahead_ps: int  # least delay of a link between two of them


class NetworkModel:
    """The share of one rank: `run_rounds` and `relieve` for the engine, `state` for tests and results."""

    def __init__(
        self,
        topology: Topology,
        paths: Paths,
        plan: WorkloadPlan,
        max_window_bytes: np.ndarray,
        processes: LogicalProcesses,
        world: World,
        parameters: NetworkParameters,
        sink: RowSink,
    ) -> None:
        self.topology, self.plan, self.sink = topology, plan, sink
        lp_of_node = processes.lp_of_node
        self.rank_of_node = processes.rank_of_lp[lp_of_node]
        here = self.rank_of_node == world.rank
        routing, is_routed = parameters.routing, None
        if routing is not None:
            is_routed = np.ones(len(plan.pair_src), np.bool_) if routing.fixed_pair is None else ~routing.fixed_pair
        self.pairs: QueuePairs = world.once_per_machine(lambda: arrange_pairs(paths, is_routed))
        facts: PairFacts = world.once_per_machine(
            lambda: make_pair_facts(topology, self.pairs, plan, max_window_bytes, parameters)
        )
        fabric = make_fabric(topology, self.pairs, plan, lp_of_node, here, parameters)
        nic, self.control = make_nic(topology, self.pairs, facts, plan, parameters, fabric, here)
        streams: np.ndarray = world.once_per_machine(lambda: make_streams(topology, plan))
        work = make_work(streams, self.pairs, facts.slots, plan, fabric, here)
        given = parameters if parameters.has_packets else replace(parameters, link_changes=())  # nothing to lose
        buffers = make_buffers(topology, given, fabric.ports, fabric.nodes, here)
        routing = make_routing(topology, parameters)
        self.state = NetworkState(fabric, buffers, routing, nic, work, make_rows(plan.burst, parameters.rtt_flow))
        self.outputs = no_outputs()
        self.observers: list[Observer] = []  # whoever runs the model puts them here before it starts
        self.fast_forward: FastForward | None = None  # and this
        self.flow: FlowMode | None = None
        self.audit: Audit | None = None
        self.flow_sampler: FlowModeSampler | None = None  # and this, which is one of the observers
        if parameters.flow is not None:
            fabric.counters[MAY_OVERTAKE] = parameters.is_hybrid  # markers lie among packets
            self.flow = make_flow_mode(topology, self.pairs, nic, routing, parameters, here, world.gathering)
            if parameters.flow.audited:
                self.audit = make_audit(self.flow, parameters.flow.audited, parameters.seed)
        self._run_rounds, self._run_with_looks = run_rounds, run_rounds_with_looks
        self._run_flow = run_hybrid_rounds if parameters.is_hybrid else run_flow_rounds
        self._run_flow = self._run_flow if self.audit is None else run_audited_rounds
        if is_managed(parameters):
            self._run_rounds, self._run_with_looks = run_managed_rounds, run_managed_rounds_with_looks
        group, group_rank = other_ranks(work, self.rank_of_node, world.rank)
        used = used_ports(topology, self.pairs.path_port[self.pairs.path_port >= 0], parameters)
        self._is_used = used | used[topology.port_peer]  # ranks are each other's neighbours
        peers, self.port_peer_row = self._neighbours(world.rank, group_rank, parameters.has_fluid)
        self.state = self.state._replace(work=with_peers(work, group, np.searchsorted(peers, group_rank)))
        self.exchange = make_exchange(
            world, peers, self._exchange_words(processes.lookahead_ps, peers, parameters, world.rank)
        )

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """int64[n_qp] each: the ranks of every queue pair's sender and receiver."""
        facts = self.state.nic.facts
        return self.rank_of_node[facts["node"]], self.rank_of_node[facts["receiver"]]

    def _neighbours(self, rank: int, group_rank: np.ndarray, has_fluid: bool) -> tuple[list[int], np.ndarray]:
        """Ranks at the other end of this rank's links, and for each port to another rank its row among them.

        group_rank: ranks with which it shares groups of streams. has_fluid: with the ranks of queue pairs' receivers,
        and all ports into these ranks, as markers take no way.
        """
        src, dst = self.rank_of_node[self.topology.port_src], self.rank_of_node[self.topology.port_dst]
        found = [dst[(src == rank) & self._is_used], group_rank]
        if has_fluid:
            senders, receivers = self._ends()
            found += [receivers[senders == rank], senders[receivers == rank]]
        peers = [one for one in np.unique(np.concatenate(found)).tolist() if one != rank]
        row = np.full(int(max(self.rank_of_node.max(), rank)) + 1, -1, np.int64)
        row[peers] = np.arange(len(peers))
        return peers, np.where((src == rank) | has_fluid, row[dst], -1)

    def _exchange_words(self, lookahead_ps: int, peers: list[int], parameters: NetworkParameters, rank: int) -> int:
        """Room for every packet that can start on the links to one neighbour within a round."""
        small, is_ns3 = smallest_packet_bytes(parameters), parameters.ns3 is not None
        most = 0
        for i in range(len(peers)):
            of_peer = (self.port_peer_row == i) & self._is_used
            ports = np.flatnonzero(of_peer & (self.rank_of_node[self.topology.port_src] == rank))
            back = self.topology.port_peer[ports]
            for direction in (ports, back):
                rates = self.topology.port_rate_bps[direction]
                times = [max(SHORTEST_PS, int(transmission_ps(small, int(r), is_ns3))) for r in rates]
                most = max(most, sum(lookahead_ps // time_ps + 2 for time_ps in times))
        if parameters.has_fluid:
            senders, receivers = self._ends()
            most += (MOST_MESSAGES + 1) * int(((senders == rank) != (receivers == rank)).sum())
        n_word = (int(most) + 1) * (WORDS_PER_PACKET + int(self.state.fabric.constants[N_EXTRA]))
        return n_word + WORDS_PER_ARRIVAL * len(self.state.work.joined)

    def know_outputs(self, lp_of_node: np.ndarray, lookahead_ps: int, longest_ps: int) -> None:
        """Let rounds end one lookahead behind what may leave a logical process first, after longest_ps at the latest.

        For runs without looks, drops, pauses and routes that change, whose messages go by one queue pair each.
        """
        self.outputs = find_outputs(self.topology, self.pairs, self.plan, self.state.nic, lp_of_node)
        words, group_ps = self.outputs.words, self.plan.group_time_ps.min(initial=NEVER)
        words[IS_KNOWN], words[MOST_PS] = 1, max(0, min(longest_ps, int(group_ps)) - lookahead_ps)

    def run_rounds(self, loop: np.ndarray, ex: ExchangeState) -> int:
        """Compiled rounds, see `models.network.rounds`."""
        if self.flow is not None:
            return self._run_flow(loop, ex, self._flow_network(), self.port_peer_row, self.flow)
        looks = None if self.fast_forward is None else self.fast_forward.round_looks(next_look_ps(self.observers))
        if looks is None:
            return self._run_rounds(loop, ex, self.state, self.port_peer_row, self.outputs)
        return self._run_with_looks(loop, ex, self.state, self.port_peer_row, self.outputs, looks)

    def _flow_network(self) -> Any:
        """What rounds in flow mode are about."""
        return self.state if self.audit is None else network_of(self.state, self.audit)

    def finish_audit(self) -> None:
        """The run is over: in flow mode, see to it that all ends that would have."""
        while self.audit is not None and (code := finish_predicted(self.state.fabric, self.audit)) != 0:
            self.relieve(code)

    def look(self, horizon_ps: int) -> int:
        """Let the observers look, see `models.network.watch.observers`, and fast-forwarding decide."""
        fast = self.fast_forward
        if fast is not None or self.flow_sampler is not None:
            self._take_in()
        if fast is not None:
            fast.grow = self._grow_packets
            if not fast.thaw(self.state, horizon_ps):
                return fast.limit_ps
        next_ps = look_at(self.observers, self.state, horizon_ps)
        if fast is None or next_ps == END_RUN:
            return next_ps
        return min(next_ps, fast.look(self.state, horizon_ps))

    def _grow_packets(self) -> NetworkState:
        self.relieve(SHORT_OF_PACKETS)
        return self.state

    def first_look_ps(self) -> int:
        """When the first look is due, for `make_loop`."""
        own_ps = NEVER if self.fast_forward is None else self.fast_forward.next_look_ps
        return min(own_ps, next_look_ps(self.observers))

    @property
    def limit_ps(self) -> int:
        """Where fast-forwarding or samples of flow mode have to look before anything else happens, NEVER: nowhere."""
        if self.flow_sampler is not None:
            return self.flow_sampler.limit_ps
        return NEVER if self.fast_forward is None else self.fast_forward.limit_ps

    def _take_in(self) -> None:
        """Put what the last exchange brought on its links, so that all there is lies where it belongs."""
        while len(self.exchange.n_in) and not take_in(self.state.fabric, self.state.work, self.exchange):
            self.relieve(SHORT_OF_ARRIVING_PACKETS)

    def kernels(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """What rounds are made of, kernels and arguments like those that they get: callees before their callers.

        The first six are the same for all runs.
        """
        fabric, buffers, routing, nic, work, rows = self.state
        loop, ex = make_loop(1), self.exchange
        is_managed = self._run_rounds is run_managed_rounds
        own = (buffers, routing) if is_managed else ()
        if self.flow is not None:
            rounds = (self._run_flow, (loop, ex, self._flow_network(), self.port_peer_row, self.flow))
            return [(run_hosts, (fabric, buffers, nic, work, rows, fabric.found[2], 0, 0)), rounds]
        looks = None if self.fast_forward is None else self.fast_forward.round_looks(next_look_ps(self.observers))
        rounds = (loop, ex, self.state, self.port_peer_row, self.outputs)
        return [
            (run_hosts, (fabric, buffers, nic, work, rows, fabric.found[2], 0, 0)),
            (run_stream, (fabric, nic, work, rows, 0, 0)),
            (open_round, (loop, ex, 0)),
            (close_round, (loop, ex, 0)),
            (unpack_arrivals, (fabric, work, ex)),
            (pack, (fabric, work, self.port_peer_row, ex, 0)),
            (run_managed_switches if is_managed else run_switches, (fabric, *own, fabric.found[1], 0, 0)),
            (self._run_rounds, rounds) if looks is None else (self._run_with_looks, (*rounds, looks)),
        ]

    def compile(self) -> None:
        """Compile the kernels, or load them from the cache, without running anything or talking to other ranks."""
        loop = make_loop(1, stop_ps=-1)  # no event lies at or before the stop
        exchange = make_exchange(World(), [], 1)
        self.run_rounds(loop, exchange)
        clock_ns(exchange.clock[0], exchange.clock[1:])
        if self.fast_forward is not None:
            self.fast_forward.compile(self.state)
            take_in(self.state.fabric, self.state.work, make_exchange(World(), [], 1))

    def relieve(self, code: int) -> None:
        """Grow what ran short, or write out rows; raise on a fault."""
        let_go()
        state = self.state
        if code == SHORT_OF_ROWS:
            self.flush()
        elif code in (SHORT_OF_PACKETS, SHORT_OF_ARRIVING_PACKETS):
            self.state = state._replace(fabric=grow_packets(state.fabric, 2 * len(state.fabric.packets)))
        elif code == SHORT_OF_MESSAGES:
            nic = grow_messages(state.nic, state.fabric.counters, 2 * len(state.nic.messages))
            self.state = state._replace(nic=nic)
        elif code == SHORT_OF_RANGES:
            nic = grow_ranges(state.nic, state.fabric.counters, 2 * len(state.nic.ranges))
            self.state = state._replace(nic=nic)
        elif code == SHORT_OF_WAITING and self.flow is not None:
            self.flow = grow_waiting(self.flow, 2 * len(self.flow.waiting))
            if self.audit is not None:
                predicted = grow_waiting(self.audit.predicted, len(self.flow.waiting))
                self.audit = self.audit._replace(predicted=predicted)
        elif code == SHORT_OF_FOLLOWED and self.audit is not None:
            self.audit = grow_followed(self.audit, 2 * len(self.audit.followed))
        elif code == SHORT_OF_POSTS and self.flow is not None:
            self.flow = grow_posts(self.flow, 2 * n_post_room(self.flow))
        elif code == STOPPED_BY_FAULT:
            raise self._fault()
        else:
            raise AssertionError(f"unexpected code {code}")

    def _fault(self) -> SimError:
        counters = self.state.fabric.counters
        fault, entity = int(counters[FAULT]), int(counters[FAULT_NODE])
        if fault == FAULT_QUEUE_OVERFLOW:
            return CapacityError(
                f"a queue of {self.topology.node_name[entity]} passed 2 GiB. Lower [network] window, or give "
                "[network.buffer] a size"
            )
        if fault == FAULT_TOO_MANY_ROWS:
            return CapacityError(f"more than {len(self.state.rows.arrival)} messages of one queue pair ended at once")
        handler = HANDLER_NAMES[(fault - FAULT_LAW_RAISED) // 16]
        control, table = self.control, self.state.nic.queue_pairs
        p = control.parameters[int(table["law_row"][entity])]
        event = np.zeros(1, EVENT)
        event.view(np.int64)[:] = control.event
        return SimError(control.law.explain(handler, control.flows[entity], event[0], p, int(control.scratch[1])))

    def rtt_rows(self) -> np.ndarray:
        """Round-trip times so far of the flow that the parameters name, int64[n, 3], columns `state.RTT_COLUMNS`."""
        return self.state.rows.rtt[: self.state.fabric.counters[N_RTT_ROW]]

    def flush(self) -> None:
        """Hand the finished rows to the sink and empty the buffers."""
        counters, rows = self.state.fabric.counters, self.state.rows
        ends = [N_FLOW_ROW, N_ARRIVAL_ROW, N_TASK_ROW, N_SPENT_ROW]
        self.sink(*(rows[i][: int(counters[end])] for i, end in enumerate(ends)))
        counters[ends] = 0
