"""Packets leave the ports of a managed switch: queues are served, and what a departure does to buffers and senders.

A packet that leaves gives back its buffer, may let a paused sender go on, may be marked, is stamped, and goes on the
wire. `managed_switch` has when ports are served; `egress` which queue goes next.
"""

import numpy as np

from models.network.link.port import is_marked, send_now
from models.network.state.records import (
    FLAG_ACK,
    FLAG_FRAME,
    FLAG_MARKED,
    HAS_BUFFER,
    N_QUEUE,
    NOT_CHAINED,
    TELEMETRY,
    TELEMETRY_INT,
    Fabric,
)
from models.network.state.switch_state import Buffers
from models.network.switch.egress import NO_QUEUE, choose_queue, is_startable, take_from_queue
from models.network.switch.pfc import RESUME, make_frame, queue_frame
from models.network.switch.shared_buffer import (
    may_resume,
    release,
)
from models.network.switch.telemetry import stamp_int, stamp_pint
from models.network.watch.tracing import (
    DEQUEUED,
    IS_TRACED,
    QUEUED,
    STARTED,
    trace_packet,
)
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def chain_port(info, node, port):
    """Enter a port among those of its switch with packets waiting."""
    if info.wait_next == NOT_CHAINED:
        info.wait_next = node.wait_head
        node.wait_head = port


@step_kernel
def send_frame(fabric: Fabric, buffers: Buffers, node, port, i_queue, action, now_ps):
    """Tell the sender at the other end of a port to pause or to go on; frames that started at once, 0 or 1."""
    packet = make_frame(fabric, i_queue, action)
    record = buffers.managed[np.uint64(port)]
    if record.free_at_ps <= now_ps and not is_startable(record):
        if IS_TRACED:
            trace_packet(fabric.counters, fabric.packets, packet, STARTED, now_ps, port, np.int64(record.queued_bytes))
        send_now(fabric, port, packet, now_ps)
        return 1
    queue_frame(fabric, buffers, port, packet)
    if IS_TRACED:
        trace_packet(fabric.counters, fabric.packets, packet, QUEUED, now_ps, port, np.int64(record.queued_bytes))
    chain_port(fabric.port_info[np.uint64(port)], node, port)
    return 0


@step_kernel
def let_resume(fabric: Fabric, buffers: Buffers, node, switch, in_port, held, i_queue, now_ps):
    """A packet of a queue that pauses its sender has left: let the sender go on if there is room again."""
    inlet = buffers.inlets[np.uint64(in_port)]
    if not may_resume(switch, inlet, held, fabric.constants):
        return 0
    held.is_pausing = 0
    switch.n_pausing -= 1
    return send_frame(fabric, buffers, node, np.int64(inlet.peer), i_queue, RESUME, now_ps)


@step_kernel
def _mark(port_info, constants, port, item, depth_bytes, low_bytes):
    """ECN by what stays behind in the packet's queue; a mark on an ACK is drawn and has no effect."""
    info = port_info[np.uint64(port)]
    if is_marked(info, port, depth_bytes, low_bytes, constants):
        info.ecn_marks += 1
        if item.bits & FLAG_ACK == 0:
            item.bits = item.bits | FLAG_MARKED


@step_kernel
def _stamp(fabric: Fabric, buffers: Buffers, record, port, packet, now_ps):
    """Write what the run's congestion control asks for into a packet that leaves."""
    constants = fabric.constants
    queued_bytes = np.int64(record.queued_bytes)
    queued_bytes += np.int64(buffers.queues[np.uint64(port * constants[N_QUEUE])].queued_bytes)
    rate_bps = fabric.port_info[np.uint64(port)].rate_bps
    if constants[TELEMETRY] == TELEMETRY_INT:
        if fabric.packets[np.uint64(packet)].bits & FLAG_ACK == 0:
            stamp_int(fabric.extra, constants, packet, port, now_ps, record.tx_bytes, queued_bytes, rate_bps)
    else:
        stamp_pint(fabric, buffers.utilisation[np.uint64(port)], packet, queued_bytes, rate_bps, now_ps)


