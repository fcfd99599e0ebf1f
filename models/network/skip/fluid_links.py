"""What flow level has to know of the packet network: ways, their forms, rates and latencies."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.link.wire_time import transmission_ps
from models.network.state.records import ACK_BYTES, ACK_EVERY, HEADER_BYTES, PAYLOAD_BYTES
from models.network.state.ways import Ways, ack_ways, data_ways
from models.network.switch.spread_ways import Spread
from models.topology.graph import Topology
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.stage_load import N_LOAD, WHOLE, make_stage_loads
from pdes.units import BITS_PER_BYTE, PS_PER_S


def links_of(topology: Topology, state: NetworkState, all_ways: Ways) -> Links:
    """See `Links`. all_ways: of queue pairs' data and acknowledgements."""
    behind_ps, ack_ps = latencies_ps(topology, state)
    byte_per_ps = topology.port_rate_bps / _payload_bits_ps(state)
    return Links(data_ways(state), all_ways, forms_of(topology, state), byte_per_ps, behind_ps, ack_ps)


def spread_links(links: Links, spread: Spread, rate_bps: np.ndarray, forgets: bool) -> Links:
    """The same where packets of data are spread over stages: what flows never wait for loads their ways.

    forgets: whether something may be learned over full stages, if no timer is on.
    """
    (start, port_of), of_all = links.data_ways, spread.of_all(rate_bps)
    slowest_bps = np.minimum.reduceat(of_all[spread.first[port_of]], start[:-1]) if len(links.form) else of_all[:0]
    wide, stage = spread.only_wide(links.data_ways)
    flow = np.repeat(np.arange(len(links.form)), np.diff(wide))
    ports, stage = np.unique(stage, return_inverse=True)
    share = (WHOLE * slowest_bps[flow] / of_all[ports[stage]]).astype(np.int64)
    stages = make_stage_loads((wide, stage.astype(np.int32)), share, len(ports))
    stages.is_barred[:] = not forgets
    return links._replace(
        data_ways=spread.without_wide(links.data_ways), all_ways=spread.without_wide(links.all_ways),
        byte_per_ps=spread.of_all(links.byte_per_ps), form=links.form * N_LOAD,
        stages=stages,
    )  # fmt: skip


def slowdown_of(state: NetworkState, links: Links, leaves_room: bool) -> Slowdown:
    """What acknowledgements do to data that shares a port with them. leaves_room: see there."""
    constants, (start, port_of) = state.fabric.constants, links.data_ways
    packet_bytes = int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES])
    share = int(constants[ACK_BYTES]) / (packet_bytes * int(constants[ACK_EVERY]))
    slowest = np.minimum.reduceat(links.byte_per_ps[port_of], start[:-1]) if len(links.form) else np.ones(0)
    return Slowdown(share, 1 / slowest, leaves_room)


def _payload_bits_ps(state: NetworkState) -> float:
    """Ps that a byte of payload takes, with its part of the headers, on a port of 1 bps."""
    constants = state.fabric.constants
    packet_bytes = int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES])
    return packet_bytes / int(constants[PAYLOAD_BYTES]) * BITS_PER_BYTE * PS_PER_S


def forms_of(topology: Topology, state: NetworkState) -> np.ndarray:
    """int64[n_qp]: equal for queue pairs whose ways, there and back, have the same rates and delays in order."""
    path, table = state.fabric.path_port, state.nic.facts
    n_row = len(path)
    kinds = np.unique(np.stack([topology.port_rate_bps, topology.port_delay_ps], axis=1), axis=0, return_inverse=True)
    kind = np.where(path >= 0, kinds[1].ravel()[np.maximum(path, 0)] + 1, 0)
    closed = np.flatnonzero(path < 0)
    first = [table[name].astype(np.int64) for name in ("data_path", "ack_path")]
    length = [closed[np.searchsorted(closed, row)] - row for row in first]
    most = max((int(n.max(initial=0)) for n in length), default=0)
    words = [table["queue"].astype(np.int64), table["max_window_bytes"].astype(np.int64)]
    for row, n in zip(first, length, strict=True):
        for k in range(most):
            words.append(np.where(k < n, kind[np.minimum(row + k, n_row - 1)], 0))
    return np.unique(np.stack(words, axis=1), axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def latencies_ps(topology: Topology, state: NetworkState) -> tuple[np.ndarray, np.ndarray]:
    """int64[n_qp] twice, on idle ways: from a full packet's last byte leaving the NIC to its arrival, and from there to
    the arrival of its acknowledgement."""
    constants, nic_port = state.fabric.constants, state.nic.facts["port"]
    full_bytes, ack_bytes = int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]), int(constants[ACK_BYTES])
    data_ps, wire_ps = _on_way_ps(topology, data_ways(state), full_bytes)
    return data_ps - wire_ps[nic_port], _on_way_ps(topology, ack_ways(state), ack_bytes)[0]


def slack_ps(topology: Topology, state: NetworkState, behind_ps: np.ndarray) -> np.ndarray:
    """int64[n_qp]: how much later than a full packet's last byte the smallest packet must begin to leave the NIC, so as
    not to arrive sooner. behind_ps: of the full one, from `latencies_ps`."""
    least_bytes = int(state.fabric.constants[HEADER_BYTES]) + 1
    return np.maximum(behind_ps + 1 - _on_way_ps(topology, data_ways(state), least_bytes)[0], 0)


def _on_way_ps(topology: Topology, ways: tuple[np.ndarray, np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_qp]: how long a packet takes over idle ways, int64[n_port]: to be put on a wire)"""
    start, port_of = ways
    rates, kind = np.unique(topology.port_rate_bps, return_inverse=True)
    wire_ps = np.array([int(transmission_ps(size, int(rate), 0)) for rate in rates], np.int64)[kind]
    total = np.concatenate([[0], np.cumsum((wire_ps + topology.port_delay_ps)[port_of])])
    return total[start[1:]] - total[start[:-1]], wire_ps
