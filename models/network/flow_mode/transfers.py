"""Messages in flow mode, from their posting to their ends.

A message's first packet needs what the links' delays are and what storing and forwarding it takes; then its way has
the message. From then on it has a max-min fair rate there (`pdes.skipping.max_min`), until all its bytes on the wire,
with headers, have come across: then it is delivered, and `ack_ps` later its sender has the acknowledgement. A queue
pair is a line: a message has its rate no sooner than the one before it is delivered.

So time passes between a posting and any effect elsewhere. Rounds are no longer than the least of it: all that may
happen up to a round's horizon is known when it begins, and it does not matter where rounds end (design R5).
"""

import numpy as np

from models.network.flow_mode.state import (
    DUE_PS,
    FREE_WAITING,
    MOVED_HOPS,
    N_CHANGED,
    N_DUE,
    N_ENDED,
    N_FREE_WAITING,
    N_INSTANT,
    N_MESSAGE,
    N_MOVED_PAIR,
    N_POST_COLUMN,
    POST_END,
    POST_ID,
    POST_KIND,
    POST_PAIR,
    POST_POSTED_PS,
    POST_SIZE,
    QUEUE_PS,
    FlowMode,
)
from models.network.flow_mode.traced_rates import trace_rates
from models.network.host.fluid import NO_ROW, Withdrawn, put_marker
from models.network.host.shortages import SHORT_OF_PACKETS
from models.network.state.records import (
    ACK_BYTES,
    FLAG_ACK,
    HEADER_BYTES,
    N_FREE_PACKET,
    N_UNSEEN,
    OVER,
    PAYLOAD_BYTES,
    Fabric,
    Nic,
)
from models.network.watch.tracing import IS_TRACED
from pdes.engine.gathering import n_offered, offer, take
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER, collect_before, set_time
from pdes.skipping.max_min.contention import enter_phases
from pdes.skipping.max_min.ends import drop_end
from pdes.skipping.max_min.solve import begin_change, go_on, join, leave, left_of, reroute, set_rate, solve
from pdes.skipping.max_min.table import N_END

SHORT_OF_WAITING, SHORT_OF_POSTS = 8, 9


@step_kernel
def next_transfer_ps(flow: FlowMode):
    """When the next message begins or ends."""
    if flow.words[N_DUE] > 0:
        return flow.words[DUE_PS]
    m = flow.max_min
    end_ps = m.flows[np.uint64(m.ends[0])].end_ps if m.words[N_END] > 0 else NEVER
    n_change, n_move = flow.words[N_CHANGED], flow.words[N_MOVED_PAIR]
    if n_change < flow.changes.size:
        end_ps = min(end_ps, flow.changes[np.uint64(n_change)].time_ps)
    if n_move < flow.moves.size:
        end_ps = min(end_ps, flow.moves[np.uint64(n_move)].time_ps)
    return min(flow.starts[1], end_ps, m.phases[1])


@step_kernel
def _wire_bytes(constants, size_bytes):
    n_packet = (size_bytes + constants[PAYLOAD_BYTES] - 1) // constants[PAYLOAD_BYTES]
    return n_packet, size_bytes + n_packet * constants[HEADER_BYTES]


@step_kernel
def _start_ps(constants, transfer):
    """When a posted message's first packet has come all the way, but for what it takes at the slowest port."""
    packet_bytes = min(transfer.size_bytes, constants[PAYLOAD_BYTES]) + constants[HEADER_BYTES]
    return transfer.posted_ps + transfer.delay_ps + np.int64(packet_bytes * transfer.forward_ps)


@step_kernel
def _waits_ps(flow: FlowMode, transfer, pair):
    """How long a message's last packet has waited: in the queue of the port that limits it, if others share that
    (HyGra's transmission time compensation, equations 7 and 8). No more is there than the message itself has brought.
    """
    m = flow.max_min
    port = m.ports[np.uint64(m.flows[np.uint64(pair)].limit)]
    if port.n_flow < 2:
        return np.int64(0)
    return np.int64(min(flow.numbers[QUEUE_PS], transfer.size_bytes / port.byte_per_ps))


