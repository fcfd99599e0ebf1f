"""Freezing and thawing network partitions in place (Wormhole section 6.2 and 6.3; design R7, R9).

A frozen partition keeps all that it has, in the chains where it lies, and so do the shared buffers: its ports are only
hidden from the nodes. Thawing shifts every time that belongs to it, advances sequence numbers by what was skipped, and
shows the ports again. Nothing else shares these ports, so after a shift alone every later event is the one of the full
run, later by the shift; after a shift by whole periods of what repeats itself, it is the very event of the full run.

What ports would have sent in a skip counts as sent, and what flows of the partition remember of their ports' counts
moves with it: a queue pair that is idle meanwhile finds the count that it would have found.
"""

from typing import NamedTuple

import numpy as np

from models.network.host.host import _first_arrival, _first_start
from models.network.host.nic import next_start
from models.network.host.timers import first_timer_ps, set_timers
from models.network.host.visits import visit
from models.network.link.port import insert_in_order
from models.network.link.wire_time import transmission_ps
from models.network.rounds import unpack_arrivals
from models.network.skip.state_words import n_hop_of, stamping_port
from models.network.state.records import (
    ACK_BYTES,
    ACK_EVERY,
    EXTRA_HOPS,
    EXTRA_N_HOP,
    EXTRA_SENT_PS,
    FLAG_ACK,
    FLAG_FRAME,
    FLAG_MARKER,
    HEADER_BYTES,
    IS_SELECTIVE,
    LAST_EVENT_PS,
    N_EXTRA,
    N_FROZEN_PORT,
    N_HOP_MASK,
    N_QUEUE,
    NOT_CHAINED,
    PAYLOAD_BYTES,
    SACK_COLUMN,
    TELEMETRY,
    TELEMETRY_INT,
    TELEMETRY_PINT,
    WORDS_PER_HOP,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from models.workload.program import Work
from pdes.engine.bits import BIT_MASK, WORD_BITS, WORD_SHIFT, drop_from_set, lowest_bit, put_in_set
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.round_exchange import ExchangeState
from pdes.engine.time_index import NEVER, set_time


class Hidden(NamedTuple):
    """What freezing needs beyond the network's own state. Rows for every port, queue pair and node."""

    link_head: np.ndarray  # int32[n_port]  chains of packets on hidden links
    port_src: np.ndarray  # int64[n_port]
    is_managed: np.ndarray  # int64[1]
    here: np.ndarray  # uint8[n_node]  nodes of this rank
    time_word: np.ndarray  # int64[]  words of a queue pair's control that hold an instant
    byte_word: np.ndarray  # int64[]  words that hold a byte of its stream
    hop_word: np.ndarray  # int64[]  words that hold a count of bytes that a hop has sent
    hop_of_word: np.ndarray  # int64[the same]  and which hop's
    advance_bytes: np.ndarray  # int64[n_qp]  of the partition that is thawed
    advance_sent: np.ndarray  # int64[n_port]  what its ports have sent meanwhile


@loop_kernel
def take_in(fabric: Fabric, work: Work, ex: ExchangeState):
    """Put what the last exchange brought on its links; False if the packets' pool is short."""
    return unpack_arrivals(fabric, work, ex)


@step_kernel
def _waits(fabric: Fabric, buffers: Buffers, is_managed, port):
    """(something waits at a switch's port, something of it may go)."""
    if is_managed:
        record = buffers.managed[np.uint64(port)]
        has_frame = record.frame_head >= 0
        return has_frame or record.waiting != 0, has_frame or record.waiting & ~record.paused != 0
    plain = fabric.ports[np.uint64(port)]
    some = plain.ack_head >= 0 or plain.data_head >= 0
    return some, some


@step_kernel
def _next_of_switch(fabric: Fabric, buffers: Buffers, is_managed, node):
    """A switch's next event, from its links and its ports with waiting packets."""
    least_ps = NEVER
    for w in range((node.end_in - node.first_in + WORD_BITS - 1) // WORD_BITS):
        word = fabric.mask[np.uint64(node.first_mask + w)]
        while word != 0:
            port = node.first_in + w * WORD_BITS + lowest_bit(word)
            head = np.int64(fabric.ports[np.uint64(port)].link_head)
            least_ps = min(least_ps, fabric.packets[np.uint64(head)].arrival_ps)
            word &= word - 1
    port = np.int64(node.wait_head)
    while port >= 0:
        if _waits(fabric, buffers, is_managed, port)[1]:
            least_ps = min(least_ps, fabric.ports[np.uint64(port)].free_at_ps)
        port = np.int64(fabric.port_info[np.uint64(port)].wait_next)
    return least_ps


@step_kernel
def refresh(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, node_id):
    """Enter a node's next event into the time index, whatever it is now."""
    if hidden.here[np.uint64(node_id)] == 0:
        return
    node = fabric.nodes[np.uint64(node_id)]
    if node.is_switch:
        set_time(fabric.node_time, node_id, _next_of_switch(fabric, buffers, hidden.is_managed[0], node))
        return
    start_ps, _ = _first_start(node, nic.nic_ports, nic.out_port)
    arrival_ps, _ = _first_arrival(node, fabric.ports, fabric.packets)
    timer_ps = first_timer_ps(nic.timers, node)
    set_time(fabric.node_time, node_id, min(start_ps, arrival_ps, timer_ps, node.wake_ps))


@step_kernel
def _refresh_all(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, ports):
    for i in range(ports.size):
        port = np.int64(ports[i])
        refresh(fabric, buffers, nic, hidden, hidden.port_src[np.uint64(port)])
        refresh(fabric, buffers, nic, hidden, np.int64(fabric.port_info[np.uint64(port)].receiver))


@step_kernel
def mark_link(fabric: Fabric, port, carries):
    """Set or clear a link's bit at its receiver."""
    node = fabric.nodes[np.uint64(fabric.port_info[np.uint64(port)].receiver)]
    bit = port - node.first_in
    at, one = np.uint64(node.first_mask + (bit >> WORD_SHIFT)), np.int64(1) << (bit & BIT_MASK)
    if carries:
        fabric.mask[at] |= one
    else:
        fabric.mask[at] &= ~one


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
    _refresh_all(fabric, buffers, nic, hidden, ports)


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


@step_kernel
def _shift_packet(fabric: Fabric, nic: Nic, hidden: Hidden, packet, shift_ps):
    """Advance a packet's sequence number, the instants that it carries, and the bytes that it names."""
    item, constants = fabric.packets[np.uint64(packet)], fabric.constants
    if item.bits & FLAG_FRAME:
        return
    advance_bytes = hidden.advance_bytes[np.uint64(item.queue_pair)]
    item.sequence += advance_bytes
    if constants[N_EXTRA] == 0:
        return
    words = fabric.extra[np.uint64(packet)]
    if constants[IS_SELECTIVE] and item.bits & FLAG_ACK:
        sack = np.uint64(constants[SACK_COLUMN])
        if words[sack + np.uint64(1)] > 0:
            words[sack] += advance_bytes
            words[sack + np.uint64(1)] += advance_bytes
    if constants[IS_SELECTIVE] and constants[SACK_COLUMN] == 0:
        return
    words[EXTRA_SENT_PS] += shift_ps
    if constants[TELEMETRY] == TELEMETRY_INT:
        n_hop = min(words[EXTRA_N_HOP] & N_HOP_MASK, (words.size - EXTRA_HOPS) // WORDS_PER_HOP)
        for k in range(n_hop):
            at = EXTRA_HOPS + k * WORDS_PER_HOP
            words[np.uint64(at)] += shift_ps
            port = stamping_port(fabric, nic, np.int64(item.queue_pair), k)
            words[np.uint64(at + 1)] += hidden.advance_sent[np.uint64(port)]


@step_kernel
def _shift_chain(fabric: Fabric, nic: Nic, hidden: Hidden, first, shift_ps, is_on_wire):
    """Shift all packets of a chain; the last one of them."""
    packet, last = np.int64(first), np.int64(-1)
    while packet >= 0:
        last = packet
        item = fabric.packets[np.uint64(packet)]
        if is_on_wire:
            item.arrival_ps += shift_ps
        _shift_packet(fabric, nic, hidden, packet, shift_ps)
        packet = np.int64(item.next)
    return last


@step_kernel
def _shift_waiting(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, port, shift_ps):
    """The packets that wait at a port, and since when it has been paused, if it is."""
    at_switch = fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])].is_switch
    if at_switch and hidden.is_managed[0]:
        buffers.egress[np.uint64(port)].paused_since_ps += shift_ps
        n_queue = fabric.constants[N_QUEUE]
        for i_queue in range(n_queue):
            if (buffers.managed[np.uint64(port)].waiting >> i_queue) & 1:
                head = buffers.queues[np.uint64(port * n_queue + i_queue)].head
                _shift_chain(fabric, nic, hidden, head, shift_ps, False)
        if fabric.constants[TELEMETRY] == TELEMETRY_PINT:
            buffers.utilisation[np.uint64(port), 1] += shift_ps
        return
    nic.nic_ports[np.uint64(port)].paused_since_ps += shift_ps
    plain = fabric.ports[np.uint64(port)]
    _shift_chain(fabric, nic, hidden, plain.ack_head, shift_ps, False)
    _shift_chain(fabric, nic, hidden, plain.data_head, shift_ps, False)


