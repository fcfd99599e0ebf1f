"""What the congestion control is told of an acknowledgement, and how its answer changes a queue pair's rate and window.

Its handlers are compiled apart (`models.congestion`) and called by address.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from models.congestion.interface import (
    EVENT_ACKED_BYTE,
    EVENT_HOP_QUEUE,
    EVENT_HOP_RATE,
    EVENT_HOP_TIME,
    EVENT_HOP_TX,
    EVENT_IS_CNP,
    EVENT_IS_MARKED,
    EVENT_IS_NACK,
    EVENT_N_HOP,
    EVENT_NEWLY_ACKED,
    EVENT_NEXT_BYTE,
    EVENT_NOW,
    EVENT_PATH_ID,
    EVENT_PINT_CODE,
    EVENT_RETIME,
    EVENT_RTT,
    FLOW_RATE,
    FLOW_WINDOW,
    N_HOP,
)
from models.network.link.wire_time import transmission_ps
from models.network.state.pair_records import NO_WINDOW
from models.network.state.parameters import WINDOW_FOLLOWS_RATE
from models.network.state.records import (
    EXTRA_HOPS,
    EXTRA_N_HOP,
    EXTRA_SENT_PS,
    FAULT,
    FAULT_NODE,
    FLAG_CNP,
    FLAG_MARKED,
    FLAG_NACK,
    IS_NS3,
    LAW_EVENT,
    LAW_FLOW_BYTES,
    LAW_FLOWS,
    LAW_ON_ACK,
    LAW_ON_CNP,
    LAW_PARAMETER_BYTES,
    LAW_PARAMETERS,
    LAW_SCRATCH,
    N_HOP_MASK,
    PATH_ID_SHIFT,
    TELEMETRY,
    TELEMETRY_INT,
    TELLS_RTT,
    WINDOW_BY_LAW,
    WINDOW_MODE,
    WORDS_PER_HOP,
)
from pdes.engine.foreign import call5
from pdes.engine.jit import JIT_DISABLED, fast_step, inlined

FAULT_LAW_RAISED = 3  # counters[FAULT] is this plus the handler's number (LAW_ON_*) times 16
NO_EXCEPTION = -2  # Numba's status of a function that returned None


@fast_step
def call_law(law, counters, record, pair, handler):
    """Run one handler of the congestion control: it writes its flow's record and the event."""
    address, scratch = law[handler], law[LAW_SCRATCH]
    status = call5(
        address, scratch, scratch + 8, law[LAW_FLOWS] + pair * law[LAW_FLOW_BYTES], law[LAW_EVENT],
        law[LAW_PARAMETERS] + record.law_row * law[LAW_PARAMETER_BYTES],
    )  # fmt: skip
    if status != 0 and status != NO_EXCEPTION:
        counters[FAULT], counters[FAULT_NODE] = FAULT_LAW_RAISED + 16 * handler, pair


