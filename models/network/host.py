"""Hosts: packets that arrive, NIC ports that start packets, streams that go on, in the order of design R2.

One call runs a list of hosts, each up to its own bound. A host's next event is the earliest of: a NIC port's start
(kind 0), the head of an in-link (kind 1), a stream's wake-up (kind 3).
"""

import numpy as np

from models.network.nic import choose_pair, make_data_packet, next_start, receive_ack, receive_data, set_ready
from models.network.port import queue_behind, send_now, take_from_wire
from models.network.state import (
    EVENTS,
    FLAG_ACK,
    LAST_EVENT_PS,
    N_ARRIVAL_ROW,
    N_FLOW_ROW,
    N_FREE_MESSAGE,
    N_FREE_PACKET,
    N_TASK_ROW,
    NEED_MESSAGES,
    NEED_PACKETS,
    NEED_ROWS,
    PACKET_HOPS,
    Fabric,
    Nic,
    Rows,
)
from models.workload.program import Work
from models.workload.stream import run_stream
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.time_index import NEVER, set_time

SHORT_OF_PACKETS, SHORT_OF_MESSAGES, SHORT_OF_ROWS = 2, 3, 4


@step_kernel
def _shortage(counters, constants, n_row):
    """What an event could run out of, 0 if nothing: checked between events, so that a run goes on where it stopped."""
    if counters[N_FREE_PACKET] < constants[NEED_PACKETS]:
        return SHORT_OF_PACKETS
    if counters[N_FREE_MESSAGE] < constants[NEED_MESSAGES]:
        return SHORT_OF_MESSAGES
    if max(counters[N_FLOW_ROW], counters[N_ARRIVAL_ROW], counters[N_TASK_ROW]) + constants[NEED_ROWS] > n_row:
        return SHORT_OF_ROWS
    return 0


@step_kernel
def _first_start(node, nic_ports, out_port):
    """(time, port) of the NIC port that starts a packet first; (NEVER, -1) if none does."""
    start_ps, start_port = NEVER, np.int64(-1)
    for k in range(node.first_out, node.end_out):
        port = np.int64(out_port[np.uint64(k)])
        next_ps = nic_ports[np.uint64(port)].next_start_ps
        if next_ps < start_ps:
            start_ps, start_port = next_ps, port
    return start_ps, start_port


@step_kernel
def _first_arrival(node, ports, packets):
    """(time, port) of the in-link whose packet arrives first, the lowest port among equals; (NEVER, -1) if none."""
    arrival_ps, in_port = NEVER, np.int64(-1)
    for port in range(node.first_in, node.end_in):
        head = np.int64(ports[np.uint64(port)].link_head)
        if head >= 0 and packets[np.uint64(head)].arrival_ps < arrival_ps:
            arrival_ps, in_port = packets[np.uint64(head)].arrival_ps, port
    return arrival_ps, in_port


@inlined
def _next_packet(fabric, nic, ports, packets, nic_ports, queue_pairs, ready, counters, constants, port, now_ps):
    """The packet that a NIC port starts now: an ACK if one waits, else data of the pair whose turn it is."""
    record = ports[np.uint64(port)]
    packet = np.int64(record.ack_head)
    if packet >= 0:
        record.ack_head = packets[np.uint64(packet)].next
    else:
        pair = choose_pair(nic_ports[np.uint64(port)], queue_pairs, ready, now_ps)
        packet = make_data_packet(packets, fabric.label, queue_pairs, nic.messages, counters, constants, pair, now_ps)
        set_ready(nic_ports, queue_pairs, ready, pair)
    return packet


