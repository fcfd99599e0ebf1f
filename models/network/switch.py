"""Switches: store and forward. A packet that arrives is routed, waits at its egress port and leaves; no other delay.

One call runs a list of switches, each up to its own bound: per-node windows (see `rounds`), so that a switch's ports
stay in the cache while it is served. In-links that carry packets are merged by a winner tree in the order of (arrival,
port), which is design R2's order at a node.
"""

import numpy as np

from models.network.port import (
    add_waiting,
    link_filled,
    next_waiting,
    put_on_wire,
    take_from_wire,
    wire_time_ps,
)
from models.network.state import (
    EVENTS,
    FAULT,
    FAULT_NODE,
    LINK_BITS,
    MAX_QUEUE_BYTES,
    PACKET_HOPS,
    Fabric,
)
from pdes.engine.bits import WORD_BITS, lowest_bit
from pdes.engine.jit import inlined, loop_kernel
from pdes.engine.time_index import NEVER, set_time

FAULT_QUEUE_OVERFLOW = 1


@loop_kernel
def _gather_links(node, begin_ps, ports, packets, in_start, mask_start, mask, link_slot, link_key, shift):
    """Fill the winner tree with the heads of this switch's in-links that carry packets; return its leaf count."""
    n_active = 0
    first_word, first_port = mask_start[np.uint64(node)], in_start[np.uint64(node)]
    for w in range(first_word, mask_start[np.uint64(node + 1)]):
        word = mask[np.uint64(w)]
        while word != 0:
            link_slot[np.uint64(n_active)] = first_port + (w - first_word) * WORD_BITS + lowest_bit(word)
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


@loop_kernel
def _replace_key(link_key, leaf, key):
    i = np.uint64(leaf)
    link_key[i] = key
    while i > np.uint64(1):
        key = min(key, link_key[i ^ np.uint64(1)])
        i >>= np.uint64(1)
        link_key[i] = key


@inlined
def _serve_until(
    port,
    limit_ps,
    fabric_ports,
    packets,
    rate_bps,
    busy_ps,
    ecn_max_bytes,
    ecn_max_probability,
    ecn_draws,
    ecn_marks,
    constants,
    port_dst,
    port_here,
    in_start,
    mask_start,
    mask,
    node_time,
    departed,
    counters,
):
    """Start every packet that waits at a switch's port and can start at or before limit_ps; return how many."""
    record = fabric_ports[np.uint64(port)]
    n_started = 0
    while record.free_at_ps <= limit_ps:
        sent = next_waiting(
            fabric_ports, packets, port, ecn_max_bytes, ecn_max_probability, ecn_draws, ecn_marks, constants
        )
        if sent < 0:
            break
        sent_bytes = np.int64(packets[np.uint64(sent)].size_bytes)
        free_ps = record.free_at_ps + wire_time_ps(fabric_ports, rate_bps, busy_ps, port, sent_bytes)
        record.free_at_ps = free_ps
        record.tx_bytes += sent_bytes
        n_started += 1
        if put_on_wire(fabric_ports, packets, port, sent, free_ps + record.delay_ps):
            link_filled(
                port,
                free_ps + record.delay_ps,
                port_dst,
                port_here,
                in_start,
                mask_start,
                mask,
                node_time,
                departed,
                counters,
            )
    return n_started


