"""One switch in one window: what arrives is routed, waits and leaves, as in `models.network.switch.switch`."""

import numpy as np

from models.network.link.port import add_waiting, is_marked
from models.network.state.records import (
    FLAG_ACK,
    FLAG_MARKED,
    LINK_BITS,
    MAX_QUEUE_BYTES,
    NOT_CHAINED,
    TELEMETRY,
)
from models.network.switch.telemetry import stamp_int
from models.network.windows.links import (
    carry,
    give_place,
    has_room,
    head_of,
    send,
    stop_for_place,
    stop_for_room,
    take_place,
)
from models.network.windows.state import OVERFLOWN, Windows
from pdes.engine.jit import fast_step, step_kernel
from pdes.engine.time_index import NEVER


@fast_step
def _next_waiting(w: Windows, constants, port, draw_port):
    """Take the packet that a port sends next, ACKs first, marked if it must be; -1 if none waits."""
    record, packets = w.ports[np.uint64(port)], w.packets
    packet = np.int64(record.ack_head)
    if packet >= 0:
        record.ack_head = packets[np.uint64(packet)].next
        return packet
    packet = np.int64(record.data_head)
    if packet < 0:
        return packet
    item = packets[np.uint64(packet)]
    record.data_head = item.next
    queued_bytes = np.int64(record.queued_bytes) - np.int64(item.size_bytes)
    record.queued_bytes = queued_bytes
    low_bytes = np.int64(record.ecn_min_bytes)
    if queued_bytes > low_bytes:
        info = w.port_info[np.uint64(port)]
        if is_marked(info, draw_port, queued_bytes, low_bytes, constants):
            item.bits = item.bits | FLAG_MARKED
            info.ecn_marks += 1
    return packet


@fast_step
def _stamp(w: Windows, constants, port, draw_port, packet, start_ps):
    """INT of a packet that leaves, if it is data."""
    record = w.ports[np.uint64(port)]
    if w.packets[np.uint64(packet)].bits & FLAG_ACK == 0:
        rate_bps, queued_bytes = w.port_info[np.uint64(port)].rate_bps, np.int64(record.queued_bytes)
        stamp_int(w.extra, constants, packet, draw_port, start_ps, record.tx_bytes, queued_bytes, rate_bps)


@fast_step
def _serve_until(w: Windows, constants, spot, port, draw_port, limit_ps):
    """Start what waits at a port and can start at or before limit_ps; False if the link has no room for it all."""
    record, wire = w.ports[np.uint64(port)], w.wires[np.uint64(port)]
    while record.free_at_ps <= limit_ps and (record.ack_head >= 0 or record.data_head >= 0):
        if not has_room(wire):
            stop_for_room(w, wire)
            return False
        packet, start_ps = _next_waiting(w, constants, port, draw_port), record.free_at_ps
        if constants[TELEMETRY] != 0:
            _stamp(w, constants, port, draw_port, packet, start_ps)
        send(w, constants, port, packet, start_ps)
        give_place(w.packets, spot, packet)
        spot.n_hop += 1
    return True


@fast_step
def _key(w: Windows, port, i, begin_ps, shift):
    """What link i sorts by: its first packet's arrival, then its number. NEVER: nothing is there."""
    wire = w.wires[np.uint64(port)]
    if wire.head == wire.seen_tail:
        return NEVER
    return ((w.packets[np.uint64(head_of(wire))].arrival_ps - begin_ps) << shift) | i


@fast_step
def _plant(w: Windows, node, spot, begin_ps, shift):
    """Enter a switch's in-links into its winner tree."""
    first, n_leaf, n_link = spot.first_key, np.int64(spot.n_leaf), node.end_in - node.first_in
    for i in range(n_leaf):
        key = NEVER if i >= n_link else _key(w, node.first_in + i, i, begin_ps, shift)
        w.keys[np.uint64(first + n_leaf + i)] = key
    for i in range(n_leaf - 1, 0, -1):
        left, right = w.keys[np.uint64(first + 2 * i)], w.keys[np.uint64(first + 2 * i + 1)]
        w.keys[np.uint64(first + i)] = min(left, right)