@step_kernel
def _later(time_ps, shift_ps):
    return time_ps + shift_ps if time_ps < NEVER else time_ps


@step_kernel
def _shift_ranges(nic: Nic, first, advance_bytes):
    """What a receiver holds out of order, or a sender knows of it."""
    place = np.int64(first)
    while place >= 0:
        item = nic.ranges[np.uint64(place)]
        item.first_byte += advance_bytes
        item.end_byte += advance_bytes
        place = np.int64(item.next)


@step_kernel
def _shift_receiver(nic: Nic, hidden: Hidden, pair, shift_ps):
    """The receiving end of a queue pair: what it has received, its instants."""
    record = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])]
    advance_bytes = hidden.advance_bytes[np.uint64(pair)]
    record.expected_byte += advance_bytes
    record.received_bytes += advance_bytes
    record.nack_byte += advance_bytes
    _shift_ranges(nic, record.held_range, advance_bytes)
    record.nack_after_ps += shift_ps
    record.cnp_after_ps += shift_ps


@step_kernel
def _shift_sender(fabric: Fabric, nic: Nic, hidden: Hidden, pair, shift_ps):
    """The sending end: what it has sent, its instants, its control's."""
    record, advance_bytes = nic.queue_pairs[np.uint64(pair)], hidden.advance_bytes[np.uint64(pair)]
    record.next_byte += advance_bytes
    record.acked_byte += advance_bytes
    record.high_byte += advance_bytes
    record.sent_bytes += advance_bytes
    _shift_ranges(nic, record.sacked_range, advance_bytes)
    record.next_send_ps += shift_ps
    record.deadline_ps = _later(record.deadline_ps, shift_ps)
    record.check_ps = _later(record.check_ps, shift_ps)
    nic.acked_ps[np.uint64(pair)] += shift_ps
    row = nic.control[np.uint64(pair)]
    for i in range(hidden.time_word.size):
        at = np.uint64(hidden.time_word[i])
        row[at] = _later(row[at], shift_ps) if row[at] != 0 else 0  # 0: not set
    for i in range(hidden.byte_word.size):
        at = np.uint64(hidden.byte_word[i])
        row[at] += advance_bytes if row[at] != 0 else 0
    for i in range(hidden.hop_word.size):
        at, hop = np.uint64(hidden.hop_word[i]), hidden.hop_of_word[i]
        if row[at] != 0 and hop < n_hop_of(fabric, nic, pair):
            row[at] += hidden.advance_sent[np.uint64(stamping_port(fabric, nic, pair, hop))]


