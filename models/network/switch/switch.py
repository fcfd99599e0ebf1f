"""Switches: store and forward. A packet that arrives is routed, waits at its egress port and leaves; no other delay.
Where the congestion control asks for INT, each hop is stamped on data packets as they leave.

One call runs a list of switches, each up to its own bound: per-node windows (see `rounds`), so that a switch's ports
stay in the cache while it is served. In-links that carry packets are merged by a winner tree in the order of (arrival,
port), which is design R2's order at a node.
"""

import numpy as np

from models.network.link.link_order import gather_links, leave_links, take_first
from models.network.link.port import add_waiting, next_waiting, send_now
from models.network.state.records import (
    EVENTS,
    FAULT,
    FAULT_NODE,
    FLAG_ACK,
    LINK_BITS,
    MAX_QUEUE_BYTES,
    NOT_CHAINED,
    PACKET_HOPS,
    TELEMETRY,
    Fabric,
)
from models.network.switch.telemetry import stamp_int
from models.network.watch.tracing import ARRIVED, DEQUEUED, IS_TRACED, NOTHING, trace_packet, trace_start
from pdes.engine.jit import fast_step, inlined, step_kernel
from pdes.engine.prefetch import prefetch
from pdes.engine.time_index import NEVER, set_time

FAULT_QUEUE_OVERFLOW = 1


@inlined
def _stamp(fabric, port, packet, start_ps):
    """INT of a packet that leaves, if it is data. No ACK waits then, as these go first: what waits behind is data."""
    record = fabric.ports[np.uint64(port)]
    if fabric.packets[np.uint64(packet)].bits & FLAG_ACK == 0:
        rate_bps, queued_bytes = fabric.port_info[np.uint64(port)].rate_bps, np.int64(record.queued_bytes)
        stamp_int(fabric.extra, fabric.constants, packet, port, start_ps, record.tx_bytes, queued_bytes, rate_bps)


@inlined
def _serve_until(fabric, port, limit_ps, has_int):
    """Start every packet that waits at a switch's port and can start at or before limit_ps; return how many."""
    n_started = 0
    record = fabric.ports[np.uint64(port)]
    while record.free_at_ps <= limit_ps:
        sent = next_waiting(fabric.ports, fabric.port_info, fabric.packets, fabric.constants, port)
        if sent < 0:
            break
        start_ps = record.free_at_ps
        if IS_TRACED:
            queued_bytes = np.int64(record.queued_bytes)
            trace_packet(fabric.counters, fabric.packets, sent, DEQUEUED, start_ps, port, queued_bytes)
        if has_int:
            _stamp(fabric, port, sent, start_ps)
        send_now(fabric, port, sent, start_ps)
        n_started += 1
    return n_started


@fast_step
def ask_ahead(fabric: Fabric, todo, i_node):
    """Have in the cache what the i_node-th switch and the next one are about to touch: ports, and what waits at them.

    That is a gain of 4 % with a thousand hosts, whose ports and packets no longer fit in the cache next to the core.
    """
    nodes, ports, port_info = fabric.nodes, fabric.ports, fabric.port_info
    node = nodes[np.uint64(todo[np.uint64(i_node)])]
    port = np.int64(node.wait_head)
    while port >= 0:
        prefetch(fabric.packets, np.int64(ports[np.uint64(port)].data_head))
        port = np.int64(port_info[np.uint64(port)].wait_next)
    for port in range(node.first_in, node.end_in):
        back = np.int64(fabric.port_back[np.uint64(port)])
        prefetch(ports, back)
        prefetch(port_info, back)
    if i_node + 1 < todo.size:
        node = nodes[np.uint64(todo[np.uint64(i_node + 1)])]
        for port in range(node.first_in, node.end_in):
            prefetch(ports, port)
    if i_node + 2 < todo.size:
        prefetch(nodes, todo[np.uint64(i_node + 2)])


@step_kernel
def run_switches(fabric: Fabric, todo, begin_ps, horizon_ps):
    """Run switches, int64[] todo, from begin_ps to their bounds, at most horizon_ps.

    begin_ps: no event before it remains anywhere on the rank. A node may run to begin_ps + its safe_ps.
    """
    ports, port_info, packets, path_port = fabric.ports, fabric.port_info, fabric.packets, fabric.path_port
    nodes, mask, node_time, counters, extra = fabric.nodes, fabric.mask, fabric.node_time, fabric.counters, fabric.extra
    has_int = fabric.constants[TELEMETRY] != 0
    slots, keys, shift = fabric.link_slots, fabric.link_keys, fabric.constants[LINK_BITS]
    low_bits = (np.int64(1) << shift) - 1
    n_hop, n_event = 0, 0
    for i_node in range(todo.size):
        node_id, n_before = todo[np.uint64(i_node)], n_hop + n_event
        node = nodes[np.uint64(node_id)]
        bound_ps = min(horizon_ps, begin_ps + node.safe_ps)
        ask_ahead(fabric, todo, i_node)
        n_link, n_leaf = gather_links(node, begin_ps, ports, packets, mask, slots, keys, shift)
        while True:
            key = keys[np.uint64(1)]
            now_ps = begin_ps + (key >> shift)
            if now_ps >= bound_ps:
                break
            slot = key & low_bits
            packet = take_first(packets, slots, keys, slot, n_leaf, begin_ps, shift)
            if has_int:
                prefetch(extra, slots[np.uint64(slot)].packet)
            n_event += 1
            item = packets[np.uint64(packet)]
            if IS_TRACED:
                trace_packet(counters, packets, packet, ARRIVED, now_ps, slots[np.uint64(slot)].port, NOTHING)
            port = np.int64(path_port[np.uint64(item.path)])
            item.path += 1
            n_hop += _serve_until(fabric, port, now_ps, has_int)
            record = ports[np.uint64(port)]
            if IS_TRACED:
                trace_start(counters, packets, record, packet, port, now_ps)
            if record.free_at_ps <= now_ps:
                n_hop += 1
                if has_int:
                    _stamp(fabric, port, packet, now_ps)
                send_now(fabric, port, packet, now_ps)
            elif add_waiting(ports, packets, port, packet):
                info = port_info[np.uint64(port)]
                if info.wait_next == NOT_CHAINED:
                    info.wait_next = node.wait_head
                    node.wait_head = port
            elif record.queued_bytes > MAX_QUEUE_BYTES:
                counters[FAULT], counters[FAULT_NODE] = FAULT_QUEUE_OVERFLOW, node_id
        leave_links(node, ports, mask, slots, n_link)
        next_ps = NEVER if keys[np.uint64(1)] == NEVER else now_ps
        port = np.int64(node.wait_head)
        still = np.int64(-1)
        while port >= 0:
            info, record = port_info[np.uint64(port)], ports[np.uint64(port)]
            following = np.int64(info.wait_next)
            n_hop += _serve_until(fabric, port, bound_ps - 1, has_int)
            if record.ack_head >= 0 or record.data_head >= 0:
                info.wait_next = still
                still = port
                next_ps = min(next_ps, record.free_at_ps)
            else:
                info.wait_next = NOT_CHAINED
            port = following
        node.wait_head = still
        set_time(node_time, node_id, next_ps)
        fabric.n_step[np.uint64(node_id)] += 1 + n_hop + n_event - n_before
    counters[PACKET_HOPS] += n_hop
    counters[EVENTS] += n_event
