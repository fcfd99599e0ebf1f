"""Freezing network partitions in place (Wormhole section 6.2 and 6.3; design R7, R9).

A frozen partition keeps all that it has, in the chains where it lies, and so do the shared buffers: its ports are only
hidden from the nodes, until `thaw` shows them again.
"""

import numpy as np

from models.network.link.wire_time import transmission_ps
from models.network.skip.suspend.hidden import Hidden, mark_link, refresh_all
from models.network.state.records import (
    ACK_BYTES,
    ACK_EVERY,
    FLAG_MARKER,
    HEADER_BYTES,
    N_FROZEN_PORT,
    NOT_CHAINED,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from pdes.engine.bits import put_in_set
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def _leave_markers(fabric: Fabric, hidden: Hidden, port):
    """Of what is on a link that was just hidden, leave the markers where they are: flow level's are not frozen."""
    record, packets = fabric.ports[np.uint64(port)], fabric.packets
    packet, first, last, seen = np.int64(record.link_head), np.int64(-1), np.int64(-1), np.int64(-1)
    hidden.link_head[np.uint64(port)] = -1
    while packet >= 0:
        item = packets[np.uint64(packet)]
        following = np.int64(item.next)
        item.next = -1
        if item.bits & FLAG_MARKER:
            if last < 0:
                first = packet
            else:
                packets[np.uint64(last)].next = packet
            last = packet
        else:
            if seen < 0:
                hidden.link_head[np.uint64(port)] = packet
            else:
                packets[np.uint64(seen)].next = packet
            seen = packet
        packet = following
    record.link_head, record.link_tail = first, last
    if first < 0:
        mark_link(fabric, port, False)


@step_kernel
def _chain_without_frozen(fabric: Fabric, nic: Nic, node_id):
    """Take a switch's frozen ports out of its chain of ports with waiting packets."""
    node = fabric.nodes[np.uint64(node_id)]
    port, kept = np.int64(node.wait_head), np.int64(-1)
    while port >= 0:
        info = fabric.port_info[np.uint64(port)]
        following = np.int64(info.wait_next)
        if nic.frozen_port[np.uint64(port)] == 1:
            info.wait_next = NOT_CHAINED
        else:
            info.wait_next = kept
            kept = port
        port = following
    node.wait_head = kept


@loop_kernel
def hide(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, pairs, ports):
    """Freeze queue pairs and all ports of their ways, as far as they are here. pairs, ports: int64, ascending."""
    for i in range(ports.size):
        port = np.int64(ports[i])
        record = fabric.ports[np.uint64(port)]
        nic.frozen_port[np.uint64(port)] = 1
        hidden.link_head[np.uint64(port)] = record.link_head
        if record.link_head >= 0:
            _leave_markers(fabric, hidden, port)
    for i in range(ports.size):
        source = hidden.port_src[np.uint64(ports[i])]
        if fabric.nodes[np.uint64(source)].is_switch:
            _chain_without_frozen(fabric, nic, source)
        elif hidden.here[np.uint64(source)]:
            nic.nic_ports[np.uint64(ports[i])].next_start_ps = NEVER
    for i in range(pairs.size):
        record = nic.queue_pairs[np.uint64(pairs[i])]
        nic.is_frozen[np.uint64(pairs[i])] = 1
        put_in_set(nic.frozen, 0, nic.queue_pairs.size, np.int64(pairs[i]))
        if hidden.here[np.uint64(nic.facts[np.uint64(pairs[i])].node)]:
            _stop_timers(fabric, nic, record)
    fabric.counters[N_FROZEN_PORT] += ports.size
    refresh_all(fabric, buffers, nic, hidden, ports)


@step_kernel
def _stop_timers(fabric: Fabric, nic: Nic, record):
    """Take a queue pair's timers out of its host's tree."""
    node = fabric.nodes[np.uint64(record.node)]
    if node.n_timer == 0:
        return
    i, least_ps = np.int64(node.n_timer + record.timer_leaf), NEVER
    nic.timers[np.uint64(node.first_timer + i)] = NEVER
    while i > 1:
        least_ps = min(least_ps, nic.timers[np.uint64(node.first_timer + (i ^ 1))])
        i >>= 1
        nic.timers[np.uint64(node.first_timer + i)] = least_ps


@loop_kernel
def count_sent(fabric: Fabric, nic: Nic, hidden: Hidden, pairs, packets):
    """Count in hidden.advance_sent what ports have sent if queue pairs get packets done, and their time; how many
    packet-hops of ports of this rank that are."""
    constants, n_hop = fabric.constants, 0
    for i in range(pairs.size):
        facts = nic.facts[np.uint64(pairs[i])]
        row, n, size_bytes = np.int64(facts.data_path), packets[i], constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]
        for _ in range(2):
            port = np.int64(fabric.path_port[np.uint64(row)])
            while port >= 0:
                info = fabric.port_info[np.uint64(port)]
                hidden.advance_sent[np.uint64(port)] += n * size_bytes
                if fabric.ports[np.uint64(port)].ps_per_byte == 0:
                    info.busy_ps += n * transmission_ps(size_bytes, info.rate_bps, info.is_ns3)
                n_hop += n if hidden.here[np.uint64(hidden.port_src[np.uint64(port)])] else 0
                row += 1
                port = np.int64(fabric.path_port[np.uint64(row)])
            row, size_bytes = np.int64(facts.ack_path), constants[ACK_BYTES]
            n = packets[i] // max(1, constants[ACK_EVERY])
    return n_hop
