"""Switches: store and forward. A packet that arrives is routed, waits at its egress port and leaves; no other delay.

One call runs a list of switches, each up to its own bound: per-node windows (see `rounds`), so that a switch's ports
stay in the cache while it is served. In-links that carry packets are merged by a winner tree in the order of (arrival,
port), which is design R2's order at a node.
"""

import numpy as np

from models.network.port import add_waiting, next_waiting, send_now, take_from_wire
from models.network.state import (
    EVENTS,
    FAULT,
    FAULT_NODE,
    LINK_BITS,
    MAX_QUEUE_BYTES,
    NOT_CHAINED,
    PACKET_HOPS,
    Fabric,
)
from models.network.tracing import ARRIVED, DEQUEUED, IS_TRACED, NOTHING, trace_packet, trace_start
from pdes.engine.bits import WORD_BITS, lowest_bit
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.time_index import NEVER, set_time

FAULT_QUEUE_OVERFLOW = 1


@step_kernel
def gather_links(node, begin_ps, ports, packets, mask, link_slot, link_key, shift):
    """Fill the winner tree with the heads of this switch's in-links that carry packets; return its leaf count."""
    n_active = 0
    first_word, first_port = node.first_mask, node.first_in
    for w in range((node.end_in - first_port + WORD_BITS - 1) // WORD_BITS):
        word = mask[np.uint64(first_word + w)]
        while word != 0:
            port = first_port + w * WORD_BITS + lowest_bit(word)
            link_slot[np.uint64(n_active)] = port
            n_active += 1
            word &= word - 1
    n_leaf = 1
    while n_leaf < n_active:
        n_leaf *= 2
    for i in range(n_leaf):
        key = NEVER
        if i < n_active:
            head = ports[np.uint64(link_slot[np.uint64(i)])].link_head
            key = ((packets[np.uint64(head)].arrival_ps - begin_ps) << shift) | i
        link_key[np.uint64(n_leaf + i)] = key
    for i in range(n_leaf - 1, 0, -1):
        link_key[np.uint64(i)] = min(link_key[np.uint64(2 * i)], link_key[np.uint64(2 * i + 1)])
    return n_leaf


@step_kernel
def replace_key(link_key, leaf, key):
    i = np.uint64(leaf)
    link_key[i] = key
    while i > np.uint64(1):
        key = min(key, link_key[i ^ np.uint64(1)])
        i >>= np.uint64(1)
        link_key[i] = key


@inlined
def _serve_until(port, limit_ps, ports, port_info, packets, nodes, mask, node_time, departed, counters, constants):
    """Start every packet that waits at a switch's port and can start at or before limit_ps; return how many."""
    n_started = 0
    record = ports[np.uint64(port)]
    while record.free_at_ps <= limit_ps:
        sent = next_waiting(ports, port_info, packets, constants, port)
        if sent < 0:
            break
        start_ps = record.free_at_ps
        if IS_TRACED:
            trace_packet(counters, packets, sent, DEQUEUED, start_ps, port, np.int64(record.queued_bytes))
        send_now(ports, port_info, packets, nodes, mask, node_time, departed, counters, port, sent, start_ps)
        n_started += 1
    return n_started


@step_kernel
def run_switches(fabric: Fabric, todo, n_run, begin_ps, horizon_ps):
    """Run switches todo[:n_run] from begin_ps to their bounds, at most horizon_ps.

    begin_ps: no event before it remains anywhere on the rank. A node may run to begin_ps + its safe_ps.
    """
    ports, port_info, packets, path_port = fabric.ports, fabric.port_info, fabric.packets, fabric.path_port
    nodes, mask, node_time, departed = fabric.nodes, fabric.mask, fabric.node_time, fabric.departed
    counters, constants = fabric.counters, fabric.constants
    link_slot, link_key, shift = fabric.link_slot, fabric.link_key, fabric.constants[LINK_BITS]
    low_bits = (np.int64(1) << shift) - 1
    n_hop, n_event = 0, 0
    for i_node in range(n_run):
        node_id, n_before = todo[np.uint64(i_node)], n_hop + n_event
        node = nodes[np.uint64(node_id)]
        bound_ps = min(horizon_ps, begin_ps + node.safe_ps)
        n_leaf = gather_links(node, begin_ps, ports, packets, mask, link_slot, link_key, shift)
        while True:
            key = link_key[np.uint64(1)]
            now_ps = begin_ps + (key >> shift)
            if now_ps >= bound_ps:
                break
            slot = key & low_bits
            in_port = link_slot[np.uint64(slot)]
            packet = np.int64(ports[np.uint64(in_port)].link_head)
            following = take_from_wire(ports, packets, in_port, node, mask)
            key = NEVER
            if following >= 0:
                key = ((packets[np.uint64(following)].arrival_ps - begin_ps) << shift) | slot
            replace_key(link_key, n_leaf + slot, key)
            n_event += 1
            item = packets[np.uint64(packet)]
            if IS_TRACED:
                trace_packet(counters, packets, packet, ARRIVED, now_ps, in_port, NOTHING)
            port = np.int64(path_port[np.uint64(item.path)])
            item.path += 1
            n_hop += _serve_until(
                port, now_ps, ports, port_info, packets, nodes, mask, node_time, departed, counters, constants
            )
            record = ports[np.uint64(port)]
            if IS_TRACED:
                trace_start(counters, packets, record, packet, port, now_ps)
            if record.free_at_ps <= now_ps:
                n_hop += 1
                send_now(ports, port_info, packets, nodes, mask, node_time, departed, counters, port, packet, now_ps)
            elif add_waiting(ports, packets, port, packet):
                info = port_info[np.uint64(port)]
                if info.wait_next == NOT_CHAINED:
                    info.wait_next = node.wait_head
                    node.wait_head = port
            elif record.queued_bytes > MAX_QUEUE_BYTES:
                counters[FAULT], counters[FAULT_NODE] = FAULT_QUEUE_OVERFLOW, node_id
        next_ps = NEVER if link_key[np.uint64(1)] == NEVER else now_ps
        port = np.int64(node.wait_head)
        still = np.int64(-1)
        while port >= 0:
            info, record = port_info[np.uint64(port)], ports[np.uint64(port)]
            following = np.int64(info.wait_next)
            n_hop += _serve_until(
                port, bound_ps - 1, ports, port_info, packets, nodes, mask, node_time, departed, counters, constants
            )
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