@inlined
def depart(fabric, buffers, node, switch, port, packet, start_ps, kind):
    """A packet's transmission starts at a port: books, mark, telemetry, wire; packets started, 1 or 2.

    kind: what a trace calls it.
    """
    packets, constants = fabric.packets, fabric.constants
    item, record = packets[np.uint64(packet)], buffers.managed[np.uint64(port)]
    n_started = 1
    if item.bits & FLAG_FRAME == 0:
        i_queue = np.int64(item.queue)
        if i_queue > 0:
            in_port = item.arrival_ps
            depth_bytes = np.int64(buffers.queues[np.uint64(port * constants[N_QUEUE] + i_queue)].queued_bytes)
            low_bytes = np.int64(record.ecn_min_bytes)
            if depth_bytes > low_bytes:
                _mark(fabric.port_info, constants, port, item, depth_bytes, low_bytes)
            if constants[HAS_BUFFER]:
                held = buffers.ingress[np.uint64(in_port * constants[N_QUEUE] + i_queue)]
                release(switch, held, constants, np.int64(item.size_bytes))
                if held.is_pausing:
                    n_started += let_resume(fabric, buffers, node, switch, in_port, held, i_queue, start_ps)
        if constants[TELEMETRY] > 0:
            _stamp(fabric, buffers, record, port, packet, start_ps)
    if IS_TRACED:
        trace_packet(fabric.counters, packets, packet, kind, start_ps, port, np.int64(record.queued_bytes))
    send_now(fabric, port, packet, start_ps)
    return n_started


@inlined
def serve(fabric, buffers, node, switch, port, limit_ps):
    """Start every packet that waits at a port and can start at or before limit_ps; how many."""
    packets, constants, queues = fabric.packets, fabric.constants, buffers.queues
    record = buffers.managed[np.uint64(port)]
    n_started = 0
    while record.free_at_ps <= limit_ps:
        i_queue = choose_queue(record, buffers.egress, queues, packets, constants, buffers.weight_bytes, port)
        if i_queue == NO_QUEUE:
            break
        sent = take_from_queue(record, queues, packets, constants, port, i_queue)
        start_ps = record.free_at_ps
        n_started += depart(fabric, buffers, node, switch, port, sent, start_ps, DEQUEUED)
    return n_started


@step_kernel
def serve_until(fabric: Fabric, buffers: Buffers, node, node_id, port, limit_ps):
    """The same as a function of its own, for what happens less often."""
    return serve(fabric, buffers, node, buffers.switches[np.uint64(node_id)], port, limit_ps)


@step_kernel
def serve_all(fabric: Fabric, buffers: Buffers, node, node_id, limit_ps):
    """The same for all ports of a switch that pauses nobody: in any order."""
    n_started = 0
    port = np.int64(node.wait_head)
    while port >= 0:
        if fabric.ports[np.uint64(port)].free_at_ps <= limit_ps:
            n_started += serve_until(fabric, buffers, node, node_id, port, limit_ps)
        port = np.int64(fabric.port_info[np.uint64(port)].wait_next)
    return n_started


@step_kernel
def first_startable(managed, port_info, node):
    """(time, port) of the port of a switch that starts a packet first, the lowest among equals; (NEVER, -1)."""
    start_ps, start_port = NEVER, np.int64(-1)
    port = np.int64(node.wait_head)
    while port >= 0:
        record = managed[np.uint64(port)]
        if is_startable(record):
            free_ps = record.free_at_ps
            if free_ps < start_ps or (free_ps == start_ps and port < start_port):
                start_ps, start_port = free_ps, port
        port = np.int64(port_info[np.uint64(port)].wait_next)
    return start_ps, start_port


@step_kernel
def close_window(fabric: Fabric, buffers: Buffers, node, node_id, bound_ps):
    """Serve what waits up to the window's end; (packets started, first start after it or NEVER)."""
    n_started, next_ps = 0, NEVER
    switch = buffers.switches[np.uint64(node_id)]
    port, still = np.int64(node.wait_head), np.int64(-1)
    while port >= 0:
        info, record = fabric.port_info[np.uint64(port)], buffers.managed[np.uint64(port)]
        following = np.int64(info.wait_next)
        n_started += serve(fabric, buffers, node, switch, port, bound_ps - 1)
        if record.frame_head >= 0 or record.waiting != 0:
            info.wait_next = still
            still = port
            if is_startable(record):
                next_ps = min(next_ps, record.free_at_ps)
        else:
            info.wait_next = NOT_CHAINED
        port = following
    node.wait_head = still
    return n_started, next_ps
