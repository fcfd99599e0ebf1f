"""One direction of a link: putting packets on the wire and serving what waits at a switch's port.

A port needs no event for the end of a transmission. Every start at or before t is served just before something is
queued at t, and at the end of the node's window ("lazy catch-up"): the queue's state at each start is then exact,
because kind 0 (start of a queued packet) precedes arrivals of the same instant (design R2).
"""

import numpy as np

from models.network.link.wire_time import transmission_ps
from models.network.state.records import (
    FIRST_PORT,
    FLAG_ACK,
    FLAG_MARKED,
    FLAG_MARKER,
    MAY_OVERTAKE,
    N_DEPARTED,
    SEED,
    Fabric,
)
from pdes.engine.apart import apart
from pdes.engine.bits import BIT_MASK, WORD_SHIFT
from pdes.engine.jit import fast_step, step_kernel
from pdes.engine.prefetch import prefetch
from pdes.engine.rng import uniform
from pdes.engine.time_index import set_time
from pdes.random_plain import PURPOSE_ECN


@step_kernel
def wire_time_apart(info, size_bytes):
    apart()
    time_ps = transmission_ps(size_bytes, info.rate_bps, info.is_ns3)
    info.busy_ps += time_ps
    return time_ps


@fast_step
def wire_time_ps(ports, port_info, port, size_bytes):
    """Serialisation time of a packet on a port, counted as busy where tx_bytes alone would not tell."""
    per_byte = np.int64(ports[np.uint64(port)].ps_per_byte)
    if per_byte > 0:
        return size_bytes * per_byte
    return wire_time_apart(port_info[np.uint64(port)], size_bytes)


@step_kernel
def insert_in_order(packets, record, packet):
    """Put a packet among those on a link (its PORT record), by arrival, behind equals; True if it is the first now."""
    apart()
    arrival_ps, before, behind = packets[np.uint64(packet)].arrival_ps, np.int64(-1), np.int64(record.link_head)
    while behind >= 0 and packets[np.uint64(behind)].arrival_ps <= arrival_ps:
        before, behind = behind, np.int64(packets[np.uint64(behind)].next)
    packets[np.uint64(packet)].next = behind
    if behind < 0:
        record.link_tail = packet
    if before < 0:
        record.link_head = packet
        return True
    packets[np.uint64(before)].next = packet
    return False


@step_kernel
def comes_before(other, marker):
    """Whether what is on a link lies before a marker there (PACKET records): what arrives earlier, and of the same
    instant markers of lower queue pairs, and of lower bytes of its own; packets lie behind markers."""
    if other.arrival_ps != marker.arrival_ps:
        return other.arrival_ps < marker.arrival_ps
    if other.bits & FLAG_MARKER == 0:
        return False
    if other.queue_pair != marker.queue_pair:
        return other.queue_pair < marker.queue_pair
    return other.sequence <= marker.sequence


@step_kernel
def put_marker_on_wire(packets, record, packet):
    """Put a marker on a link where `comes_before` says, whoever came first; True if it is the first there now."""
    return put_marker_behind(packets, record, packet, np.int64(-1))


@step_kernel
def put_marker_behind(packets, record, packet, before):
    """The same. before: something on the link that it comes behind, where the search begins; -1: nothing is known."""
    item = packets[np.uint64(packet)]
    behind = np.int64(packets[np.uint64(before)].next) if before >= 0 else np.int64(record.link_head)
    if behind >= 0 and comes_before(packets[np.uint64(record.link_tail)], item):
        before, behind = np.int64(record.link_tail), np.int64(-1)
    while behind >= 0 and comes_before(packets[np.uint64(behind)], item):
        before, behind = behind, np.int64(packets[np.uint64(behind)].next)
    item.next = behind
    if behind < 0:
        record.link_tail = packet
    if before < 0:
        record.link_head = packet
        return True
    packets[np.uint64(before)].next = packet
    return False


@step_kernel
def put_in_order(packets, record, packet):
    """Put a packet or a marker among those on a link; True if it is the first now."""
    if packets[np.uint64(packet)].bits & FLAG_MARKER:
        return put_marker_on_wire(packets, record, packet)
    return insert_in_order(packets, record, packet)


@fast_step
def put_on_wire(ports, packets, counters, port, packet, arrival_ps):
    """Append a packet to a port's link; True if nothing on it arrives sooner.

    The last one there is looked at only if it may arrive later (MAY_OVERTAKE): that is a load that waits for memory.
    """
    record = ports[np.uint64(port)]
    item = packets[np.uint64(packet)]
    item.arrival_ps = arrival_ps
    item.next = -1
    empty = record.link_head < 0
    if empty:
        record.link_head = packet
    else:
        last = packets[np.uint64(record.link_tail)]
        if counters[MAY_OVERTAKE] and last.arrival_ps > arrival_ps:
            return insert_in_order(packets, record, packet)
        last.next = packet
    record.link_tail = packet
    return empty