@step_kernel
def _list_due(flow: FlowMode, now_ps):
    """Take those off the heap whose messages are delivered now."""
    m, n = flow.max_min, 0
    while m.words[N_END] > 0 and m.flows[np.uint64(m.ends[0])].end_ps == now_ps:
        pair = np.int64(m.ends[0])
        drop_end(m.flows, m.ends, m.words, pair)
        transfer = flow.transfers[np.uint64(pair)]
        transfer.delivered_ps = max(transfer.delivered_ps, now_ps + _waits_ps(flow, transfer, pair))
        flow.due[np.uint64(n)] = pair
        n += 1
    flow.words[N_DUE], flow.words[DUE_PS] = n, now_ps


@step_kernel
def _ack_ps(constants, transfer):
    """From a message's delivery to the arrival of its acknowledgement, which waits for the one before it where its last
    packet was shorter than that."""
    last_bytes = (transfer.size_bytes - 1) % constants[PAYLOAD_BYTES] + 1 + constants[HEADER_BYTES]
    if transfer.size_bytes <= constants[PAYLOAD_BYTES]:
        return transfer.ack_ps
    return transfer.ack_ps + max(0, transfer.ack_wire_ps - np.int64(last_bytes * transfer.byte_ps))


@step_kernel
def _tell(fabric: Fabric, flow: FlowMode, pair):
    """A queue pair's message is delivered: its hosts hear of it, those that are here."""
    transfer = flow.transfers[np.uint64(pair)]
    at_ps = transfer.delivered_ps
    message = Withdrawn(transfer.flow_id, transfer.end_byte, transfer.size_bytes, transfer.posted_ps, at_ps)
    if transfer.data_link >= 0:
        put_marker(fabric, pair, 0, (NO_ROW, np.int64(transfer.data_link)), message, at_ps)
    if transfer.ack_link >= 0:
        ack_ps = _ack_ps(fabric.constants, transfer)
        put_marker(fabric, pair, FLAG_ACK, (NO_ROW, np.int64(transfer.ack_link)), message, at_ps + ack_ps)


@step_kernel
def take_next(flow: FlowMode, transfer):
    """Have a queue pair's next message in the place of the one that is over; whether there is one."""
    row = np.int64(transfer.first_waiting)
    if row < 0:
        transfer.size_bytes = 0
        return False
    item = flow.waiting[np.uint64(row)]
    transfer.size_bytes, transfer.posted_ps = item.size_bytes, item.posted_ps
    transfer.flow_id, transfer.end_byte = item.flow_id, item.end_byte
    transfer.first_waiting = item.next
    item.next = flow.words[FREE_WAITING]
    flow.words[FREE_WAITING] = row
    flow.words[N_FREE_WAITING] += 1
    return True


@step_kernel
def count_pair(flow: FlowMode, pair, more):
    """A queue pair has a message now (more: 1), or has none any more (-1): count it at its ports."""
    m = flow.max_min
    flow.hybrid.is_counted[np.uint64(pair)] = more > 0
    for at in range(m.place_of[np.uint64(pair), 0], m.place_of[np.uint64(pair), 1]):
        flow.hybrid.n_pair[np.uint64(m.places[np.uint64(at)].port)] += more


@step_kernel
def _end(fabric: Fabric, flow: FlowMode, pair, now_ps):
    """A message is delivered; the one behind it comes at once if its way has it by now."""
    transfer = flow.transfers[np.uint64(pair)]
    n_packet, wire_bytes = _wire_bytes(fabric.constants, transfer.size_bytes)
    transfer.packets += n_packet
    transfer.bytes += wire_bytes
    flow.words[N_MESSAGE] += 1
    _tell(fabric, flow, pair)
    if flow.ended.shape[0] > 0:
        row = np.uint64(flow.words[N_ENDED])
        flow.ended[row, 0], flow.ended[row, 1], flow.ended[row, 2] = pair, transfer.end_byte, transfer.posted_ps
        flow.ended[row, 3] = transfer.delivered_ps + _ack_ps(fabric.constants, transfer)
        flow.words[N_ENDED] += 1
    if take_next(flow, transfer):
        start_ps = _start_ps(fabric.constants, transfer)
        if start_ps <= now_ps:  # no rate changes
            wire_bytes = _wire_bytes(fabric.constants, transfer.size_bytes)[1]
            go_on(flow.max_min, pair, wire_bytes, now_ps)
            return
        set_time(flow.starts, pair, start_ps)
    elif flow.hybrid.n_pair.size > 0 and flow.hybrid.n_packet[np.uint64(pair)] == 0:
        count_pair(flow, pair, -1)
    leave(flow.max_min, pair)


