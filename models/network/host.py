"""Hosts: packets that arrive, NIC ports that start packets, streams that go on, in the order of design R2.

One call runs a list of hosts, each up to its own bound. A host's next event is the earliest of: a NIC port's start
(kind 0), the head of an in-link (kind 1), a stream's wake-up (kind 3).
"""

import numpy as np

from models.network.nic import choose_pair, make_data_packet, next_start, receive_ack, receive_data, set_ready
from models.network.port import link_filled, put_on_wire, queue_behind, take_from_wire, wire_time_ps
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
from pdes.engine.jit import inlined, loop_kernel
from pdes.engine.time_index import NEVER, set_time

SHORT_OF_PACKETS, SHORT_OF_MESSAGES, SHORT_OF_ROWS = 2, 3, 4


@inlined
def _shortage(counters, constants, n_row):
    """What an event could run out of, 0 if nothing: checked between events, so that a run goes on where it stopped."""
    short = 0
    if counters[N_FREE_PACKET] < constants[NEED_PACKETS]:
        short = SHORT_OF_PACKETS
    elif counters[N_FREE_MESSAGE] < constants[NEED_MESSAGES]:
        short = SHORT_OF_MESSAGES
    elif max(counters[N_FLOW_ROW], counters[N_ARRIVAL_ROW], counters[N_TASK_ROW]) + constants[NEED_ROWS] > n_row:
        short = SHORT_OF_ROWS
    return short


@inlined
def _start_packet(
    port,
    now_ps,
    ports,
    packets,
    stamp_ps,
    label,
    queue_pairs,
    messages,
    ready,
    ready_first,
    qp_first,
    qp_count,
    last_served,
    next_start_ps,
    rate_bps,
    busy_ps,
    counters,
    constants,
    port_dst,
    port_here,
    in_start,
    mask_start,
    mask,
    node_time,
    departed,
):
    """A NIC port sends its next packet: an acknowledgement if one waits, else data of the pair whose turn it is."""
    record = ports[np.uint64(port)]
    first_word, first_pair = ready_first[np.uint64(port)], qp_first[np.uint64(port)]
    n_pair = qp_count[np.uint64(port)]
    packet = np.int64(record.ack_head)
    if packet >= 0:
        record.ack_head = packets[np.uint64(packet)].next
    else:
        turn = choose_pair(queue_pairs, ready, first_word, first_pair, n_pair, last_served[np.uint64(port)], now_ps)
        last_served[np.uint64(port)] = turn
        pair = first_pair + turn
        packet = make_data_packet(packets, stamp_ps, label, queue_pairs, messages, counters, constants, pair, now_ps)
        set_ready(queue_pairs, ready, first_word, first_pair, pair)
    size_bytes = np.int64(packets[np.uint64(packet)].size_bytes)
    free_ps = now_ps + wire_time_ps(ports, rate_bps, busy_ps, port, size_bytes)
    record.free_at_ps = free_ps
    record.tx_bytes += size_bytes
    arrival_ps = free_ps + record.delay_ps
    if put_on_wire(ports, packets, port, packet, arrival_ps):
        link_filled(port, arrival_ps, port_dst, port_here, in_start, mask_start, mask, node_time, departed, counters)
    next_start_ps[np.uint64(port)] = next_start(ports, queue_pairs, ready, first_word, first_pair, n_pair, port)


