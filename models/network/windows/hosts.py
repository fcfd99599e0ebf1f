"""One host in one window: packets that arrive, NIC ports that start packets, timers, flows that begin, in the order of
design R2, as in `models.network.host`. Nothing is lost here and a queue pair keeps its way, so data comes in order.
"""

import numpy as np

from models.network.host.nic import choose_pair, next_start, set_ready, stamp_sent
from models.network.host.timers import due_timer, first_timer_leaf, first_timer_ps, set_timers
from models.network.link.port import queue_behind
from models.network.link.wire_time import transmission_ps
from models.network.state.records import (
    ACK_BYTES,
    CNP_INTERVAL_PS,
    FLAG_ACK,
    FLAG_CNP,
    FLAG_LAST,
    FLAG_MARKED,
    HEADER_BYTES,
    N_EXTRA,
    PAYLOAD_BYTES,
)
from models.network.windows.control import catch_up, fire, tell_ack
from models.network.windows.links import (
    carry,
    give_place,
    has_room,
    head_of,
    launch,
    send,
    stop_for_place,
    stop_for_room,
    tail_of,
    take_place,
)
from models.network.windows.state import Windows
from pdes.engine.jit import fast_step, step_kernel
from pdes.engine.time_index import NEVER


@fast_step
def _first_start(w: Windows, node):
    """(time, port) of the NIC port that starts a packet first; (NEVER, -1) if none does."""
    start_ps, start_port = NEVER, np.int64(-1)
    for k in range(node.first_out, node.end_out):
        port = np.int64(w.out_port[np.uint64(k)])
        next_ps = w.nic_ports[np.uint64(port)].next_start_ps
        if next_ps < start_ps:
            start_ps, start_port = next_ps, port
    return start_ps, start_port


@fast_step
def _first_arrival(w: Windows, node):
    """(time, port) of the in-link whose packet arrives first, the lowest port among equals; (NEVER, -1) if none."""
    arrival_ps, in_port = NEVER, np.int64(-1)
    for port in range(node.first_in, node.end_in):
        wire = w.wires[np.uint64(port)]
        if wire.head < wire.seen_tail:
            at_ps = w.packets[np.uint64(head_of(wire))].arrival_ps
            if at_ps < arrival_ps:
                arrival_ps, in_port = at_ps, np.int64(port)
    return arrival_ps, in_port


@fast_step
def _make_data(w: Windows, constants, pair, packet, now_ps):
    """Fill a packet with a queue pair's next bytes, paced at its rate: `nic.make_data_packet`."""
    record, item = w.queue_pairs[np.uint64(pair)], w.packets[np.uint64(packet)]
    first_byte = record.next_byte
    payload = min(constants[PAYLOAD_BYTES], record.message_end - first_byte)
    size_bytes = payload + constants[HEADER_BYTES]
    item.sequence, item.queue_pair, item.path = first_byte, pair, record.data_path + 1
    item.size_bytes, item.queue = size_bytes, record.queue
    record.sent_bytes += payload
    first_byte += payload
    record.high_byte, record.next_byte = first_byte, first_byte
    gap_ps = record.gap_ps
    if gap_ps == 0 or size_bytes != record.last_size_bytes:
        gap_ps = transmission_ps(size_bytes, record.rate_bps, 0)
        record.gap_ps, record.last_size_bytes = gap_ps, size_bytes
    record.next_send_ps = now_ps + gap_ps
    if constants[N_EXTRA] > 0:
        stamp_sent(w.extra, constants, packet, now_ps)
    if first_byte == record.message_end:
        item.bits = FLAG_LAST
        place = np.int64(record.sending_message)
        w.label[np.uint64(packet)] = place
        following = np.int64(w.flows[np.uint64(place)].next)
        record.sending_message = following
        if following >= 0:
            record.message_end = w.flows[np.uint64(following)].end_byte
    else:
        item.bits = 0


