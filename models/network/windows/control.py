"""The congestion control in the window engine: what it is told, and its timers, as in `models.network.host.congestion`
and `sender`."""

import numpy as np

from models.congestion.interface import (
    EVENT_ACKED_BYTE,
    EVENT_IS_CNP,
    EVENT_IS_MARKED,
    EVENT_IS_NACK,
    EVENT_NEWLY_ACKED,
    EVENT_NEXT_BYTE,
    EVENT_NOW,
    EVENT_RETIME,
    EVENT_RTT,
    EVENT_TIMER,
    FLOW_TIMER,
)
from models.network.host.congestion import apply_law, tell_telemetry
from models.network.host.timers import due_timer, first_law_timer_ps
from models.network.state.records import EXTRA_SENT_PS, FLAG_CNP, FLAG_MARKED, TELEMETRY, TELLS_RTT
from models.network.windows.laws import on_ack, on_cnp, on_timer
from models.network.windows.state import HAS_ON_ACK, HAS_ON_CNP, HAS_ON_TIMER, Windows
from pdes.engine.jit import fast_step, step_kernel
from pdes.engine.time_index import NEVER


@fast_step
def tell_ack(w: Windows, constants, record, packet, newly_bytes, now_ps):
    """Tell the control of an acknowledgement; on_cnp goes before on_ack. record: of the packet's queue pair."""
    if w.handlers[HAS_ON_ACK] == 0 and w.handlers[HAS_ON_CNP] == 0:
        return
    item = w.packets[np.uint64(packet)]
    node, pair = np.uint64(record.node), np.uint64(item.queue_pair)
    event = w.event_words[node]
    event[EVENT_NOW], event[EVENT_ACKED_BYTE], event[EVENT_NEWLY_ACKED] = now_ps, item.sequence, newly_bytes
    event[EVENT_NEXT_BYTE], event[EVENT_RETIME] = record.next_byte, 0
    event[EVENT_IS_MARKED] = (item.bits & FLAG_MARKED) != 0
    event[EVENT_IS_CNP], event[EVENT_IS_NACK] = (item.bits & FLAG_CNP) != 0, 0
    if constants[TELLS_RTT]:
        event[EVENT_RTT] = now_ps - w.extra[np.uint64(packet), EXTRA_SENT_PS]
        if constants[TELEMETRY] > 0:
            tell_telemetry(w.extra, event, constants, packet)
    parameters = w.parameters[np.uint64(record.law_row)]
    if w.handlers[HAS_ON_CNP] and item.bits & FLAG_CNP:
        on_cnp(w.controlled[pair], w.events[node], parameters)
    if w.handlers[HAS_ON_ACK]:
        on_ack(w.controlled[pair], w.events[node], parameters)
    apply_law(w.control, event, constants, record, np.int64(pair))


@step_kernel
def fire(w: Windows, constants, record, pair, timer, now_ps):
    """One of the control's timers of a queue pair fires."""
    node = np.uint64(record.node)
    event = w.event_words[node]
    event[EVENT_NOW], event[EVENT_TIMER], event[EVENT_RETIME] = now_ps, timer, 0
    event[EVENT_ACKED_BYTE], event[EVENT_NEXT_BYTE] = record.acked_byte, record.next_byte
    w.control[np.uint64(pair), np.uint64(FLOW_TIMER + timer)] = NEVER
    if w.handlers[HAS_ON_TIMER]:
        on_timer(w.controlled[np.uint64(pair)], w.events[node], w.parameters[np.uint64(record.law_row)])
        apply_law(w.control, event, constants, record, pair)


@step_kernel
def catch_up(w: Windows, constants, record, pair, limit_ps):
    """Fire the control's timers up to limit_ps, in order: of a queue pair that had nothing to do."""
    while True:
        soon_ps = first_law_timer_ps(w.control, pair)
        if soon_ps > limit_ps:
            return
        fire(w, constants, record, pair, due_timer(w.control, pair, soon_ps), soon_ps)