@loop_kernel
def run_hosts(fabric: Fabric, nic: Nic, work: Work, rows: Rows, nodes, n_run, begin_ps, horizon_ps):
    """Run hosts nodes[:n_run] from begin_ps to their bounds; return 0, or what ran short (then call again)."""
    ports, packets, stamp_ps, label = fabric.ports, fabric.packets, fabric.stamp_ps, fabric.label
    path_port, rate_bps, busy_ps = fabric.path_port, fabric.rate_bps, fabric.busy_ps
    counters, constants, departed = fabric.counters, fabric.constants, fabric.departed
    port_dst, port_here, in_start = fabric.port_dst, fabric.port_here, fabric.in_start
    mask_start, mask, node_time, safe_ps = fabric.mask_start, fabric.mask, fabric.node_time, fabric.safe_ps
    queue_pairs, control, control_constants = nic.queue_pairs, nic.control, nic.control_constants
    messages, ready, ready_first = nic.messages, nic.ready, nic.ready_first
    qp_first, qp_count, last_served = nic.qp_first, nic.qp_count, nic.last_served
    next_start_ps, out_start, out_port = nic.next_start_ps, nic.out_start, nic.out_port
    flow_rows, arrival_rows, n_row = rows.flow, rows.arrival, rows.flow.shape[0]
    node_wake_ps = work.node_wake_ps
    n_hop, n_event, short, last_ps = 0, 0, 0, counters[LAST_EVENT_PS]
    for i_node in range(n_run):
        node = nodes[np.uint64(i_node)]
        bound_ps = min(horizon_ps, begin_ps + safe_ps[np.uint64(node)])
        first_in, last_in = in_start[np.uint64(node)], in_start[np.uint64(node + 1)]
        first_out, last_out = out_start[np.uint64(node)], out_start[np.uint64(node + 1)]
        while True:
            start_ps, start_port = NEVER, np.int64(-1)
            for k in range(first_out, last_out):
                port = np.int64(out_port[np.uint64(k)])
                if next_start_ps[np.uint64(port)] < start_ps:
                    start_ps, start_port = next_start_ps[np.uint64(port)], port
            arrival_ps, in_port = NEVER, np.int64(-1)
            for port in range(first_in, last_in):
                head = np.int64(ports[np.uint64(port)].link_head)
                if head >= 0 and packets[np.uint64(head)].arrival_ps < arrival_ps:
                    arrival_ps, in_port = packets[np.uint64(head)].arrival_ps, port
            wake_ps = node_wake_ps[np.uint64(node)]
            now_ps = min(start_ps, arrival_ps, wake_ps)
            if now_ps >= bound_ps:
                set_time(node_time, node, now_ps)
                break
            short = _shortage(counters, constants, n_row)
            if short:
                set_time(node_time, node, now_ps)
                break
            if start_ps == now_ps:
                n_hop += 1
                _start_packet(
                    start_port,
                    now_ps,
                    ports,
                    packets,
                    stamp_ps,
                    label,
                    queue_pairs,
                    messages,
                    ready,
                    ready_first,
                    qp_first,
                    qp_count,
                    last_served,
                    next_start_ps,
                    rate_bps,
                    busy_ps,
                    counters,
                    constants,
                    port_dst,
                    port_here,
                    in_start,
                    mask_start,
                    mask,
                    node_time,
                    departed,
                )
                continue
            n_event += 1
            last_ps = max(last_ps, now_ps)
            resumed = np.int64(-1)
            if arrival_ps == now_ps:
                packet = np.int64(ports[np.uint64(in_port)].link_head)
                take_from_wire(ports, packets, in_port, in_start, mask_start, mask, node)
                pair = np.int64(packets[np.uint64(packet)].queue_pair)
                if packets[np.uint64(packet)].flags & FLAG_ACK:
                    receive_ack(
                        packets,
                        queue_pairs,
                        control,
                        control_constants,
                        messages,
                        ready,
                        ready_first,
                        qp_first,
                        flow_rows,
                        counters,
                        packet,
                        now_ps,
                    )
                    port = np.int64(queue_pairs[np.uint64(pair)].port)
                else:
                    if receive_data(
                        packets, label, queue_pairs, arrival_rows, counters, constants, packet, node, now_ps
                    ):
                        resumed = np.int64(queue_pairs[np.uint64(pair)].waiting_stream)
                        if resumed >= 0 and work.streams[np.uint64(resumed)].waiting_for != pair:
                            resumed = np.int64(-1)
                    port = np.int64(path_port[np.uint64(queue_pairs[np.uint64(pair)].ack_path)])
                    record = ports[np.uint64(port)]
                    record.ack_head = queue_behind(packets, record.ack_head, record.ack_tail, packet)
                    record.ack_tail = packet
                start_ps = next_start(
                    ports,
                    queue_pairs,
                    ready,
                    ready_first[np.uint64(port)],
                    qp_first[np.uint64(port)],
                    qp_count[np.uint64(port)],
                    port,
                )
                next_start_ps[np.uint64(port)] = max(now_ps, start_ps)
                if resumed >= 0:
                    run_stream(fabric, nic, work, rows, resumed, now_ps)
            else:
                for k in range(work.stream_start[node], work.stream_start[node + 1]):
                    if work.streams[k].wake_ps == now_ps:
                        run_stream(fabric, nic, work, rows, k, now_ps)
                        break
        if short:
            break
    counters[PACKET_HOPS] += n_hop
    counters[EVENTS] += n_event
    counters[LAST_EVENT_PS] = last_ps
    return short
