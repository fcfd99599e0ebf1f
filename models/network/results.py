"""From the kernels' rows and counters to the columns of the result tables, and flows that are unfinished at the end."""

import numpy as np

from models.network.build import NetworkState
from models.network.parameters import NetworkParameters
from models.network.state import SPENT_COLUMNS
from models.topology.closed_form import ideal_fct_ps
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
def _ideal_rows(pair, size_bytes, path_start, path_port, rate_bps, delay_ps, sizes, out):
    for i in range(len(pair)):
        row = 2 * pair[i]
        data = path_port[path_start[row] : path_start[row + 1]]
        ack = path_port[path_start[row + 1] : path_start[row + 2]]
        out[i] = ideal_fct_ps(size_bytes[i], sizes[0], sizes[1], sizes[2], data, ack, rate_bps, delay_ps)


class FlowFacts:
    """What the flows table says about a flow that follows from its queue pair."""

    def __init__(self, topology: Topology, paths: Paths, plan: WorkloadPlan, parameters: NetworkParameters) -> None:
        self._topology, self._paths, self._plan = topology, paths, plan
        p = parameters
        self._sizes = np.array([p.payload_bytes, p.header_bytes, p.ack_bytes], np.int64)

    def compile(self) -> None:
        """Compile what `columns` needs, or load it from the cache."""
        self.columns(np.zeros((0, 8), np.int64), np.zeros(0, np.int64))

    def columns(self, rows: np.ndarray, pair_of_row: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """(flow ids, columns) of kernel rows `state.FLOW_COLUMNS`; finish_ps -1 where a flow is unfinished."""
        pair, size_bytes = pair_of_row[rows[:, 1]], np.ascontiguousarray(rows[:, 2])
        ideal = np.empty(len(rows), np.int64)
        t, plan, start = self._topology, self._plan, self._paths.start
        _ideal_rows(pair, size_bytes, start, self._paths.port, t.port_rate_bps, t.port_delay_ps, self._sizes, ideal)
        return rows[:, 0], {
            "src": t.host[plan.pair_src[pair]],
            "dst": t.host[plan.pair_dst[pair]],
            "size_bytes": size_bytes,
            "start_ps": rows[:, 3],
            "finish_ps": rows[:, 4],
            "ideal_fct_ps": ideal,
            "hops": start[2 * pair + 1] - start[2 * pair],
            "retransmitted_bytes": rows[:, 7],
            "ecn_marks": rows[:, 5],
            "tag": rows[:, 6],
            "pair": pair,
        }


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
    state: NetworkState, topology: Topology, rank_of_node: np.ndarray, rank: int, end_ps: int = 0
) -> dict[str, np.ndarray]:
    """Columns of the ports table; zeros for ports that send on other ranks, so that ranks add up.

    end_ps: of the run: pauses that have not ended by then last up to it.
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
