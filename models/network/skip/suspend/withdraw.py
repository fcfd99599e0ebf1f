"""Withdrawing packets: they leave the network, and markers on the last links stand for the ends of their messages."""

from typing import NamedTuple

import numpy as np

from models.network.host.nic import free_packet, take_packet
from models.network.host.selective import free_ranges
from models.network.host.sender import find_sending_message
from models.network.link.port import put_marker_on_wire
from models.network.skip.suspend.hidden import Hidden, mark_link, refresh
from models.network.state.records import (
    FLAG_ACK,
    FLAG_MARKER,
    HAS_BUFFER,
    HEADER_BYTES,
    N_QUEUE,
    PACKET_HOPS,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from models.network.switch.departures import let_resume
from models.network.switch.shared_buffer import release
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping import prediction as m

SENT_BYTES, SENT_PACKETS = range(2)  # of a port, in what is counted twice
N_SENT_COLUMN = 2


class Members(NamedTuple):
    """Queue pairs whose packets are withdrawn. Arrays int64."""

    pairs: np.ndarray  # ascending
    ports: np.ndarray  # of their ways, ascending
    base_byte: np.ndarray  # what is acknowledged, of each queue pair


class Counted(NamedTuple):
    """What is counted of packets that are withdrawn."""

    sent: np.ndarray  # int64[all ports, N_SENT_COLUMN]  what ports have sent of them
    lost_bytes: np.ndarray  # int64[n_pair]  of data that was in flight, taken from it; empty: nobody asks


@loop_kernel
def begin_wave(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, pairs, ports, base_byte):
    """Leave a frozen network partition with nothing in flight: all packets of it are freed (`snapshot.empty`) already.

    base_byte: int64[n_pair], what is acknowledged: sending and receiving go back to it.
    """
    for i in range(pairs.size):
        facts, base = nic.facts[np.uint64(pairs[i])], base_byte[i]
        if hidden.here[np.uint64(facts.receiver)]:
            receiver = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pairs[i])])]
            receiver.received_bytes -= receiver.expected_byte - base
            receiver.expected_byte, receiver.n_unacked = base, 0
            free_ranges(nic.ranges, fabric.counters, receiver)
        if hidden.here[np.uint64(facts.node)]:
            record = nic.queue_pairs[np.uint64(pairs[i])]
            record.sent_bytes -= record.next_byte - base
            record.next_byte = record.high_byte = record.acked_byte = base
            record.deadline_ps = record.check_ps = NEVER
            find_sending_message(record, nic.messages)
    for i in range(ports.size):
        port = np.int64(ports[i])
        if hidden.is_managed[0] and fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])].is_switch:
            buffers.managed[np.uint64(port)].queued_bytes = 0
            for i_queue in range(fabric.constants[N_QUEUE]):
                queue = buffers.queues[np.uint64(port * fabric.constants[N_QUEUE] + i_queue)]
                queue.head, queue.tail, queue.queued_bytes, queue.deficit_bytes = -1, -1, 0, 0
        else:
            fabric.ports[np.uint64(port)].queued_bytes = 0


@step_kernel
def _last_row(fabric: Fabric, row):
    while fabric.path_port[np.uint64(row + 1)] >= 0:
        row += 1
    return row


@step_kernel
def _count_way(fabric: Fabric, first, end, size_bytes, sent):
    for row in range(first, end):
        of_port = sent[np.uint64(fabric.path_port[np.uint64(row)])]
        of_port[SENT_BYTES] += size_bytes
        of_port[SENT_PACKETS] += 1


@step_kernel
def _count_chain(fabric: Fabric, nic: Nic, head, pairs, is_on_wire, counted: Counted):
    packet, constants = np.int64(head), fabric.constants
    while packet >= 0:
        item = fabric.packets[np.uint64(packet)]
        pair = np.int64(item.queue_pair)
        at, end = np.searchsorted(pairs, pair), np.int64(item.path) - (0 if is_on_wire else 1)
        if at < pairs.size and pairs[at] == pair:
            facts, size_bytes = nic.facts[np.uint64(pair)], np.int64(item.size_bytes)
            first = np.int64(facts.data_path)
            if item.bits & FLAG_ACK:
                last = _last_row(fabric, first) + 1
                _count_way(fabric, first, last, constants[PAYLOAD_BYTES] + constants[HEADER_BYTES], counted.sent)
                first = np.int64(facts.ack_path)
            elif counted.lost_bytes.size > 0:
                counted.lost_bytes[at] -= size_bytes - constants[HEADER_BYTES]
            _count_way(fabric, first, end, size_bytes, counted.sent)
        packet = np.int64(item.next)