@inlined
def _receive(fabric, nic, work, rows, ports, packets, queue_pairs, counters, constants, packet, node_id, now_ps):
    """Take a packet at its destination; (port that may start a packet now, stream that goes on or -1)."""
    item = packets[np.uint64(packet)]
    pair = np.int64(item.queue_pair)
    record = queue_pairs[np.uint64(pair)]
    resumed = np.int64(-1)
    if item.bits & FLAG_ACK:
        receive_ack(packets, nic, rows.flow, counters, packet, now_ps)
        port = np.int64(record.port)
    else:
        if receive_data(packets, fabric.label, queue_pairs, rows.arrival, counters, constants, packet, node_id, now_ps):
            stream = np.int64(record.waiting_stream)
            if stream >= 0 and work.streams[np.uint64(stream)].waiting_for == pair:
                resumed = stream
        port = np.int64(fabric.path_port[np.uint64(record.ack_path)])
        nic_port = ports[np.uint64(port)]
        nic_port.ack_head = queue_behind(packets, np.int64(nic_port.ack_head), np.int64(nic_port.ack_tail), packet)
        nic_port.ack_tail = packet
    return port, resumed


@step_kernel
def _first_awake(work: Work, node, now_ps):
    """The first stream of a node that wakes now; there is one."""
    i_stream = np.int64(node.first_stream)
    while work.streams[np.uint64(i_stream)].wake_ps != now_ps:
        i_stream += 1
    return i_stream


@step_kernel
def run_hosts(fabric: Fabric, nic: Nic, work: Work, rows: Rows, todo, n_run, begin_ps, horizon_ps):
    """Run hosts todo[:n_run] from begin_ps to their bounds; return 0, or what ran short (then call again)."""
    ports, port_info, packets, nodes = fabric.ports, fabric.port_info, fabric.packets, fabric.nodes
    mask, node_time, departed = fabric.mask, fabric.node_time, fabric.departed
    counters, constants = fabric.counters, fabric.constants
    queue_pairs, nic_ports, ready, out_port = nic.queue_pairs, nic.nic_ports, nic.ready, nic.out_port
    n_row = rows.flow.shape[0]
    n_hop, n_event, short, last_ps = 0, 0, 0, counters[LAST_EVENT_PS]
    for i_node in range(n_run):
        node_id = todo[np.uint64(i_node)]
        node = nodes[np.uint64(node_id)]
        bound_ps = min(horizon_ps, begin_ps + node.safe_ps)
        while True:
            start_ps, start_port = _first_start(node, nic_ports, out_port)
            arrival_ps, in_port = _first_arrival(node, ports, packets)
            now_ps = min(start_ps, arrival_ps, node.wake_ps)
            if now_ps < bound_ps:
                short = _shortage(counters, constants, n_row)
            if now_ps >= bound_ps or short > 0:
                set_time(node_time, node_id, now_ps)
                break
            if start_ps == now_ps:
                n_hop += 1
                packet = _next_packet(
                    fabric, nic, ports, packets, nic_ports, queue_pairs, ready, counters, constants, start_port, now_ps
                )
                send_now(
                    ports, port_info, packets, nodes, mask, node_time, departed, counters, start_port, packet, now_ps
                )
                nic_ports[np.uint64(start_port)].next_start_ps = next_start(
                    ports, nic_ports, queue_pairs, ready, start_port
                )
                continue
            n_event += 1
            last_ps = max(last_ps, now_ps)
            if arrival_ps == now_ps:
                packet = np.int64(ports[np.uint64(in_port)].link_head)
                take_from_wire(ports, packets, in_port, node, mask)
                port, resumed = _receive(
                    fabric, nic, work, rows, ports, packets, queue_pairs, counters, constants, packet, node_id, now_ps
                )
                start_ps = next_start(ports, nic_ports, queue_pairs, ready, port)
                nic_ports[np.uint64(port)].next_start_ps = max(now_ps, start_ps)
            else:
                resumed = _first_awake(work, node, now_ps)
            if resumed >= 0:
                run_stream(fabric, nic, work, rows, resumed, now_ps)
        if short > 0:
            break
    counters[PACKET_HOPS] += n_hop
    counters[EVENTS] += n_event
    counters[LAST_EVENT_PS] = last_ps
    return short
