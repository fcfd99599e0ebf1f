"""Where data arrives: order, acknowledgements, NACKs.

Go-back-N, as RoCE NICs do it: what is in order is taken and acknowledged, what comes behind a hole is thrown away and
asked for again by one NACK per hole (InfiniBand specification, section 9.7.5). With selective repeat it is kept, and
named to the sender (`selective`). In ns-3 mode the rules of MODEL.md
section 5 hold instead where they differ: no answer to a duplicate, acknowledgements counted in bytes.
"""

import numpy as np

from models.network.host.selective import absorb, hold
from models.network.state.packet_pool import PacketPool
from models.network.state.records import (
    ACK_BYTES,
    ACK_EVERY,
    CNP_INTERVAL_PS,
    FLAG_ACK,
    FLAG_CNP,
    FLAG_LAST,
    FLAG_MARKED,
    FLAG_NACK,
    HEADER_BYTES,
    IS_NS3,
    IS_SELECTIVE,
    N_ARRIVAL_ROW,
    NACK_INTERVAL_PS,
    NS3_ACK_INTERVAL_BYTES,
    NS3_BACK_TO_ZERO,
    NS3_CHUNK_BYTES,
    SACK_COLUMN,
)
from pdes.engine.apart import apart
from pdes.engine.jit import fast_step, step_kernel

# What receive_data returns, added up.
ENDS_MESSAGE, ANSWERS = 1, 2  # a message is complete; the packet has become an acknowledgement


@fast_step
def receive_data(pool: PacketPool, record, ranges, arrival_rows, packet, now_ps):
    """Take a data packet; it becomes its own acknowledgement, if there is one. Returns ENDS_MESSAGE | ANSWERS.

    record: RECEIVER of the packet's queue pair.
    """
    counters, constants, item = pool.counters, pool.constants, pool.packets[np.uint64(packet)]
    payload = np.int64(item.size_bytes) - constants[HEADER_BYTES]
    record.received_bytes += payload
    result = 0
    if constants[IS_SELECTIVE]:
        _name_no_range(pool.extra, constants, packet)
    if item.sequence != record.expected_byte and constants[IS_SELECTIVE]:
        bits = _take_early(pool, ranges, record, packet, payload)
    elif item.sequence != record.expected_byte:
        if not _asks_again(record, constants, item.sequence, now_ps):
            return result
        bits = FLAG_ACK | FLAG_NACK if item.sequence > record.expected_byte else FLAG_ACK
        if constants[NS3_BACK_TO_ZERO]:
            record.expected_byte = record.expected_byte // constants[NS3_CHUNK_BYTES] * constants[NS3_CHUNK_BYTES]
    else:
        record.expected_byte += payload
        if item.bits & FLAG_LAST:
            row = counters[N_ARRIVAL_ROW]
            counters[N_ARRIVAL_ROW] = row + 1
            arrival_rows[np.uint64(row), 0] = pool.label[np.uint64(packet)]
            arrival_rows[np.uint64(row), 1] = now_ps
            record.n_arrived += 1
            result = ENDS_MESSAGE
        fills_hole = record.held_range >= 0  # then it is acknowledged at once (RFC 5681 section 4.2)
        if fills_hole and absorb(ranges, counters, record, item.queue_pair, arrival_rows, now_ps):
            result = ENDS_MESSAGE
        if constants[ACK_EVERY] != 1 and not fills_hole and not _is_due(record, constants, item.bits):
            return result
        bits = FLAG_ACK
    record.n_unacked = 0
    if item.bits & FLAG_MARKED:
        bits |= FLAG_MARKED
        if now_ps >= record.cnp_after_ps:
            bits |= FLAG_CNP
            record.cnp_after_ps = now_ps + constants[CNP_INTERVAL_PS]
    item.sequence = record.expected_byte
    item.bits = bits
    item.size_bytes = constants[ACK_BYTES]
    item.path = record.ack_path + 1
    if constants[IS_NS3] == 0:
        item.queue = 0
    return result | ANSWERS


@step_kernel
def _name_no_range(extra, constants, packet):
    extra[np.uint64(packet), np.uint64(constants[SACK_COLUMN])] = 0
    extra[np.uint64(packet), np.uint64(constants[SACK_COLUMN] + 1)] = 0


@step_kernel
def _take_early(pool: PacketPool, ranges, record, packet, payload):
    """Selective repeat: keep a packet out of order, or pass over a duplicate; the bits of its acknowledgement."""
    apart()
    extra, item, sack = pool.extra, pool.packets[np.uint64(packet)], pool.constants[SACK_COLUMN]
    if item.sequence < record.expected_byte:
        return FLAG_ACK
    is_last = item.bits & FLAG_LAST != 0
    flow_id = pool.label[np.uint64(packet)]
    first, end = hold(ranges, pool.counters, record, item.sequence, payload, is_last, flow_id)
    extra[np.uint64(packet), np.uint64(sack)], extra[np.uint64(packet), np.uint64(sack + 1)] = first, end
    return FLAG_ACK | FLAG_NACK


@step_kernel
def _is_due(record, constants, bits):
    """Whether a packet in order is acknowledged now. ACK_EVERY 0: by ns-3's rule."""
    if constants[ACK_EVERY] == 0:
        expected, chunk = record.expected_byte, constants[NS3_CHUNK_BYTES]
        return expected >= constants[NS3_ACK_INTERVAL_BYTES] or expected % chunk == 0
    record.n_unacked += 1
    return record.n_unacked >= constants[ACK_EVERY] or bits & (FLAG_LAST | FLAG_MARKED) != 0


@step_kernel
def _asks_again(record, constants, sequence, now_ps):
    """Whether a packet out of order is answered: a hole once, and again after an interval; a duplicate always."""
    apart()
    if sequence < record.expected_byte:
        return constants[IS_NS3] == 0
    if now_ps < record.nack_after_ps and record.nack_byte == record.expected_byte:
        return False
    record.nack_after_ps = now_ps + constants[NACK_INTERVAL_PS]
    record.nack_byte = record.expected_byte
    return True
