"""The queues of a managed switch's port: who goes next.

PFC frames go first, then queue 0 (ACKs; in ns-3 mode PFC frames and priority 0), then the data queues that are not
paused: in strict order, in turns packet by packet, or in turns by weight (deficit round robin, Shreedhar and Varghese
1995: a queue's turn adds its weight to what it may send, what is left is kept while packets wait).
"""

import numpy as np

from models.network.link.port import queue_behind
from models.network.state.parameters import ROUND_ROBIN, STRICT
from models.network.state.records import MAX_QUEUE_BYTES, N_QUEUE, SCHEDULER
from pdes.engine.bits import lowest_bit
from pdes.engine.jit import step_kernel

FRAMES = -1  # what choose_queue returns for the chain of PFC frames
NO_QUEUE = -2


@step_kernel
def enqueue(managed, queues, packets, constants, port, packet):
    """Let a packet wait at a port; False if the queue passed what there may be."""
    item, record = packets[np.uint64(packet)], managed[np.uint64(port)]
    i_queue = np.int64(item.queue)
    queue = queues[np.uint64(port * constants[N_QUEUE] + i_queue)]
    record.waiting |= np.int32(1 << i_queue)
    queue.head = queue_behind(packets, np.int64(queue.head), np.int64(queue.tail), packet)
    queue.tail = packet
    size_bytes = np.int64(item.size_bytes)
    queue.queued_bytes += size_bytes
    if i_queue > 0:
        record.queued_bytes += size_bytes
        record.max_queued_bytes = max(record.max_queued_bytes, record.queued_bytes)
    return queue.queued_bytes <= MAX_QUEUE_BYTES


@step_kernel
def add_frame(record, packets, packet):
    """Let a PFC frame wait at a port, behind other frames and before everything else. record: MANAGED_PORT."""
    record.frame_head = queue_behind(packets, np.int64(record.frame_head), np.int64(record.frame_tail), packet)
    record.frame_tail = packet


@step_kernel
def is_startable(record):
    """Whether something waits that may go. record: MANAGED_PORT."""
    return record.frame_head >= 0 or record.waiting & ~record.paused != 0


@step_kernel
def choose_queue(record, egress, queues, packets, constants, weight_bytes, port):
    """The queue that a port serves next, FRAMES, or NO_QUEUE if nothing may go; takes turns. record: MANAGED_PORT."""
    ready = np.int64(record.waiting & ~record.paused)
    if record.frame_head >= 0:
        return FRAMES
    if ready == 0:
        return NO_QUEUE
    if ready & 1 or constants[SCHEDULER] == STRICT:
        return lowest_bit(ready)
    return _in_turn(egress, queues, packets, constants, weight_bytes, port, ready)


@step_kernel
def _in_turn(egress, queues, packets, constants, weight_bytes, port, ready):
    out = egress[np.uint64(port)]
    if constants[SCHEDULER] == ROUND_ROBIN:
        out.turn = _behind(ready, out.turn)
        return out.turn
    return _weighted(out, queues, packets, weight_bytes, ready, port * constants[N_QUEUE])


@step_kernel
def _behind(ready, turn):
    """The next ready queue behind the one whose turn was last, going around."""
    later = ready >> (turn + 1)
    return turn + 1 + lowest_bit(later) if later != 0 else lowest_bit(ready)


@step_kernel
def _weighted(out, queues, packets, weight_bytes, ready, first):
    """Deficit round robin among the ready queues; every weight is at least the largest packet."""
    i_queue = out.turn
    while True:
        queue = queues[np.uint64(first + i_queue)]
        if (ready >> i_queue) & 1:
            size_bytes = np.int64(packets[np.uint64(queue.head)].size_bytes)
            if queue.deficit_bytes >= size_bytes:
                queue.deficit_bytes -= size_bytes
                return i_queue
        i_queue = _behind(ready, i_queue)
        out.turn = i_queue
        queues[np.uint64(first + i_queue)].deficit_bytes += weight_bytes[np.uint64(i_queue)]


@step_kernel
def take_from_queue(record, queues, packets, constants, port, i_queue):
    """Take the first packet of a queue, or of the PFC frames. record: MANAGED_PORT."""
    if i_queue == FRAMES:
        packet = np.int64(record.frame_head)
        record.frame_head = packets[np.uint64(packet)].next
        return packet
    queue = queues[np.uint64(port * constants[N_QUEUE] + i_queue)]
    packet = np.int64(queue.head)
    item = packets[np.uint64(packet)]
    queue.head = item.next
    if item.next < 0:
        record.waiting &= np.int32(~(1 << i_queue))
        queue.deficit_bytes = 0
    size_bytes = np.int64(item.size_bytes)
    queue.queued_bytes -= size_bytes
    if i_queue > 0:
        record.queued_bytes -= size_bytes
    return packet