@loop_kernel
def count_in_flight(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, ports, pairs, counted: Counted):
    """Count the packets of queue pairs that are in hidden ports. An acknowledgement is sent as the packet that it is
    of, too."""
    n_queue = fabric.constants[N_QUEUE]
    for i in range(ports.size):
        port = np.int64(ports[i])
        _count_chain(fabric, nic, hidden.link_head[np.uint64(port)], pairs, True, counted)
        if hidden.is_managed[0] and fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])].is_switch:
            for k in range(n_queue):
                if (buffers.managed[np.uint64(port)].waiting >> k) & 1:
                    head = buffers.queues[np.uint64(port * n_queue + k)].head
                    _count_chain(fabric, nic, head, pairs, False, counted)
        else:
            _count_chain(fabric, nic, fabric.ports[np.uint64(port)].ack_head, pairs, False, counted)
            _count_chain(fabric, nic, fabric.ports[np.uint64(port)].data_head, pairs, False, counted)


@loop_kernel
def count_short(fabric: Fabric, nic: Nic, pairs, short_bytes, sent_bytes):
    """Take from sent_bytes what the packets of queue pairs lacked to be full ones. short_bytes: int64[n_pair]."""
    for i in range(pairs.size):
        first = np.int64(nic.facts[np.uint64(pairs[i])].data_path)
        for row in range(first, _last_row(fabric, first) + 1):
            sent_bytes[np.uint64(fabric.path_port[np.uint64(row)])] -= short_bytes[i]


@step_kernel
def _without(fabric: Fabric, head, pairs):
    """Free what a chain has of queue pairs; (its first packet, its last, their bytes)."""
    packet, first, last, n_byte = np.int64(head), np.int64(-1), np.int64(-1), np.int64(0)
    while packet >= 0:
        item = fabric.packets[np.uint64(packet)]
        following, pair = np.int64(item.next), np.int64(item.queue_pair)
        at = np.searchsorted(pairs, pair)
        if at < pairs.size and pairs[at] == pair:
            free_packet(fabric.packets, fabric.counters, packet)
        else:
            item.next = -1
            if last < 0:
                first = packet
            else:
                fabric.packets[np.uint64(last)].next = packet
            last = packet
            n_byte += np.int64(item.size_bytes)
        packet = following
    return first, last, n_byte


@step_kernel
def _give_back(fabric: Fabric, buffers: Buffers, node_id, i_queue, head, pairs, now_ps):
    """Release what packets of queue pairs, which wait in a queue of a switch, hold of its buffer; senders go on for
    which there is room again."""
    packet, node, switch = np.int64(head), fabric.nodes[np.uint64(node_id)], buffers.switches[np.uint64(node_id)]
    while packet >= 0:
        item = fabric.packets[np.uint64(packet)]
        at = np.searchsorted(pairs, np.int64(item.queue_pair))
        if at < pairs.size and pairs[at] == np.int64(item.queue_pair):
            in_port = np.int64(item.arrival_ps)
            held = buffers.ingress[np.uint64(in_port * fabric.constants[N_QUEUE] + i_queue)]
            release(switch, held, fabric.constants, np.int64(item.size_bytes))
            if held.is_pausing:
                n_started = let_resume(fabric, buffers, node, switch, in_port, held, i_queue, now_ps)
                fabric.counters[PACKET_HOPS] += n_started
        packet = np.int64(item.next)


