"""Sampled time series in flow mode: rates of messages, and what ports have sent of them.

Nothing waits in a queue, no window holds a message, and what has come across counts as acknowledged. Bytes come across
without events, so that rounds end at instants that are due (`limit_ps`), and these are multiples of the interval.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.flow_mode.state import N_CHANGED, N_MOVED_PAIR, FlowMode
from models.network.flow_mode.totals import sent_by_ports
from models.network.state.records import ACK_BYTES, HEADER_BYTES, PAYLOAD_BYTES
from models.network.watch.sampling import Sampler
from pdes.engine.time_index import NEVER
from pdes.skipping.max_min.table import N_END
from pdes.units import BITS_PER_BYTE, PS_PER_S

NO_WINDOW = -1


class FlowModeSampler(Sampler):
    """One rank's rows: of the ports at its nodes and the queue pairs of its hosts."""

    def __init__(self, flow: Callable[[], FlowMode], *arguments: Any) -> None:
        """flow: as it is now. arguments: of `Sampler`."""
        super().__init__(*arguments)
        self._flow, self.limit_ps = flow, self.due_ps

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """The same; while nothing is under way there is no instant until something happens."""
        super().look(state, horizon_ps)
        flow = self._flow()
        next_ps = min(int(state.fabric.node_time[1]), _next_transfer_ps(flow))
        next_ps = int(self._world.gather_rows(np.array([next_ps])).min())
        if flow.max_min.words[N_END] == 0 and next_ps < NEVER:
            self.due_ps = max(self.due_ps, (next_ps // self.interval_ps + 1) * self.interval_ps)
        self.limit_ps = self.due_ps if next_ps < NEVER else NEVER  # else the run is at its end
        return False

    def _port_state(self, state: NetworkState, now_ps: int) -> np.ndarray:
        flow, constants = self._flow(), state.fabric.constants
        _, packets, begun_bytes, share = _begun(flow, constants, now_ps)
        transfers, begun_packets = flow.transfers, np.floor(packets * share).astype(np.int64)
        sent_bytes = sent_by_ports(
            flow, transfers["bytes"] + begun_bytes, transfers["packets"] + begun_packets, int(constants[ACK_BYTES])
        )  # fmt: skip
        nothing = np.zeros(len(self._ports), np.int64)
        return np.column_stack([nothing, nothing, sent_bytes[self._ports]])

    def _flow_state(self, state: NetworkState, now_ps: int) -> np.ndarray:
        flow = self._flow()
        rate_bps, _, _, share = _begun(flow, state.fabric.constants, now_ps)
        rows = np.flatnonzero((flow.transfers["ack_link"] >= 0) & (flow.transfers["size_bytes"] > 0))
        message, nothing = flow.transfers[rows], np.zeros(len(rows), np.int64)
        columns = [
            message["flow_id"],
            self._pairs.pair_of_row[rows],
            rate_bps[rows].astype(np.int64),
            nothing + NO_WINDOW,
            nothing,
            np.floor(message["size_bytes"] * share[rows]),
        ]
        return np.column_stack(columns).astype(np.int64)


def _next_transfer_ps(flow: FlowMode) -> int:
    """When a message begins or ends next, or a way changes, at a round's end: `transfers.next_transfer_ps`."""
    m, words = flow.max_min, flow.words
    ends = m.flows["end_ps"][m.ends[: min(int(m.words[N_END]), 1)]]  # the heap's first
    changes, moves = flow.changes["time_ps"][words[N_CHANGED] :], flow.moves["time_ps"][words[N_MOVED_PAIR] :]
    return min(int(times.min(initial=NEVER)) for times in (ends, flow.starts[1:2], changes, moves))


def _begun(flow: FlowMode, constants: np.ndarray, now_ps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each queue pair, [n_qp]: rate, headers included, bit/s; packets of its message; bytes of it that have come
    across, headers included; the same as a share of all its bytes. 0 where none is under way."""
    flows, size_bytes, payload = flow.max_min.flows, flow.transfers["size_bytes"], int(constants[PAYLOAD_BYTES])
    packets = -(-size_bytes // payload)
    wire_bytes = size_bytes + packets * int(constants[HEADER_BYTES])
    byte_per_ps = flows["level"] * flows["weight"]
    left = np.maximum(flows["left"] - byte_per_ps * (now_ps - flows["since_ps"]), 0.0)
    has_begun = flow.starts[len(flow.starts) // 2 :][: len(flows)] == NEVER  # else its way does not have it yet
    is_under_way = has_begun & (size_bytes > 0)  # also where a link that is down lets nothing through
    begun_bytes = np.where(is_under_way, np.maximum(wire_bytes - left, 0.0), 0.0)
    return byte_per_ps * (BITS_PER_BYTE * PS_PER_S), packets, begun_bytes, begun_bytes / np.maximum(wire_bytes, 1)
