"""Lanes: messages that have their ways to themselves, and end when earlier ones like them did.

Most messages of a ring share no port with other data: only acknowledgements cross their ways. How long such a message
takes is up to its size and its way alone, so once that is known (`skipping.fluid.lanes`) it need not be sent packet by
packet. While a queue pair's lane is open, the ports of its way are kept for its data. A message posted on it leaves
two markers at once: one on the link into the receiver, which ends it there when its last byte would have come across,
and one on the link into the sender, which acknowledges it (`markers`). Nothing of it is in between.

Whoever posts a message packet by packet on a way through a port of somebody's lane interrupts it (`interrupts`): at the
round's end the lane is closed as of that instant. What was under way goes on packet by packet from what a straight line
from its beginning to its end gives, with nothing in flight.
"""

from typing import NamedTuple

import numpy as np

from models.network.host.nic import take_packet
from models.network.link.port import link_filled, put_marker_on_wire
from models.network.state.records import (
    FLAG_ACK,
    FLAG_LAST,
    FLAG_MARKER,
    LANE_BEHIND_PS,
    LANE_COLUMN,
    LANE_DELIVERED_PS,
    LANE_ENDED_PS,
    LANE_FORM,
    LANE_LONGER_PS,
    LANE_MARKED,
    LANE_SIZE,
    MARKER_BEGIN_PS,
    MARKER_DELIVERED_PS,
    MARKER_SIZE,
    N_LANE,
    N_LANE_TIME,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from pdes.engine.bits import put_in_set
from pdes.engine.jit import step_kernel
from pdes.skipping.fluid.flow_table import NOBODY

MAX_PREDICTED = 2  # messages of a queue pair, so that what crosses to another rank in a round is bounded


@step_kernel
def find_times(nic: Nic, counters, pair, size_bytes, now_ps):
    """The row of `lane_times` that says how long a message of a queue pair takes, -1 if it has no lane or none does."""
    lane, times = nic.lanes[np.uint64(pair)], nic.lane_times
    if lane.is_open == 0 or lane.n_withdrawn >= MAX_PREDICTED or now_ps < lane.settled_ps:
        return np.int64(-1)
    low, high, form = np.int64(0), counters[N_LANE_TIME], np.int64(lane.form)
    while low < high:
        middle = (low + high) >> 1
        row = times[np.uint64(middle)]
        if row[LANE_FORM] < form or (row[LANE_FORM] == form and row[LANE_SIZE] < size_bytes):
            low = middle + 1
        else:
            high = middle
    if low < counters[N_LANE_TIME]:
        row = times[np.uint64(low)]
        if row[LANE_FORM] == form and row[LANE_SIZE] == size_bytes:
            return low
    return np.int64(-1)


@step_kernel
def note_drawn(nic: Nic, record, pair, row, now_ps):
    """Note what a lane predicts of the message just posted on a queue pair, which is simulated (`lane_audit`).

    row: of `lane_times`. If no look has seen the one before, this one is not compared.
    """
    lane, times = nic.lanes[np.uint64(pair)], nic.lane_times[np.uint64(row)]
    lane.n_message += 1
    if lane.is_drawn:
        return
    begin_ps = max(now_ps, lane.free_ps)
    longer_ps = times[LANE_LONGER_PS] if lane.is_loaded else np.int64(0)
    lane.is_drawn, lane.drawn_end = 1, record.posted_end
    lane.drawn_posted_ps = now_ps
    lane.drawn_begin_ps, lane.drawn_ended_ps = begin_ps, begin_ps + times[LANE_ENDED_PS] + longer_ps


@step_kernel
def meets_lane(fabric: Fabric, nic: Nic, record, pair):
    """Whether the way of a queue pair (its record) has a port of somebody else's lane, or of flows at flow level."""
    if fabric.counters[N_LANE] == 0:
        return False
    row = np.int64(record.data_path)
    port = np.int64(fabric.path_port[np.uint64(row)])
    while port >= 0:
        holder = np.int64(nic.lane_of_port[np.uint64(port)])
        if holder != NOBODY and holder != pair:
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
def count_packets(constants, lane, size_bytes, sign):
    """Count the packets of a message as not simulated, or (sign -1) as simulated after all."""
    payload = constants[PAYLOAD_BYTES]
    n_packet = (size_bytes + payload - 1) // payload
    lane.packets += sign * n_packet
    lane.short_bytes += sign * (n_packet * payload - size_bytes)


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
    """A message that was posted and is not sent packet by packet: what its two markers carry."""

    flow_id: np.int64
    end_byte: np.int64  # in the queue pair's stream
    size_bytes: np.int64
    n_marked: np.int64  # of its packets
    begin_ps: np.int64
    delivered_ps: np.int64


@step_kernel
def send_marker(fabric: Fabric, pair, bits, row, message: Withdrawn, arrival_ps):
    """Put one marker of a queue pair's message on the link behind a row of path_port. bits: FLAG_ACK, to the sender."""
    marker = make_marker(fabric, pair, bits, message.end_byte, row, message.flow_id)
    item, words = fabric.packets[np.uint64(marker)], fabric.extra[np.uint64(marker)]
    at = np.uint64(fabric.constants[LANE_COLUMN])
    words[at + np.uint64(MARKER_DELIVERED_PS)] = message.delivered_ps
    words[at + np.uint64(MARKER_SIZE)] = message.size_bytes
    words[at + np.uint64(MARKER_BEGIN_PS)] = message.begin_ps
    item.size_bytes = min(message.n_marked, 65535)
    item.arrival_ps = arrival_ps
    port = np.int64(fabric.path_port[np.uint64(row)])
    if put_marker_on_wire(fabric.packets, fabric.ports[np.uint64(port)], marker):
        link_filled(
            port, item, fabric.port_info, fabric.nodes, fabric.mask, fabric.node_time, fabric.departed,
            fabric.counters,
        )  # fmt: skip


@step_kernel
def send_on_lane(fabric: Fabric, nic: Nic, record, pair, size_bytes, flow_id, row, now_ps):
    """Send the message that was just posted on a queue pair by its markers. row: of `lane_times`, what it takes."""
    lane, times = nic.lanes[np.uint64(pair)], nic.lane_times[np.uint64(row)]
    begin_ps = max(now_ps, lane.free_ps)
    longer_ps = times[LANE_LONGER_PS] if lane.is_loaded else np.int64(0)
    lane.free_ps = begin_ps + times[LANE_DELIVERED_PS] + longer_ps - times[LANE_BEHIND_PS]
    if lane.n_withdrawn == 0:
        put_in_set(nic.withdrawn, 0, nic.queue_pairs.size, pair)
        lane.from_byte = record.posted_end - size_bytes
    lane.n_withdrawn += 1
    lane.n_message += 1
    lane.spared_ps += times[LANE_ENDED_PS] + longer_ps
    count_packets(fabric.constants, lane, size_bytes, 1)
    record.sent_bytes += size_bytes
    record.next_byte = record.high_byte = record.posted_end
    record.sending_message = -1
    facts = nic.facts[np.uint64(pair)]
    data, acks = last_row(fabric, np.int64(facts.data_path)), last_row(fabric, np.int64(facts.ack_path))
    delivered_ps = begin_ps + longer_ps + times[LANE_DELIVERED_PS]
    ended_ps = begin_ps + longer_ps + times[LANE_ENDED_PS]
    size, end_byte = times[LANE_SIZE], np.int64(record.posted_end)
    message = Withdrawn(flow_id, end_byte, size, times[LANE_MARKED], begin_ps, delivered_ps)
    send_marker(fabric, pair, 0, data, message, delivered_ps)
    send_marker(fabric, pair, FLAG_ACK, acks, message, ended_ps)
