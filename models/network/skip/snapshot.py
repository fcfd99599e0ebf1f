"""A network partition's packet state as words relative to an instant and to what is acknowledged (design R7).

Ports, queue pairs and nodes are numbered within the partition, in the order of their ids, which is the order in which
they take turns (design R2). So two partitions whose words are equal will behave alike to the ps, and one's state can be
put in the other's place. Every rank writes the blocks that are its own; sorted, all blocks together are the state.

Not in it: what only counts (bytes in all, marks), and what other partitions can touch: shared buffers.
"""

import numpy as np

from models.network.host.nic import free_packet
from models.network.skip.state_words import (
    PACKET_WORDS,
    SKIPPED_WORDS,
    Numbering,
    ahead,
    load_packet,
    load_receiver,
    load_sender,
    store_packet,
    store_receiver,
    store_sender,
)
from models.network.skip.suspend.hidden import Hidden
from models.network.state.records import (
    FLAG_MARKER,
    N_FREE_PACKET,
    N_QUEUE,
    TELEMETRY,
    TELEMETRY_PINT,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping.replay.blocks import HEADER_WORDS

SENDER, RECEIVER, EGRESS_SIDE, LINK = range(4)  # kinds of blocks


@step_kernel
def _turn(nic: Nic, numbering: Numbering, port):
    """How many of a NIC port's queue pairs in the partition stand up to the one served last."""
    nic_port, n = nic.nic_ports[np.uint64(port)], np.int64(0)
    for i in range(numbering.pairs.size):
        local = numbering.pairs[i] - nic_port.first_pair
        n += nic.facts[np.uint64(numbering.pairs[i])].port == port and local <= nic_port.last_served
    return n


@step_kernel
def _set_turn(nic: Nic, numbering: Numbering, port, turn):
    nic_port = nic.nic_ports[np.uint64(port)]
    nic_port.last_served = -1
    for i in range(numbering.pairs.size):
        if nic.facts[np.uint64(numbering.pairs[i])].port == port and turn > 0:
            nic_port.last_served = numbering.pairs[i] - nic_port.first_pair
            turn -= 1


@step_kernel
def _store_chain(fabric: Fabric, nic: Nic, numbering: Numbering, head, is_managed, out, at):
    """The packets that wait in a chain: their number, then each."""
    count_at, packet = at, np.int64(head)
    out[count_at] = 0
    at += 1
    while packet >= 0:
        item = fabric.packets[np.uint64(packet)]
        where = np.int64(numbering.row_of_port[np.uint64(item.arrival_ps)]) if is_managed else 0
        at = store_packet(fabric, nic, numbering, packet, where, out, at)
        out[count_at] += 1
        packet = np.int64(item.next)
    return at


@step_kernel
def _load_chain(fabric: Fabric, nic: Nic, numbering: Numbering, is_managed, words, at):
    """(first packet, last packet, their bytes, where the words end)."""
    head, tail, n_byte = np.int64(-1), np.int64(-1), np.int64(0)
    n_packet = words[at]
    at += 1
    for _ in range(n_packet):
        packet, where, at = load_packet(fabric, nic, numbering, words, at)
        item = fabric.packets[np.uint64(packet)]
        if is_managed:
            item.arrival_ps = numbering.ports[where]
        if head < 0:
            head = packet
        else:
            fabric.packets[np.uint64(tail)].next = packet
        tail = packet
        n_byte += np.int64(item.size_bytes)
    return head, tail, n_byte, at


@step_kernel
def _store_egress(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, numbering: Numbering, row, out, at):
    port = numbering.ports[row]
    record = fabric.ports[np.uint64(port)]
    at_switch = fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])].is_switch
    out[at], out[at + 1] = ahead(record.free_at_ps, numbering.base_ps[0]), 0
    if at_switch == 0:
        out[at + 1] = _turn(nic, numbering, port)
    at += 2
    if at_switch and hidden.is_managed[0]:
        n_queue = fabric.constants[N_QUEUE]
        out[at], out[at + 1] = buffers.egress[np.uint64(port)].turn, buffers.managed[np.uint64(port)].paused
        at += 2
        for i in range(n_queue):
            queue = buffers.queues[np.uint64(port * n_queue + i)]
            out[at] = queue.deficit_bytes
            head = queue.head if (buffers.managed[np.uint64(port)].waiting >> i) & 1 else -1
            at = _store_chain(fabric, nic, numbering, head, i > 0, out, at + 1)
        if fabric.constants[TELEMETRY] == TELEMETRY_PINT:
            row_view = buffers.utilisation[np.uint64(port)]
            out[at], out[at + 1] = np.int64(row_view[0] * 2.0**40), np.int64(row_view[1]) - numbering.base_ps[0]
            out[at + 2] = np.int64(row_view[2])
            at += 3
        return at
    at = _store_chain(fabric, nic, numbering, record.ack_head, False, out, at)
    return _store_chain(fabric, nic, numbering, record.data_head, False, out, at)