@step_kernel
def link_filled(port, first, port_info, nodes, mask, node_time, departed, counters):
    """A packet (its PACKET record) is now the first on a link: wake the receiver, or note the link for the exchange.

    A link to another rank is noted when it was empty: once a round, however often something comes to lie before the
    rest, as a marker or what arrives before one.
    """
    info = port_info[np.uint64(port)]
    if info.is_here == 0:
        if first.next < 0:
            n_departed = counters[N_DEPARTED]
            departed[np.uint64(n_departed)] = port
            counters[N_DEPARTED] = n_departed + 1
        return
    receiver = np.int64(info.receiver)
    node = nodes[np.uint64(receiver)]
    bit = port - node.first_in
    mask[np.uint64(node.first_mask + (bit >> WORD_SHIFT))] |= np.int64(1) << (bit & BIT_MASK)
    if first.arrival_ps < node_time[np.uint64((node_time.size >> 1) + receiver)]:
        set_time(node_time, receiver, first.arrival_ps)


@fast_step
def send_now(fabric: Fabric, port, packet, start_ps):
    """Start a packet on an idle port at start_ps: occupy the port, put it on the wire."""
    ports, port_info, packets, counters = fabric.ports, fabric.port_info, fabric.packets, fabric.counters
    record = ports[np.uint64(port)]
    size_bytes = np.int64(packets[np.uint64(packet)].size_bytes)
    free_ps = start_ps + wire_time_ps(ports, port_info, port, size_bytes)
    record.free_at_ps = free_ps
    record.tx_bytes += size_bytes
    if put_on_wire(ports, packets, counters, port, packet, free_ps + record.delay_ps):
        link_filled(
            port, packets[np.uint64(packet)], port_info, fabric.nodes, fabric.mask, fabric.node_time, fabric.departed,
            counters,
        )  # fmt: skip


@fast_step
def take_from_wire(ports, packets, port, node, mask):
    """Remove the first packet of a link into a node (its NODE record); the next one's index, -1 if none is left."""
    record = ports[np.uint64(port)]
    following = np.int64(packets[np.uint64(record.link_head)].next)
    record.link_head = following
    if following < 0:
        bit = port - node.first_in
        mask[np.uint64(node.first_mask + (bit >> WORD_SHIFT))] &= ~(np.int64(1) << (bit & BIT_MASK))
    return following


@fast_step
def queue_behind(packets, head, tail, packet):
    """Append a packet to a waiting chain; return its new head. The new tail is the packet."""
    packets[np.uint64(packet)].next = -1
    if head < 0:
        return packet
    packets[np.uint64(tail)].next = packet
    return np.int64(head)


@step_kernel
def is_marked(info, port, queued_bytes, low_bytes, constants):
    """RED at dequeue on what stays behind: none up to the minimum, all above the maximum, linear between.

    Floyd and Jacobson 1993 without averaging, as RoCE switches do; draws are counted per port (design R3).
    info: PORT_INFO of the port. queued_bytes > low_bytes.
    """
    high_bytes = info.ecn_max_bytes
    if queued_bytes > high_bytes:
        return True
    return draws_mark(info, port, queued_bytes, low_bytes, high_bytes, constants)


@step_kernel
def draws_mark(info, port, queued_bytes, low_bytes, high_bytes, constants):
    apart()
    probability = info.ecn_max_probability * (queued_bytes - low_bytes) / (high_bytes - low_bytes)
    draw = info.ecn_draws
    info.ecn_draws = draw + 1
    return uniform(constants[SEED], port - constants[FIRST_PORT], PURPOSE_ECN, draw) < probability


@fast_step
def next_waiting(ports, port_info, packets, constants, port):
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
    following = np.int64(item.next)
    record.data_head = following
    if following >= 0:
        prefetch(packets, np.int64(packets[np.uint64(following)].next))
    queued_bytes = np.int64(record.queued_bytes) - np.int64(item.size_bytes)
    record.queued_bytes = queued_bytes
    low_bytes = np.int64(record.ecn_min_bytes)
    if queued_bytes > low_bytes:
        info = port_info[np.uint64(port)]
        if is_marked(info, port, queued_bytes, low_bytes, constants):
            item.bits = item.bits | FLAG_MARKED
            info.ecn_marks += 1
    return packet


@fast_step
def add_waiting(ports, packets, port, packet):
    """Queue a packet at a switch's port; True if nothing waited there before."""
    record = ports[np.uint64(port)]
    item = packets[np.uint64(packet)]
    nothing = record.ack_head < 0 and record.data_head < 0
    if item.bits & FLAG_ACK:
        record.ack_head = queue_behind(packets, np.int64(record.ack_head), np.int64(record.ack_tail), packet)
        record.ack_tail = packet
        return nothing
    record.data_head = queue_behind(packets, np.int64(record.data_head), np.int64(record.data_tail), packet)
    record.data_tail = packet
    queued_bytes = np.int64(record.queued_bytes) + np.int64(item.size_bytes)
    record.queued_bytes = queued_bytes
    if queued_bytes > record.max_queued_bytes:
        record.max_queued_bytes = queued_bytes
    return nothing
