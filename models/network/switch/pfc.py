"""Priority flow control at a switch: pause and resume frames, sent and obeyed (IEEE 802.1Qbb, without quanta).

A pause lasts until the resume. Frames go first at the port and are not charged to any buffer; in ns-3 mode they share
queue 0. How a host obeys is in `host`.
"""

import numpy as np

from models.network.host.nic import take_packet
from models.network.state.records import FLAG_FRAME, FRAME_BYTES, IS_NS3, Fabric
from models.network.state.switch_state import Buffers
from models.network.switch.egress import add_frame, enqueue
from pdes.engine.jit import step_kernel

PAUSE, RESUME = 1, 0


@step_kernel
def make_frame(fabric: Fabric, i_queue, action):
    """A PFC frame about a queue."""
    packet = take_packet(fabric.packets, fabric.counters)
    item = fabric.packets[np.uint64(packet)]
    item.sequence, item.queue_pair, item.path = action, -1, 0
    item.size_bytes, item.bits, item.queue = fabric.constants[FRAME_BYTES], FLAG_FRAME, i_queue
    return packet


@step_kernel
def queue_frame(fabric: Fabric, buffers: Buffers, port, packet):
    """Let a frame wait at a port, before everything else; in ns-3 mode at the end of queue 0."""
    if fabric.constants[IS_NS3]:
        item = fabric.packets[np.uint64(packet)]
        about = item.queue
        item.queue = 0
        enqueue(buffers.managed, buffers.queues, fabric.packets, fabric.constants, port, packet)
        item.queue = about
    else:
        add_frame(buffers.managed[np.uint64(port)], fabric.packets, packet)


@step_kernel
def obey(record, out, item, now_ps):
    """Take a frame's word at the port it is for. record, out: the port's MANAGED_PORT and EGRESS; item: the frame."""
    bit = np.int32(1 << np.int64(item.queue))
    if item.sequence == PAUSE:
        if record.paused == 0:
            out.paused_since_ps = now_ps
        record.paused |= bit
        return
    if record.paused == bit:
        out.paused_ps += now_ps - out.paused_since_ps
    record.paused &= ~bit
