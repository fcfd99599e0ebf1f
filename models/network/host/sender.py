"""Where acknowledgements arrive: windows, resends, the congestion control, and messages that end.

Go-back-N: a NACK, or a timeout without any progress, sends again from the first byte that is not acknowledged.
Selective repeat sends again what is missing (`selective`).
"""

import numpy as np

from models.congestion.interface import (
    EVENT_ACKED_BYTE,
    EVENT_NEXT_BYTE,
    EVENT_NOW,
    EVENT_RETIME,
    EVENT_TIMER,
    FLOW_TIMER,
    N_TIMER,
)
from models.network.host.congestion import apply_law, call_law, tell_ack
from models.network.host.ns3_nic import pull_timer
from models.network.host.selective import FAULT_TOO_MANY_ROWS, learn_from_ack, resend_all
from models.network.host.timers import due_timer, first_law_timer_ps, set_timers, stop_timers
from models.network.state.packet_pool import PacketPool
from models.network.state.records import (
    FAULT,
    FAULT_NODE,
    FLAG_MARKED,
    FLAG_NACK,
    FREE_MESSAGE,
    IS_LOSSY,
    IS_NS3,
    IS_SELECTIVE,
    LAW_ON_ACK,
    LAW_ON_CNP,
    LAW_ON_TIMEOUT,
    LAW_ON_TIMER,
    MARKER_COLUMN,
    MAX_TIMEOUT_PS,
    N_FLOW_ROW,
    N_FREE_MESSAGE,
    N_TIMEOUT,
    NS3_BACK_TO_ZERO,
    NS3_CHUNK_BYTES,
    REORDER_BYTES,
    SACK_COLUMN,
    TIMEOUT_PS,
    Nic,
)
from models.network.watch.tracing import FINISHED, IS_TRACED, NOTHING, TIMED_OUT, trace_flow
from pdes.engine.apart import apart
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def find_sending_message(record, messages):
    """Point a queue pair that went back, or was overtaken by an acknowledgement, at the message of its next byte."""
    place = np.int64(record.first_message)
    while place >= 0 and messages[np.uint64(place)].end_byte <= record.next_byte:
        place = np.int64(messages[np.uint64(place)].next)
    record.sending_message = place
    record.message_end = messages[np.uint64(place)].end_byte if place >= 0 else record.posted_end


@step_kernel
def _go_back(record, messages):
    record.next_byte = record.acked_byte
    find_sending_message(record, messages)


@step_kernel
def _take_nack(record, messages, constants, sequence, before_byte):
    """Go back; outside ns-3 mode only if the NACK is not older than what is acknowledged."""
    apart()
    if constants[IS_NS3] or sequence >= before_byte:
        _go_back(record, messages)


@step_kernel
def _end_pair(control, record, pair):
    """ns-3 mode: a queue pair is gone with its message. ns-3 drops the receiver's side too, at this very instant on
    another host (CORRECTIONS.md 11): no message could do that (R12), so it stays, and late duplicates are not answered.
    """
    apart()
    record.is_done = 1
    stop_timers(control, record, pair)


@step_kernel
def _learn_of_holes(pool: PacketPool, ranges, record, packet):
    apart()
    extra, sack = pool.extra, np.uint64(pool.constants[SACK_COLUMN])
    first, end = extra[np.uint64(packet), sack], extra[np.uint64(packet), sack + np.uint64(1)]
    learn_from_ack(ranges, pool.counters, record, pool.constants[REORDER_BYTES], first, end)


@step_kernel
def _recover(pool: PacketPool, messages, ranges, record, packet, before_byte):
    """What an acknowledgement means where packets can be lost: go back, resend, be overtaken; and the timeout."""
    apart()
    constants, item = pool.constants, pool.packets[np.uint64(packet)]
    is_nack = item.bits & FLAG_NACK != 0
    if constants[IS_SELECTIVE]:
        _learn_of_holes(pool, ranges, record, packet)
    elif is_nack:
        _take_nack(record, messages, constants, item.sequence, before_byte)
    elif record.acked_byte > record.next_byte and constants[IS_NS3] == 0:
        record.next_byte = record.acked_byte
        find_sending_message(record, messages)


