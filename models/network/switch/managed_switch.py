"""Switches with all they can have: shared buffers, PFC, several queues, telemetry. `switch` is the plain one.

The same lazy service as there: a port's transmissions are carried out when something else happens at the port, or at
the end of the node's window. What spans ports, the shared buffer, is right in spite of that, because late books only
overstate what is held: a packet that fits by them fits. When that is not sure, all ports of the switch are served up to
the present first. While the switch pauses a sender its ports are served in order of time, as a transmission may then
end a pause.
"""

import numpy as np

from models.network.host.interrupts import interrupt_at_switch, put_back_on_wire
from models.network.host.nic import free_packet
from models.network.link.link_changes import change_link
from models.network.link.link_order import gather_links, leave_links, take_first
from models.network.link.loss import NOT_LOST, drop_packet, why_lost
from models.network.link.wire_time import transmission_ps
from models.network.state.parameters import STRICT
from models.network.state.records import (
    EVENTS,
    FAULT,
    FAULT_NODE,
    FLAG_FRAME,
    HAS_BUFFER,
    LINK_BITS,
    N_FREE_PACKET,
    N_QUEUE,
    NS3_IGNORES_PFC,
    PACKET_HOPS,
    SCHEDULER,
    Fabric,
)
from models.network.state.switch_state import DROP_BUFFER, DROP_LINK, Buffers, Routing
from models.network.switch.departures import (
    chain_port,
    close_window,
    depart,
    first_startable,
    send_frame,
    serve,
    serve_all,
    serve_until,
)
from models.network.switch.egress import enqueue, is_startable
from models.network.switch.forwarding import ADAPTIVE_WAY, Ways, choose_way, draw_way, way_at
from models.network.switch.pfc import PAUSE, obey
from models.network.switch.shared_buffer import (
    ADMITTED,
    DROPPED,
    MUST_PAUSE,
    UNSURE,
    admit,
    fits_in_any_case,
    is_unsure,
)
from models.network.switch.switch import FAULT_QUEUE_OVERFLOW
from models.network.watch.tracing import (
    ARRIVED,
    IS_TRACED,
    NOTHING,
    QUEUED,
    STARTED,
    trace_packet,
    trace_pause,
)
from pdes.engine.jit import step_kernel
from pdes.engine.prefetch import prefetch
from pdes.engine.time_index import NEVER, set_time

PAUSED_WAIT_PS = 2**50  # adaptive routing: a paused port counts as this busy
FRAMES_PER_EVENT = 4  # packets that one event may take from the pool, at most


@step_kernel
def _take_frame(fabric: Fabric, buffers: Buffers, node, node_id, packet, in_port, now_ps):
    """Obey a PFC frame at the port it is for; packets that start because of it."""
    port = np.int64(buffers.inlets[np.uint64(in_port)].peer)
    n_started = 0
    buffers.egress[np.uint64(port)].n_pause += fabric.packets[np.uint64(packet)].sequence
    if fabric.constants[NS3_IGNORES_PFC] == 0:
        n_started += serve_until(fabric, buffers, node, node_id, port, now_ps)
        record = buffers.managed[np.uint64(port)]
        if IS_TRACED:
            frame = fabric.packets[np.uint64(packet)]
            trace_pause(fabric.counters, port, np.int64(frame.queue), frame.sequence, now_ps)
        obey(record, buffers.egress[np.uint64(port)], fabric.packets[np.uint64(packet)], now_ps)
        if record.free_at_ps < now_ps and is_startable(record):
            record.free_at_ps = now_ps  # it stood idle because of the pause
        n_started += serve_until(fabric, buffers, node, node_id, port, now_ps)
    free_packet(fabric.packets, fabric.counters, packet)
    return n_started


@step_kernel
def _admit_exactly(fabric: Fabric, buffers: Buffers, node, node_id, packet, in_port, port, now_ps):
    """Charge a packet that may not fit, with all ports served up to now; (what `admit` returns, packets started).

    UNSURE: something is frozen here that has a say in it; nothing is charged.
    """
    constants, n_started, item = fabric.constants, 0, fabric.packets[np.uint64(packet)]
    size_bytes, i_queue = np.int64(item.size_bytes), np.int64(item.queue)
    switch, inlet = buffers.switches[np.uint64(node_id)], buffers.inlets[np.uint64(in_port)]
    held = buffers.ingress[np.uint64(in_port * constants[N_QUEUE] + i_queue)]
    if switch.n_pausing == 0:
        n_started += serve_all(fabric, buffers, node, node_id, now_ps)
    if switch.limit_bytes < switch.pool_bytes:
        if fits_in_any_case(switch, inlet, held, constants, size_bytes):
            return ADMITTED, n_started
        if is_unsure(switch, held, constants, size_bytes):
            return UNSURE, n_started
    result = admit(switch, inlet, held, constants, size_bytes)
    if result == DROPPED:
        drop_packet(
            fabric.packets, fabric.dropped, buffers.drops, fabric.counters, constants, packet, port, DROP_BUFFER
        )
    if result == MUST_PAUSE:
        held.is_pausing = 1
        switch.n_pausing += 1
        back = np.int64(inlet.peer)
        n_started += serve_until(fabric, buffers, node, node_id, back, now_ps)
        n_started += send_frame(fabric, buffers, node, back, i_queue, PAUSE, now_ps)
    return result, n_started


