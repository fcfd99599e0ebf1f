"""Messages of a queue pair: posting one, and taking the parts of one that was split over several queue pairs."""

import numpy as np

from models.network.host.fluid import cast_shadow, may_be_fluid, meets_fluid, send_fluid, waits_behind
from models.network.host.interrupts import interrupt, meets_frozen
from models.network.host.nic import next_start, set_ready
from models.network.host.ns3_nic import list_pair, poke
from models.network.host.sender import catch_up_timers
from models.network.host.timers import set_timers
from models.network.host.visits import visit
from models.network.state.records import (
    AS_PACKETS,
    AS_RATE,
    CALM_1024,
    FREE_MESSAGE,
    GOES_AS_PACKETS,
    IS_FLOW_MODE,
    IS_HYBRID,
    IS_NS3,
    MARKER_COLUMN,
    N_FREE_MESSAGE,
    N_PART,
    N_POSTED,
    N_UNSEEN,
    OVER,
    WANTS_PACKETS,
    Fabric,
    Nic,
)
from models.network.watch.tracing import IS_TRACED, trace_posted
from pdes.engine.jit import step_kernel


@step_kernel
def _list(nic: Nic, counters, pair, place, kind):
    """Have all ranks hear of a message that a queue pair has posted at the round's end. kind: AS_*."""
    row = nic.posted[np.uint64(counters[N_UNSEEN])]
    row[0], row[1], row[2] = pair, place, kind
    counters[N_UNSEEN] += 1


@step_kernel
def _is_calm(constants, record):
    """Whether a queue pair's control lets it send about as fast as if it had met nobody lately."""
    part = constants[CALM_1024] / 1024
    is_fast = np.float64(record.rate_bps) >= part * np.float64(record.line_rate_bps)
    return is_fast and np.float64(record.window_bytes) >= part * np.float64(record.max_window_bytes)


@step_kernel
def _list_posted(nic: Nic, counters, constants, pair, place, is_idle):
    """The same of a message that is posted; how it goes, AS_*. is_idle: nothing of the queue pair is under way, so that
    no packet can come behind the marker of a message that goes at a rate."""
    kind = np.int64(AS_RATE)
    if constants[IS_FLOW_MODE] == IS_HYBRID:
        goes = np.int64(nic.goes[np.uint64(pair)])
        if goes == WANTS_PACKETS and is_idle:
            goes |= GOES_AS_PACKETS
        elif goes == GOES_AS_PACKETS and is_idle and _is_calm(constants, nic.queue_pairs[np.uint64(pair)]):
            goes = 0
        nic.goes[np.uint64(pair)] = goes
        kind = np.int64(AS_PACKETS if goes & GOES_AS_PACKETS else AS_RATE)
    _list(nic, counters, pair, place, kind)
    return kind


@step_kernel
def list_over(nic: Nic, counters, pair, n, now_ps):
    """Have all ranks hear that so many messages of a queue pair's are over, which went as packets."""
    for _ in range(n):
        row = nic.posted[np.uint64(counters[N_UNSEEN])]
        row[0], row[1], row[2], row[3] = pair, nic.queue_pairs[np.uint64(pair)].acked_byte, OVER, now_ps
        counters[N_UNSEEN] += 1