def window_at_plain(max_window_bytes, rate_bps, line_rate_bps):
    """A window in proportion to the rate, rounded down, at least 1 B, over Python integers."""
    return max(1, int(max_window_bytes) * int(rate_bps) // int(line_rate_bps))


@fast_step
def _window_at(max_window_bytes, rate_bps, line_rate_bps):
    """The same; up to 2^38 B and 2^41 bit/s, the rate no more than the line's.

    The product may pass 63 bits. So the quotient comes from doubles, which are off by less than one, and is set right
    by what is left of the product modulo 2^64, which is small.
    """
    found = np.int64(np.float64(max_window_bytes) * np.float64(rate_bps) / np.float64(line_rate_bps))
    rest = max_window_bytes * rate_bps - found * line_rate_bps
    if rest < 0:
        found -= 1
    elif rest >= line_rate_bps:
        found += 1
    return max(1, found)


window_at: Callable[..., Any] = window_at_plain if JIT_DISABLED else _window_at


@fast_step
def apply_law(control, event, constants, record, pair):
    """Take over the rate and the window that the congestion control has set."""
    flow, row = np.uint64(pair), np.uint64(FLOW_RATE)
    rate_bps = min(max(control[flow, row], 1), record.line_rate_bps)
    control[flow, row] = rate_bps
    if rate_bps != record.rate_bps:
        size_bytes, gap_ps = np.int64(record.last_size_bytes), 0
        if event[EVENT_RETIME] and size_bytes > 0:  # what is paced already moves: HPCC's ChangeRate, MODEL.md section 4
            gap_ps = transmission_ps(size_bytes, rate_bps, constants[IS_NS3])
            before_ps = record.gap_ps
            if before_ps == 0:
                before_ps = transmission_ps(size_bytes, record.rate_bps, constants[IS_NS3])
            record.next_send_ps += gap_ps - before_ps
        record.rate_bps, record.gap_ps = rate_bps, gap_ps
        if constants[WINDOW_MODE] == WINDOW_FOLLOWS_RATE and record.max_window_bytes > 0:
            record.window_bytes = window_at(record.max_window_bytes, rate_bps, record.line_rate_bps)
    if constants[WINDOW_MODE] == WINDOW_BY_LAW:
        window = control[flow, np.uint64(FLOW_WINDOW)]
        record.window_bytes = window if window > 0 else NO_WINDOW


@fast_step
def tell_telemetry(extra, event, constants, packet):
    """Copy what switches stamped on a packet into the event."""
    word = extra[np.uint64(packet), EXTRA_N_HOP]
    if constants[TELEMETRY] != TELEMETRY_INT:
        event[EVENT_PINT_CODE] = word
        return
    n_hop = min(word & N_HOP_MASK, N_HOP)
    event[EVENT_N_HOP], event[EVENT_PATH_ID] = n_hop, word >> PATH_ID_SHIFT
    for k in range(n_hop):
        at = np.uint64(EXTRA_HOPS + k * WORDS_PER_HOP)
        event[EVENT_HOP_TIME + k] = extra[np.uint64(packet), at]
        event[EVENT_HOP_TX + k] = extra[np.uint64(packet), at + np.uint64(1)]
        event[EVENT_HOP_QUEUE + k] = extra[np.uint64(packet), at + np.uint64(2)]
        event[EVENT_HOP_RATE + k] = extra[np.uint64(packet), at + np.uint64(3)]


@inlined
def tell_ack(pool, nic, record, packet, newly_bytes, now_ps):
    """Tell the congestion control of an acknowledgement; on_cnp goes before on_ack."""
    counters, constants, item = pool.counters, pool.constants, pool.packets[np.uint64(packet)]
    law, event, pair = nic.law, nic.event, np.int64(item.queue_pair)
    event[EVENT_NOW], event[EVENT_ACKED_BYTE], event[EVENT_NEWLY_ACKED] = now_ps, item.sequence, newly_bytes
    event[EVENT_NEXT_BYTE], event[EVENT_RETIME] = record.next_byte, 0
    event[EVENT_IS_MARKED] = (item.bits & FLAG_MARKED) != 0
    event[EVENT_IS_CNP], event[EVENT_IS_NACK] = (item.bits & FLAG_CNP) != 0, (item.bits & FLAG_NACK) != 0
    if constants[TELLS_RTT]:
        event[EVENT_RTT] = now_ps - pool.extra[np.uint64(packet), EXTRA_SENT_PS]
        if constants[TELEMETRY] > 0:
            tell_telemetry(pool.extra, event, constants, packet)
    if law[LAW_ON_CNP] != 0 and item.bits & FLAG_CNP and record.is_done == 0:
        call_law(law, counters, record, pair, LAW_ON_CNP)
    if law[LAW_ON_ACK] != 0:
        call_law(law, counters, record, pair, LAW_ON_ACK)
    apply_law(nic.control, event, constants, record, pair)