@step_kernel
def _apply_changes(fabric: Fabric, buffers: Buffers, node, node_id, limit_ps):
    """Let the changes of this switch's links up to limit_ps happen, each before all else of its instant.

    What waits at a port goes at the old rate until then. Packets started.
    """
    n_started = 0
    while node.next_change < node.end_change:
        change = buffers.changes[np.uint64(node.next_change)]
        if change.time_ps > limit_ps:
            break
        if change.is_sender:
            n_started += serve_until(fabric, buffers, node, node_id, np.int64(change.port), change.time_ps - 1)
        change_link(buffers.inlets, fabric.port_info, change)
        node.next_change += 1
    return n_started


@step_kernel
def _least_busy(fabric: Fabric, buffers: Buffers, ways: Ways, node, node_id, packet, in_port, now_ps):
    """The candidate whose port is done soonest with what waits there, drawn among equals; (port, packets started)."""
    constants, n_started, n_way = fabric.constants, 0, ways.end - ways.first
    first, best_ps, best = draw_way(buffers.inlets, constants, in_port, n_way), NEVER, np.int64(-1)
    for k in range(n_way):
        port = way_at(ways.port, ways.first + (first + k) % n_way, ways.is_direct)
        n_started += serve_until(fabric, buffers, node, node_id, port, now_ps)
        record = buffers.managed[np.uint64(port)]
        queued_bytes = np.int64(record.queued_bytes)
        queued_bytes += np.int64(buffers.queues[np.uint64(port * constants[N_QUEUE])].queued_bytes)
        wait_ps = max(0, record.free_at_ps - now_ps)
        wait_ps += transmission_ps(queued_bytes, fabric.port_info[np.uint64(port)].rate_bps, 0)
        if (record.paused >> fabric.packets[np.uint64(packet)].queue) & 1:
            wait_ps += PAUSED_WAIT_PS
        if wait_ps < best_ps:
            best_ps, best = wait_ps, port
    return best, n_started


@step_kernel
def _wait(fabric: Fabric, buffers: Buffers, node, node_id, record, port, packet, now_ps):
    """Queue a packet at a port that is busy, or paused for it, or that takes turns by weight."""
    record.free_at_ps = max(record.free_at_ps, now_ps)
    if not enqueue(buffers.managed, buffers.queues, fabric.packets, fabric.constants, port, packet):
        fabric.counters[FAULT], fabric.counters[FAULT_NODE] = FAULT_QUEUE_OVERFLOW, node_id
    chain_port(fabric.port_info[np.uint64(port)], node, port)
    if IS_TRACED:
        trace_packet(fabric.counters, fabric.packets, packet, QUEUED, now_ps, port, np.int64(record.queued_bytes))


