"""What is frozen is hidden from its nodes: what that takes beyond the network's state, and their next events then."""

from typing import NamedTuple

import numpy as np

from models.network.host.host import _first_arrival, _first_start
from models.network.host.timers import first_timer_ps
from models.network.state.records import (
    Fabric,
    Nic,
)
from models.network.state.switch_state import Buffers
from models.topology.graph import Topology
from pdes.engine.bits import BIT_MASK, WORD_BITS, WORD_SHIFT, lowest_bit
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER, set_time


class Hidden(NamedTuple):
    """What freezing needs beyond the network's own state. Rows for every port, queue pair and node."""

    link_head: np.ndarray  # int32[n_port]  chains of packets on hidden links
    port_src: np.ndarray  # int64[n_port]
    is_managed: np.ndarray  # int64[1]
    here: np.ndarray  # uint8[n_node]  nodes of this rank
    time_word: np.ndarray  # int64[]  words of a queue pair's control that hold an instant
    byte_word: np.ndarray  # int64[]  words that hold a byte of its stream
    hop_word: np.ndarray  # int64[]  words that hold a count of bytes that a hop has sent
    hop_of_word: np.ndarray  # int64[the same]  and which hop's
    advance_bytes: np.ndarray  # int64[n_qp]  of the partition that is thawed
    advance_sent: np.ndarray  # int64[n_port]  what its ports have sent meanwhile


class ControlWords(NamedTuple):
    """Words of a queue pair's control that mean something to a skip, see `congestion.law`."""

    times: list[int]  # that hold an instant
    places: list[int]  # that hold a byte of its stream
    hop_counts: list[int]  # that hold a count of bytes that a hop has sent
    hops: list[int]  # as many: and which hop's


def make_hidden(topology: Topology, n_pair: int, here: np.ndarray, words: ControlWords, is_managed: bool) -> Hidden:
    """Nothing is hidden. here: bool[n_node], this rank's nodes. is_managed: whether switches are."""
    return Hidden(
        link_head=np.full(topology.n_port, -1, np.int32),
        port_src=topology.port_src.astype(np.int64),
        is_managed=np.array([is_managed], np.int64),
        here=here.astype(np.uint8),
        time_word=np.array(words.times, np.int64),
        byte_word=np.array(words.places, np.int64),
        hop_word=np.array(words.hop_counts, np.int64),
        hop_of_word=np.array(words.hops, np.int64),
        advance_bytes=np.zeros(n_pair, np.int64),
        advance_sent=np.zeros(topology.n_port, np.int64),
    )


@step_kernel
def waits(fabric: Fabric, buffers: Buffers, is_managed, port):
    """(something waits at a switch's port, something of it may go)."""
    if is_managed:
        record = buffers.managed[np.uint64(port)]
        has_frame = record.frame_head >= 0
        return has_frame or record.waiting != 0, has_frame or record.waiting & ~record.paused != 0
    plain = fabric.ports[np.uint64(port)]
    some = plain.ack_head >= 0 or plain.data_head >= 0
    return some, some


@step_kernel
def _next_of_switch(fabric: Fabric, buffers: Buffers, is_managed, node):
    """A switch's next event, from its links and its ports with waiting packets."""
    least_ps = NEVER
    for w in range((node.end_in - node.first_in + WORD_BITS - 1) // WORD_BITS):
        word = fabric.mask[np.uint64(node.first_mask + w)]
        while word != 0:
            port = node.first_in + w * WORD_BITS + lowest_bit(word)
            head = np.int64(fabric.ports[np.uint64(port)].link_head)
            least_ps = min(least_ps, fabric.packets[np.uint64(head)].arrival_ps)
            word &= word - 1
    port = np.int64(node.wait_head)
    while port >= 0:
        if waits(fabric, buffers, is_managed, port)[1]:
            least_ps = min(least_ps, fabric.ports[np.uint64(port)].free_at_ps)
        port = np.int64(fabric.port_info[np.uint64(port)].wait_next)
    return least_ps


@step_kernel
def refresh(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, node_id):
    """Enter a node's next event into the time index, whatever it is now."""
    if hidden.here[np.uint64(node_id)] == 0:
        return
    node = fabric.nodes[np.uint64(node_id)]
    if node.is_switch:
        set_time(fabric.node_time, node_id, _next_of_switch(fabric, buffers, hidden.is_managed[0], node))
        return
    start_ps, _ = _first_start(node, nic.nic_ports, nic.out_port)
    arrival_ps, _ = _first_arrival(node, fabric.ports, fabric.packets)
    timer_ps = first_timer_ps(nic.timers, node)
    set_time(fabric.node_time, node_id, min(start_ps, arrival_ps, timer_ps, node.wake_ps))


@step_kernel
def refresh_all(fabric: Fabric, buffers: Buffers, nic: Nic, hidden: Hidden, ports):
    for i in range(ports.size):
        port = np.int64(ports[i])
        refresh(fabric, buffers, nic, hidden, hidden.port_src[np.uint64(port)])
        refresh(fabric, buffers, nic, hidden, np.int64(fabric.port_info[np.uint64(port)].receiver))


@step_kernel
def mark_link(fabric: Fabric, port, carries):
    """Set or clear a link's bit at its receiver."""
    node = fabric.nodes[np.uint64(fabric.port_info[np.uint64(port)].receiver)]
    bit = port - node.first_in
    at, one = np.uint64(node.first_mask + (bit >> WORD_SHIFT)), np.int64(1) << (bit & BIT_MASK)
    if carries:
        fabric.mask[at] |= one
    else:
        fabric.mask[at] &= ~one