@fast_step
def _start(w: Windows, constants, spot, port, now_ps):
    """A NIC port starts a packet; False if its link has no room."""
    record, wire = w.ports[np.uint64(port)], w.wires[np.uint64(port)]
    if not has_room(wire):
        stop_for_room(w, wire)
        return False
    packet = np.int64(record.ack_head)
    if packet >= 0:
        record.ack_head = w.packets[np.uint64(packet)].next
        send(w, constants, port, packet, now_ps)
        give_place(w.packets, spot, packet)
    else:
        pair = choose_pair(w.nic_ports[np.uint64(port)], w.queue_pairs, w.ready, now_ps)
        _make_data(w, constants, pair, tail_of(wire), now_ps)
        set_ready(w.nic_ports, w.queue_pairs, w.ready, pair)
        launch(w, port, now_ps)
    w.nic_ports[np.uint64(port)].next_start_ps = next_start(w.ports, w.nic_ports, w.queue_pairs, w.ready, port)
    spot.n_hop += 1
    return True


@fast_step
def _take_ack(w: Windows, constants, node, packet, now_ps):
    """Take an acknowledgement: move the window, finish flows, tell the control; the port that may start something."""
    item = w.packets[np.uint64(packet)]
    pair = np.int64(item.queue_pair)
    record = w.queue_pairs[np.uint64(pair)]
    before_byte = np.int64(record.acked_byte)
    if before_byte == record.posted_end and node.n_timer > 0:
        catch_up(w, constants, record, pair, now_ps - 1)
    acked_byte = max(before_byte, item.sequence)
    record.acked_byte = acked_byte
    if record.first_message >= 0:
        record.n_marked += (item.bits & FLAG_MARKED) != 0
        while record.first_message >= 0 and w.flows[np.uint64(record.first_message)].end_byte <= acked_byte:
            flow = w.flows[np.uint64(record.first_message)]
            flow.finish_ps, flow.n_marked = now_ps, record.n_marked
            record.n_marked, record.first_message = 0, flow.next
            if flow.next < 0:
                record.last_message = -1
    tell_ack(w, constants, record, packet, acked_byte - before_byte, now_ps)
    if node.n_timer > 0:
        set_timers(w.timers, node, w.control, record, pair)
    set_ready(w.nic_ports, w.queue_pairs, w.ready, pair)
    return np.int64(record.port)


@fast_step
def _take_data(w: Windows, constants, spot, packet, now_ps):
    """Take a data packet, which is answered by an acknowledgement; the port that this waits at. There is a place."""
    place = take_place(w.packets, spot)
    carry(w, constants, packet, place)
    item = w.packets[np.uint64(place)]
    record = w.receivers[np.uint64(w.receiver_row[np.uint64(item.queue_pair)])]
    payload = np.int64(item.size_bytes) - constants[HEADER_BYTES]
    record.received_bytes += payload
    record.expected_byte += payload
    if item.bits & FLAG_LAST:
        w.flows[np.uint64(w.label[np.uint64(place)])].delivered_ps = now_ps
        record.n_arrived += 1
    bits = FLAG_ACK
    if item.bits & FLAG_MARKED:
        bits |= FLAG_MARKED
        if now_ps >= record.cnp_after_ps:
            bits |= FLAG_CNP
            record.cnp_after_ps = now_ps + constants[CNP_INTERVAL_PS]
    item.sequence, item.bits, item.queue = record.expected_byte, bits, 0
    item.size_bytes, item.path = constants[ACK_BYTES], record.ack_path + 1
    port = np.int64(w.path_port[np.uint64(record.ack_path)])
    out = w.ports[np.uint64(port)]
    out.ack_head = queue_behind(w.packets, np.int64(out.ack_head), np.int64(out.ack_tail), place)
    out.ack_tail = place
    return port


