"""The NIC of a host: which queue pair sends next, when, and its packets.

Data packets are made when they leave. Acknowledgements go first; then the queue pairs of a port take turns packet by
packet, among those with bytes to send, room in the window, a queue that is not paused and a send time that has come.
Not here: what acknowledgements do (`sender`, `receiver`), and ns-3's own way of taking turns (`ns3_nic`).
"""

import numpy as np

from models.network.host.selective import hole_end, skip_held
from models.network.link.wire_time import transmission_ps
from models.network.state.packet_pool import PacketPool
from models.network.state.records import (
    EXTRA_N_HOP,
    EXTRA_SENT_PS,
    FLAG_LAST,
    FREE_PACKET,
    HEADER_BYTES,
    IS_NS3,
    MAX_TIMEOUT_PS,
    N_EXTRA,
    N_FREE_PACKET,
    NS3_RATE_BOUND,
    PAYLOAD_BYTES,
    TELEMETRY,
    TIMEOUT_PS,
)
from pdes.engine.apart import apart
from pdes.engine.bits import WORD_BITS, drop_from_set, lowest_bit, next_in_set, put_in_set
from pdes.engine.jit import fast_step, step_kernel
from pdes.engine.time_index import NEVER


@fast_step
def next_start(ports, nic_ports, queue_pairs, ready, port):
    """When a NIC port next starts a packet if nothing else happens, NEVER if nothing waits."""
    record = ports[np.uint64(port)]
    free_ps = record.free_at_ps
    if record.ack_head >= 0:
        return free_ps
    nic_port = nic_ports[np.uint64(port)]
    if nic_port.n_pair > WORD_BITS or nic_port.paused != 0:  # apart, so that the common case is inlined: 10 %
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
        record = queue_pairs[np.uint64(nic_port.first_pair + i)]
        if (nic_port.paused >> record.queue) & 1 == 0:
            if record.next_send_ps <= free_ps:
                return free_ps
            best_ps = min(best_ps, record.next_send_ps)
        i = next_in_set(ready, nic_port.first_ready, nic_port.n_pair, i + 1)
    return best_ps


@fast_step
def choose_pair(nic_port, queue_pairs, ready, now_ps):
    """Round robin: the first ready queue pair behind the last one served that may send now; there is one."""
    if nic_port.n_pair > WORD_BITS or nic_port.paused != 0:
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
    while True:
        if i >= 0:
            record = queue_pairs[np.uint64(nic_port.first_pair + i)]
            if record.next_send_ps <= now_ps and (nic_port.paused >> record.queue) & 1 == 0:
                break
        i = next_in_set(ready, nic_port.first_ready, nic_port.n_pair, i + 1)
    nic_port.last_served = i
    return nic_port.first_pair + i


@fast_step
def set_ready(nic_ports, queue_pairs, ready, pair):
    """Enter a queue pair among the ready ones or take it out, by what it has to send and by its window."""
    record = queue_pairs[np.uint64(pair)]
    nic_port = nic_ports[np.uint64(record.port)]
    i = pair - nic_port.first_pair
    may = record.next_byte < record.posted_end and record.next_byte - record.acked_byte < record.window_bytes
    may = may or record.resend_byte < record.lost_byte
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


@fast_step
def take_packet(packets, counters):
    """A packet from the pool, which the loop has made sure is not empty."""
    packet = counters[FREE_PACKET]
    counters[FREE_PACKET] = packets[np.uint64(packet)].next
    counters[N_FREE_PACKET] -= 1
    return packet


@fast_step
def free_packet(packets, counters, packet):
    """Put a packet back into the pool."""
    packets[np.uint64(packet)].next = counters[FREE_PACKET]
    counters[FREE_PACKET] = packet
    counters[N_FREE_PACKET] += 1


@fast_step
def stamp_sent(extra, constants, packet, now_ps):
    """What a data packet carries for the congestion control, as its NIC starts it."""
    extra[np.uint64(packet), EXTRA_SENT_PS] = now_ps
    if constants[TELEMETRY] > 0:
        extra[np.uint64(packet), EXTRA_N_HOP] = 0