@loop_kernel
def run_switches(fabric: Fabric, nodes, n_run, begin_ps, horizon_ps):
    """Run switches nodes[:n_run] from begin_ps to their bounds, at most horizon_ps.

    begin_ps: no event before it remains anywhere on the rank. A node may run to begin_ps + safe_ps[node].
    """
    ports, packets, path_port = fabric.ports, fabric.packets, fabric.path_port
    rate_bps, busy_ps, constants, counters = fabric.rate_bps, fabric.busy_ps, fabric.constants, fabric.counters
    ecn_max_bytes, ecn_max_probability = fabric.ecn_max_bytes, fabric.ecn_max_probability
    ecn_draws, ecn_marks = fabric.ecn_draws, fabric.ecn_marks
    port_dst, port_here, in_start, mask_start = fabric.port_dst, fabric.port_here, fabric.in_start, fabric.mask_start
    mask, node_time, departed = fabric.mask, fabric.node_time, fabric.departed
    wait_head, wait_next, link_slot, link_key = fabric.wait_head, fabric.wait_next, fabric.link_slot, fabric.link_key
    shift = constants[LINK_BITS]
    low_bits = (np.int64(1) << shift) - 1
    n_hop, n_event = 0, 0
    for i_node in range(n_run):
        node = nodes[np.uint64(i_node)]
        bound_ps = min(horizon_ps, begin_ps + fabric.safe_ps[np.uint64(node)])
        n_leaf = _gather_links(node, begin_ps, ports, packets, in_start, mask_start, mask, link_slot, link_key, shift)
        while True:
            key = link_key[np.uint64(1)]
            now_ps = begin_ps + (key >> shift)
            if now_ps >= bound_ps:
                break
            slot = key & low_bits
            in_port = link_slot[np.uint64(slot)]
            packet = np.int64(ports[np.uint64(in_port)].link_head)
            item = packets[np.uint64(packet)]
            following = np.int64(item.next)
            take_from_wire(ports, packets, in_port, in_start, mask_start, mask, node)
            key = NEVER
            if following >= 0:
                key = ((packets[np.uint64(following)].arrival_ps - begin_ps) << shift) | slot
            _replace_key(link_key, n_leaf + slot, key)
            n_event += 1
            port = np.int64(path_port[np.uint64(item.path)])
            item.path += 1
            n_hop += _serve_until(
                port,
                now_ps,
                ports,
                packets,
                rate_bps,
                busy_ps,
                ecn_max_bytes,
                ecn_max_probability,
                ecn_draws,
                ecn_marks,
                constants,
                port_dst,
                port_here,
                in_start,
                mask_start,
                mask,
                node_time,
                departed,
                counters,
            )
            record = ports[np.uint64(port)]
            if record.free_at_ps <= now_ps:
                n_hop += 1
                size_bytes = np.int64(item.size_bytes)
                free_ps = now_ps + wire_time_ps(ports, rate_bps, busy_ps, port, size_bytes)
                record.free_at_ps = free_ps
                record.tx_bytes += size_bytes
                if put_on_wire(ports, packets, port, packet, free_ps + record.delay_ps):
                    link_filled(
                        port,
                        free_ps + record.delay_ps,
                        port_dst,
                        port_here,
                        in_start,
                        mask_start,
                        mask,
                        node_time,
                        departed,
                        counters,
                    )
            elif add_waiting(ports, packets, port, packet):
                if wait_next[np.uint64(port)] == -2:
                    wait_next[np.uint64(port)] = wait_head[np.uint64(node)]
                    wait_head[np.uint64(node)] = port
            elif record.queued_bytes > MAX_QUEUE_BYTES:
                counters[FAULT], counters[FAULT_NODE] = FAULT_QUEUE_OVERFLOW, node
        next_ps = NEVER if link_key[np.uint64(1)] == NEVER else begin_ps + (link_key[np.uint64(1)] >> shift)
        port = np.int64(wait_head[np.uint64(node)])
        still = np.int64(-1)
        while port >= 0:
            following = np.int64(wait_next[np.uint64(port)])
            n_hop += _serve_until(
                port,
                bound_ps - 1,
                ports,
                packets,
                rate_bps,
                busy_ps,
                ecn_max_bytes,
                ecn_max_probability,
                ecn_draws,
                ecn_marks,
                constants,
                port_dst,
                port_here,
                in_start,
                mask_start,
                mask,
                node_time,
                departed,
                counters,
            )
            record = ports[np.uint64(port)]
            if record.ack_head >= 0 or record.data_head >= 0:
                wait_next[np.uint64(port)] = still
                still = port
                next_ps = min(next_ps, record.free_at_ps)
            else:
                wait_next[np.uint64(port)] = -2
            port = following
        wait_head[np.uint64(node)] = still
        set_time(node_time, node, next_ps)
    counters[PACKET_HOPS] += n_hop
    counters[EVENTS] += n_event
