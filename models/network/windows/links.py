"""Links as rings, and nodes' own places for packets that wait: putting, taking and carrying packets."""

import numpy as np

from models.network.link.port import wire_time_ps
from models.network.state.records import EXTRA_HOPS, EXTRA_N_HOP, N_EXTRA, N_HOP_MASK, N_INT_WORD, WORDS_PER_HOP
from models.network.windows.state import GROWTH, STOPPED, Windows
from pdes.engine.jit import fast_step, step_kernel


@fast_step
def has_room(wire):
    """Whether a link takes another packet, by what its receiver had taken when the window began."""
    return wire.tail - wire.seen_head <= wire.mask


@step_kernel
def stop_for_room(w: Windows, wire):
    """Note that a link has to grow before its sender goes on."""
    wire.n_wanted = GROWTH * (wire.mask + 1)
    w.status[STOPPED] = 1


@step_kernel
def stop_for_place(w: Windows, spot):
    """Note that a node needs more places before it goes on."""
    spot.n_wanted = (GROWTH - 1) * spot.n_place
    w.status[STOPPED] = 1


@fast_step
def take_place(packets, spot):
    """One of a node's free places; there is one."""
    place = np.int64(spot.free)
    spot.free = packets[np.uint64(place)].next
    return place


@fast_step
def give_place(packets, spot, place):
    """Put a place back."""
    packets[np.uint64(place)].next = spot.free
    spot.free = place


@fast_step
def head_of(wire):
    """Where the first packet of a link is that its receiver has not taken."""
    return wire.first + (wire.head & wire.mask)


@fast_step
def tail_of(wire):
    """Where the next packet of a link goes."""
    return wire.first + (wire.tail & wire.mask)


@fast_step
def carry(w: Windows, constants, source, target):
    """Copy a packet with all that it carries, but for its arrival and what follows it."""
    item, other = w.packets[np.uint64(source)], w.packets[np.uint64(target)]
    other.sequence, other.queue_pair, other.path = item.sequence, item.queue_pair, item.path
    other.size_bytes, other.bits, other.queue = item.size_bytes, item.bits, item.queue
    w.label[np.uint64(target)] = w.label[np.uint64(source)]
    n_word = constants[N_EXTRA]
    if constants[N_INT_WORD] > 0:
        n_hop = w.extra[np.uint64(source), np.uint64(EXTRA_N_HOP)] & N_HOP_MASK
        n_word = min(n_word, EXTRA_HOPS + WORDS_PER_HOP * n_hop)
    for k in range(n_word):
        w.extra[np.uint64(target), np.uint64(k)] = w.extra[np.uint64(source), np.uint64(k)]


@fast_step
def launch(w: Windows, port, start_ps):
    """The packet at a link's tail starts: it occupies the port and is on the wire from now on."""
    record, wire = w.ports[np.uint64(port)], w.wires[np.uint64(port)]
    item = w.packets[np.uint64(tail_of(wire))]
    size_bytes = np.int64(item.size_bytes)
    free_ps = start_ps + wire_time_ps(w.ports, w.port_info, port, size_bytes)
    record.free_at_ps = free_ps
    record.tx_bytes += size_bytes
    item.arrival_ps = free_ps + record.delay_ps
    wire.tail += 1


@fast_step
def send(w: Windows, constants, port, packet, start_ps):
    """Start a packet that is elsewhere; its link has room."""
    carry(w, constants, packet, tail_of(w.wires[np.uint64(port)]))
    launch(w, port, start_ps)
