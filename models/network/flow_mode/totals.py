"""What messages in flow mode would have come to as packets: bytes of ports, and packet-hops."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.flow_mode.state import MOVED_HOPS, N_AS_PACKETS, N_INSTANT, N_MESSAGE, FlowMode
from models.network.state.records import ACK_BYTES, HEADER_BYTES, PAYLOAD_BYTES
from pdes.skipping.max_min.table import N_SOLVED
from pdes.units import BITS_PER_BYTE, PS_PER_S


def _places(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(queue pair, place) of all places of int64[n_qp, 2], first and end."""
    length = ends[:, 1] - ends[:, 0]
    pair = np.repeat(np.arange(len(length)), length)
    return pair, np.arange(len(pair)) + np.repeat(ends[:, 0] - (np.cumsum(length) - length), length)


def settle_passes(state: NetworkState, flow: FlowMode, packets: np.ndarray, short_bytes: np.ndarray) -> None:
    """The run is over: count what passes of loops that were left out would have sent, before `add_to_ports`.

    packets, short_bytes: int64[n_qp], of each queue pair, and what they lack to be full ones.
    """
    constants = state.fabric.constants
    flow.transfers["packets"] += packets
    flow.transfers["bytes"] += packets * int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]) - short_bytes


def sent_by_ports(flow: FlowMode, wire_bytes: np.ndarray, packets: np.ndarray, ack_bytes: int) -> np.ndarray:
    """int64[n_port]: bytes that ports have sent, of data and acknowledgements.

    wire_bytes, packets: [n_qp], what each queue pair has sent on the way that it has, headers included.
    """
    sent_bytes, m = flow.sent_bytes.copy(), flow.max_min
    pair, at = _places(m.place_of[:, :2])
    np.add.at(sent_bytes, m.places["port"][at], wire_bytes[pair] * m.places["usage"][at])
    pair, at = _places(m.place_of[:, 2:])
    np.add.at(sent_bytes, m.back_port[at], packets[pair] * ack_bytes)
    return np.rint(sent_bytes).astype(np.int64)


def add_to_ports(state: NetworkState, flow: FlowMode) -> None:
    """The run is over: count what ports have sent of messages that were delivered."""
    ports, info, transfers = state.fabric.ports, state.fabric.port_info, flow.transfers
    ack_bytes = int(state.fabric.constants[ACK_BYTES])
    ports["tx_bytes"] += sent_by_ports(flow, transfers["bytes"], transfers["packets"], ack_bytes)
    kept, hybrid = info["rate_bps"] > 0, flow.hybrid  # of ports: here
    if len(hybrid.rate_bps):  # without what messages at rates took of them
        ports["ps_per_byte"][kept], info["rate_bps"][kept] = hybrid.ps_per_byte[kept], hybrid.rate_bps[kept]
    slow = np.flatnonzero((ports["ps_per_byte"] == 0) & kept)
    info["busy_ps"][slow] = ports["tx_bytes"][slow] * (BITS_PER_BYTE * PS_PER_S / info["rate_bps"][slow])


def packet_hops(flow: FlowMode) -> int:
    """That packets of all messages that were delivered would have made."""
    m = flow.max_min
    n_hop = _carried(m.place_of[:, :2], m.places["usage"]) + np.diff(m.place_of[:, 2:], axis=1)[:, 0]
    return int(np.rint(flow.transfers["packets"] @ n_hop + flow.numbers[MOVED_HOPS]))


def _carried(ends: np.ndarray, usage: np.ndarray) -> np.ndarray:
    """float64[n_qp]: ports that a packet of each crosses, in the mean."""
    total = np.concatenate([[0.0], np.cumsum(usage.astype(np.float64))])
    return total[ends[:, 1]] - total[ends[:, 0]]


def flow_facts(flow: FlowMode) -> dict[str, int]:
    """What `result.json` says of it, the same on every rank."""
    solver = flow.max_min.words
    return {
        "messages": int(flow.words[N_MESSAGE]),
        "instants": int(flow.words[N_INSTANT]),
        "rates_solved": int(solver[N_SOLVED]),
        "as_packets": int(flow.words[N_AS_PACKETS]),
    }
