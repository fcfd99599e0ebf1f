"""The least time that a flow can take from its start to the ACK of its last byte: the slowdown's divisor.

On a fixed path it is the closed form of a message that is alone there. Where switches choose ways for packets, these
may overtake each other, and only ports that all ways have see all of them: nothing else is counted as a bottleneck.
"""

import numpy as np

from models.network.link.wire_time import transmission_ps
from models.network.state.parameters import NetworkParameters
from models.network.state.switch_state import Routing
from models.network.watch.ideal_routes import (
    FULL,
    LAST,
    STAMP,
    Search,
    best_way,
    explore,
    find_bridges,
    is_hashed,
    over_port,
)
from models.topology.closed_form import acked_tandem_ps, last_packet_bytes
from models.topology.graph import Topology
from pdes.engine.jit import kernel
from pdes.units import BITS_PER_BYTE, PS_PER_S

IDEAL_PAYLOAD, IDEAL_HEADER, IDEAL_ACK, IDEAL_ACK_EVERY, IDEAL_IS_NS3 = range(5)
PS_PER_BYTE_BIT_S = BITS_PER_BYTE * PS_PER_S
ONLY_LAST = 2**62  # an ack_every: of the ACKs before a message's last one none is certain to be on the way


def ideal_sizes(topology: Topology, parameters: NetworkParameters) -> np.ndarray:
    """int64[5], IDEAL_*: what of the network the least times depend on beside links and ways."""
    p = parameters
    ack_every = 1 if p.transport is None else p.transport.ack_every
    if p.ns3 is not None:
        ack_every = 1 if p.ns3.ack_interval_bytes <= p.payload_bytes else ONLY_LAST
    if may_lose(topology, parameters):
        ack_every = ONLY_LAST
    return np.array([p.payload_bytes, p.header_bytes, p.ack_bytes, ack_every, p.ns3 is not None], np.int64)


def may_lose(topology: Topology, parameters: NetworkParameters) -> bool:
    """Whether a packet, or an ACK, may get lost on its way: then fewer ACKs than packets come back.

    With PFC nothing does if every headroom holds what comes after a pause: what the wire holds both ways, three
    packets and a pause per queue.
    """
    t, p = topology, parameters
    if p.link_changes or (p.loss_probability is not None and bool((p.loss_probability > 0).any())):
        return True
    if p.buffer is None:
        return False
    flight_ps = (t.port_delay_ps + t.port_delay_ps[t.port_peer]).tolist()
    in_flight = [ps * rate / PS_PER_BYTE_BIT_S for ps, rate in zip(flight_ps, t.port_rate_bps.tolist(), strict=True)]
    packet_bytes = 3 * (p.payload_bytes + p.header_bytes) + (p.n_queue - 1) * p.buffer.pfc_bytes
    has_room = p.buffer.headroom_bytes >= np.array(in_flight) + packet_bytes
    ignores = p.ns3 is not None and p.ns3.ignore_pfc
    return not p.buffer.pfc or ignores or not bool(has_room[t.is_switch[t.port_dst]].all())


@kernel
def _wire_times(size_bytes, ports, port_rate_bps, is_ns3):
    times_ps = np.empty(len(ports), np.int64)
    for i in range(len(ports)):
        times_ps[i] = transmission_ps(size_bytes, port_rate_bps[ports[i]], is_ns3)
    return times_ps


