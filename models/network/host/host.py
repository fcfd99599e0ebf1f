"""Hosts: packets that arrive, NIC ports that start packets, timers, streams that go on, in the order of design R2.

One call runs a list of hosts, each up to its own bound. A host's next event is the earliest of: a NIC port's start
(kind 0), the head of an in-link (kind 1), a timer of a queue pair (kind 2), a stream's wake-up (kind 3).
"""

import numpy as np

from models.network.host.interrupts import stop_of
from models.network.host.markers import receive_marker
from models.network.host.messages import first_part_of, list_over
from models.network.host.nic import (
    choose_pair,
    free_packet,
    make_data_packet,
    make_resend,
    next_start,
    set_ready,
    watch_for_loss,
)
from models.network.host.ns3_nic import NOTHING as NOTHING_TO_SEND
from models.network.host.ns3_nic import SEND_ACK, look, next_look, poke
from models.network.host.receiver import ANSWERS, ENDS_MESSAGE, receive_data
from models.network.host.rtt_rows import note_rtt
from models.network.host.sender import fire_timer, receive_ack
from models.network.host.shortages import (
    n_safe_event,
    shortage,
)
from models.network.host.timers import first_timer_leaf, first_timer_ps, set_timers
from models.network.link.link_changes import apply_changes_at_host
from models.network.link.loss import NOT_LOST, drop_packet, why_lost
from models.network.link.port import queue_behind, send_now, take_from_wire
from models.network.state.packet_pool import pool_of
from models.network.state.records import (
    EVENTS,
    FLAG_ACK,
    FLAG_FRAME,
    FLAG_MARKER,
    IS_FLOW_MODE,
    IS_NS3,
    LAST_EVENT_PS,
    N_ARRIVAL_ROW,
    N_FLOW_ROW,
    NS3_IGNORES_PFC,
    PACKET_HOPS,
    RTT_FLOW,
    TIMEOUT_PS,
    Fabric,
    Nic,
    Rows,
)
from models.network.state.switch_state import Buffers
from models.network.streams.graph_stream import end_sends, take_message
from models.network.streams.stream import run_stream
from models.network.watch.tracing import (
    ARRIVED,
    IS_TRACED,
    NOTHING,
    STARTED,
    trace_ack,
    trace_delivered,
    trace_packet,
    trace_pause,
)
from models.workload.program import WAITING_GRAPH, Work
from pdes.engine.apart import apart
from pdes.engine.jit import fast_step, inlined, step_kernel
from pdes.engine.prefetch import prefetch
from pdes.engine.time_index import NEVER, set_time


@fast_step
def _first_start(node, nic_ports, out_port):
    """(time, port) of the NIC port that starts a packet first; (NEVER, -1) if none does."""
    start_ps, start_port = NEVER, np.int64(-1)
    for k in range(node.first_out, node.end_out):
        port = np.int64(out_port[np.uint64(k)])
        next_ps = nic_ports[np.uint64(port)].next_start_ps
        if next_ps < start_ps:
            start_ps, start_port = next_ps, port
    return start_ps, start_port


@fast_step
def _first_arrival(node, ports, packets):
    """(time, port) of the in-link whose packet arrives first, the lowest port among equals; (NEVER, -1) if none."""
    arrival_ps, in_port = NEVER, np.int64(-1)
    for port in range(node.first_in, node.end_in):
        head = np.int64(ports[np.uint64(port)].link_head)
        if head >= 0 and packets[np.uint64(head)].arrival_ps < arrival_ps:
            arrival_ps, in_port = packets[np.uint64(head)].arrival_ps, port
    return arrival_ps, in_port


@fast_step
def _take_ack(packets, record):
    """The ACK that waits longest at a NIC port."""
    packet = np.int64(record.ack_head)
    record.ack_head = packets[np.uint64(packet)].next
    return packet


