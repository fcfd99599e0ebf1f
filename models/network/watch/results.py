"""From the kernels' rows and counters to the columns of the result tables, and flows that are unfinished at the end."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.build.routing import make_routing
from models.network.flow_mode.alone import Alone
from models.network.state.parameters import NetworkParameters
from models.network.state.records import SPENT_COLUMNS
from models.network.state.switch_state import Routing
from models.network.watch.ideal import ideal_sizes, on_paths_ps, on_routes_ps
from models.network.watch.ideal_routes import Search, kinds_of_hosts, make_search
from models.topology.graph import Topology
from models.topology.routing import Paths
from models.workload.plan import WorkloadPlan
from models.workload.program import PARTS
from pdes.engine.jit import kernel

FLOW_SPOOL_COLUMNS = (
    "src", "dst", "size_bytes", "start_ps", "delivered_ps", "finish_ps", "ideal_fct_ps", "hops", "retransmitted_bytes",
    "ecn_marks", "tag", "pair",
)  # fmt: skip
"""Columns of the flows table, and the queue pair, which says which way a flow went."""
SPENT_SPOOL_COLUMNS = (*SPENT_COLUMNS[1:], *PARTS)
TASK_SPOOL_COLUMNS = ("gpu", "iteration", "kind", "stream", "start_ps", "end_ps", "bytes")


@kernel
def _on_paths(pair, size_bytes, path, links, sizes, out):
    for i in range(len(pair)):
        row = 2 * pair[i]
        data = path[1][path[0][row] : path[0][row + 1]]
        ack = path[1][path[0][row + 1] : path[0][row + 2]]
        out[i] = on_paths_ps(size_bytes[i], sizes, data, ack, links[0], links[1])


@kernel
def _on_routes(flows, path, epochs, routing: Routing, forth: Search, back: Search, sizes, out):
    for i in range(len(flows)):
        row = 2 * flows[i, 0]
        first_ports = np.int64(path[1][path[0][row]]), np.int64(path[1][path[0][row + 1]])
        flow, seen = (flows[i, 0], flows[i, 1], flows[i, 2]), (epochs[i, 0], epochs[i, 1])
        out[i] = on_routes_ps(flow, sizes, routing, forth, back, first_ports, seen)


class FlowFacts:
    """What the flows table says about a flow that follows from its queue pair."""

    def __init__(
        self,
        topology: Topology,
        paths: Paths,
        plan: WorkloadPlan,
        parameters: NetworkParameters,
        routing: Routing | None = None,
    ) -> None:
        """routing: the tables of the run, if they have been made."""
        self._topology, self._paths, self._plan = topology, paths, plan
        self._sizes = ideal_sizes(topology, parameters)
        self._is_routed = np.zeros(len(plan.pair_src), np.bool_)
        if parameters.routing is not None:
            fixed = parameters.routing.fixed_pair
            has_switches = np.diff(paths.start)[::2] > 1
            self._is_routed = has_switches if fixed is None else has_switches & ~fixed
            self._routing = make_routing(topology, parameters) if routing is None else routing
            self._search = make_search(topology), make_search(topology)
            self._kind_of_node = kinds_of_hosts(topology, self._routing)
        self._alone = None if parameters.flow is None else Alone(topology, paths, parameters, self._is_routed)

    def compile(self) -> None:
        """Compile what `columns` needs, or load it from the cache."""
        self.columns(np.zeros((0, 8), np.int64), np.zeros(0, np.int64))

    def columns(self, rows: np.ndarray, pair_of_row: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """(flow ids, columns) of kernel rows `state.FLOW_COLUMNS`; finish_ps -1 where a flow is unfinished."""
        pair, size_bytes = pair_of_row[rows[:, 1]], np.ascontiguousarray(rows[:, 2])
        t, plan, start = self._topology, self._plan, self._paths.start
        return rows[:, 0], {
            "src": t.host[plan.pair_src[pair]],
            "dst": t.host[plan.pair_dst[pair]],
            "size_bytes": size_bytes,
            "start_ps": rows[:, 3],
            "finish_ps": rows[:, 4],
            "ideal_fct_ps": self._ideal_ps(pair, size_bytes, rows[:, 3:5]),
            "hops": start[2 * pair + 1] - start[2 * pair],
            "retransmitted_bytes": rows[:, 7],
            "ecn_marks": rows[:, 5],
            "tag": rows[:, 6],
            "pair": pair,
        }

    def _ideal_ps(self, pair: np.ndarray, size_bytes: np.ndarray, lasts_ps: np.ndarray) -> np.ndarray:
        """The least times that flows can take, int64[n]. lasts_ps: int64[n, 2], their starts and finishes."""
        if self._alone is not None and not self._alone.are_acknowledged:
            return self._alone.least_ps(pair, size_bytes)
        t, path, ideal_ps = self._topology, (self._paths.start, self._paths.port), np.empty(len(pair), np.int64)
        _on_paths(pair, size_bytes, path, (t.port_rate_bps, t.port_delay_ps), self._sizes, ideal_ps)
        if self._alone is not None:
            alone_ps = self._alone.least_ps(pair, size_bytes)
            ideal_ps = np.where(self._is_routed[pair], ideal_ps, np.minimum(ideal_ps, alone_ps))
        if self._is_routed.any():
            routed, epoch_ps = np.flatnonzero(self._is_routed[pair]), self._routing.epoch_ps
            until_ps = np.where(lasts_ps < 0, epoch_ps[-1], lasts_ps)[routed]  # an unfinished one may see them all
            epochs = np.searchsorted(epoch_ps, until_ps, side="right") - 1
            kind = self._kind_of_node[t.host[self._plan.pair_dst[pair[routed]]]]
            order = np.lexsort((size_bytes[routed], epochs[:, 1], epochs[:, 0], kind))  # what is known serves most
            flows = np.stack([pair[routed], size_bytes[routed], kind], axis=1)[order]
            found_ps = np.empty(len(routed), np.int64)
            _on_routes(flows, path, epochs[order], self._routing, *self._search, self._sizes, found_ps)
            ideal_ps[routed[order]] = found_ps
        return ideal_ps


def unfinished_rows(state: NetworkState, rank_of_node: np.ndarray, rank: int) -> np.ndarray:
    """Rows of messages that this rank's hosts posted and that are not finished, int64[n, 8]; finish_ps is -1."""
    nic, rows = state.nic, []
    for pair in nic.sends[nic.queue_pairs["first_message"][nic.sends] >= 0].tolist():
        place, marks = int(nic.queue_pairs["first_message"][pair]), int(nic.queue_pairs["n_marked"][pair])
        while place >= 0:
            message = nic.messages[place]
            resent = (
                int(nic.queue_pairs["resent_bytes"][pair]) if place == nic.queue_pairs["first_message"][pair] else 0
            )
            rows.append((message.flow_id, pair, message.size_bytes, message.posted_ps, -1, marks, message.tag, resent))
            place, marks = int(message.next), 0
    return np.array(rows, np.int64).reshape(-1, 8)


