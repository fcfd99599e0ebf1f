"""The trace: rows of what happens to chosen flows and at chosen ports, written by the kernels.

It costs nothing unless it is asked for: IS_TRACED is a constant to the compiler, and kernels with it are another
variant, in a cache folder of their own (`pdes.engine.jit`). Its memory is a part of `counters`, behind N_COUNTER, which
every step has at hand: a head, the chosen ports and flows, and rows.

Kept are the first rows by the order of their columns, as many as there is room for, in a heap whose root is the last of
them. So what is kept does not depend on who wrote first, and neither on the number of ranks.
"""

from typing import NamedTuple

import numpy as np

from models.network.state.pair_records import NO_WINDOW
from models.network.state.records import FLAG_ACK, FLAG_FRAME, FLAG_MARKER, FLAG_NACK, N_COUNTER
from pdes.engine.jit import IS_TRACED as IS_TRACED
from pdes.engine.jit import step_kernel

# Words of the head, in counters.
(
    N_SEEN,  # rows so far, kept or not
    N_KEPT,
    N_ROOM,  # rows that may be kept
    N_FLOW,  # flows that are chosen
    N_RANGE,  # ranges that are known
    FLOWS_AT,  # their ids
    RANGES_AT,  # RANGE_WORDS each: queue pair, first byte, end byte, flow id
    PORTS_AT,  # a word per port, 1: chosen
    HEAP_AT,  # numbers of rows
    ROWS_AT,  # N_COLUMN words each, and one more row to write to first
    N_RANGE_ROOM,
) = range(N_COUNTER, N_COUNTER + 11)
HEAD_END = N_COUNTER + 11
RANGE_WORDS = 4

# What happens, in the order in which it does at one instant.
(
    DEQUEUED,  # a packet that waited at a port starts
    ARRIVED,  # a packet has come over a port's link to the node at its end
    DROPPED,  # DROPPED + DROP_*: for want of room, by chance, as the link is down
    DROPPED_BY_LOSS,
    DROPPED_BY_LINK,
    PAUSED,  # a port has been told to pause, or to go on
    RESUMED,
    DELIVERED,  # the receiver has the last byte of a message
    CONTROLLED,  # an acknowledgement has been dealt with: rate and window from now on
    FINISHED,  # a message is acknowledged
    TIMED_OUT,
    POSTED,  # a message is there to be sent
    QUEUED,  # a packet waits at a port
    STARTED,  # a packet starts at once
    RATED,  # a message in flow mode has another rate from now on
) = range(15)
KINDS = (
    "dequeue", "arrive", "drop: no room", "drop: random loss", "drop: link down", "pause", "resume", "delivered", "ack",
    "finished", "timeout", "posted", "queue", "start",
    "rate",
)  # fmt: skip
COLUMNS = (
    "time_ps", "kind", "port", "queue_pair", "flow_id", "sequence", "size_bytes", "flags", "queue_bytes", "rate_bps",
    "window_bytes",
)  # fmt: skip
N_COLUMN = len(COLUMNS)
NOTHING = -1  # in a column that does not apply


class Row(NamedTuple):
    """A row on its way into the trace; its fields are COLUMNS."""

    time_ps: int | np.int64
    kind: int | np.int64
    port: int | np.int64
    pair: int | np.int64
    flow_id: int | np.int64
    sequence: int | np.int64
    size_bytes: int | np.int64
    flags: int | np.int64
    queue_bytes: int | np.int64
    rate_bps: int | np.int64
    window_bytes: int | np.int64


@step_kernel
def _flow_of(words, pair, byte):
    """The chosen flow that a byte of a queue pair's stream belongs to, -1: none."""
    for i in range(words[N_RANGE]):
        at = words[RANGES_AT] + RANGE_WORDS * i
        if words[at] == pair and words[at + 1] <= byte and byte < words[at + 2]:
            return words[at + 3]
    return np.int64(NOTHING)


@step_kernel
def _is_less(words, a, b):
    """Whether row a comes before row b."""
    first, second = words[ROWS_AT] + N_COLUMN * a, words[ROWS_AT] + N_COLUMN * b
    for i in range(N_COLUMN):
        if words[first + i] != words[second + i]:
            return words[first + i] < words[second + i]
    return False


@step_kernel
def _lift(words, place):
    """Move a row up the heap to where it belongs."""
    heap = words[HEAP_AT]
    while place > 0:
        above = (place - 1) // 2
        if not _is_less(words, words[heap + above], words[heap + place]):
            return
        words[heap + above], words[heap + place] = words[heap + place], words[heap + above]
        place = above


@step_kernel
def _sink(words):
    """Move the row at the heap's root down to where it belongs."""
    heap, n_row, place = words[HEAP_AT], words[N_KEPT], 0
    while 2 * place + 1 < n_row:
        below = 2 * place + 1
        if below + 1 < n_row and _is_less(words, words[heap + below], words[heap + below + 1]):
            below += 1
        if not _is_less(words, words[heap + place], words[heap + below]):
            return
        words[heap + below], words[heap + place] = words[heap + place], words[heap + below]
        place = below