@kernel
def _packets(size_bytes, sizes):
    """(number of a message's packets, wire bytes of all but the last, wire bytes of the last)."""
    payload_bytes, header_bytes = sizes[IDEAL_PAYLOAD], sizes[IDEAL_HEADER]
    last_bytes = last_packet_bytes(size_bytes, payload_bytes)
    return -(-size_bytes // payload_bytes), payload_bytes + header_bytes, last_bytes + header_bytes


@kernel
def on_paths_ps(size_bytes, sizes, data, ack, port_rate_bps, port_delay_ps):
    """Of a message whose packets go by the ports `data`, its ACKs by `ack`. size_bytes >= 1."""
    n_packet, full_bytes, last_bytes = _packets(size_bytes, sizes)
    is_ns3 = sizes[IDEAL_IS_NS3] != 0
    full_ps = _wire_times(full_bytes, data, port_rate_bps, is_ns3)
    last_ps = _wire_times(last_bytes, data, port_rate_bps, is_ns3)
    ack_ps = _wire_times(sizes[IDEAL_ACK], ack, port_rate_bps, is_ns3)
    delays_ps = port_delay_ps[data].sum() + port_delay_ps[ack].sum()
    return acked_tandem_ps(n_packet, sizes[IDEAL_ACK_EVERY], full_ps, last_ps, ack_ps) + delays_ps


@kernel
def _cut_ps(n_full, full, last):
    """The least time in which n_full >= 1 packets and a last one, which may overtake each other, are delivered.

    full, last: (when one alone is delivered; int64[n], when it is at each port that all of them pass; int64[n], what
    it takes from there to the port's end). Such a port sends one after another; the rest of its way is before the last.
    """
    longest_ps = np.int64(0)
    for i in range(len(full[1])):
        begin_ps = min(full[1][i], n_full * full[2][0] + last[1][i])
        longest_ps = max(longest_ps, begin_ps + n_full * full[2][i] + last[0] - last[1][i])
        longest_ps = max(longest_ps, n_full * full[2][i] + full[0] - full[2][i])
    return longest_ps


@kernel
def _tell_sizes(links: Search, full_bytes, last_bytes, kind, epochs):
    """Say what packets are searched for; what is known stays if it is of such ones. kind: of the host, -1: never."""
    key = links.key
    if kind >= 0 and key[0] == kind and key[1] == epochs[0] and key[2] == epochs[1] and key[3] == last_bytes:
        return
    links.marks[STAMP] += 1
    key[0], key[1], key[2], key[3] = kind, epochs[0], epochs[1], last_bytes
    for i in range(len(links.rate_bps)):
        links.wire_ps[FULL, i] = transmission_ps(full_bytes, links.rate_bps[i], False)
        links.wire_ps[LAST, i] = transmission_ps(last_bytes, links.rate_bps[i], False)


@kernel
def _spread_ps(n_packet, routing: Routing, links: Search, i_route, epochs, way):
    """The least delivery of packets that have several ways, of which `way` is one. All of them are known."""
    last_ps = over_port(links, LAST, way[0], False)
    if n_packet == 1:
        return last_ps
    full_ps = over_port(links, FULL, way[0], False)
    bridges = find_bridges(routing, links, i_route, epochs, way)
    src, rates = links.port_src[bridges], links.port_rate[bridges]
    full_heads_ps, last_heads_ps = full_ps - links.rest_ps[FULL][src], last_ps - links.rest_ps[LAST][src]
    full_heads_ps[0] = last_heads_ps[0] = 0
    full = full_ps, full_heads_ps, links.wire_ps[FULL][rates]
    return _cut_ps(n_packet - 1, full, (last_ps, last_heads_ps, links.wire_ps[LAST][rates]))


@kernel
def on_routes_ps(flow, sizes, routing: Routing, forth: Search, back: Search, first_ports, epochs):
    """Of a message of a queue pair for whose packets switches choose the ways.

    flow: (queue pair, bytes, kind of its host, see `ideal_routes.kinds_of_hosts`). forth, back: for data, for ACKs.
    first_ports: of both, at their hosts. epochs: (first, last) that the flow saw.
    """
    pair, size_bytes, kind = flow
    n_packet, full_bytes, last_bytes = _packets(size_bytes, sizes)
    data_route, ack_route, ack_bytes = 2 * pair, 2 * pair + 1, sizes[IDEAL_ACK]
    data_switch, ack_switch = forth.port_dst[first_ports[0]], back.port_dst[first_ports[1]]
    _tell_sizes(back, ack_bytes, ack_bytes, -1, epochs)
    explore(routing, back, ack_route, epochs, ack_switch)
    back_ps = over_port(back, LAST, first_ports[1], False)
    _tell_sizes(forth, full_bytes, last_bytes, -1 if is_hashed(routing, data_route) else kind, epochs)
    explore(routing, forth, data_route, epochs, data_switch)
    way = best_way(routing, forth, data_route, epochs, first_ports[0])
    if forth.is_forked[data_switch]:
        return _spread_ps(n_packet, routing, forth, data_route, epochs, way) + back_ps
    if back.is_forked[ack_switch]:
        return on_paths_ps(size_bytes, sizes, way, way[:0], forth.port_rate_bps, forth.port_delay_ps) + back_ps
    ack = best_way(routing, back, ack_route, epochs, first_ports[1])
    return on_paths_ps(size_bytes, sizes, way, ack, forth.port_rate_bps, forth.port_delay_ps)