@step_kernel
def _change_links(flow: FlowMode, now_ps):
    """Ports have other rates from now on."""
    while flow.words[N_CHANGED] < flow.changes.size:
        change = flow.changes[np.uint64(flow.words[N_CHANGED])]
        if change.time_ps > now_ps:
            break
        set_rate(flow.max_min, np.int64(change.port), change.byte_per_ps)
        flow.words[N_CHANGED] += 1


@step_kernel
def _count_sent(flow: FlowMode, pair, packets, data_bytes, ack_bytes):
    """Count what a queue pair has sent on the way that it has."""
    m, places, n_hop = flow.max_min, flow.max_min.place_of[np.uint64(pair)], 0.0
    for at in range(places[0], places[1]):
        place = m.places[np.uint64(at)]
        flow.sent_bytes[np.uint64(place.port)] += data_bytes * place.usage
        n_hop += place.usage
    for at in range(places[2], places[3]):
        n_hop += 1.0
        flow.sent_bytes[np.uint64(m.back_port[np.uint64(at)])] += packets * ack_bytes
    flow.numbers[MOVED_HOPS] += packets * n_hop


@step_kernel
def _move_pairs(constants, flow: FlowMode, now_ps):
    """Queue pairs have other ways from now on; what is left of a message goes over these."""
    while flow.words[N_MOVED_PAIR] < flow.moves.size:
        move = flow.moves[np.uint64(flow.words[N_MOVED_PAIR])]
        if move.time_ps > now_ps:
            break
        flow.words[N_MOVED_PAIR] += 1
        pair, transfer = np.int64(move.pair), flow.transfers[np.uint64(move.pair)]
        is_under_way = transfer.size_bytes > 0 and flow.starts[np.uint64((flow.starts.size >> 1) + pair)] == NEVER
        begun_packets, begun_bytes = np.int64(0), 0.0
        if is_under_way:
            n_packet, wire_bytes = _wire_bytes(constants, transfer.size_bytes)
            begun_bytes = wire_bytes - left_of(flow.max_min, pair, now_ps)
            begun_packets = np.int64(n_packet * (begun_bytes / wire_bytes))
        _count_sent(flow, pair, transfer.packets + begun_packets, transfer.bytes + begun_bytes, constants[ACK_BYTES])
        transfer.packets, transfer.bytes = -begun_packets, -np.int64(begun_bytes)
        reroute(flow.max_min, pair, move.places, is_under_way, now_ps)
        transfer.delay_ps, transfer.forward_ps, transfer.byte_ps = move.delay_ps, move.forward_ps, move.byte_ps
        transfer.ack_ps, transfer.ack_wire_ps = move.ack_ps, move.ack_wire_ps


@step_kernel
def carry_on(fabric: Fabric, flow: FlowMode, horizon_ps):
    """Begin and end messages below horizon_ps; 0, or what ran short (then call again)."""
    m = flow.max_min
    while True:
        now_ps = next_transfer_ps(flow)
        if now_ps >= horizon_ps:
            return 0
        if flow.words[N_DUE] == 0:
            _list_due(flow, now_ps)
        if fabric.counters[N_FREE_PACKET] < 2 * flow.words[N_DUE]:
            return SHORT_OF_PACKETS
        begin_change(m)
        for i in range(flow.words[N_DUE]):
            _end(fabric, flow, np.int64(flow.due[np.uint64(i)]), now_ps)
        flow.words[N_DUE] = 0
        _change_links(flow, now_ps)
        _move_pairs(fabric.constants, flow, now_ps)
        if flow.starts[1] == now_ps:
            n_start = collect_before(flow.starts, now_ps + 1, flow.found)
            for i in range(n_start):
                pair = flow.found[np.uint64(i)]
                set_time(flow.starts, pair, NEVER)
                size_bytes = flow.transfers[np.uint64(pair)].size_bytes
                join(m, pair, _wire_bytes(fabric.constants, size_bytes)[1], now_ps)
        enter_phases(m, now_ps)
        solve(m, now_ps)
        if IS_TRACED:
            trace_rates(fabric.counters, flow, now_ps)
        flow.words[N_INSTANT] += 1