@step_kernel
def run_managed_switches(fabric: Fabric, buffers: Buffers, routing: Routing, todo, begin_ps, horizon_ps):
    """Run switches, int64[] todo, from begin_ps to their bounds, at most horizon_ps; False if packets run short.

    begin_ps: no event before it remains anywhere on the rank. A node may run to begin_ps + its safe_ps.
    """
    managed, ingress, egress, inlets = buffers.managed, buffers.ingress, buffers.egress, buffers.inlets
    ports, port_info, packets, path_port = fabric.ports, fabric.port_info, fabric.packets, fabric.path_port
    nodes, mask, counters, constants = fabric.nodes, fabric.mask, fabric.counters, fabric.constants
    slots, keys, shift = fabric.link_slots, fabric.link_keys, fabric.constants[LINK_BITS]
    low_bits, n_queue = (np.int64(1) << shift) - 1, constants[N_QUEUE]
    has_buffer, takes_turns = constants[HAS_BUFFER] != 0, constants[SCHEDULER] != STRICT
    n_hop, n_event, n_safe, is_short = 0, 0, 0, False
    for i_node in range(todo.size):
        node_id, n_before = todo[np.uint64(i_node)], n_hop + n_event
        node, switch = nodes[np.uint64(node_id)], buffers.switches[np.uint64(node_id)]
        bound_ps, is_stopped = min(horizon_ps, begin_ps + node.safe_ps), False
        is_lossy, changes = node.is_lossy != 0, node.next_change < node.end_change
        n_link, n_leaf = gather_links(node, begin_ps, ports, packets, mask, slots, keys, shift)
        while True:
            key = keys[np.uint64(1)]
            now_ps = begin_ps + (key >> shift)
            n_safe -= 1
            if n_safe < 0:  # so many events, and this one, cannot run out of packets
                n_safe = counters[N_FREE_PACKET] // FRAMES_PER_EVENT - 1
                is_short = n_safe < 0
                if is_short:
                    break
            packet, port, in_port, limit_ps = np.int64(-1), np.int64(-1), np.int64(-1), now_ps
            start_ps, start_port = NEVER, np.int64(-1)
            if switch.n_pausing > 0:
                start_ps, start_port = first_startable(managed, port_info, node)
            if changes:
                n_hop += _apply_changes(fabric, buffers, node, node_id, min(start_ps, now_ps, bound_ps - 1))
            if start_port >= 0:
                if start_ps <= now_ps and start_ps < bound_ps:
                    port, limit_ps = start_port, start_ps
            if port < 0:
                if now_ps >= bound_ps:
                    break
                slot = key & low_bits
                in_port = slots[np.uint64(slot)].port
                packet = take_first(packets, slots, keys, slot, n_leaf, begin_ps, shift)
                prefetch(fabric.extra, slots[np.uint64(slot)].packet)
                n_event += 1
                item = packets[np.uint64(packet)]
                if IS_TRACED:  # twice, if it is put back: equal rows count once
                    trace_packet(counters, packets, packet, ARRIVED, now_ps, in_port, NOTHING)
                if is_lossy:
                    cause = why_lost(packets, ports, inlets, constants, packet, in_port)
                    if cause != NOT_LOST:
                        drop_packet(packets, fabric.dropped, buffers.drops, counters, constants, packet, in_port, cause)
                        continue
                if item.bits & FLAG_FRAME:
                    n_hop += _take_frame(fabric, buffers, node, node_id, packet, in_port, now_ps)
                    continue
                port = np.int64(path_port[np.uint64(item.path)])
                if port >= 0:
                    item.path += 1
                else:
                    port, ways = choose_way(routing, inlets, constants, item, node_id, port, in_port, now_ps)
                    if port == ADAPTIVE_WAY:
                        port, n_more = _least_busy(fabric, buffers, ways, node, node_id, packet, in_port, now_ps)
                        n_hop += n_more
                    if port < 0:
                        drop_packet(
                            packets, fabric.dropped, buffers.drops, counters, constants, packet, in_port, DROP_LINK
                        )
                        continue
            n_hop += serve(fabric, buffers, node, switch, port, limit_ps)
            if packet < 0:
                continue
            item = packets[np.uint64(packet)]
            i_queue = np.int64(item.queue)
            if has_buffer and i_queue > 0:
                held, inlet = ingress[np.uint64(in_port * n_queue + i_queue)], inlets[np.uint64(in_port)]
                if not fits_in_any_case(switch, inlet, held, constants, np.int64(item.size_bytes)):
                    result, n_more = _admit_exactly(fabric, buffers, node, node_id, packet, in_port, port, now_ps)
                    n_hop += n_more
                    if result == UNSURE:
                        leave_links(node, ports, mask, slots, n_link)
                        n_link = 0
                        put_back_on_wire(fabric, inlet, node, packet, in_port)
                        interrupt_at_switch(fabric, switch, node_id, now_ps)
                        n_event -= 1
                        bound_ps, is_stopped = now_ps, True
                        break
                    if result == DROPPED:
                        continue
            item.arrival_ps = in_port  # of no use while it waits: this is what its release needs
            record = managed[np.uint64(port)]
            if record.free_at_ps > now_ps or (record.paused >> i_queue) & 1:
                _wait(fabric, buffers, node, node_id, record, port, packet, now_ps)
            else:
                if takes_turns and i_queue > 0:
                    egress[np.uint64(port)].turn = i_queue
                n_hop += depart(fabric, buffers, node, switch, port, packet, now_ps, STARTED)
        leave_links(node, ports, mask, slots, n_link)
        if is_short:
            break
        next_ps = NEVER if keys[np.uint64(1)] == NEVER and not is_stopped else now_ps
        if changes:
            n_hop += _apply_changes(fabric, buffers, node, node_id, bound_ps - 1)
        n_more, soon_ps = close_window(fabric, buffers, node, node_id, bound_ps)
        n_hop += n_more
        set_time(fabric.node_time, node_id, min(next_ps, soon_ps))
        fabric.n_step[np.uint64(node_id)] += 1 + n_hop + n_event - n_before
    counters[PACKET_HOPS] += n_hop
    counters[EVENTS] += n_event
    return not is_short