@inlined
def _make_data(fabric, nic, node, pair, now_ps):
    """The next data packet of a queue pair whose turn it is."""
    sender, pool = nic.queue_pairs[np.uint64(pair)], pool_of(fabric)
    if sender.resend_byte < sender.lost_byte:
        packet = make_resend(pool, nic.messages, nic.ranges, pair, sender, now_ps)
    else:
        packet = make_data_packet(pool, nic.queue_pairs, nic.messages, pair, now_ps)
    if fabric.constants[TIMEOUT_PS] > 0 and watch_for_loss(sender, fabric.constants, now_ps):
        set_timers(nic.timers, node, nic.control, sender, pair)
    set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
    return packet


@step_kernel
def _take_frame(packets, buffers: Buffers, nic: Nic, counters, constants, packet, in_port, now_ps):
    """Obey a PFC frame; the NIC port that it is for, -1 if it is ignored."""
    apart()
    item = packets[np.uint64(packet)]
    port = np.int64(buffers.inlets[np.uint64(in_port)].peer)
    buffers.egress[np.uint64(port)].n_pause += item.sequence
    if constants[NS3_IGNORES_PFC]:
        return np.int64(-1)
    nic_port = nic.nic_ports[np.uint64(port)]
    bit = np.int64(1) << np.int64(item.queue)
    if IS_TRACED:
        trace_pause(counters, port, np.int64(item.queue), item.sequence, now_ps)
    if item.sequence:
        if nic_port.paused == 0:
            nic_port.paused_since_ps = now_ps
        nic_port.paused |= bit
        return port if constants[IS_NS3] == 0 else np.int64(-1)
    if nic_port.paused == bit:
        nic_port.paused_ps += now_ps - nic_port.paused_since_ps
    nic_port.paused &= ~bit
    return port


@step_kernel
def _tell_over(fabric: Fabric, nic: Nic, work: Work, pair, n, now_ps):
    """So many messages of a queue pair's are acknowledged: whoever has to know hears of it."""
    apart()
    if work.graph.sent.shape[0] > 0:
        end_sends(fabric, work, pair, n, now_ps)
    if fabric.constants[IS_FLOW_MODE]:
        list_over(nic, fabric.counters, pair, n, now_ps)


@inlined
def _receive(fabric, nic, work, rows, node, packet, now_ps):
    """Take a packet at its destination; (port that may start a packet now or -1, stream that goes on or -1)."""
    ports, packets, counters, constants = fabric.ports, fabric.packets, fabric.counters, fabric.constants
    queue_pairs, pool, item = nic.queue_pairs, pool_of(fabric), packets[np.uint64(packet)]
    resumed, port = np.int64(-1), np.int64(-1)
    if item.bits & FLAG_MARKER:
        port, resumed = receive_marker(fabric, nic, work, rows, packet, now_ps)
        free_packet(packets, counters, packet)
    elif item.bits & FLAG_ACK:
        pair = np.int64(item.queue_pair)
        if constants[RTT_FLOW] >= 0:
            note_rtt(pool, queue_pairs[np.uint64(pair)], nic.messages, rows.rtt, packet, now_ps)
        n_row = counters[N_FLOW_ROW]
        if receive_ack(pool, nic, node, rows.flow, packet, now_ps):
            port = np.int64(queue_pairs[np.uint64(pair)].port)
            set_ready(nic.nic_ports, queue_pairs, nic.ready, pair)
            if IS_TRACED:
                trace_ack(counters, queue_pairs[np.uint64(pair)], pair, now_ps)
        if counters[N_FLOW_ROW] > n_row:
            _tell_over(fabric, nic, work, pair, counters[N_FLOW_ROW] - n_row, now_ps)
        free_packet(packets, counters, packet)
    else:
        pair = np.int64(item.queue_pair)
        row, first_row = nic.receiver_row[np.uint64(pair)], counters[N_ARRIVAL_ROW]
        record = nic.receivers[np.uint64(row)]
        result = receive_data(pool, record, nic.ranges, rows.arrival, packet, now_ps)
        if result & ENDS_MESSAGE:
            nic.delivered_ps[np.uint64(row)] = now_ps
            if IS_TRACED:
                last_row, byte = counters[N_ARRIVAL_ROW], record.expected_byte
                trace_delivered(counters, rows.arrival, first_row, last_row, pair, byte, now_ps)
            stream = np.int64(record.waiting_stream)
            if stream >= 0:
                waiting_for = work.streams[np.uint64(stream)].waiting_for
                if waiting_for == first_part_of(nic, constants, pair):
                    resumed = stream
                elif waiting_for == WAITING_GRAPH:
                    take_message(fabric, nic, work, stream, pair, now_ps)
        if result & ANSWERS:
            port = np.int64(fabric.path_port[np.uint64(record.ack_path)])
            nic_port = ports[np.uint64(port)]
            nic_port.ack_head = queue_behind(packets, np.int64(nic_port.ack_head), np.int64(nic_port.ack_tail), packet)
            nic_port.ack_tail = packet
        else:
            free_packet(packets, counters, packet)
    return port, resumed


