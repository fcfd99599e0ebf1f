"""One direction of a link: putting packets on the wire and serving what waits at a switch's port.

A port needs no event for the end of a transmission. Every start at or before t is served just before something is
queued at t, and at the end of the node's window ("lazy catch-up"): the queue's state at each start is then exact,
because kind 0 (start of a queued packet) precedes arrivals of the same instant (design R2).
"""

import numpy as np

from models.network.state import FLAG_ACK, FLAG_MARKED, N_DEPARTED, SEED
from pdes.engine.bits import WORD_BITS
from pdes.engine.jit import loop_kernel
from pdes.engine.rng import PURPOSE_ECN, uniform
from pdes.engine.time_index import set_time

PS_PER_S, BITS_PER_BYTE = 10**12, 8
MAX_PACKET_BYTES = (2**63 - 1) // (PS_PER_S * BITS_PER_BYTE)  # longer ones overflow int64
_WORD_SHIFT, _BIT_MASK = WORD_BITS.bit_length() - 1, WORD_BITS - 1


@loop_kernel
def tx_time_ps(size_bytes, rate_bps):
    """Serialisation time, rounded up. size_bytes 1..MAX_PACKET_BYTES, rate_bps > 0; both int64."""
    return -((-size_bytes * BITS_PER_BYTE * PS_PER_S) // rate_bps)


@loop_kernel
def wire_time_ps(ports, rate_bps, busy_ps, port, size_bytes):
    """Serialisation time of a packet on a port, counted as busy where tx_bytes alone would not tell."""
    per_byte = np.int64(ports[np.uint64(port)].ps_per_byte)
    if per_byte > 0:
        return size_bytes * per_byte
    time_ps = tx_time_ps(size_bytes, rate_bps[np.uint64(port)])
    busy_ps[np.uint64(port)] += time_ps
    return time_ps


@loop_kernel
def put_on_wire(ports, packets, port, packet, arrival_ps):
    """Append a packet to a port's link; True if the link was empty."""
    record = ports[np.uint64(port)]
    item = packets[np.uint64(packet)]
    item.arrival_ps = arrival_ps
    item.next = -1
    empty = record.link_head < 0
    if empty:
        record.link_head = packet
    else:
        packets[np.uint64(record.link_tail)].next = packet
    record.link_tail = packet
    return empty


@loop_kernel
def link_filled(port, arrival_ps, port_dst, port_here, in_start, mask_start, mask, node_time, departed, counters):
    """A link that was empty carries a packet: wake its receiver, or note it for the exchange with another rank."""
    if port_here[np.uint64(port)] == 0:
        n_departed = counters[N_DEPARTED]
        departed[np.uint64(n_departed)] = port
        counters[N_DEPARTED] = n_departed + 1
        return
    node = np.int64(port_dst[np.uint64(port)])
    bit = port - in_start[np.uint64(node)]
    word = np.uint64(mask_start[np.uint64(node)] + (bit >> _WORD_SHIFT))
    mask[word] |= np.int64(1) << (bit & _BIT_MASK)
    if arrival_ps < node_time[np.uint64((node_time.size >> 1) + node)]:
        set_time(node_time, node, arrival_ps)


@loop_kernel
def take_from_wire(ports, packets, port, in_start, mask_start, mask, node):
    """Remove the first packet of a link; return the next one's index, -1 if the link is empty now."""
    record = ports[np.uint64(port)]
    following = packets[np.uint64(record.link_head)].next
    record.link_head = following
    if following < 0:
        bit = port - in_start[np.uint64(node)]
        word = np.uint64(mask_start[np.uint64(node)] + (bit >> _WORD_SHIFT))
        mask[word] &= ~(np.int64(1) << (bit & _BIT_MASK))
    return following


@loop_kernel
def queue_behind(packets, head, tail, packet):
    """Append a packet to a waiting chain; return its new head. The new tail is the packet."""
    packets[np.uint64(packet)].next = -1
    if head < 0:
        return packet
    packets[np.uint64(tail)].next = packet
    return head


@loop_kernel
def is_marked(port, queued_bytes, record, ecn_max_bytes, ecn_max_probability, ecn_draws, seed):
    """RED at dequeue on what stays behind: none up to the minimum, all above the maximum, linear between.

    Floyd and Jacobson 1993 without averaging, as RoCE switches do; draws are counted per port (design R3).
    """
    high = ecn_max_bytes[np.uint64(port)]
    if queued_bytes > high:
        return True
    low = np.int64(record.ecn_min_bytes)
    probability = ecn_max_probability[np.uint64(port)] * (queued_bytes - low) / (high - low)
    draw = ecn_draws[np.uint64(port)]
    ecn_draws[np.uint64(port)] = draw + 1
    return uniform(seed, port, PURPOSE_ECN, draw) < probability


@loop_kernel
def next_waiting(ports, packets, port, ecn_max_bytes, ecn_max_probability, ecn_draws, ecn_marks, constants):
    """Take the packet that a switch's port sends next, ACKs first, marked if it must be; -1 if none waits."""
    record = ports[np.uint64(port)]
    packet = np.int64(record.ack_head)
    if packet >= 0:
        record.ack_head = packets[np.uint64(packet)].next
        return packet
    packet = np.int64(record.data_head)
    if packet < 0:
        return packet
    item = packets[np.uint64(packet)]
    record.data_head = item.next
    queued = np.int64(record.queued_bytes) - np.int64(item.size_bytes)
    record.queued_bytes = queued
    if queued > record.ecn_min_bytes and is_marked(
        port, queued, record, ecn_max_bytes, ecn_max_probability, ecn_draws, constants[SEED]
    ):
        item.flags = item.flags | FLAG_MARKED
        ecn_marks[np.uint64(port)] += 1
    return packet


@loop_kernel
def add_waiting(ports, packets, port, packet):
    """Queue a packet at a switch's port; True if nothing waited there before."""
    record = ports[np.uint64(port)]
    item = packets[np.uint64(packet)]
    nothing = record.ack_head < 0 and record.data_head < 0
    if item.flags & FLAG_ACK:
        record.ack_head = queue_behind(packets, record.ack_head, record.ack_tail, packet)
        record.ack_tail = packet
        return nothing
    record.data_head = queue_behind(packets, record.data_head, record.data_tail, packet)
    record.data_tail = packet
    queued = np.int64(record.queued_bytes) + np.int64(item.size_bytes)
    record.queued_bytes = queued
    if queued > record.max_queued_bytes:
        record.max_queued_bytes = queued
    return nothing
