"""Messages at flow level: posted without a packet, and without their ends being known yet.

A message that is posted on a queue pair whose rates are known (`pdes.skipping.fluid`) leaves its two markers at once
(`markers`): one on the link into the receiver, which ends it there when its last byte would have come across, and one
on the link into the sender, which acknowledges it. Nothing of it is in between. For the time being they come FAR later.
The next tick sees the message, and once its end is known the markers are moved to where they belong.

Whoever posts a message packet by packet on a way through a port that flows at flow level have interrupts them
(`interrupts`): at the round's end they go on packet by packet from what they have got done, with nothing in flight.

Where the audit wants it, such a message is sent packet by packet all the same: it has a shadow at flow level, which
says when the message would have ended.
"""

from typing import NamedTuple

import numpy as np

from models.network.host.nic import take_packet
from models.network.link.port import link_filled, put_marker_on_wire
from models.network.state.records import (
    FLAG_ACK,
    FLAG_LAST,
    FLAG_MARKER,
    MARKER_BEGIN_PS,
    MARKER_COLUMN,
    MARKER_DELIVERED_PS,
    MARKER_SIZE,
    MAY_FOLLOW,
    N_FLUID,
    N_UNSEEN,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from pdes.engine.bits import drop_from_set, put_in_set
from pdes.engine.jit import step_kernel
from pdes.skipping.fluid.flow_table import FAR_PS, MOST_MESSAGES, NOBODY, SHARED

NO_ROW = -1  # of path_port: where no way is looked for


@step_kernel
def meets_fluid(fabric: Fabric, nic: Nic, pair):
    """Whether the way of a queue pair has a port of flows at flow level."""
    if fabric.counters[N_FLUID] == 0:
        return False
    row = np.int64(nic.facts[np.uint64(pair)].data_path)
    port = np.int64(fabric.path_port[np.uint64(row)])
    while port >= 0:
        if nic.fluid_port[np.uint64(port)] != NOBODY:
            return True
        row += 1
        port = np.int64(fabric.path_port[np.uint64(row)])
    return False


@step_kernel
def last_row(fabric: Fabric, row):
    """The last row of the path that begins at a row of path_port."""
    while fabric.path_port[np.uint64(row + 1)] >= 0:
        row += 1
    return row


@step_kernel
def count_packets(constants, fluid, size_bytes, sign):
    """Count the packets of a message as not simulated, or (sign -1) as simulated after all."""
    payload = constants[PAYLOAD_BYTES]
    n_packet = (size_bytes + payload - 1) // payload
    fluid.packets += sign * n_packet
    fluid.short_bytes += sign * (n_packet * payload - size_bytes)


@step_kernel
def free_to_follow(fluid, free_ps, delivered_ps):
    """When what follows a message may leave: behind its last byte, and no sooner than a byte on an idle way would that
    is delivered as late, if it waits in queues. A FLUID record, and a prediction's two instants."""
    return max(free_ps, delivered_ps - fluid.behind_ps)


@step_kernel
def make_marker(fabric: Fabric, pair, bits, end_byte, row, flow_id):
    """A marker that is behind a row of path_port. The pool has one (NEED_PACKETS)."""
    packet = take_packet(fabric.packets, fabric.counters)
    item = fabric.packets[np.uint64(packet)]
    item.queue_pair, item.bits, item.sequence = pair, bits | FLAG_MARKER | FLAG_LAST, end_byte
    item.path, item.queue = row + 1, 0
    fabric.label[np.uint64(packet)] = flow_id
    return packet


class Withdrawn(NamedTuple):
    """A message that was posted and is not sent packet by packet: what its two markers carry of its prediction."""

    flow_id: np.int64
    end_byte: np.int64  # in the queue pair's stream
    size_bytes: np.int64
    begin_ps: np.int64
    delivered_ps: np.int64


@step_kernel
def send_marker(fabric: Fabric, pair, bits, row, message: Withdrawn, arrival_ps):
    """Put one marker of a queue pair's message on the link behind a row of path_port. bits: FLAG_ACK, to the sender."""
    put_marker(fabric, pair, bits, (row, np.int64(fabric.path_port[np.uint64(row)])), message, arrival_ps)


@step_kernel
def put_marker(fabric: Fabric, pair, bits, place, message: Withdrawn, arrival_ps):
    """The same. place: (the row of path_port, or NO_ROW; the port whose link it is)."""
    row, port = place
    marker = make_marker(fabric, pair, bits, message.end_byte, row, message.flow_id)
    item, words = fabric.packets[np.uint64(marker)], fabric.extra[np.uint64(marker)]
    at = np.uint64(fabric.constants[MARKER_COLUMN])
    words[at + np.uint64(MARKER_DELIVERED_PS)] = message.delivered_ps
    words[at + np.uint64(MARKER_SIZE)] = message.size_bytes
    words[at + np.uint64(MARKER_BEGIN_PS)] = message.begin_ps
    item.size_bytes = 0  # marked packets: nobody knows
    item.arrival_ps = arrival_ps
    if put_marker_on_wire(fabric.packets, fabric.ports[np.uint64(port)], marker):
        link_filled(
            port, item, fabric.port_info, fabric.nodes, fabric.mask, fabric.node_time, fabric.departed,
            fabric.counters,
        )  # fmt: skip


@step_kernel
def _is_free(fabric: Fabric, nic: Nic, pair):
    """Whether no port of a queue pair's way is frozen."""
    row = np.int64(nic.facts[np.uint64(pair)].data_path)
    port = np.int64(fabric.path_port[np.uint64(row)])
    while port >= 0:
        if nic.frozen_port[np.uint64(port)] == 1:
            return False
        row += 1
        port = np.int64(fabric.path_port[np.uint64(row)])
    return True


@step_kernel
def may_be_fluid(fabric: Fabric, nic: Nic, record, pair, size_bytes):
    """Whether a message that is posted on a queue pair (its record) goes at flow level: its rates are known, nothing of
    the pair's waits to be sent as packets, and no port of its way is frozen."""
    if fabric.counters[N_FLUID] == 0:
        return False
    fluid = nic.fluid[np.uint64(pair)]
    if size_bytes < fluid.least_bytes or size_bytes > fluid.most_bytes or nic.is_frozen[np.uint64(pair)]:
        return False
    if record.acked_byte < record.posted_end:
        has_left = record.next_byte == record.posted_end
        if fluid.n_withdrawn > 0:
            has_left = has_left and record.acked_byte >= fluid.from_byte
        elif fabric.constants[MAY_FOLLOW] == 0:
            has_left = False
        if not has_left and fluid.shadow_end != record.posted_end:  # some of it goes as packets
            return False
    return fluid.n_withdrawn + fluid.n_shadow < MOST_MESSAGES and _is_free(fabric, nic, pair)


@step_kernel
def waits_behind(fabric: Fabric, nic: Nic, record, pair, now_ps):
    """Whether a message that is posted on a queue pair (its record) has to wait until some of those before it are over,
    all of which are at flow level: then a tick takes it there, too."""
    fluid = nic.fluid[np.uint64(pair)]
    if fluid.most_bytes == 0 or fluid.n_withdrawn < MOST_MESSAGES or now_ps >= fluid.free_ps:
        return False
    holder = np.int64(nic.fluid_port[np.uint64(fabric.path_port[np.uint64(nic.facts[np.uint64(pair)].data_path)])])
    return record.acked_byte >= fluid.from_byte and (holder == SHARED or fluid.n_unseen > 0)


@step_kernel
def cast_shadow(fabric: Fabric, nic: Nic, record, pair):
    """The message that was just posted on a queue pair goes packet by packet, and has a shadow at flow level."""
    fluid = nic.fluid[np.uint64(pair)]
    _note_unseen(fabric, nic, fluid, pair)
    fluid.n_shadow += 1
    fluid.shadow_end = record.posted_end


@step_kernel
def _note_unseen(fabric: Fabric, nic: Nic, fluid, pair):
    if fluid.n_unseen == 0:
        put_in_set(nic.unseen, 0, nic.queue_pairs.size, pair)
    fluid.n_unseen += 1
    fabric.counters[N_UNSEEN] += 1


@step_kernel
def send_fluid(fabric: Fabric, nic: Nic, record, pair, size_bytes, flow_id, now_ps):
    """Send the message that was just posted on a queue pair by its markers, whose times are not known yet."""
    fluid, far_ps = nic.fluid[np.uint64(pair)], now_ps + FAR_PS
    fluid.free_ps = far_ps
    if fluid.n_withdrawn == 0:
        put_in_set(nic.withdrawn, 0, nic.queue_pairs.size, pair)
        fluid.from_byte = record.posted_end - size_bytes
    _note_unseen(fabric, nic, fluid, pair)
    fluid.n_withdrawn += 1
    fluid.spared_ps += FAR_PS
    count_packets(fabric.constants, fluid, size_bytes, 1)
    record.sent_bytes += size_bytes
    record.next_byte = record.high_byte = record.posted_end
    record.sending_message = -1
    facts = nic.facts[np.uint64(pair)]
    data, acks = last_row(fabric, np.int64(facts.data_path)), last_row(fabric, np.int64(facts.ack_path))
    message = Withdrawn(flow_id, np.int64(record.posted_end), size_bytes, now_ps, far_ps)
    send_marker(fabric, pair, 0, data, message, far_ps)
    send_marker(fabric, pair, FLAG_ACK, acks, message, far_ps)


@step_kernel
def forget_unseen(fabric: Fabric, nic: Nic, fluid, pair):
    """What a queue pair (its record of `fluid`) has posted at flow level goes packet by packet after all."""
    if fluid.n_unseen > 0:
        fabric.counters[N_UNSEEN] -= fluid.n_unseen
        fluid.n_unseen = 0
        drop_from_set(nic.unseen, 0, nic.queue_pairs.size, pair)