@step_kernel
def _write_post(nic: Nic, row, out):
    """Write into out what the ranks have to know of what is in a row of Nic.posted."""
    pair, place, kind = nic.posted[np.uint64(row), 0], nic.posted[np.uint64(row), 1], nic.posted[np.uint64(row), 2]
    out[POST_PAIR], out[POST_KIND] = pair, kind
    if kind == OVER:
        out[POST_END], out[POST_POSTED_PS] = place, nic.posted[np.uint64(row), 3]
        return
    message = nic.messages[np.uint64(place)]
    out[POST_SIZE], out[POST_POSTED_PS] = message.size_bytes, message.posted_ps
    out[POST_ID], out[POST_END] = message.flow_id, message.end_byte


@step_kernel
def enter(flow: FlowMode, constants, post):
    """A message was posted, see `_write_post`; it goes at its rate."""
    pair, words = post[POST_PAIR], flow.words
    transfer = flow.transfers[np.uint64(pair)]
    if transfer.size_bytes == 0:
        transfer.size_bytes, transfer.posted_ps = post[POST_SIZE], post[POST_POSTED_PS]
        transfer.flow_id, transfer.end_byte = post[POST_ID], post[POST_END]
        set_time(flow.starts, pair, _start_ps(constants, transfer))
        return
    row = words[FREE_WAITING]
    item = flow.waiting[np.uint64(row)]
    words[FREE_WAITING] = item.next
    words[N_FREE_WAITING] -= 1
    item.size_bytes, item.posted_ps = post[POST_SIZE], post[POST_POSTED_PS]
    item.flow_id, item.end_byte, item.next = post[POST_ID], post[POST_END], -1
    if transfer.first_waiting < 0:
        transfer.first_waiting = row
    else:
        flow.waiting[np.uint64(transfer.last_waiting)].next = row
    transfer.last_waiting = row


@step_kernel
def gather_posts(fabric: Fabric, nic: Nic, flow: FlowMode):
    """Hear of what all ranks have posted in this round: (how much, see `_write_post`; 0, or what ran short: then call
    again). Every rank must."""
    n_own, n_room = fabric.counters[N_UNSEEN], flow.own.size // N_POST_COLUMN
    n_post, n_most = n_own, n_own
    for i in range(min(n_own, n_room)):
        _write_post(nic, i, flow.own[np.uint64(N_POST_COLUMN * i) : np.uint64(N_POST_COLUMN * (i + 1))])
    if flow.gathering.n_word.size > 1:
        n_most = -offer(flow.gathering, flow.own, min(n_own, n_room) * N_POST_COLUMN, -n_own)
        n_post = n_offered(flow.gathering) // N_POST_COLUMN
    if max(n_most, n_post) > n_room:
        return np.int64(0), SHORT_OF_POSTS
    if n_post > flow.words[N_FREE_WAITING]:
        return np.int64(0), SHORT_OF_WAITING
    if flow.gathering.n_word.size > 1:
        take(flow.gathering, flow.own, n_own * N_POST_COLUMN, flow.posts)
    fabric.counters[N_UNSEEN] = 0
    return n_post, 0


@step_kernel
def take_posts(fabric: Fabric, nic: Nic, flow: FlowMode):
    """See to what all ranks have posted in this round; 0, or what ran short (then call again). Every rank must."""
    n_post, short = gather_posts(fabric, nic, flow)
    for i in range(n_post):
        enter(flow, fabric.constants, flow.posts[np.uint64(N_POST_COLUMN * i) : np.uint64(N_POST_COLUMN * (i + 1))])
    return short