@step_kernel
def watch_for_loss(record, constants, now_ps):
    """Something that may be lost leaves: arm the retransmission timeout unless it is; True if it was armed now."""
    if record.deadline_ps < NEVER:
        return False
    wait_ps = constants[TIMEOUT_PS]
    for _ in range(record.n_backoff):
        wait_ps = min(2 * wait_ps, constants[MAX_TIMEOUT_PS])
    record.deadline_ps = now_ps + wait_ps
    if record.check_ps <= record.deadline_ps:
        return False
    record.check_ps = record.deadline_ps
    return True


@step_kernel
def make_resend(pool: PacketPool, messages, ranges, pair, record, now_ps):
    """Selective repeat: the next packet that is missing at the receiver, with the bounds that it had."""
    apart()
    packets, counters, constants = pool.packets, pool.counters, pool.constants
    packet = take_packet(packets, counters)
    item = packets[np.uint64(packet)]
    first_byte = record.resend_byte
    place = np.int64(record.first_message)
    while messages[np.uint64(place)].end_byte <= first_byte:
        place = np.int64(messages[np.uint64(place)].next)
    message_end = messages[np.uint64(place)].end_byte
    end_byte = min(first_byte + constants[PAYLOAD_BYTES], message_end, hole_end(ranges, record))
    size_bytes = end_byte - first_byte + constants[HEADER_BYTES]
    item.sequence, item.queue_pair, item.path = first_byte, pair, record.data_path + 1
    item.size_bytes, item.queue = size_bytes, record.queue
    record.sent_bytes += end_byte - first_byte
    record.resent_bytes += end_byte - first_byte
    record.resend_byte = end_byte
    skip_held(ranges, record)
    record.gap_ps = transmission_ps(size_bytes, record.rate_bps, 0)
    record.next_send_ps, record.last_size_bytes = now_ps + record.gap_ps, size_bytes
    if constants[N_EXTRA] > 0:
        stamp_sent(pool.extra, constants, packet, now_ps)
    if end_byte == message_end:
        item.bits = FLAG_LAST
        pool.label[np.uint64(packet)] = messages[np.uint64(place)].flow_id
    else:
        item.bits = 0
    return packet


@fast_step
def make_data_packet(pool: PacketPool, queue_pairs, messages, pair, now_ps):
    """Take a packet from the pool and fill it with the queue pair's next bytes, paced at its rate."""
    packets, counters, constants = pool.packets, pool.counters, pool.constants
    record = queue_pairs[np.uint64(pair)]
    packet = take_packet(packets, counters)
    item = packets[np.uint64(packet)]
    first_byte = record.next_byte
    payload = min(constants[PAYLOAD_BYTES], record.message_end - first_byte)
    size_bytes = payload + constants[HEADER_BYTES]
    item.sequence = first_byte
    item.queue_pair = pair
    item.path = record.data_path + 1
    item.size_bytes = size_bytes
    item.queue = record.queue
    record.sent_bytes += payload
    if first_byte < record.high_byte:
        record.resent_bytes += min(payload, record.high_byte - first_byte)
    first_byte += payload
    record.high_byte = max(record.high_byte, first_byte)
    record.next_byte = first_byte
    gap_ps = record.gap_ps
    if gap_ps == 0 or size_bytes != record.last_size_bytes:
        gap_ps = transmission_ps(size_bytes, record.rate_bps, constants[IS_NS3])
        record.gap_ps, record.last_size_bytes = gap_ps, size_bytes
    if constants[NS3_RATE_BOUND] == 0:
        gap_ps = transmission_ps(size_bytes, record.line_rate_bps, constants[IS_NS3])
    record.next_send_ps = now_ps + gap_ps
    if constants[N_EXTRA] > 0:
        stamp_sent(pool.extra, constants, packet, now_ps)
    if first_byte == record.message_end:
        item.bits = FLAG_LAST
        message = messages[np.uint64(record.sending_message)]
        pool.label[np.uint64(packet)] = message.flow_id
        record.sending_message = message.next
        if message.next >= 0:
            record.message_end = messages[np.uint64(message.next)].end_byte
    else:
        item.bits = 0
    return packet
