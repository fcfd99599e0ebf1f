"""What messages in flow mode would have come to as packets: bytes of ports, and packet-hops."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.flow_mode.state import N_INSTANT, N_MESSAGE, FlowMode
from models.network.state.records import ACK_BYTES
from models.network.state.ways import Ways, ack_ways, data_ways
from pdes.skipping.max_min.table import N_SOLVED
from pdes.units import BITS_PER_BYTE, PS_PER_S


def _add(out: np.ndarray, ways: Ways, each: np.ndarray) -> None:
    np.add.at(out, ways[1], np.repeat(each, np.diff(ways[0])))


def add_to_ports(state: NetworkState, flow: FlowMode) -> None:
    """The run is over: count what ports have sent of messages that were delivered."""
    ports, info = state.fabric.ports, state.fabric.port_info
    sent_bytes, ack_bytes = np.zeros(len(ports), np.int64), int(state.fabric.constants[ACK_BYTES])
    _add(sent_bytes, data_ways(state), flow.transfers["bytes"])
    _add(sent_bytes, ack_ways(state), flow.transfers["packets"] * ack_bytes)
    ports["tx_bytes"] += sent_bytes
    slow = np.flatnonzero((ports["ps_per_byte"] == 0) & (info["rate_bps"] > 0))  # of ports that are kept here
    info["busy_ps"][slow] += (sent_bytes[slow] * (BITS_PER_BYTE * PS_PER_S / info["rate_bps"][slow])).astype(np.int64)


def packet_hops(state: NetworkState, flow: FlowMode) -> int:
    """Of the messages that this rank's hosts have sent."""
    n_hop = np.diff(data_ways(state)[0]) + np.diff(ack_ways(state)[0])
    return int((flow.transfers["packets"] * n_hop)[flow.here[flow.transfers["sender"]] != 0].sum())


def flow_facts(flow: FlowMode) -> dict[str, int]:
    """What `result.json` says of it, the same on every rank."""
    solver = flow.max_min.words
    return {
        "messages": int(flow.words[N_MESSAGE]),
        "instants": int(flow.words[N_INSTANT]),
        "rates_solved": int(solver[N_SOLVED]),
    }