@step_kernel
def _first_awake(work: Work, node, now_ps):
    """The first stream of a node that wakes now; there is one."""
    i_stream = np.int64(node.first_stream)
    while work.streams[np.uint64(i_stream)].wake_ps != now_ps:
        i_stream += 1
    return i_stream


@step_kernel
def _start_of_ns3(fabric: Fabric, nic: Nic, node, port, now_ps):
    """A port in ns-3 mode looks for something to send, and sends it; packets started, 0 or 1."""
    apart()
    ports, counters, constants = fabric.ports, fabric.counters, fabric.constants
    what, pair = look(ports, nic, constants, port, now_ps)
    if what != NOTHING_TO_SEND:
        if what == SEND_ACK:
            packet = _take_ack(fabric.packets, ports[np.uint64(port)])
        else:
            packet = _make_data(fabric, nic, node, pair, now_ps)
        if IS_TRACED:
            trace_packet(counters, fabric.packets, packet, STARTED, now_ps, port, NOTHING)
        send_now(fabric, port, packet, now_ps)
        nic.ns3_ports[np.uint64(port)].complete_ps = ports[np.uint64(port)].free_at_ps
    next_look(nic, port)
    return np.int64(what != NOTHING_TO_SEND)


@fast_step
def _look_again(ports, nic: Nic, constants, port, now_ps):
    """Something changed at a NIC port: enter when it next starts a packet."""
    nic_port = nic.nic_ports[np.uint64(port)]
    if constants[IS_NS3]:
        poke(nic.ns3_ports, nic_port, port, now_ps)
    else:
        start_ps = next_start(ports, nic.nic_ports, nic.queue_pairs, nic.ready, port)
        nic_port.next_start_ps = max(now_ps, start_ps)