@step_kernel
def _load_egress(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, numbering: Numbering, row, words, at):
    port = numbering.ports[row]
    record = fabric.ports[np.uint64(port)]
    at_switch = fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])].is_switch
    record.free_at_ps = words[at] + numbering.base_ps[0]
    if at_switch == 0:
        _set_turn(nic, numbering, port, words[at + 1])
    at += 2
    if at_switch and hidden.is_managed[0]:
        n_queue, managed = fabric.constants[N_QUEUE], buffers.managed[np.uint64(port)]
        buffers.egress[np.uint64(port)].turn = words[at]
        managed.waiting, managed.queued_bytes = 0, 0
        at += 2
        for i in range(n_queue):
            queue = buffers.queues[np.uint64(port * n_queue + i)]
            queue.deficit_bytes = words[at]
            head, tail, n_byte, at = _load_chain(fabric, nic, numbering, i > 0, words, at + 1)
            queue.head, queue.tail, queue.queued_bytes = head, tail, n_byte
            if head >= 0:
                managed.waiting |= np.int32(1 << i)
            if i > 0:
                managed.queued_bytes += n_byte
        managed.max_queued_bytes = max(managed.max_queued_bytes, managed.queued_bytes)
        if fabric.constants[TELEMETRY] == TELEMETRY_PINT:
            row_view = buffers.utilisation[np.uint64(port)]
            row_view[0], row_view[1] = words[at] / 2.0**40, words[at + 1] + numbering.base_ps[0]
            row_view[2] = words[at + 2]
        return
    record.ack_head, record.ack_tail, _, at = _load_chain(fabric, nic, numbering, False, words, at)
    record.data_head, record.data_tail, n_byte, at = _load_chain(fabric, nic, numbering, False, words, at)
    record.queued_bytes = n_byte
    record.max_queued_bytes = max(record.max_queued_bytes, n_byte)


@step_kernel
def _store_link(fabric: Fabric, nic: Nic, hidden: Hidden, numbering: Numbering, row, out, at):
    port = numbering.ports[row]
    is_frozen = nic.frozen_port[np.uint64(port)] == 1
    packet = (
        np.int64(hidden.link_head[np.uint64(port)]) if is_frozen else np.int64(fabric.ports[np.uint64(port)].link_head)
    )
    count_at = at
    out[count_at] = 0
    at += 1
    while packet >= 0:
        item = fabric.packets[np.uint64(packet)]
        if item.bits & FLAG_MARKER == 0:
            at = store_packet(fabric, nic, numbering, packet, item.arrival_ps - numbering.base_ps[0], out, at)
            out[count_at] += 1
        packet = np.int64(item.next)
    return at


@step_kernel
def _load_link(fabric: Fabric, nic: Nic, hidden: Hidden, numbering: Numbering, row, words, at):
    """Into the hidden chain: the partition is frozen."""
    port, tail = numbering.ports[row], np.int64(-1)
    n_packet = words[at]
    at += 1
    for _ in range(n_packet):
        packet, where, at = load_packet(fabric, nic, numbering, words, at)
        fabric.packets[np.uint64(packet)].arrival_ps = where + numbering.base_ps[0]
        if tail < 0:
            hidden.link_head[np.uint64(port)] = packet
        else:
            fabric.packets[np.uint64(tail)].next = packet
        tail = packet
    if fabric.ports[np.uint64(port)].link_head < 0:  # else it ends what is not hidden
        fabric.ports[np.uint64(port)].link_tail = tail


@step_kernel
def _head(out, kind, row, at, end):
    """Write a block's header; where the block ends."""
    out[at], out[at + 1], out[at + 2] = kind, row, end - at - HEADER_WORDS
    return end


@loop_kernel
def number(numbering: Numbering):
    """Enter a partition's members into the tables of rows."""
    for i in range(numbering.pairs.size):
        numbering.row_of_pair[np.uint64(numbering.pairs[i])] = i
    for i in range(numbering.ports.size):
        numbering.row_of_port[np.uint64(numbering.ports[i])] = i


@loop_kernel
def store_ends(fabric: Fabric, nic: Nic, hidden: Hidden, numbering: Numbering, out):
    """Write this rank's blocks of queue pairs alone, in order; how many words. The members are numbered."""
    at, body = np.int64(0), HEADER_WORDS
    for row in range(numbering.pairs.size):
        pair = numbering.pairs[row]
        if hidden.here[np.uint64(nic.facts[np.uint64(pair)].node)]:
            at = _head(out, SENDER, row, at, store_sender(fabric, nic, numbering, row, out, at + body))
    for row in range(numbering.pairs.size):
        pair = numbering.pairs[row]
        if hidden.here[np.uint64(nic.facts[np.uint64(pair)].receiver)]:
            at = _head(out, RECEIVER, row, at, store_receiver(nic, numbering, row, out, at + body))
    return at


