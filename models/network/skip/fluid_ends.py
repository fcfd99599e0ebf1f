"""Messages taken from the packet level to flow level, and back, while they are under way."""

import numpy as np

from models.network.host.fluid import count_packets, forget_unseen, free_to_follow, last_row, make_marker
from models.network.host.nic import free_packet, next_start, set_ready
from models.network.host.sender import find_sending_message
from models.network.host.timers import set_timers
from models.network.host.visits import visit
from models.network.link.port import put_marker_on_wire
from models.network.skip.suspend.freeze import hide
from models.network.skip.suspend.hidden import Hidden, mark_link, refresh
from models.network.skip.suspend.thaw import show
from models.network.skip.suspend.withdraw import Counted, Members, begin_wave, count_in_flight, purge
from models.network.state.records import (
    FLAG_ACK,
    FLAG_MARKER,
    MARKER_BEGIN_PS,
    MARKER_COLUMN,
    MARKER_DELIVERED_PS,
    MARKER_SIZE,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from pdes.engine.bits import drop_from_set, put_in_set
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping import prediction as m

# What the sender tells the receiver of a queue pair that goes on packet by packet: no prediction, but how far its
# messages have come.
(
    CLOSED_PAIR,
    BASE_BYTE,  # its messages go on from there; -1: nothing does
    FIRST_END,  # end of the first message that does
    DONE_BYTES,  # of the first that goes on
) = range(4)
N_CLOSED_COLUMN = 4


@step_kernel
def _set_withdrawn(fabric: Fabric, nic: Nic, hidden: Hidden, predicted):
    """Count the rest of queue pairs' messages as sent: nothing of them is in flight, and markers will end them."""
    for i in range(predicted.shape[0]):
        row = predicted[np.uint64(i)]
        pair, end_byte = row[m.FLOW], row[m.END]
        if hidden.here[np.uint64(nic.facts[np.uint64(pair)].node)] == 0:
            continue
        record, fluid = nic.queue_pairs[np.uint64(pair)], nic.fluid[np.uint64(pair)]
        size = end_byte - record.next_byte
        record.sent_bytes += size
        record.next_byte = record.high_byte = end_byte
        find_sending_message(record, nic.messages)
        set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
        count_packets(fabric.constants, fluid, size, 1)
        fluid.from_byte = record.acked_byte  # nothing else of it is in flight
        fluid.n_withdrawn += 1
        put_in_set(nic.withdrawn, 0, nic.queue_pairs.size, pair)
        fluid.spared_ps += row[m.ENDED_PS] - row[m.BEGIN_PS]


@loop_kernel
def take_out(
    fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, predicted, members: Members, counted: Counted, now_ps
):  # fmt: skip
    """Take what is in flight of queue pairs' messages out of the network, and count their rests as sent.

    predicted: int64[n, N_COLUMN], of the queue pairs of members, in their order. Where packets may get lost,
    counted.lost_bytes, 0 before, comes to what was sent beyond what is acknowledged, was not received in order, and is
    not in flight, in the sum over ranks. That has been dropped, by switches or by receivers, and stays sent.
    """
    pairs, ports, base_byte = members
    lost_bytes = counted.lost_bytes
    hide(fabric, buffers, nic, hidden, pairs, ports)
    count_in_flight(fabric, buffers, nic, hidden, ports, pairs, counted)
    purge(fabric, buffers, hidden, ports, pairs, now_ps)
    for i in range(lost_bytes.size):
        pair = np.uint64(pairs[i])
        facts = nic.facts[pair]
        if hidden.here[np.uint64(facts.node)]:
            lost_bytes[i] += nic.queue_pairs[pair].next_byte - base_byte[i]
        if hidden.here[np.uint64(facts.receiver)]:
            lost_bytes[i] -= nic.receivers[np.uint64(nic.receiver_row[pair])].expected_byte - base_byte[i]
    begin_wave(fabric, buffers, nic, hidden, pairs, ports[:0], base_byte)
    _set_withdrawn(fabric, nic, hidden, predicted)
    show(fabric, buffers, nic, hidden, pairs, ports, 0)


@step_kernel
def _place(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, row, pair, bits, predicted):
    """Put one marker on the link behind a row of path_port, if it ends here. predicted: a row."""
    port = np.int64(fabric.path_port[np.uint64(row)])
    node = np.int64(fabric.port_info[np.uint64(port)].receiver)
    if hidden.here[np.uint64(node)] == 0:
        return
    packet = make_marker(fabric, pair, bits, predicted[m.END], row, predicted[m.ID])
    item, words = fabric.packets[np.uint64(packet)], fabric.extra[np.uint64(packet)]
    at = np.uint64(fabric.constants[MARKER_COLUMN])
    words[at + np.uint64(MARKER_DELIVERED_PS)] = predicted[m.DELIVERED_PS]
    words[at + np.uint64(MARKER_SIZE)] = predicted[m.SIZE]
    words[at + np.uint64(MARKER_BEGIN_PS)] = predicted[m.BEGIN_PS]
    item.size_bytes = min(predicted[m.MARKED], 65535)
    item.arrival_ps = predicted[m.ENDED_PS] if bits & FLAG_ACK else predicted[m.DELIVERED_PS]
    if put_marker_on_wire(fabric.packets, fabric.ports[np.uint64(port)], packet):
        mark_link(fabric, port, True)
    refresh(fabric, buffers, nic, hidden, node)


@step_kernel
def place_one(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, row):
    """Put markers of a message on the links into this rank's hosts. row: of `place_predicted`."""
    pair = row[m.FLOW]
    record, facts = nic.queue_pairs[np.uint64(pair)], nic.facts[np.uint64(pair)]
    if hidden.here[np.uint64(facts.node)]:
        fluid = nic.fluid[np.uint64(pair)]
        fluid.free_ps = free_to_follow(fluid, row[m.FREE_PS], row[m.DELIVERED_PS])
        record.next_send_ps = max(record.next_send_ps, fluid.free_ps + fluid.slack_ps)
        port = np.int64(record.port)
        start_ps = next_start(fabric.ports, nic.nic_ports, nic.queue_pairs, nic.ready, port)
        nic.nic_ports[np.uint64(port)].next_start_ps = start_ps
        refresh(fabric, buffers, nic, hidden, np.int64(record.node))
    data, acks = last_row(fabric, np.int64(facts.data_path)), last_row(fabric, np.int64(facts.ack_path))
    _place(fabric, buffers, nic, hidden, data, pair, 0, row)
    _place(fabric, buffers, nic, hidden, acks, pair, FLAG_ACK, row)


@loop_kernel
def place_predicted(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, predicted):
    """Put markers of messages under way on the links into this rank's hosts. predicted: int64[n, N_COLUMN]."""
    for i in range(predicted.shape[0]):
        place_one(fabric, buffers, nic, hidden, predicted[np.uint64(i)])


@step_kernel
def _done_bytes(words, at, at_ps, payload):
    """Bytes of a message that come across by an instant, whole packets and not all of them."""
    begin_ps, size = words[at + np.uint64(MARKER_BEGIN_PS)], words[at + np.uint64(MARKER_SIZE)]
    took_ps = words[at + np.uint64(MARKER_DELIVERED_PS)] - begin_ps
    done = np.int64(size * (max(0, at_ps - begin_ps) / max(1, took_ps)))
    return min(done, size - 1) // payload * payload


@step_kernel
def _forget_beyond(nic: Nic, hidden: Hidden, pair, byte):
    """A queue pair sends from a byte on again: its control waits for no acknowledgement of one beyond.

    It had been told that all was sent, by acknowledgements of packets that were in flight when its messages came to
    flow level, and would have left its rate as it was until these bytes were acknowledged.
    """
    control = nic.control[np.uint64(pair)]
    for k in range(hidden.byte_word.size):
        at = np.uint64(hidden.byte_word[k])
        control[at] = min(control[at], byte)


@loop_kernel
def close_at_senders(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, pairs, at_ps, horizon_ps, out):
    """Have this rank's senders go on packet by packet as of at_ps; how many rows of out that makes.

    out: int64[n_pair, N_CLOSED_COLUMN]. Messages that come across before horizon_ps, where all hosts are or will be,
    are over. Of the others the first has got done what its time says, if all before it is acknowledged; what had left
    by at_ps counts, as if it had arrived.
    """
    n_row, at, payload = 0, np.uint64(fabric.constants[MARKER_COLUMN]), fabric.constants[PAYLOAD_BYTES]
    for i in range(pairs.size):
        pair = np.int64(pairs[i])
        facts = nic.facts[np.uint64(pair)]
        if hidden.here[np.uint64(facts.node)] == 0:
            continue
        record, fluid = nic.queue_pairs[np.uint64(pair)], nic.fluid[np.uint64(pair)]
        row = out[np.uint64(n_row)]
        n_row += 1
        visit(nic, pair)
        row[CLOSED_PAIR], row[BASE_BYTE], row[FIRST_END] = pair, -1, -1
        row[DONE_BYTES] = 0
        forget_unseen(fabric, nic, fluid, pair)
        port = np.int64(fabric.path_port[np.uint64(last_row(fabric, np.int64(facts.ack_path)))])
        link = fabric.ports[np.uint64(port)]
        packet, last, over_ps, done = np.int64(link.link_head), np.int64(-1), np.int64(-1), np.int64(0)
        while packet >= 0:
            item, words = fabric.packets[np.uint64(packet)], fabric.extra[np.uint64(packet)]
            following = np.int64(item.next)
            is_mine = item.queue_pair == pair and item.bits & FLAG_MARKER != 0 and item.bits & FLAG_ACK != 0
            if is_mine and words[at + np.uint64(MARKER_DELIVERED_PS)] >= horizon_ps:
                size, begin_ps = words[at + np.uint64(MARKER_SIZE)], words[at + np.uint64(MARKER_BEGIN_PS)]
                if row[BASE_BYTE] < 0:
                    begin = np.int64(item.sequence) - size
                    if record.acked_byte == begin and over_ps <= at_ps:
                        done = _done_bytes(words, at, at_ps + fluid.behind_ps, payload)
                    row[BASE_BYTE], row[FIRST_END] = begin + done, item.sequence
                    fluid.packets += done // payload
                count_packets(fabric.constants, fluid, size, -1)
                fluid.spared_ps -= np.int64(item.arrival_ps) - max(at_ps, begin_ps)
                fluid.n_withdrawn -= 1
                if fluid.n_withdrawn == 0:
                    drop_from_set(nic.withdrawn, 0, nic.queue_pairs.size, pair)
                if last < 0:
                    link.link_head = following
                else:
                    fabric.packets[np.uint64(last)].next = following
                free_packet(fabric.packets, fabric.counters, packet)
            else:
                if is_mine:
                    over_ps = words[at + np.uint64(MARKER_DELIVERED_PS)]
                last = packet
            packet = following
        link.link_tail = last
        if last < 0:
            mark_link(fabric, port, False)
        if row[BASE_BYTE] >= 0:
            record.sent_bytes -= record.next_byte - row[BASE_BYTE]
            record.next_byte = record.high_byte = row[BASE_BYTE]
            _forget_beyond(nic, hidden, pair, row[BASE_BYTE])
            row[DONE_BYTES] = done
            if done > 0:
                record.acked_byte = row[BASE_BYTE]
            find_sending_message(record, nic.messages)
            record.next_send_ps, fluid.free_ps = horizon_ps, 0
            set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
            node = fabric.nodes[np.uint64(record.node)]
            if node.n_timer > 0:
                set_timers(nic.timers, node, nic.control, record, pair)
            out_port = np.int64(record.port)
            start_ps = next_start(fabric.ports, nic.nic_ports, nic.queue_pairs, nic.ready, out_port)
            nic.nic_ports[np.uint64(out_port)].next_start_ps = start_ps
        refresh(fabric, buffers, nic, hidden, np.int64(record.node))
    return n_row


@loop_kernel
def close_at_receivers(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, rows):
    """Take back the markers at this rank's receivers of messages that go on packet by packet.

    rows: int64[n, N_CLOSED_COLUMN], what all senders say.
    """
    for i in range(rows.shape[0]):
        row = rows[np.uint64(i)]
        if row[BASE_BYTE] < 0:
            continue
        pair = row[CLOSED_PAIR]
        record = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])]
        port = np.int64(fabric.path_port[np.uint64(last_row(fabric, np.int64(nic.facts[np.uint64(pair)].data_path)))])
        node = np.int64(fabric.port_info[np.uint64(port)].receiver)
        if hidden.here[np.uint64(node)] == 0:
            continue
        if row[DONE_BYTES] > 0:
            record.received_bytes += row[BASE_BYTE] - record.expected_byte
            record.expected_byte = row[BASE_BYTE]
        link = fabric.ports[np.uint64(port)]
        packet, last = np.int64(link.link_head), np.int64(-1)
        while packet >= 0:
            item = fabric.packets[np.uint64(packet)]
            following = np.int64(item.next)
            is_mine = item.queue_pair == pair and item.bits & FLAG_MARKER != 0 and item.bits & FLAG_ACK == 0
            if is_mine and item.sequence >= row[FIRST_END]:
                if last < 0:
                    link.link_head = following
                else:
                    fabric.packets[np.uint64(last)].next = following
                free_packet(fabric.packets, fabric.counters, packet)
            else:
                last = packet
            packet = following
        link.link_tail = last
        if last < 0:
            mark_link(fabric, port, False)
        refresh(fabric, buffers, nic, hidden, node)