@step_kernel
def post_message(fabric: Fabric, nic: Nic, pair, size_bytes, flow_id, tag, now_ps):
    """Append a message to a queue pair's stream; its NIC may start at once. size_bytes > 0."""
    counters = fabric.counters
    record = nic.queue_pairs[np.uint64(pair)]
    place = counters[FREE_MESSAGE]
    message = nic.messages[np.uint64(place)]
    counters[FREE_MESSAGE] = message.next
    counters[N_FREE_MESSAGE] -= 1
    node = fabric.nodes[np.uint64(record.node)]
    if node.n_timer > 0 and record.acked_byte == record.posted_end:
        catch_up_timers(nic, counters, fabric.constants, record, pair, now_ps)
    is_clear = record.next_byte == record.posted_end
    was_idle = record.acked_byte == record.posted_end
    is_fluid, has_shadow = may_be_fluid(fabric, nic, record, pair, size_bytes), False
    record.posted_end += size_bytes
    visit(nic, pair)
    if is_fluid and nic.fluid[np.uint64(pair)].is_audited:
        is_fluid, has_shadow = False, nic.fluid[np.uint64(pair)].n_withdrawn == 0
    if not is_fluid:
        counters[N_POSTED] += 1
    mode, kind = fabric.constants[IS_FLOW_MODE], np.int64(AS_PACKETS)
    if mode:
        kind = _list_posted(nic, counters, fabric.constants, pair, place, was_idle)
    if node.n_timer > 0 and nic.is_frozen[np.uint64(pair)] == 0 and kind == AS_PACKETS:
        set_timers(nic.timers, node, nic.control, record, pair)
    message.end_byte, message.size_bytes, message.flow_id = record.posted_end, size_bytes, flow_id
    message.posted_ps, message.tag, message.next = now_ps, tag, -1
    if IS_TRACED:
        trace_posted(counters, pair, record.posted_end, size_bytes, flow_id, now_ps)
    if record.last_message < 0:
        record.first_message = place
    else:
        nic.messages[np.uint64(record.last_message)].next = place
    record.last_message = place
    if record.sending_message < 0:
        record.sending_message = place
        record.message_end = record.posted_end
    port = np.int64(record.port)
    if kind != AS_PACKETS:
        record.sent_bytes += size_bytes
        record.next_byte = record.high_byte = record.posted_end
        record.sending_message = -1
        return
    if fabric.constants[MARKER_COLUMN] >= 0 and mode == 0:
        fluid = nic.fluid[np.uint64(pair)]
        was_idle |= is_clear and fluid.n_withdrawn > 0  # nobody has counted on its packets
        if is_clear and now_ps >= fluid.free_ps:
            fluid.clear_end = record.posted_end
        if is_fluid:
            send_fluid(fabric, nic, record, pair, size_bytes, flow_id, now_ps)
            return
        if fluid.n_withdrawn > 0:  # what comes packet by packet overtakes no marker
            record.next_send_ps = max(record.next_send_ps, fluid.free_ps + fluid.slack_ps)
        if has_shadow:
            cast_shadow(fabric, nic, record, pair)
        elif (was_idle or fluid.n_shadow > 0) and meets_fluid(fabric, nic, pair):
            if not waits_behind(fabric, nic, record, pair, now_ps):
                interrupt(fabric, nic, record, pair, 1, now_ps)
    if fabric.constants[IS_NS3]:
        list_pair(nic, record, pair, now_ps)
        poke(nic.ns3_ports, nic.nic_ports[np.uint64(port)], port, now_ps)
        return
    kind = meets_frozen(fabric, nic, pair) if was_idle else 0
    if kind != 0:
        interrupt(fabric, nic, record, pair, kind, now_ps)
    set_ready(nic.nic_ports, nic.queue_pairs, nic.ready, pair)
    if nic.frozen_port[np.uint64(port)] == 1:
        return
    start_ps = next_start(fabric.ports, nic.nic_ports, nic.queue_pairs, nic.ready, port)
    nic.nic_ports[np.uint64(port)].next_start_ps = max(start_ps, now_ps)


@step_kernel
def post_parts(fabric: Fabric, nic: Nic, pair, size_bytes, flow_id, tag, now_ps):
    """Post a message over all queue pairs that share it. pair: the first of them."""
    n_part = fabric.constants[N_PART]
    for k in range(n_part):
        part_bytes = size_bytes // n_part + (1 if k < size_bytes % n_part else 0)
        post_message(fabric, nic, np.int64(nic.parts[np.uint64(pair), k]), part_bytes, flow_id, tag, now_ps)


@step_kernel
def take_parts(nic: Nic, constants, pair):
    """Take one message of which every queue pair has delivered its part; False if some part is missing."""
    for k in range(constants[N_PART]):
        if _receiver_of(nic, nic.parts[np.uint64(pair), k]).n_arrived == 0:
            return False
    for k in range(constants[N_PART]):
        _receiver_of(nic, nic.parts[np.uint64(pair), k]).n_arrived -= 1
    return True


@step_kernel
def _receiver_of(nic: Nic, pair):
    return nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])]


@step_kernel
def first_part_of(nic: Nic, constants, pair):
    """The first of the queue pairs that share a queue pair's messages: itself if it has them alone."""
    return np.int64(nic.facts[np.uint64(pair)].first_part) if constants[N_PART] > 1 else pair
