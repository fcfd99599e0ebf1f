"""Markers: packets that stand for the end of a message that was not sent packet by packet (`withdraw`).

A data marker comes to the receiver when the message's last packet would have come, an ACK marker to the sender when its
acknowledgement would. They lie on the last links of the queue pair's ways, in the order of their times, and whatever
these hosts do then is what they always do: streams go on, messages are posted, rows are written.
"""

import numpy as np

from models.network.host.interrupts import interrupt
from models.network.host.messages import first_part_of
from models.network.host.nic import set_ready
from models.network.host.sender import find_sending_message, finish_message
from models.network.host.timers import set_timers
from models.network.host.visits import visit
from models.network.state.records import (
    FLAG_ACK,
    IS_FLOW_MODE,
    MARKER_COLUMN,
    N_ARRIVAL_ROW,
    N_FLOW_ROW,
    Fabric,
    Nic,
    Rows,
)
from models.network.streams.graph_stream import end_sends, take_message
from models.network.watch.tracing import IS_TRACED, trace_delivered
from models.workload.program import WAITING_GRAPH, Work
from pdes.engine.apart import apart
from pdes.engine.bits import drop_from_set
from pdes.engine.jit import step_kernel


@step_kernel
def receive_marker(fabric: Fabric, nic: Nic, work: Work, rows: Rows, packet, now_ps):
    """Take a marker; (port that may start a packet now or -1, stream that goes on or -1). The caller frees it."""
    apart()
    item, counters = fabric.packets[np.uint64(packet)], fabric.counters
    pair = np.int64(item.queue_pair)
    if item.bits & FLAG_ACK == 0:
        at = np.uint64(nic.receiver_row[np.uint64(pair)])
        receiver = nic.receivers[at]
        receiver.received_bytes += item.sequence - receiver.expected_byte
        receiver.expected_byte = item.sequence
        row = counters[N_ARRIVAL_ROW]
        counters[N_ARRIVAL_ROW] = row + 1
        rows.arrival[np.uint64(row), 0] = fabric.label[np.uint64(packet)]
        rows.arrival[np.uint64(row), 1] = now_ps
        receiver.n_arrived += 1
        nic.delivered_ps[at] = now_ps
        if IS_TRACED:
            trace_delivered(counters, rows.arrival, row, row + 1, pair, receiver.expected_byte, now_ps)
        stream, first = np.int64(receiver.waiting_stream), first_part_of(nic, fabric.constants, pair)
        if stream >= 0 and work.streams[np.uint64(stream)].waiting_for == first:
            return np.int64(-1), stream
        if stream >= 0 and work.streams[np.uint64(stream)].waiting_for == WAITING_GRAPH:
            take_message(fabric, nic, work, stream, pair, now_ps)
        return np.int64(-1), np.int64(-1)
    record = nic.queue_pairs[np.uint64(pair)]
    has_fluid = fabric.constants[MARKER_COLUMN] >= 0 and fabric.constants[IS_FLOW_MODE] == 0
    if has_fluid and nic.fluid[np.uint64(pair)].n_withdrawn > 0:
        fluid = nic.fluid[np.uint64(pair)]
        fluid.n_withdrawn -= 1
        if fluid.n_withdrawn == 0:
            drop_from_set(nic.withdrawn, 0, nic.queue_pairs.size, pair)
        visit(nic, pair)  # packets may wait behind
    record.sent_bytes += max(0, item.sequence - record.next_byte)
    record.acked_byte = max(record.acked_byte, item.sequence)
    record.next_byte = max(record.next_byte, item.sequence)
    record.high_byte = max(record.high_byte, item.sequence)
    nic.acked_ps[np.uint64(pair)] = now_ps
    record.n_marked = np.int64(item.size_bytes)
    n_row = counters[N_FLOW_ROW]
    while record.first_message >= 0 and nic.messages[np.uint64(record.first_message)].end_byte <= item.sequence:
        finish_message(record, nic.messages, nic.ended, rows.flow, counters, pair, now_ps)
    if counters[N_FLOW_ROW] > n_row and work.graph.sent.shape[0] > 0:
        end_sends(fabric, work, pair, counters[N_FLOW_ROW] - n_row, now_ps)
    if fabric.constants[IS_FLOW_MODE]:
        return np.int64(-1), np.int64(-1)
    find_sending_message(record, nic.messages)
    set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
    port = np.int64(record.port)
    if nic.frozen_port[np.uint64(port)] == 1:
        if record.acked_byte < record.posted_end:  # what was posted behind it may start now
            interrupt(fabric, nic, record, pair, 1, now_ps)
        return np.int64(-1), np.int64(-1)
    node = fabric.nodes[np.uint64(record.node)]
    if node.n_timer > 0 and nic.is_frozen[np.uint64(pair)] == 0 and fabric.constants[IS_FLOW_MODE] == 0:
        set_timers(nic.timers, node, nic.control, record, pair)
    return port, np.int64(-1)