@step_kernel
def run_hosts(fabric: Fabric, buffers: Buffers, nic: Nic, work: Work, rows: Rows, todo, begin_ps, horizon_ps):
    """Run hosts, int64[] todo, from begin_ps to their bounds; return 0, or what ran short (then call again)."""
    ports, packets, counters, constants = fabric.ports, fabric.packets, fabric.counters, fabric.constants
    queue_pairs, nic_ports, ready, out_port = nic.queue_pairs, nic.nic_ports, nic.ready, nic.out_port
    n_row = rows.flow.shape[0]
    n_hop, n_event, short, last_ps, n_safe = 0, 0, 0, counters[LAST_EVENT_PS], 0
    for i_node in range(todo.size):
        node_id, n_before = todo[np.uint64(i_node)], n_hop + n_event
        node = fabric.nodes[np.uint64(node_id)]
        bound_ps = min(horizon_ps, begin_ps + node.safe_ps, stop_of(fabric, node_id))
        start_ps, start_port = _first_start(node, nic_ports, out_port)
        arrival_ps, in_port = _first_arrival(node, ports, packets)
        while True:
            timer_ps = first_timer_ps(nic.timers, node)
            now_ps = min(start_ps, arrival_ps, timer_ps, node.wake_ps)
            if n_safe <= 0 and now_ps < bound_ps:
                n_safe = n_safe_event(counters, constants, n_row)
                short = 0 if n_safe > 0 else shortage(counters, constants, n_row)
            if now_ps >= bound_ps or short > 0:
                set_time(fabric.node_time, node_id, now_ps)
                break
            n_safe -= 1
            if node.next_change < node.end_change:
                apply_changes_at_host(buffers, fabric.port_info, node, now_ps)
            if start_ps == now_ps:
                if constants[IS_NS3]:
                    n_hop += _start_of_ns3(fabric, nic, node, start_port, now_ps)
                    start_ps, start_port = _first_start(node, nic_ports, out_port)
                    continue
                n_hop += 1
                if ports[np.uint64(start_port)].ack_head >= 0:
                    packet = _take_ack(packets, ports[np.uint64(start_port)])
                else:
                    pair = choose_pair(nic_ports[np.uint64(start_port)], queue_pairs, ready, now_ps)
                    packet = _make_data(fabric, nic, node, pair, now_ps)
                if IS_TRACED:
                    trace_packet(counters, packets, packet, STARTED, now_ps, start_port, NOTHING)
                send_now(fabric, start_port, packet, now_ps)
                nic_ports[np.uint64(start_port)].next_start_ps = next_start(
                    ports, nic_ports, queue_pairs, ready, start_port
                )
                start_ps, start_port = _first_start(node, nic_ports, out_port)
                continue
            is_event, port, resumed = True, np.int64(-1), np.int64(-1)
            if arrival_ps == now_ps:
                packet = np.int64(ports[np.uint64(in_port)].link_head)
                following = take_from_wire(ports, packets, in_port, node, fabric.mask)
                if following >= 0:
                    prefetch(packets, np.int64(packets[np.uint64(following)].next))
                    prefetch(fabric.extra, following)
                if IS_TRACED:
                    trace_packet(counters, packets, packet, ARRIVED, now_ps, in_port, NOTHING)
                cause = NOT_LOST
                if node.is_lossy:
                    cause = why_lost(packets, ports, buffers.inlets, constants, packet, in_port)
                if cause != NOT_LOST:
                    drop_packet(packets, fabric.dropped, buffers.drops, counters, constants, packet, in_port, cause)
                elif packets[np.uint64(packet)].bits & FLAG_FRAME:
                    port = _take_frame(packets, buffers, nic, counters, constants, packet, in_port, now_ps)
                    free_packet(packets, counters, packet)
                else:
                    port, resumed = _receive(fabric, nic, work, rows, node, packet, now_ps)
            elif timer_ps == now_ps:
                leaf = first_timer_leaf(nic.timers, node)
                pair = np.int64(nic.timer_pair[np.uint64(node.first_timer + leaf)])
                is_event = fire_timer(nic, node, counters, constants, pair, now_ps)
                port = np.int64(queue_pairs[np.uint64(pair)].port)
                set_ready(nic_ports, queue_pairs, ready, pair)
                if constants[IS_NS3] or nic.frozen_port[np.uint64(port)] == 1:  # the timeout of one that has ended
                    port = -1
            else:
                resumed = _first_awake(work, node, now_ps)
            if is_event:
                n_event += 1
                last_ps = max(last_ps, now_ps)
            if port >= 0:
                _look_again(ports, nic, constants, port, now_ps)
            if resumed >= 0:
                run_stream(fabric, nic, work, rows, resumed, now_ps)
                bound_ps = min(bound_ps, stop_of(fabric, node_id))
            start_ps, start_port = _first_start(node, nic_ports, out_port)
            arrival_ps, in_port = _first_arrival(node, ports, packets)
        fabric.n_step[np.uint64(node_id)] += 1 + n_hop + n_event - n_before
        if short > 0:
            break
    counters[PACKET_HOPS] += n_hop
    counters[EVENTS] += n_event
    counters[LAST_EVENT_PS] = last_ps
    return short
