"""What ends a freeze in the middle of a round (design R9): a message posted on a way through a frozen port, or a packet
that comes to a switch where frozen ports have a say in what becomes of it (`room`).

The logical process of the host or switch stops at that instant and goes on in the next round, after the frozen network
partition has been thawed. Nothing that it would send could have been seen by another logical process within the round.
Its nodes that are behind go on to the earliest such instant; some may have come further, as far as their windows
allowed.
"""

import numpy as np

from models.network.state.records import N_CROWDED, N_FROZEN_PORT, N_INTERRUPT, N_STOPPED, Fabric, Nic
from models.network.state.switch_state import FIRST_ROUTE
from pdes.engine.apart import apart
from pdes.engine.bits import BIT_MASK, WORD_SHIFT
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER, set_time


@step_kernel
def passes_frozen_port(path_port, frozen_port, first_row):
    """Whether a path, from its first row of path_port to its end, has a frozen port (1), or else a watched one (2)."""
    row, found = first_row, 0
    port = np.int64(path_port[np.uint64(row)])
    while port >= 0:
        kind = np.int64(frozen_port[np.uint64(port)])
        if kind == 1:
            return 1
        found = max(found, kind)
        row += 1
        port = np.int64(path_port[np.uint64(row)])
    return found if port == -1 else 1  # a way that switches choose may lead anywhere


@step_kernel
def meets_frozen(fabric: Fabric, nic: Nic, pair):
    """Whether what is posted on an idle queue pair meets a frozen port, on its way or its ACKs' (1), or else one of a
    network partition that others wait for (2)."""
    if fabric.counters[N_FROZEN_PORT] == 0:
        return 0
    facts = nic.facts[np.uint64(pair)]
    data = passes_frozen_port(fabric.path_port, nic.frozen_port, np.int64(facts.data_path))
    acks = passes_frozen_port(fabric.path_port, nic.frozen_port, np.int64(facts.ack_path))
    return min(data, acks) if data > 0 and acks > 0 else max(data, acks)


@step_kernel
def interrupt(fabric: Fabric, nic: Nic, record, pair, kind, now_ps):
    """Note that a queue pair has to send from now_ps on through frozen ports (kind 1: its logical process stops), or
    through watched ones."""
    apart()
    counters = fabric.counters
    if nic.interrupt_ps[np.uint64(pair)] == NEVER:
        nic.interrupted[np.uint64(counters[N_INTERRUPT])] = pair
        nic.interrupt_ps[np.uint64(pair)] = now_ps
        counters[N_INTERRUPT] += 1
    if kind != 1:
        return
    record.next_send_ps = max(record.next_send_ps, now_ps)
    _hold_ports(fabric, nic, record.node, now_ps)
    _stop(fabric, record.node, now_ps)


@step_kernel
def _hold_ports(fabric: Fabric, nic: Nic, node_id, now_ps):
    """Have the ports of a host that stops at now_ps start nothing sooner, whenever somebody asks when they start next.

    An idle port is free since some instant before. What the event that stops the host has posted, acknowledged or let
    into a window on another queue pair would else count as ready since then.
    """
    node = fabric.nodes[np.uint64(node_id)]
    for k in range(node.first_out, node.end_out):
        port = np.uint64(nic.out_port[np.uint64(k)])
        if nic.frozen_port[port] != 1:
            fabric.ports[port].free_at_ps = max(fabric.ports[port].free_at_ps, now_ps)


@step_kernel
def _stop(fabric: Fabric, node, now_ps):
    """Let a node's logical process run no further than to now_ps in this round."""
    lp = np.uint64(fabric.lp_of_node[np.uint64(node)])
    fabric.stop_ps[lp] = min(fabric.stop_ps[lp], now_ps)


@step_kernel
def interrupt_at_switch(fabric: Fabric, switch, node, now_ps):
    """Note that a packet has come at now_ps in which what is frozen at a switch (its SWITCH record) has a say."""
    apart()
    switch.interrupt_ps = now_ps
    fabric.counters[N_CROWDED] += 1
    _stop(fabric, node, now_ps)


@step_kernel
def put_back_on_wire(fabric: Fabric, inlet, node, packet, in_port):
    """Undo that a switch has taken a packet: it comes again. inlet: the link's INLET, node: the switch's NODE."""
    apart()
    item = fabric.packets[np.uint64(packet)]
    if fabric.path_port[np.uint64(item.path)] > FIRST_ROUTE:  # else the switch chose, and may choose again
        item.path -= 1
    if node.is_lossy and inlet.loss_probability > 0.0:
        inlet.n_loss_draw -= 1
    fabric.ports[np.uint64(in_port)].link_head = packet
    bit = in_port - node.first_in
    fabric.mask[np.uint64(node.first_mask + (bit >> WORD_SHIFT))] |= np.int64(1) << (bit & BIT_MASK)


@step_kernel
def is_interrupted(counters):
    """Whether anything has been interrupted in this round."""
    return counters[N_INTERRUPT] + counters[N_CROWDED] > 0


@step_kernel
def stop_of(fabric: Fabric, node):
    """Where a node's logical process stops in this round, NEVER if it does not."""
    return fabric.stop_ps[np.uint64(fabric.lp_of_node[np.uint64(node)])] if is_interrupted(fabric.counters) else NEVER


@step_kernel
def is_stopped(fabric: Fabric, node):
    """Whether a node runs no further in this round."""
    return fabric.node_time[np.uint64((fabric.node_time.size >> 1) + node)] >= stop_of(fabric, node)


@step_kernel
def set_aside(fabric: Fabric, node):
    """Take a node of a stopped logical process out of the time index until the round ends."""
    apart()
    at = np.uint64((fabric.node_time.size >> 1) + node)
    if fabric.stopped_ps[np.uint64(node)] == NEVER:
        fabric.stopped_node[np.uint64(fabric.counters[N_STOPPED])] = node
        fabric.counters[N_STOPPED] += 1
    fabric.stopped_ps[np.uint64(node)] = min(fabric.stopped_ps[np.uint64(node)], fabric.node_time[at])
    set_time(fabric.node_time, node, NEVER)


@step_kernel
def put_back(fabric: Fabric):
    """At the round's end: let the stopped nodes have their events again."""
    for i in range(fabric.counters[N_STOPPED]):
        node = np.int64(fabric.stopped_node[np.uint64(i)])
        at = np.uint64((fabric.node_time.size >> 1) + node)
        set_time(fabric.node_time, node, min(fabric.node_time[at], fabric.stopped_ps[np.uint64(node)]))
        fabric.stopped_ps[np.uint64(node)] = NEVER
    fabric.counters[N_STOPPED] = 0
