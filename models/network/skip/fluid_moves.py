"""Messages at flow level after their posting: seen by ticks, and predicted to end, or to go on packet by packet; see
`pdes.skipping.fluid.flow_level`."""

from typing import NamedTuple

import numpy as np

from models.network.host.fluid import count_packets, forget_unseen, free_to_follow, last_row
from models.network.host.nic import set_ready
from models.network.host.sender import find_sending_message
from models.network.link.port import comes_before, put_marker_behind
from models.network.skip.suspend.hidden import Hidden, refresh
from models.network.state.records import (
    FLAG_ACK,
    FLAG_MARKER,
    MARKER_BEGIN_PS,
    MARKER_COLUMN,
    MARKER_DELIVERED_PS,
    N_UNSEEN,
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from pdes.engine.bits import drop_from_set, next_in_set
from pdes.engine.jit import loop_kernel, step_kernel
from pdes.skipping import prediction as m
from pdes.skipping.fluid.flow_table import FAR_PS, MOST_MESSAGES


@step_kernel
def _write_post(row, pair, message, has_shadow):
    row[m.FLOW], row[m.ID], row[m.SIZE] = pair, message.flow_id, message.size_bytes
    row[m.END], row[m.POSTED_PS], row[m.WHOLE] = message.end_byte, message.posted_ps, message.size_bytes
    row[m.HAS_SHADOW] = has_shadow


@step_kernel
def list_unseen(fabric: Fabric, nic: Nic, out):
    """Write what was posted at flow level since the last tick into out, int64[n, N_POSTED], by queue pair and end;
    how many. Of what is simulated all the same, its shadows."""
    n_row, n_pair = 0, nic.queue_pairs.size
    pair = next_in_set(nic.unseen, 0, n_pair, np.int64(0))
    while pair >= 0:
        record, fluid, n_message = nic.queue_pairs[np.uint64(pair)], nic.fluid[np.uint64(pair)], 0
        has_shadow = fluid.n_withdrawn == 0
        end_byte = fluid.shadow_end if has_shadow else record.next_byte  # the others wait behind
        place = np.int64(record.first_message)
        while place >= 0 and nic.messages[np.uint64(place)].end_byte <= end_byte:
            n_message += 1
            place = np.int64(nic.messages[np.uint64(place)].next)
        place = np.int64(record.first_message)
        while n_message > 0:
            message = nic.messages[np.uint64(place)]
            if n_message <= fluid.n_unseen:
                _write_post(out[np.uint64(n_row)], pair, message, np.int64(has_shadow))
                n_row += 1
            n_message -= 1
            place = np.int64(message.next)
        fluid.n_unseen = 0
        drop_from_set(nic.unseen, 0, n_pair, pair)
        pair = next_in_set(nic.unseen, 0, n_pair, pair + 1)
    fabric.counters[N_UNSEEN] = 0
    return n_row


@loop_kernel
def drop_shadows(fabric: Fabric, nic: Nic, hidden: Hidden, pairs):
    """Queue pairs' messages have no shadows any more, those that were posted since the last tick neither."""
    for i in range(pairs.size):
        pair = np.int64(pairs[i])
        if hidden.here[np.uint64(nic.facts[np.uint64(pair)].node)]:
            fluid = nic.fluid[np.uint64(pair)]
            fluid.shadow_end, fluid.n_shadow = 0, 0
            forget_unseen(fabric, nic, fluid, pair)


@step_kernel
def take_behind(fabric: Fabric, nic: Nic, hidden: Hidden, pairs, out):
    """Count messages as sent that wait behind those at flow level, and write them into out, int64[n, N_POSTED], by
    queue pair and end; how many. pairs: int64[], whose first messages have just come to flow level."""
    n_row = 0
    for i in range(pairs.size):
        pair = np.int64(pairs[i])
        facts = nic.facts[np.uint64(pair)]
        record, fluid = nic.queue_pairs[np.uint64(pair)], nic.fluid[np.uint64(pair)]
        if hidden.here[np.uint64(facts.node)] == 0:
            continue
        while record.next_byte < record.posted_end and fluid.n_withdrawn < MOST_MESSAGES:
            message = nic.messages[np.uint64(record.sending_message)]
            _write_post(out[np.uint64(n_row)], pair, message, 0)
            n_row += 1
            record.sent_bytes += message.size_bytes
            record.next_byte = record.high_byte = message.end_byte
            count_packets(fabric.constants, fluid, message.size_bytes, 1)
            fluid.n_withdrawn += 1
            fluid.spared_ps += FAR_PS
            find_sending_message(record, nic.messages)
        set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
    return n_row


class Moves(NamedTuple):
    """Scratch of `move_markers`: it looks through each link once, whatever moves there."""

    row_of: np.ndarray  # int64[n_qp]  its row of predictions; -1 between calls
    n_of: np.ndarray  # int64[n_port]  markers that are to be moved on its link; 0 between calls
    port: np.ndarray  # int64[n_port]  of these links
    marker: np.ndarray  # int64[n_qp]  on one link


def make_moves(n_pair: int, n_port: int) -> Moves:
    """For so many queue pairs and ports."""
    return Moves(*(np.full(n, value, np.int64) for n, value in ((n_pair, -1), (n_port, 0), (n_port, 0), (n_pair, 0))))


@step_kernel
def _list_link(fabric: Fabric, hidden: Hidden, moves: Moves, row, n_link):
    """Count a marker that is on the link behind a row of path_port, if it ends here; how many links are listed."""
    port = np.int64(fabric.path_port[np.uint64(row)])
    if hidden.here[np.uint64(fabric.port_info[np.uint64(port)].receiver)] == 0:
        return n_link
    if moves.n_of[np.uint64(port)] == 0:
        moves.port[np.uint64(n_link)] = port
        n_link += 1
    moves.n_of[np.uint64(port)] += 1
    return n_link


@step_kernel
def _take_off(fabric: Fabric, link, n_marker, predicted, moves: Moves):
    """Take markers whose messages are predicted off a link into moves.marker; how many. There are n_marker at most."""
    n, before, packet = np.int64(0), np.int64(-1), np.int64(link.link_head)
    while packet >= 0 and n < n_marker:
        item = fabric.packets[np.uint64(packet)]
        following, is_mine = np.int64(item.next), False
        if item.bits & FLAG_MARKER:
            row = moves.row_of[np.uint64(item.queue_pair)]
            is_mine = row >= 0 and predicted[np.uint64(row), m.END] == item.sequence
        if not is_mine:
            before = packet
        else:
            moves.marker[np.uint64(n)] = packet
            n += 1
            if before < 0:
                link.link_head = following
            else:
                fabric.packets[np.uint64(before)].next = following
            if following < 0:
                link.link_tail = before
        packet = following
    return n


@step_kernel
def _postpone(fabric: Fabric, nic: Nic, marker, predicted, moves: Moves):
    """Have a marker come when it is predicted to, and its sender go on then."""
    item, words = fabric.packets[np.uint64(marker)], fabric.extra[np.uint64(marker)]
    pair, was_ps = np.int64(item.queue_pair), np.int64(item.arrival_ps)
    row = predicted[np.uint64(moves.row_of[np.uint64(pair)])]
    words[np.uint64(fabric.constants[MARKER_COLUMN]) + np.uint64(MARKER_DELIVERED_PS)] = row[m.DELIVERED_PS]
    if item.bits & FLAG_ACK == 0:
        item.arrival_ps = row[m.DELIVERED_PS]
        return
    item.arrival_ps = row[m.ENDED_PS]
    record, fluid = nic.queue_pairs[np.uint64(pair)], nic.fluid[np.uint64(pair)]
    fluid.spared_ps += row[m.ENDED_PS] - was_ps
    if record.next_byte == row[m.END]:  # the last one that is posted at flow level
        fluid.free_ps = free_to_follow(fluid, row[m.FREE_PS], row[m.DELIVERED_PS])
        record.next_send_ps = min(np.int64(record.next_send_ps), fluid.free_ps + fluid.slack_ps)


@step_kernel
def _sort_markers(packets, marker, n_marker):
    """Sort the first markers as they lie on a link. Mostly they are nearly so."""
    for i in range(1, n_marker):
        moved, k = marker[np.uint64(i)], i
        while k > 0 and not comes_before(packets[np.uint64(marker[np.uint64(k - 1)])], packets[np.uint64(moved)]):
            marker[np.uint64(k)] = marker[np.uint64(k - 1)]
            k -= 1
        marker[np.uint64(k)] = moved


@step_kernel
def move_markers(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, predicted, is_shadow, moves: Moves):
    """Have messages end as it is predicted; how many markers there are not.

    predicted: int64[n, N_COLUMN], one message of a queue pair at most. is_shadow: uint8[n_qp], of queue pairs 1: they
    have none, as they are simulated.
    """
    n_link, n_missing = np.int64(0), np.int64(0)
    for i in range(predicted.shape[0]):
        pair = np.int64(predicted[np.uint64(i), m.FLOW])
        if is_shadow[np.uint64(pair)]:
            continue
        moves.row_of[np.uint64(pair)] = i
        facts = nic.facts[np.uint64(pair)]
        n_link = _list_link(fabric, hidden, moves, last_row(fabric, np.int64(facts.data_path)), n_link)
        n_link = _list_link(fabric, hidden, moves, last_row(fabric, np.int64(facts.ack_path)), n_link)
    for i in range(n_link):
        port = np.uint64(moves.port[np.uint64(i)])
        link, before = fabric.ports[port], np.int64(-1)
        n_marker = _take_off(fabric, link, moves.n_of[port], predicted, moves)
        n_missing += moves.n_of[port] - n_marker
        moves.n_of[port] = 0
        for k in range(n_marker):
            _postpone(fabric, nic, moves.marker[np.uint64(k)], predicted, moves)
        _sort_markers(fabric.packets, moves.marker, n_marker)
        for k in range(n_marker):
            put_marker_behind(fabric.packets, link, moves.marker[np.uint64(k)], before)
            before = moves.marker[np.uint64(k)]
        refresh(fabric, buffers, nic, hidden, np.int64(fabric.port_info[port].receiver))
    for i in range(predicted.shape[0]):
        moves.row_of[np.uint64(predicted[np.uint64(i), m.FLOW])] = -1
    return n_missing


@step_kernel
def _find(fabric: Fabric, row, pair, bits, end_byte):
    """A marker on the link behind a row of path_port, -1: there is none."""
    packet = np.int64(fabric.ports[np.uint64(fabric.path_port[np.uint64(row)])].link_head)
    while packet >= 0:
        item = fabric.packets[np.uint64(packet)]
        if item.queue_pair == pair and item.sequence == end_byte and item.bits & (FLAG_MARKER | FLAG_ACK) == bits:
            break
        packet = np.int64(item.next)
    return packet


@loop_kernel
def note_progress(fabric: Fabric, nic: Nic, hidden: Hidden, progress):
    """Say of messages that go on packet by packet how far they are: as `fluid_ends` reads it, on a straight line.

    progress: int64[n, N_COLUMN], predictions of which FLOW, END, BEGIN_PS and DELIVERED_PS count.
    """
    at = np.uint64(fabric.constants[MARKER_COLUMN])
    for i in range(progress.shape[0]):
        row = progress[np.uint64(i)]
        pair = row[m.FLOW]
        facts = nic.facts[np.uint64(pair)]
        if hidden.here[np.uint64(facts.node)] == 0:
            continue
        acks = last_row(fabric, np.int64(facts.ack_path))
        marker = _find(fabric, acks, pair, FLAG_MARKER | FLAG_ACK, row[m.END])
        if marker >= 0:
            words = fabric.extra[np.uint64(marker)]
            words[at + np.uint64(MARKER_BEGIN_PS)] = row[m.BEGIN_PS]
            words[at + np.uint64(MARKER_DELIVERED_PS)] = row[m.DELIVERED_PS]