@step_kernel
def _move_deadline(record, item, constants, before_byte, now_ps):
    """Something was acknowledged: the timeout starts anew, or is off if nothing is in flight."""
    went_back = item.bits & FLAG_NACK != 0 and item.sequence >= before_byte
    is_empty = record.acked_byte == record.next_byte and not went_back
    record.deadline_ps = NEVER if is_empty else now_ps + constants[TIMEOUT_PS]
    record.check_ps = min(record.check_ps, record.deadline_ps)
    record.n_backoff = 0


@inlined
def receive_ack(pool, nic, node, flow_rows, packet, now_ps):
    """Take an acknowledgement or NACK: move the window, finish messages, resend, tell the congestion control.

    node: NODE record of the sender. The packet is the caller's to free. False: nobody wanted it.
    """
    messages, counters, constants = nic.messages, pool.counters, pool.constants
    item = pool.packets[np.uint64(packet)]
    pair = np.int64(item.queue_pair)
    record = nic.queue_pairs[np.uint64(pair)]
    is_wanted = record.is_done == 0
    if is_wanted:
        before_byte = np.int64(record.acked_byte)
        if before_byte == record.posted_end and node.n_timer > 0:
            catch_up_timers(nic, counters, constants, record, pair, now_ps - 1)
        acked_byte = item.sequence
        if constants[NS3_BACK_TO_ZERO]:
            acked_byte = acked_byte // constants[NS3_CHUNK_BYTES] * constants[NS3_CHUNK_BYTES]
        acked_byte = max(before_byte, acked_byte)
        record.acked_byte = acked_byte
        nic.acked_ps[np.uint64(pair)] = now_ps
        if record.first_message >= 0:
            record.n_marked += (item.bits & FLAG_MARKED) != 0
            while record.first_message >= 0 and messages[np.uint64(record.first_message)].end_byte <= acked_byte:
                if counters[N_FLOW_ROW] >= flow_rows.shape[0]:  # more than ROWS_AT_ONCE, after very many losses
                    counters[FAULT], counters[FAULT_NODE] = FAULT_TOO_MANY_ROWS, pair
                    break
                finish_message(record, messages, nic.ended, flow_rows, counters, pair, now_ps)
                if constants[IS_NS3] and record.first_message < 0:
                    _end_pair(nic.control, record, pair)
        if constants[IS_LOSSY]:
            is_amiss = constants[IS_SELECTIVE] or item.bits & FLAG_NACK or record.acked_byte > record.next_byte
            if is_amiss:  # with PFC nearly never: looked at here, as a call hands over all of these
                _recover(pool, messages, nic.ranges, record, packet, before_byte)
            if acked_byte > before_byte and constants[TIMEOUT_PS] > 0:
                _move_deadline(record, item, constants, before_byte, now_ps)
        if nic.law[LAW_ON_ACK] != 0 or nic.law[LAW_ON_CNP] != 0:
            tell_ack(pool, nic, record, packet, acked_byte - before_byte, now_ps)
            if constants[IS_NS3] and nic.event[EVENT_RETIME]:
                pull_timer(nic.ns3_ports, np.int64(record.port), record.next_send_ps, now_ps)
        if node.n_timer > 0:
            set_timers(nic.timers, node, nic.control, record, pair)
    return is_wanted


@step_kernel
def _fire_law_timer(nic: Nic, counters, constants, record, pair, timer, now_ps):
    event = nic.event
    event[EVENT_NOW], event[EVENT_TIMER], event[EVENT_RETIME] = now_ps, timer, 0
    event[EVENT_ACKED_BYTE], event[EVENT_NEXT_BYTE] = record.acked_byte, record.next_byte
    nic.control[np.uint64(pair), np.uint64(FLOW_TIMER + timer)] = NEVER
    if nic.law[LAW_ON_TIMER] != 0:
        call_law(nic.law, counters, record, pair, LAW_ON_TIMER)
        apply_law(nic.control, event, constants, record, pair)