@step_kernel
def _keep(words, spare):
    """Take the row that was written to place `spare` in, if it is among the first."""
    words[N_SEEN] += 1
    n_kept = words[N_KEPT]
    if n_kept < words[N_ROOM]:
        words[words[HEAP_AT] + n_kept] = spare
        words[N_KEPT] = n_kept + 1
        _lift(words, n_kept)
        return
    last = words[words[HEAP_AT]]
    if _is_less(words, spare, last):
        for i in range(N_COLUMN):
            words[words[ROWS_AT] + N_COLUMN * last + i] = words[words[ROWS_AT] + N_COLUMN * spare + i]
        _sink(words)


@step_kernel
def _write(words, row):
    """Write a row to the place behind those that are kept, which is free for it, and keep it if it is among the first.

    row: Row, its values int64 or smaller.
    """
    spare = words[N_KEPT]
    at = words[ROWS_AT] + N_COLUMN * spare
    words[at], words[at + 1], words[at + 2], words[at + 3] = row.time_ps, row.kind, row.port, row.pair
    words[at + 4], words[at + 5], words[at + 6], words[at + 7] = row.flow_id, row.sequence, row.size_bytes, row.flags
    words[at + 8], words[at + 9], words[at + 10] = row.queue_bytes, row.rate_bps, row.window_bytes
    _keep(words, spare)


@step_kernel
def trace_packet(words, packets, packet, kind, time_ps, port, queue_bytes):
    """A packet at a port, if the port or the packet's flow is chosen. queue_bytes: of data, what waits at the port."""
    item = packets[np.uint64(packet)]
    pair, sequence, bits = np.int64(item.queue_pair), np.int64(item.sequence), np.int64(item.bits)
    flow_id = np.int64(NOTHING)
    if bits & FLAG_FRAME:
        pair, sequence = np.int64(NOTHING), np.int64(item.queue)
    elif bits & FLAG_MARKER == 0:  # an acknowledgement names the byte behind the last one that it is about
        is_behind = bits & FLAG_ACK != 0 and bits & FLAG_NACK == 0
        flow_id = _flow_of(words, pair, sequence - 1 if is_behind else sequence)
    if flow_id < 0 and words[words[PORTS_AT] + port] == 0:
        return
    size_bytes = np.int64(item.size_bytes)
    row = Row(time_ps, kind, port, pair, flow_id, sequence, size_bytes, bits, queue_bytes, NOTHING, NOTHING)
    _write(words, row)


@step_kernel
def trace_start(words, packets, record, packet, port, time_ps):
    """A packet is about to start at a plain switch's port, or to wait there. record: PORT."""
    item, queued_bytes = packets[np.uint64(packet)], np.int64(record.queued_bytes)
    if record.free_at_ps <= time_ps:
        trace_packet(words, packets, packet, STARTED, time_ps, port, queued_bytes)
    else:
        queued_bytes += 0 if item.bits & FLAG_ACK else np.int64(item.size_bytes)
        trace_packet(words, packets, packet, QUEUED, time_ps, port, queued_bytes)


@step_kernel
def trace_pause(words, port, i_queue, is_pause, time_ps):
    """A chosen port is told to pause one of its queues, or to go on."""
    if words[words[PORTS_AT] + port]:
        kind = PAUSED if is_pause else RESUMED
        row = Row(time_ps, kind, port, NOTHING, NOTHING, i_queue, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)
        _write(words, row)


@step_kernel
def trace_posted(words, pair, end_byte, message_bytes, flow_id, time_ps):
    """A message of a chosen flow is there: from now on its packets are known by their bytes."""
    for i in range(words[N_FLOW]):
        if words[words[FLOWS_AT] + i] == flow_id and words[N_RANGE] < words[N_RANGE_ROOM]:
            at, first_byte = words[RANGES_AT] + RANGE_WORDS * words[N_RANGE], end_byte - message_bytes
            words[at], words[at + 1], words[at + 2], words[at + 3] = pair, first_byte, end_byte, flow_id
            words[N_RANGE] += 1
            row = Row(
                time_ps, POSTED, NOTHING, pair, flow_id, first_byte, message_bytes, NOTHING, NOTHING, NOTHING, NOTHING
            )
            _write(words, row)


@step_kernel
def trace_flow(words, kind, time_ps, pair, byte, rate_bps, window_bytes):
    """Something about a queue pair whose byte belongs to a chosen flow."""
    flow_id = _flow_of(words, pair, byte)
    if flow_id >= 0:
        row = Row(time_ps, kind, NOTHING, pair, flow_id, byte, NOTHING, NOTHING, NOTHING, rate_bps, window_bytes)
        _write(words, row)


@step_kernel
def trace_ack(words, record, pair, time_ps):
    """An acknowledgement has been dealt with. record: QUEUE_PAIR."""
    window_bytes = NOTHING if record.window_bytes == NO_WINDOW else record.window_bytes
    trace_flow(words, CONTROLLED, time_ps, pair, record.acked_byte - 1, record.rate_bps, window_bytes)


@step_kernel
def trace_delivered(words, arrival_rows, first_row, end_row, pair, byte, time_ps):
    """Messages have arrived, whose ids are in rows of arrivals. byte: behind the last one that is in order."""
    for row in range(first_row, end_row):
        for i in range(words[N_FLOW]):
            if words[words[FLOWS_AT] + i] == arrival_rows[np.uint64(row), 0]:
                flow_id = words[words[FLOWS_AT] + i]
                written = Row(
                    time_ps, DELIVERED, NOTHING, pair, flow_id, byte, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING
                )
                _write(words, written)
