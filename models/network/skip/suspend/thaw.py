"""Thawing network partitions: what `freeze` hid is shown again, later by the time and further by what was skipped.

Every time that belongs to a partition moves, and every sequence number. Nothing else shares its ports, so after a shift
alone every later event is the one of the full run, later by the shift; after a shift by whole periods of what repeats
itself, it is the very event of the full run.

What ports would have sent in a skip counts as sent, and what flows of the partition remember of their ports' counts
moves with it: a queue pair that is idle meanwhile finds the count that it would have found.
"""

import numpy as np

from models.network.host.nic import next_start
from models.network.host.timers import set_timers
from models.network.host.visits import visit
from models.network.link.port import put_in_order
from models.network.skip.state_words import n_hop_of, stamping_port
from models.network.skip.suspend.hidden import Hidden, mark_link, refresh_all, waits
from models.network.state.records import (
    EXTRA_HOPS,
    EXTRA_N_HOP,
    EXTRA_SENT_PS,
    FLAG_ACK,
    FLAG_FRAME,
    IS_SELECTIVE,
    LAST_EVENT_PS,
    N_EXTRA,
    N_FROZEN_PORT,
    N_HOP_MASK,
    N_QUEUE,
    NOT_CHAINED,
    SACK_COLUMN,
    TELEMETRY,
    TELEMETRY_INT,
    TELEMETRY_PINT,
    WORDS_PER_HOP,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from pdes.engine.bits import drop_from_set
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER


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
    """What came to a frozen link: of queue pairs that have ended, such as ACKs of what was sent twice; markers."""
    while strayed >= 0:
        following = np.int64(packets[np.uint64(strayed)].next)
        put_in_order(packets, record, strayed)
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
    if node.is_switch and waits(fabric, buffers, hidden.is_managed[0], port)[0] and info.wait_next == NOT_CHAINED:
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
    refresh_all(fabric, buffers, nic, hidden, ports)