@step_kernel
def _take_back(packets, record, strayed):
    """Packets that came to a frozen link: of queue pairs that have ended, such as ACKs of what was sent twice."""
    while strayed >= 0:
        following = np.int64(packets[np.uint64(strayed)].next)
        insert_in_order(packets, record, strayed)
        strayed = following


@step_kernel
def _show_port(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, port, shift_ps):
    record, info = fabric.ports[np.uint64(port)], fabric.port_info[np.uint64(port)]
    nic.frozen_port[np.uint64(port)] = 0
    strayed = np.int64(record.link_head)
    record.link_head = hidden.link_head[np.uint64(port)]
    if record.link_head >= 0:
        mark_link(fabric, port, True)
        record.link_tail = _shift_chain(fabric, nic, hidden, record.link_head, shift_ps, True)
        _take_back(fabric.packets, record, strayed)
    else:
        record.link_head = strayed
    record.free_at_ps += shift_ps
    record.tx_bytes += hidden.advance_sent[np.uint64(port)]
    _shift_waiting(fabric, buffers, nic, hidden, port, shift_ps)
    node = fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])]
    if node.is_switch and _waits(fabric, buffers, hidden.is_managed[0], port)[0] and info.wait_next == NOT_CHAINED:
        info.wait_next = node.wait_head
        node.wait_head = port


@loop_kernel
def show(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, pairs, ports, shift_ps):
    """Thaw what `hide` froze, shift_ps later and hidden.advance_bytes further."""
    for i in range(pairs.size):
        facts = nic.facts[np.uint64(pairs[i])]
        if hidden.here[np.uint64(facts.receiver)]:
            _shift_receiver(nic, hidden, np.int64(pairs[i]), shift_ps)
        if hidden.here[np.uint64(facts.node)]:
            _shift_sender(fabric, nic, hidden, np.int64(pairs[i]), shift_ps)
    for i in range(ports.size):
        _show_port(fabric, buffers, nic, hidden, np.int64(ports[i]), shift_ps)
    fabric.counters[N_FROZEN_PORT] -= ports.size
    for i in range(pairs.size):
        record = nic.queue_pairs[np.uint64(pairs[i])]
        nic.is_frozen[np.uint64(pairs[i])] = 0
        drop_from_set(nic.frozen, 0, nic.queue_pairs.size, np.int64(pairs[i]))
        if hidden.here[np.uint64(nic.facts[np.uint64(pairs[i])].node)] == 0:
            continue
        visit(nic, np.int64(pairs[i]))
        node = fabric.nodes[np.uint64(record.node)]
        if node.n_timer > 0:
            set_timers(nic.timers, node, nic.control, record, np.int64(pairs[i]))
        acked_ps = nic.acked_ps[np.uint64(pairs[i])]  # the run may stop before anything else happens
        fabric.counters[LAST_EVENT_PS] = max(fabric.counters[LAST_EVENT_PS], acked_ps)
    for i in range(ports.size):
        source = hidden.port_src[np.uint64(ports[i])]
        if hidden.here[np.uint64(source)] and fabric.nodes[np.uint64(source)].is_switch == 0:
            port = np.int64(ports[i])
            start_ps = next_start(fabric.ports, nic.nic_ports, nic.queue_pairs, nic.ready, port)
            nic.nic_ports[np.uint64(port)].next_start_ps = start_ps
    _refresh_all(fabric, buffers, nic, hidden, ports)