@loop_kernel
def store(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, numbering: Numbering, out):
    """Write this rank's blocks, in order; how many words. The members are numbered."""
    at, body = np.int64(store_ends(fabric, nic, hidden, numbering, out)), HEADER_WORDS
    for row in range(numbering.ports.size):
        port = numbering.ports[row]
        if hidden.here[np.uint64(hidden.port_src[np.uint64(port)])]:
            end = _store_egress(fabric, buffers, nic, hidden, numbering, row, out, at + body)
            at = _head(out, EGRESS_SIDE, row, at, end)
    for row in range(numbering.ports.size):
        port = numbering.ports[row]
        if hidden.here[np.uint64(fabric.port_info[np.uint64(port)].receiver)]:
            at = _head(out, LINK, row, at, _store_link(fabric, nic, hidden, numbering, row, out, at + body))
    return at


@step_kernel
def _one_of(many: Numbering, ends, i):
    """The i-th of the network partitions that lie one behind the other, numbered."""
    pair, end_pair, port, end_port = ends[0, i], ends[0, i + 1], ends[1, i], ends[1, i + 1]
    numbering = Numbering(
        many.pairs[pair:end_pair], many.ports[port:end_port], many.base_byte[pair:end_pair], many.base_ps,
        many.base_tx[port:end_port], many.row_of_port, many.row_of_pair, many.word_kind, many.word_hop,
    )  # fmt: skip
    number(numbering)
    return numbering


@loop_kernel
def store_all(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, many: Numbering, ends, out, end_word):
    """`store` of network partitions, one behind the other.

    ends: int64[2, n + 1], where each one's queue pairs and ports begin in `many`. Written: end_word, int64[n].
    """
    at = np.int64(0)
    for i in range(end_word.size):
        at += store(fabric, buffers, nic, hidden, _one_of(many, ends, i), out[at:])
        end_word[i] = at


@loop_kernel
def leave_out_counts(words):
    """Clear what only counts, or says when something was that is over."""
    at = np.int64(0)
    while at < words.size:
        end = at + HEADER_WORDS + words[at + 2]
        if words[at] == SENDER:
            words[end - SKIPPED_WORDS : end] = 0
        at = end


@step_kernel
def _free_chain(fabric: Fabric, head):
    packet = np.int64(head)
    while packet >= 0:
        following = np.int64(fabric.packets[np.uint64(packet)].next)
        free_packet(fabric.packets, fabric.counters, packet)
        packet = following


@loop_kernel
def empty(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, ports):
    """Free all packets of a frozen partition on this rank."""
    for i in range(ports.size):
        port = np.int64(ports[i])
        _free_chain(fabric, hidden.link_head[np.uint64(port)])
        hidden.link_head[np.uint64(port)] = -1
        at_switch = fabric.nodes[np.uint64(hidden.port_src[np.uint64(port)])].is_switch
        if at_switch and hidden.is_managed[0]:
            n_queue = fabric.constants[N_QUEUE]
            for k in range(n_queue):
                if (buffers.managed[np.uint64(port)].waiting >> k) & 1:
                    _free_chain(fabric, buffers.queues[np.uint64(port * n_queue + k)].head)
            buffers.managed[np.uint64(port)].waiting = 0
        else:
            _free_chain(fabric, fabric.ports[np.uint64(port)].ack_head)
            _free_chain(fabric, fabric.ports[np.uint64(port)].data_head)
            fabric.ports[np.uint64(port)].ack_head = fabric.ports[np.uint64(port)].data_head = -1


@loop_kernel
def load(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, numbering: Numbering, words):
    """Put a state in the place of a frozen partition's, which is empty: of all its blocks, those of this rank."""
    at = np.int64(0)
    while at < words.size:
        kind, row, body = words[at], words[at + 1], at + HEADER_WORDS
        at = body + words[at + 2]
        if kind == SENDER or kind == RECEIVER:
            pair = numbering.pairs[row]
            if kind == SENDER and hidden.here[np.uint64(nic.facts[np.uint64(pair)].node)]:
                load_sender(fabric, nic, numbering, row, words, body)
            if kind == RECEIVER and hidden.here[np.uint64(nic.facts[np.uint64(pair)].receiver)]:
                load_receiver(nic, numbering, row, words, body)
        elif kind == EGRESS_SIDE:
            if hidden.here[np.uint64(hidden.port_src[np.uint64(numbering.ports[row])])]:
                _load_egress(fabric, buffers, nic, hidden, numbering, row, words, body)
        elif hidden.here[np.uint64(fabric.port_info[np.uint64(numbering.ports[row])].receiver)]:
            _load_link(fabric, nic, hidden, numbering, row, words, body)


@loop_kernel
def load_all(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, many: Numbering, ends, words):
    """Put one state in the place of those of frozen network partitions: `ends`, see `store_all`."""
    for i in range(ends.shape[1] - 1):
        load(fabric, buffers, nic, hidden, _one_of(many, ends, i), words)


@loop_kernel
def replace_all(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, many: Numbering, ends, words):
    """Put one state in the place of those of frozen network partitions; False if the packets' pool is short.

    They are empty then, and it may be tried again. ends: see `store_all`.
    """
    empty(fabric, buffers, nic, hidden, many.ports)
    if fabric.counters[N_FREE_PACKET] * PACKET_WORDS < words.size * (ends.shape[1] - 1):
        return False
    load_all(fabric, buffers, nic, hidden, many, ends, words)
    return True
