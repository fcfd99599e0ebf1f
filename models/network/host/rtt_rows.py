"""Round-trip times of one flow's packets, as rows: what `[output] rtt_of_flow` asks for.

A packet carries nothing for it but the time at which it was sent. Which one an acknowledgement answers follows from
the byte that is expected next: the packet before it. Where that would be a guess there is no row: for NACKs, once a
packet of the message was sent again (Karn and Partridge 1987), and, with selective repeat, for more than one packet.
"""

import numpy as np

from models.network.state.packet_pool import PacketPool
from models.network.state.records import EXTRA_SENT_PS, FLAG_NACK, IS_SELECTIVE, N_RTT_ROW, PAYLOAD_BYTES, RTT_FLOW
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel

MAX_RTT_ROWS = 1_000_000


@step_kernel
def note_rtt(pool: PacketPool, record, messages, rtt_rows, packet, now_ps):
    """Write a row if an acknowledgement, not yet taken, answers a packet of the flow. record: QUEUE_PAIR of the sender.

    rtt_rows: int64[n, 3], see RTT_COLUMNS; the sequence counts from the flow's first byte. Beyond n rows: none.
    """
    apart()
    item, counters, constants = pool.packets[np.uint64(packet)], pool.counters, pool.constants
    place, payload_bytes = np.int64(record.first_message), constants[PAYLOAD_BYTES]
    newly_bytes = item.sequence - record.acked_byte
    if place < 0 or newly_bytes <= 0 or item.bits & FLAG_NACK or record.resent_bytes > 0:
        return
    if constants[IS_SELECTIVE] and newly_bytes > payload_bytes:
        return
    message, row = messages[np.uint64(place)], counters[N_RTT_ROW]
    if message.flow_id != constants[RTT_FLOW] or item.sequence > message.end_byte or row >= rtt_rows.shape[0]:
        return
    counters[N_RTT_ROW] = row + 1
    sent_ps, out = pool.extra[np.uint64(packet), EXTRA_SENT_PS], rtt_rows[np.uint64(row)]
    last_byte = item.sequence - 1 - (message.end_byte - message.size_bytes)
    out[0], out[1], out[2] = last_byte // payload_bytes * payload_bytes, sent_ps, now_ps - sent_ps
