"""Selective repeat, as IRN has it (Mittal et al. 2018, section 3.1): the receiver keeps what comes out of order, the
sender resends what is missing, each hole once per recovery.

The receiver answers every packet out of order at once, and names the stretch of bytes around it that it holds (a
duplicate of bytes in order names nothing); one in order is acknowledged as with go-back-N, but at once while anything
is held (RFC 5681 section 4.2). A packet counts as lost if it begins before the end of the highest stretch named less a
reordering allowance, and is not named itself. The first such packet begins a recovery, which lasts until everything
sent before is acknowledged; in it the bound only rises. The first lost packet that was not sent again in this recovery
goes before new bytes and whatever the window, with the bounds that it had. After a timeout a recovery begins in which
everything sent and not named counts as lost; so a resend that is lost too is left to the timeout. Deviations from IRN:
stretches of bytes instead of bitmaps of packets; no bound on packets in flight but the window; an allowance for
networks that reorder (spraying, adaptive routing).
"""

import numpy as np

from models.network.state.records import FAULT, FAULT_NODE, FREE_RANGE, N_ARRIVAL_ROW, N_FREE_RANGE
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel

FAULT_TOO_MANY_ROWS = 2
RANGES_PER_EVENT = 3  # ranges that one event may take from the pool, at most


@step_kernel
def _take_range(ranges, counters, first_byte, end_byte, following):
    """A range from the pool, which the loop has made sure is not empty."""
    place = counters[FREE_RANGE]
    item = ranges[np.uint64(place)]
    counters[FREE_RANGE] = item.next
    counters[N_FREE_RANGE] -= 1
    item.first_byte, item.end_byte, item.next = first_byte, end_byte, following
    return place


@step_kernel
def _free_range(ranges, counters, place):
    """Put a range back; what stood behind it."""
    item = ranges[np.uint64(place)]
    following = np.int64(item.next)
    item.next = counters[FREE_RANGE]
    counters[FREE_RANGE] = place
    counters[N_FREE_RANGE] += 1
    return following


@step_kernel
def free_ranges(ranges, counters, record):
    """Throw away what a receiver holds out of order."""
    place = np.int64(record.held_range)
    while place >= 0:
        place = _free_range(ranges, counters, place)
    record.held_range = place
    place = np.int64(record.early_end)
    while place >= 0:
        place = _free_range(ranges, counters, place)
    record.early_end = place


@step_kernel
def add_range(ranges, counters, head, first_byte, end_byte):
    """Add bytes to an ascending chain of ranges, joined with all that they touch; (head, joined range, was new)."""
    before, place = np.int64(-1), np.int64(head)
    while place >= 0 and ranges[np.uint64(place)].end_byte < first_byte:
        before, place = place, np.int64(ranges[np.uint64(place)].next)
    if (
        place >= 0
        and ranges[np.uint64(place)].first_byte <= first_byte
        and ranges[np.uint64(place)].end_byte >= end_byte
    ):
        return np.int64(head), place, False
    while place >= 0 and ranges[np.uint64(place)].first_byte <= end_byte:
        first_byte = min(first_byte, ranges[np.uint64(place)].first_byte)
        end_byte = max(end_byte, ranges[np.uint64(place)].end_byte)
        place = _free_range(ranges, counters, place)
    joined = _take_range(ranges, counters, first_byte, end_byte, place)
    if before < 0:
        return joined, joined, True
    ranges[np.uint64(before)].next = joined
    return np.int64(head), joined, True


@step_kernel
def hold(ranges, counters, record, first_byte, payload, is_last, label):
    """Keep a packet that came before its turn; the range around it, as (first, end)."""
    apart()
    head, joined, is_new = add_range(ranges, counters, record.held_range, first_byte, first_byte + payload)
    record.held_range = head
    if is_new and is_last:
        _remember_end(ranges, counters, record, first_byte + payload, label)
    item = ranges[np.uint64(joined)]
    return item.first_byte, item.end_byte