@loop_kernel
def purge(fabric: Fabric, buffers: Buffers, hidden: Hidden, ports, pairs, now_ps):
    """Free what is of queue pairs (ascending) in hidden ports that others use, too."""
    n_queue = fabric.constants[N_QUEUE]
    for i in range(ports.size):
        port = np.int64(ports[i])
        record = fabric.ports[np.uint64(port)]
        head, tail, _ = _without(fabric, hidden.link_head[np.uint64(port)], pairs)
        hidden.link_head[np.uint64(port)] = head
        if record.link_head < 0:  # else it ends what is not hidden
            record.link_tail = tail
        node_id = hidden.port_src[np.uint64(port)]
        if hidden.is_managed[0] and fabric.nodes[np.uint64(node_id)].is_switch:
            managed = buffers.managed[np.uint64(port)]
            for k in range(n_queue):
                if (managed.waiting >> k) & 1:
                    queue = buffers.queues[np.uint64(port * n_queue + k)]
                    if k > 0 and fabric.constants[HAS_BUFFER]:
                        _give_back(fabric, buffers, node_id, k, queue.head, pairs, now_ps)
                    head, tail, n_byte = _without(fabric, queue.head, pairs)
                    managed.queued_bytes -= np.int64(queue.queued_bytes) - n_byte if k > 0 else 0
                    queue.head, queue.tail, queue.queued_bytes = head, tail, n_byte
                    if head < 0:
                        managed.waiting &= ~np.int32(1 << k)
                        queue.deficit_bytes = 0
        else:
            record.ack_head, record.ack_tail, _ = _without(fabric, record.ack_head, pairs)
            record.data_head, record.data_tail, n_byte = _without(fabric, record.data_head, pairs)
            record.queued_bytes = n_byte


@step_kernel
def _last_port(fabric: Fabric, row):
    return np.int64(fabric.path_port[np.uint64(_last_row(fabric, row))])


@step_kernel
def _place(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, port, bits, predicted):
    """Put one marker of a message on a link, if it ends here. bits: FLAG_ACK, to the sender. predicted: a row."""
    receiver = np.int64(fabric.port_info[np.uint64(port)].receiver)
    if hidden.here[np.uint64(receiver)] == 0:
        return
    packet = take_packet(fabric.packets, fabric.counters)
    item, record = fabric.packets[np.uint64(packet)], fabric.ports[np.uint64(port)]
    item.queue_pair, item.bits, item.sequence = predicted[m.FLOW], bits | FLAG_MARKER, predicted[m.END]
    item.size_bytes, item.path, item.queue, item.next = min(predicted[m.MARKED], 65535), 0, 0, -1
    item.arrival_ps = predicted[m.ENDED_PS] if bits & FLAG_ACK else predicted[m.DELIVERED_PS]
    fabric.label[np.uint64(packet)] = predicted[m.ID]
    if record.link_head < 0:
        record.link_head = record.link_tail = packet
        mark_link(fabric, port, True)
    else:
        put_marker_on_wire(fabric.packets, record, packet)
    refresh(fabric, buffers, nic, hidden, receiver)


@loop_kernel
def place_markers(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, predicted):
    """Put the markers of queue pairs' messages on the links into this rank's hosts. predicted: int64[n, N_COLUMN]."""
    for i in range(predicted.shape[0]):
        row = predicted[np.uint64(i)]
        facts = nic.facts[np.uint64(row[m.FLOW])]
        data, acks = _last_port(fabric, np.int64(facts.data_path)), _last_port(fabric, np.int64(facts.ack_path))
        _place(fabric, buffers, nic, hidden, data, 0, row)
        _place(fabric, buffers, nic, hidden, acks, FLAG_ACK, row)


@loop_kernel
def take_markers_back(fabric: Fabric, hidden: Hidden, ports, pairs, is_over):
    """Free the markers of queue pairs that are not over; what else is on these links goes where `thaw.show` takes it.

    is_over: uint8[n_pair]. pairs: ascending.
    """
    for i in range(ports.size):
        record = fabric.ports[np.uint64(ports[i])]
        packet, last = np.int64(record.link_head), np.int64(-1)
        record.link_head = -1
        while packet >= 0:
            item = fabric.packets[np.uint64(packet)]
            following = np.int64(item.next)
            at = np.searchsorted(pairs, np.int64(item.queue_pair))
            is_mine = at < pairs.size and pairs[at] == np.int64(item.queue_pair)
            if is_mine and item.bits & FLAG_MARKER and is_over[at] == 0:
                free_packet(fabric.packets, fabric.counters, packet)
            else:
                item.next = -1
                if last < 0:
                    record.link_head = packet
                else:
                    fabric.packets[np.uint64(last)].next = packet
                last = packet
            packet = following
        record.link_tail = last
        hidden.link_head[np.uint64(ports[i])] = record.link_head
        record.link_head = -1
        mark_link(fabric, np.int64(ports[i]), False)


@loop_kernel
def find_messages(nic: Nic, pairs):
    """Point queue pairs at the messages of their next bytes."""
    for i in range(pairs.size):
        find_sending_message(nic.queue_pairs[np.uint64(pairs[i])], nic.messages)