@fast_step
def _replant(keys, first, leaf, key):
    """A link has another first packet."""
    keys[np.uint64(first + leaf)] = key
    while leaf > 1:
        key = min(key, keys[np.uint64(first + (leaf ^ 1))])
        leaf >>= 1
        keys[np.uint64(first + leaf)] = key


@fast_step
def _take_in(w: Windows, constants, node, spot, port, draw_port, packet, now_ps):
    """A packet that has come goes on at a port, or waits there; False if there is no room for it."""
    record, wire = w.ports[np.uint64(port)], w.wires[np.uint64(port)]
    if not _serve_until(w, constants, spot, port, draw_port, now_ps):
        return False
    if record.free_at_ps <= now_ps:
        if not has_room(wire):
            stop_for_room(w, wire)
            return False
        w.packets[np.uint64(packet)].path += 1
        spot.n_hop += 1
        if constants[TELEMETRY] != 0:
            _stamp(w, constants, port, draw_port, packet, now_ps)
        send(w, constants, port, packet, now_ps)
        return True
    if spot.free < 0:
        stop_for_place(w, spot)
        return False
    place = take_place(w.packets, spot)
    carry(w, constants, packet, place)
    w.packets[np.uint64(place)].path += 1
    if add_waiting(w.ports, w.packets, port, place):
        info = w.port_info[np.uint64(port)]
        if info.wait_next == NOT_CHAINED:
            info.wait_next = node.wait_head
            node.wait_head = port
    elif record.queued_bytes > MAX_QUEUE_BYTES:
        w.status[OVERFLOWN] = 1
    return True


@fast_step
def _close(w: Windows, constants, node, spot, first_port, limit_ps):
    """Serve what waits up to limit_ps; the first start behind it, NEVER: none."""
    port, still, next_ps = np.int64(node.wait_head), np.int64(-1), NEVER
    while port >= 0:
        info, record = w.port_info[np.uint64(port)], w.ports[np.uint64(port)]
        following = np.int64(info.wait_next)
        _serve_until(w, constants, spot, port, port - first_port, limit_ps)
        if record.ack_head >= 0 or record.data_head >= 0:
            info.wait_next = still
            still = port
            next_ps = min(next_ps, record.free_at_ps)
        else:
            info.wait_next = NOT_CHAINED
        port = following
    node.wait_head = still
    return next_ps


@step_kernel
def run_switch(w: Windows, node_id, begin_ps, bound_ps):
    """Run one switch from begin_ps to its bound, or to where a link or its places have no room."""
    node, spot = w.nodes[np.uint64(node_id)], w.spots[np.uint64(node_id)]
    constants = w.constants[np.uint64(spot.experiment)]
    first_port = w.experiments[np.uint64(spot.experiment)].first_port
    shift, first, n_leaf = constants[LINK_BITS], spot.first_key, np.int64(spot.n_leaf)
    _plant(w, node, spot, begin_ps, shift)
    limit_ps = bound_ps - 1
    while True:
        key = w.keys[np.uint64(first + 1)]
        now_ps = begin_ps + (key >> shift)
        if now_ps >= bound_ps:
            break
        i = key & ((np.int64(1) << shift) - 1)
        wire = w.wires[np.uint64(node.first_in + i)]
        packet = head_of(wire)
        port = np.int64(w.path_port[np.uint64(w.packets[np.uint64(packet)].path)])
        if not _take_in(w, constants, node, spot, port, port - first_port, packet, now_ps):
            limit_ps = now_ps
            break
        wire.head += 1
        spot.n_event += 1
        _replant(w.keys, first, n_leaf + i, _key(w, node.first_in + i, i, begin_ps, shift))
    spot.own_ps = _close(w, constants, node, spot, first_port, limit_ps)