@step_kernel
def _remember_end(ranges, counters, record, end_byte, label):
    """Note that a message ends at a byte that is not in order yet; a chain of (end, flow id), ascending."""
    before, place = np.int64(-1), np.int64(record.early_end)
    while place >= 0 and ranges[np.uint64(place)].first_byte < end_byte:
        before, place = place, np.int64(ranges[np.uint64(place)].next)
    added = _take_range(ranges, counters, end_byte, label, place)
    if before < 0:
        record.early_end = added
    else:
        ranges[np.uint64(before)].next = added


@step_kernel
def absorb(ranges, counters, record, pair, arrival_rows, now_ps):
    """Bytes have come in order: go on through what is held behind them; True if that completes a message."""
    apart()
    ends = False
    place = np.int64(record.held_range)
    while place >= 0 and ranges[np.uint64(place)].first_byte <= record.expected_byte:
        record.expected_byte = max(record.expected_byte, ranges[np.uint64(place)].end_byte)
        place = _free_range(ranges, counters, place)
    record.held_range = place
    place = np.int64(record.early_end)
    while place >= 0 and ranges[np.uint64(place)].first_byte <= record.expected_byte:
        row = counters[N_ARRIVAL_ROW]
        if row >= arrival_rows.shape[0]:
            counters[FAULT], counters[FAULT_NODE] = FAULT_TOO_MANY_ROWS, pair
            break
        counters[N_ARRIVAL_ROW] = row + 1
        arrival_rows[np.uint64(row), 0] = ranges[np.uint64(place)].end_byte
        arrival_rows[np.uint64(row), 1] = now_ps
        record.n_arrived += 1
        ends = True
        place = _free_range(ranges, counters, place)
    record.early_end = place
    return ends


@step_kernel
def learn_from_ack(ranges, counters, record, reorder_bytes, sack_first_byte, sack_end_byte):
    """What an acknowledgement says about holes: sets what is to be resent. sack_end_byte 0: it names no range."""
    apart()
    place = np.int64(record.sacked_range)
    while place >= 0 and ranges[np.uint64(place)].end_byte <= record.acked_byte:
        place = _free_range(ranges, counters, place)
    record.sacked_range = place
    if sack_end_byte > record.acked_byte:
        head, _, _ = add_range(ranges, counters, place, max(sack_first_byte, record.acked_byte), sack_end_byte)
        record.sacked_range = head
    if record.acked_byte >= record.recover_byte:
        record.recover_byte, record.lost_byte = 0, 0
    place, highest = np.int64(record.sacked_range), np.int64(0)
    while place >= 0:
        highest, place = ranges[np.uint64(place)].end_byte, np.int64(ranges[np.uint64(place)].next)
    if highest - reorder_bytes > max(record.lost_byte, record.acked_byte):
        record.lost_byte = highest - reorder_bytes
        if record.recover_byte == 0:
            record.recover_byte, record.resend_byte = record.next_byte, record.acked_byte
    record.resend_byte = max(record.resend_byte, record.acked_byte)
    skip_held(ranges, record)


@step_kernel
def skip_held(ranges, record):
    """Move the resend cursor behind what the receiver holds; at or past lost_byte nothing is left to resend."""
    place = np.int64(record.sacked_range)
    while place >= 0 and ranges[np.uint64(place)].first_byte <= record.resend_byte:
        record.resend_byte = max(record.resend_byte, ranges[np.uint64(place)].end_byte)
        place = np.int64(ranges[np.uint64(place)].next)


@step_kernel
def hole_end(ranges, record):
    """Where the hole at the resend cursor ends: lost_byte does not end it, as it may lie inside a packet."""
    place = np.int64(record.sacked_range)
    while place >= 0 and ranges[np.uint64(place)].first_byte <= record.resend_byte:
        place = np.int64(ranges[np.uint64(place)].next)
    return ranges[np.uint64(place)].first_byte if place >= 0 else record.next_byte


@step_kernel
def resend_all(ranges, record):
    """After a timeout: everything that is not known to be held counts as lost."""
    apart()
    record.resend_byte, record.lost_byte, record.recover_byte = record.acked_byte, record.next_byte, record.next_byte
    skip_held(ranges, record)