@step_kernel
def _post(w: Windows, constants, node, place, now_ps):
    """A flow begins: append it to its queue pair's stream, `messages.post_message`."""
    flow = w.flows[np.uint64(place)]
    pair = np.int64(flow.queue_pair)
    record = w.queue_pairs[np.uint64(pair)]
    if node.n_timer > 0 and record.acked_byte == record.posted_end:
        catch_up(w, constants, record, pair, now_ps)
    record.posted_end += flow.size_bytes
    if node.n_timer > 0:
        set_timers(w.timers, node, w.control, record, pair)
    flow.end_byte, flow.posted_ps, flow.next = record.posted_end, now_ps, -1
    if record.last_message < 0:
        record.first_message = place
    else:
        w.flows[np.uint64(record.last_message)].next = place
    record.last_message = place
    if record.sending_message < 0:
        record.sending_message, record.message_end = place, record.posted_end
    set_ready(w.nic_ports, w.queue_pairs, w.ready, pair)
    port = np.int64(record.port)
    start_ps = next_start(w.ports, w.nic_ports, w.queue_pairs, w.ready, port)
    w.nic_ports[np.uint64(port)].next_start_ps = max(start_ps, now_ps)


@step_kernel
def _go_on(w: Windows, constants, node, spot, now_ps):
    """The list of a host's flows goes on: every beginning is an event of its own, and so is coming to the first."""
    if spot.has_begun:
        _post(w, constants, node, np.int64(spot.next_flow), now_ps)
        spot.next_flow += 1
    spot.has_begun = 1
    spot.wake_ps = NEVER
    if spot.next_flow < spot.end_flow:
        spot.wake_ps = max(now_ps, w.flows[np.uint64(spot.next_flow)].time_ps)


@step_kernel
def _fire_first(w: Windows, constants, node, now_ps):
    """The first timer of a host fires; its queue pair's port."""
    leaf = first_timer_leaf(w.timers, node)
    pair = np.int64(w.timer_pair[np.uint64(node.first_timer + leaf)])
    record = w.queue_pairs[np.uint64(pair)]
    fire(w, constants, record, pair, due_timer(w.control, pair, now_ps), now_ps)
    set_timers(w.timers, node, w.control, record, pair)
    set_ready(w.nic_ports, w.queue_pairs, w.ready, pair)
    return np.int64(record.port)


@step_kernel
def run_host(w: Windows, node_id, bound_ps):
    """Run one host to its bound, or to where a link or its places have no room."""
    node, spot = w.nodes[np.uint64(node_id)], w.spots[np.uint64(node_id)]
    constants = w.constants[np.uint64(spot.experiment)]
    start_ps, start_port = _first_start(w, node)
    arrival_ps, in_port = _first_arrival(w, node)
    while True:
        timer_ps = first_timer_ps(w.timers, node)
        now_ps = min(start_ps, arrival_ps, timer_ps, spot.wake_ps)
        if now_ps >= bound_ps:
            break
        if start_ps == now_ps:
            if not _start(w, constants, spot, start_port, now_ps):
                break
            start_ps, start_port = _first_start(w, node)
            continue
        port = np.int64(-1)
        if arrival_ps == now_ps:
            wire = w.wires[np.uint64(in_port)]
            packet = head_of(wire)
            if w.packets[np.uint64(packet)].bits & FLAG_ACK:
                port = _take_ack(w, constants, node, packet, now_ps)
            elif spot.free < 0:
                stop_for_place(w, spot)
                break
            else:
                port = _take_data(w, constants, spot, packet, now_ps)
            wire.head += 1
        elif timer_ps == now_ps:
            port = _fire_first(w, constants, node, now_ps)
        else:
            _go_on(w, constants, node, spot, now_ps)
        spot.n_event += 1
        spot.last_ps = now_ps
        if port >= 0:
            next_ps = next_start(w.ports, w.nic_ports, w.queue_pairs, w.ready, port)
            w.nic_ports[np.uint64(port)].next_start_ps = max(now_ps, next_ps)
        start_ps, start_port = _first_start(w, node)
        arrival_ps, in_port = _first_arrival(w, node)
    spot.own_ps = min(start_ps, timer_ps, spot.wake_ps)
