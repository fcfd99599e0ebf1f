"""Packets that go: random loss on a link, and the books that conservation (design R8) keeps of every packet dropped."""

import numpy as np

from models.network.host.nic import free_packet
from models.network.state.records import FIRST_PORT, FLAG_ACK, FLAG_FRAME, HEADER_BYTES, IS_NS3, SEED
from models.network.state.switch_state import DROP_LINK, DROP_LOSS
from models.network.watch.tracing import DROPPED, IS_TRACED, NOTHING, trace_packet
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel
from pdes.engine.rng import uniform
from pdes.random_plain import PURPOSE_LOSS

NOT_LOST = -1


@step_kernel
def drop_packet(packets, dropped, drops, counters, constants, packet, port, cause):
    """Drop a packet for a cause (DROP_*), counted at a port and for its queue pair, and free it."""
    apart()
    item = packets[np.uint64(packet)]
    drops[np.uint64(port), cause] += 1
    if IS_TRACED:  # it has just come
        trace_packet(counters, packets, packet, DROPPED + cause, item.arrival_ps, port, NOTHING)
    if item.bits & FLAG_FRAME == 0:
        pair = np.uint64(item.queue_pair)
        if item.bits & FLAG_ACK:
            dropped[pair, 1] += 1
        else:
            dropped[pair, 0] += np.int64(item.size_bytes) - constants[HEADER_BYTES]
    free_packet(packets, counters, packet)


@step_kernel
def why_lost(packets, ports, inlets, constants, packet, in_port):
    """Why the packet that has come in over a link is lost, DROP_LINK or DROP_LOSS; NOT_LOST if it is not.

    A link that was down while the packet's last bit left or arrived, or since, carries nothing. Random loss is one draw
    per packet, by the link's own count (R3). PFC frames are lost in ns-3 mode alone: a real pause ends by itself, so
    that a resume which is lost must not stop a port for ever.
    """
    apart()
    inlet, item = inlets[np.uint64(in_port)], packets[np.uint64(packet)]
    is_immune = item.bits & FLAG_FRAME != 0 and constants[IS_NS3] == 0
    if item.arrival_ps - ports[np.uint64(in_port)].delay_ps < inlet.up_since_ps and not is_immune:
        return DROP_LINK
    if inlet.loss_probability <= 0.0:
        return NOT_LOST
    draw = inlet.n_loss_draw
    inlet.n_loss_draw = draw + 1
    is_drawn = uniform(constants[SEED], in_port - constants[FIRST_PORT], PURPOSE_LOSS, draw) < inlet.loss_probability
    return DROP_LOSS if is_drawn and not is_immune else NOT_LOST
