"""The NIC of a host: queue pairs, pacing, windows, acknowledgements.

Data packets are made when they leave. Acknowledgements go first; then the queue pairs of a port take turns packet by
packet, among those with bytes to send, room in the window and a send time that has come. Nothing is lost in this
version, so a packet out of order is an error of the simulator.
"""

import numpy as np

from models.congestion.dctcp import on_ack
from models.network.state import (
    ACK_BYTES,
    FAULT,
    FAULT_NODE,
    FLAG_ACK,
    FLAG_LAST,
    FLAG_MARKED,
    FREE_MESSAGE,
    FREE_PACKET,
    HEADER_BYTES,
    N_ARRIVAL_ROW,
    N_FLOW_ROW,
    N_FREE_MESSAGE,
    N_FREE_PACKET,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from models.topology.closed_form import tx_ps
from pdes.engine.bits import WORD_BITS, drop_from_set, lowest_bit, next_in_set, put_in_set
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER

FAULT_OUT_OF_ORDER = 2


@step_kernel
def next_start(ports, nic_ports, queue_pairs, ready, port):
    """When a NIC port next starts a packet if nothing else happens, NEVER if nothing waits."""
    record = ports[np.uint64(port)]
    free_ps = record.free_at_ps
    if record.ack_head >= 0:
        return free_ps
    nic_port = nic_ports[np.uint64(port)]
    if nic_port.n_pair > WORD_BITS:  # apart, so that the common case is small enough to be inlined: 10 % of the loop
        return _next_start_of_many(nic_port, queue_pairs, ready, free_ps)
    best_ps = NEVER
    word = ready[np.uint64(nic_port.first_ready)]
    while word != 0:
        send_ps = queue_pairs[np.uint64(nic_port.first_pair + lowest_bit(word))].next_send_ps
        word &= word - 1
        if send_ps <= free_ps:
            return free_ps
        best_ps = min(best_ps, send_ps)
    return best_ps


@step_kernel
def _next_start_of_many(nic_port, queue_pairs, ready, free_ps):
    best_ps = NEVER
    i = next_in_set(ready, nic_port.first_ready, nic_port.n_pair, 0)
    while i >= 0:
        send_ps = queue_pairs[np.uint64(nic_port.first_pair + i)].next_send_ps
        if send_ps <= free_ps:
            return free_ps
        best_ps = min(best_ps, send_ps)
        i = next_in_set(ready, nic_port.first_ready, nic_port.n_pair, i + 1)
    return best_ps


@step_kernel
def choose_pair(nic_port, queue_pairs, ready, now_ps):
    """Round robin: the first ready queue pair behind the last one served whose send time has come; there is one."""
    if nic_port.n_pair > WORD_BITS:
        return _choose_of_many(nic_port, queue_pairs, ready, now_ps)
    word, i = ready[np.uint64(nic_port.first_ready)], nic_port.last_served
    for _ in range(nic_port.n_pair):
        i = i + 1 if i + 1 < nic_port.n_pair else 0
        if (word >> i) & 1 and queue_pairs[np.uint64(nic_port.first_pair + i)].next_send_ps <= now_ps:
            break
    nic_port.last_served = i
    return nic_port.first_pair + i


@step_kernel
def _choose_of_many(nic_port, queue_pairs, ready, now_ps):
    i = next_in_set(ready, nic_port.first_ready, nic_port.n_pair, nic_port.last_served + 1)
    while i < 0 or queue_pairs[np.uint64(nic_port.first_pair + i)].next_send_ps > now_ps:
        i = next_in_set(ready, nic_port.first_ready, nic_port.n_pair, i + 1)
    nic_port.last_served = i
    return nic_port.first_pair + i


@step_kernel
def set_ready(nic_ports, queue_pairs, ready, pair):
    """Enter a queue pair among the ready ones or take it out, by what it has to send and by its window."""
    record = queue_pairs[np.uint64(pair)]
    nic_port = nic_ports[np.uint64(record.port)]
    i = pair - nic_port.first_pair
    may = record.next_byte < record.posted_end and record.next_byte - record.acked_byte < record.window_bytes
    if nic_port.n_pair > WORD_BITS:
        _set_ready_of_many(nic_port, ready, i, may)
    elif may:
        ready[np.uint64(nic_port.first_ready)] |= np.int64(1) << i
    else:
        ready[np.uint64(nic_port.first_ready)] &= ~(np.int64(1) << i)


@step_kernel
def _set_ready_of_many(nic_port, ready, i, may):
    if may:
        put_in_set(ready, nic_port.first_ready, nic_port.n_pair, i)
    else:
        drop_from_set(ready, nic_port.first_ready, nic_port.n_pair, i)


@step_kernel
def make_data_packet(packets, label, queue_pairs, messages, counters, constants, pair, now_ps):
    """Take a packet from the pool and fill it with the queue pair's next bytes, paced at its rate."""
    record = queue_pairs[np.uint64(pair)]
    packet = counters[FREE_PACKET]
    item = packets[np.uint64(packet)]
    counters[FREE_PACKET] = item.next
    counters[N_FREE_PACKET] -= 1
    first_byte = record.next_byte
    payload = min(constants[PAYLOAD_BYTES], record.message_end - first_byte)
    size_bytes = payload + constants[HEADER_BYTES]
    item.sequence = first_byte
    item.queue_pair = pair
    item.path = record.data_path + 1
    item.size_bytes = size_bytes
    first_byte += payload
    record.next_byte = first_byte
    record.next_send_ps = now_ps + tx_ps(size_bytes, record.rate_bps)
    if first_byte == record.message_end:
        item.bits = FLAG_LAST
        message = messages[np.uint64(record.sending_message)]
        label[np.uint64(packet)] = message.flow_id
        record.sending_message = message.next
        if message.next >= 0:
            record.message_end = messages[np.uint64(message.next)].end_byte
    else:
        item.bits = 0
    return packet


@step_kernel
def receive_data(packets, label, queue_pairs, arrival_rows, counters, constants, packet, node, now_ps):
    """Accept a data packet and turn it into its acknowledgement; True if it ended a message."""
    item = packets[np.uint64(packet)]
    record = queue_pairs[np.uint64(item.queue_pair)]
    if item.sequence != record.expected_byte:
        counters[FAULT], counters[FAULT_NODE] = FAULT_OUT_OF_ORDER, node
    record.expected_byte = item.sequence + np.int64(item.size_bytes) - constants[HEADER_BYTES]
    is_last = (item.bits & FLAG_LAST) != 0
    if is_last:
        row = counters[N_ARRIVAL_ROW]
        counters[N_ARRIVAL_ROW] = row + 1
        arrival_rows[np.uint64(row), 0] = label[np.uint64(packet)]
        arrival_rows[np.uint64(row), 1] = now_ps
        record.n_arrived += 1
    item.sequence = record.expected_byte
    item.bits = FLAG_ACK | (item.bits & FLAG_MARKED)
    item.size_bytes = constants[ACK_BYTES]
    item.path = record.ack_path + 1
    return is_last


@step_kernel
def receive_ack(packets, nic: Nic, flow_rows, counters, packet, now_ps):
    """Take an acknowledgement: free its packet, move the window, tell the congestion control, finish messages."""
    queue_pairs, messages = nic.queue_pairs, nic.messages
    item = packets[np.uint64(packet)]
    pair = np.int64(item.queue_pair)
    record = queue_pairs[np.uint64(pair)]
    marked = np.int64((item.bits & FLAG_MARKED) != 0)
    acked_byte = item.sequence
    item.next = counters[FREE_PACKET]
    counters[FREE_PACKET] = packet
    counters[N_FREE_PACKET] += 1
    record.n_marked += marked
    record.acked_byte = max(record.acked_byte, acked_byte)
    rate_bps = on_ack(
        nic.control, nic.control_constants, pair, acked_byte, record.next_byte, marked, record.rate_bps,
        record.line_rate_bps,
    )  # fmt: skip
    if rate_bps != record.rate_bps:
        record.rate_bps = rate_bps
        record.window_bytes = max(1, record.max_window_bytes * rate_bps // record.line_rate_bps)
    while record.first_message >= 0 and messages[np.uint64(record.first_message)].end_byte <= record.acked_byte:
        finish_message(record, messages, flow_rows, counters, pair, now_ps)
    set_ready(nic.nic_ports, queue_pairs, nic.ready, pair)


@step_kernel
def finish_message(record, messages, flow_rows, counters, pair, now_ps):
    """The queue pair's oldest message is fully acknowledged: write its row, free its place."""
    place = np.int64(record.first_message)
    message = messages[np.uint64(place)]
    row = counters[N_FLOW_ROW]
    counters[N_FLOW_ROW] = row + 1
    out = flow_rows[np.uint64(row)]
    out[0], out[1], out[2] = message.flow_id, pair, message.size_bytes
    out[3], out[4], out[5], out[6] = message.posted_ps, now_ps, record.n_marked, message.tag
    record.n_marked = 0
    record.first_message = message.next
    if message.next < 0:
        record.last_message = -1
    message.next = counters[FREE_MESSAGE]
    counters[FREE_MESSAGE] = place
    counters[N_FREE_MESSAGE] += 1


@step_kernel
def post_message(fabric: Fabric, nic: Nic, pair, size_bytes, flow_id, tag, now_ps):
    """Append a message to a queue pair's stream; its NIC may start at once. size_bytes > 0."""
    counters = fabric.counters
    record = nic.queue_pairs[np.uint64(pair)]
    place = counters[FREE_MESSAGE]
    message = nic.messages[np.uint64(place)]
    counters[FREE_MESSAGE] = message.next
    counters[N_FREE_MESSAGE] -= 1
    record.posted_end += size_bytes
    message.end_byte, message.size_bytes, message.flow_id = record.posted_end, size_bytes, flow_id
    message.posted_ps, message.tag, message.next = now_ps, tag, -1
    if record.last_message < 0:
        record.first_message = place
    else:
        nic.messages[np.uint64(record.last_message)].next = place
    record.last_message = place
    if record.sending_message < 0:
        record.sending_message = place
        record.message_end = record.posted_end
    port = np.int64(record.port)
    set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
    start_ps = next_start(fabric.ports, nic.nic_ports, nic.queue_pairs, nic.ready, port)
    nic.nic_ports[np.uint64(port)].next_start_ps = max(start_ps, now_ps)