def open_pauses(state: NetworkState, topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """(whether each port is paused, since when in ps) where its node is; of others' ports it says nothing."""
    at_switch, egress, nic_ports = topology.is_switch[topology.port_src], state.buffers.egress, state.nic.nic_ports
    is_managed = len(state.buffers.queues) > 1  # else a switch's port has other things in the place of `paused`
    at_switches = is_managed & (state.buffers.managed["paused"] != 0)
    is_paused = np.where(at_switch, at_switches, nic_ports["paused"] != 0)
    return is_paused, np.where(at_switch, egress["paused_since_ps"], nic_ports["paused_since_ps"])


def port_columns(
    state: NetworkState, topology: Topology, rank_of_node: np.ndarray, rank: int, end_ps: int | np.ndarray = 0
) -> dict[str, np.ndarray]:
    """Columns of the ports table; zeros for ports that send on other ranks, so that ranks add up.

    end_ps: of the run, or int64[n_port]: pauses that have not ended by then last up to it.
    """
    ports, fabric = state.fabric.ports, state.fabric
    mine = (rank_of_node[topology.port_src] == rank).astype(np.int64)
    whole = ports["ps_per_byte"].astype(np.int64)
    busy_ps = np.where(whole > 0, ports["tx_bytes"] * whole, fabric.port_info["busy_ps"])
    egress, (is_paused, since_ps) = state.buffers.egress, open_pauses(state, topology)
    paused_ps = np.where(topology.is_switch[topology.port_src], egress["paused_ps"], state.nic.nic_ports["paused_ps"])
    paused_ps = paused_ps + np.where(is_paused, np.maximum(end_ps - since_ps, 0), 0)
    drops = state.buffers.drops  # counted where they happen: a lost packet at the rank of the receiver
    return {
        "port_id": np.arange(topology.n_port) * mine,
        "node": topology.port_src * mine,
        "peer": topology.port_dst * mine,
        "rate_bps": topology.port_rate_bps * mine,
        "tx_bytes": ports["tx_bytes"] * mine,
        "busy_ps": busy_ps * mine,
        "max_queue_bytes": np.maximum(ports["max_queued_bytes"], egress["earlier_max_bytes"]) * mine,
        "ecn_marks": fabric.port_info["ecn_marks"] * mine,
        "paused_ps": paused_ps * mine,
        "pause_frames": state.buffers.egress["n_pause"] * mine,
        "drops": drops.sum(axis=1),
        "drops_buffer": drops[:, 0].copy(),
        "drops_loss": drops[:, 1].copy(),
        "drops_link": drops[:, 2].copy(),
    }