@step_kernel
def catch_up_timers(nic: Nic, counters, constants, record, pair, limit_ps):
    """Fire the congestion control's timers up to limit_ps, in order: of a queue pair that had nothing to do."""
    apart()
    while True:
        soon_ps = first_law_timer_ps(nic.control, pair)
        if soon_ps > limit_ps or counters[FAULT]:
            return
        _fire_law_timer(nic, counters, constants, record, pair, due_timer(nic.control, pair, soon_ps), soon_ps)


@step_kernel
def fire_timer(nic: Nic, node, counters, constants, pair, now_ps):
    """A queue pair's first timer fires: the congestion control's, or the look at the retransmission timeout.

    False: the look found nothing overdue.
    """
    apart()
    record = nic.queue_pairs[np.uint64(pair)]
    timer, is_real = due_timer(nic.control, pair, now_ps), True
    if timer < N_TIMER and record.acked_byte < record.posted_end:
        _fire_law_timer(nic, counters, constants, record, pair, timer, now_ps)
    elif record.deadline_ps > now_ps:
        record.check_ps = record.deadline_ps
        is_real = False
    elif record.acked_byte == record.next_byte:
        record.check_ps = record.deadline_ps = NEVER  # nothing in flight: the next packet arms it again
        is_real = False
    elif constants[MARKER_COLUMN] >= 0 and nic.fluid[np.uint64(pair)].n_withdrawn > 0:
        record.check_ps = record.deadline_ps = now_ps + constants[TIMEOUT_PS]  # what is under way is no packet
        is_real = False
    else:
        _time_out(nic, counters, constants, record, pair, now_ps)
    set_timers(nic.timers, node, nic.control, record, pair)
    return is_real


@step_kernel
def _time_out(nic: Nic, counters, constants, record, pair, now_ps):
    apart()
    counters[N_TIMEOUT] += 1
    if IS_TRACED:
        trace_flow(counters, TIMED_OUT, now_ps, pair, record.acked_byte, record.rate_bps, record.window_bytes)
    wait_ps = constants[TIMEOUT_PS]
    for _ in range(record.n_backoff):
        wait_ps = min(2 * wait_ps, constants[MAX_TIMEOUT_PS])
    record.n_backoff = min(record.n_backoff + 1, 60)
    if constants[IS_SELECTIVE]:
        resend_all(nic.ranges, record)
    else:
        _go_back(record, nic.messages)
    record.deadline_ps = now_ps + min(2 * wait_ps, constants[MAX_TIMEOUT_PS])
    record.check_ps = record.deadline_ps
    if nic.law[LAW_ON_TIMEOUT] != 0:
        nic.event[EVENT_NOW], nic.event[EVENT_RETIME] = now_ps, 0
        nic.event[EVENT_ACKED_BYTE], nic.event[EVENT_NEXT_BYTE] = record.acked_byte, record.next_byte
        call_law(nic.law, counters, record, pair, LAW_ON_TIMEOUT)
        apply_law(nic.control, nic.event, constants, record, pair)


@step_kernel
def finish_message(record, messages, ended, flow_rows, counters, pair, now_ps):
    """The queue pair's oldest message is fully acknowledged: write its row, free its place."""
    place = np.int64(record.first_message)
    message = messages[np.uint64(place)]
    row = counters[N_FLOW_ROW]
    counters[N_FLOW_ROW] = row + 1
    out = flow_rows[np.uint64(row)]
    out[0], out[1], out[2] = message.flow_id, pair, message.size_bytes
    out[3], out[4], out[5], out[6] = message.posted_ps, now_ps, record.n_marked, message.tag
    out[7] = record.resent_bytes
    if IS_TRACED:
        trace_flow(counters, FINISHED, now_ps, pair, message.end_byte - 1, NOTHING, NOTHING)
    last = ended[np.uint64(pair)]
    last[0], last[1], last[2] = message.end_byte, now_ps, record.n_marked
    record.n_marked, record.resent_bytes = 0, 0
    record.first_message = message.next
    if message.next < 0:
        record.last_message = -1
    message.next = counters[FREE_MESSAGE]
    counters[FREE_MESSAGE] = place
    counters[N_FREE_MESSAGE] += 1
