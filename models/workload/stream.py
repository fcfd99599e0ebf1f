"""Running streams: `run_stream` carries one stream on from an instant until it has to wait.

Everything it touches belongs to its own LP (design R12): messages it posts on its GPU's queue pairs, gates of other
streams of its GPU, and groups, whose members sit in one LP and end at least the group's duration after any of them
arrives.
"""

import numpy as np

from models.network.nic import post_message
from models.network.state import N_TASK_ROW, Fabric, Nic, Rows
from models.workload.program import (
    FLOWS_PER_ITERATION,
    N_STREAM_DONE,
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_RECEIVE,
    OP_RING,
    OP_SEND,
    OP_WAIT,
    TASKS_PER_ITERATION,
    WAITING_DONE,
    WAITING_GATE,
    WAITING_GROUP,
    WAITING_NOT,
    WAITING_TIME,
    Work,
)
from pdes.engine.jit import loop_kernel
from pdes.engine.time_index import NEVER, set_time


@loop_kernel
def set_wake(work: Work, node_time, i_stream, wake_ps):
    """Let a stream go on at wake_ps (NEVER: not by time)."""
    stream = work.streams[i_stream]
    stream.wake_ps = wake_ps
    node = np.int64(stream.node)
    least_ps = NEVER
    for k in range(work.stream_start[node], work.stream_start[node + 1]):
        least_ps = min(least_ps, work.streams[k].wake_ps)
    work.node_wake_ps[node] = least_ps
    if wake_ps < node_time[(node_time.size >> 1) + node]:
        set_time(node_time, node, wake_ps)


@loop_kernel
def _send(fabric: Fabric, nic: Nic, work: Work, stream, operation, slot, step, now_ps):
    pair = work.slots[stream.first_slot + slot]
    flow_id = stream.first_flow + stream.iteration * work.totals[FLOWS_PER_ITERATION] + operation.flow + step
    post_message(fabric, nic, pair, operation.size_bytes, flow_id, operation.tag, now_ps)


@loop_kernel
def _consume(nic: Nic, work: Work, stream, slot):
    """Take one arrived message of a queue pair; False, and wait for it, if none is there."""
    pair = work.slots[stream.first_slot + slot]
    if nic.queue_pairs[pair].n_arrived > 0:
        nic.queue_pairs[pair].n_arrived -= 1
        stream.waiting_for = WAITING_NOT
        return True
    stream.waiting_for = pair
    return False


@loop_kernel
def _join_group(fabric: Fabric, work: Work, stream, operation, now_ps):
    """A member arrived; the last one lets all go on, the group's duration later."""
    group = work.slots[stream.first_slot + operation.slot]
    work.group_arrived[group] += 1
    work.group_latest_ps[group] = max(work.group_latest_ps[group], now_ps)
    stream.waiting_for = WAITING_GROUP
    first, last = work.group_start[group], work.group_start[group + 1]
    if work.group_arrived[group] < last - first:
        return
    end_ps = work.group_latest_ps[group] + operation.time_ps
    work.group_arrived[group] = 0
    work.group_latest_ps[group] = -1
    for k in range(first, last):
        set_wake(work, fabric.node_time, work.group_stream[k], end_ps)


@loop_kernel
def _advance_operation(fabric: Fabric, nic: Nic, work: Work, i_stream, operation, now_ps):
    """Carry the current operation on; True if it is complete. stream.phase 0: it begins now."""
    stream = work.streams[i_stream]
    kind = operation.kind
    begins = stream.phase == 0
    stream.phase = 1
    if kind == OP_COMPUTE or kind == OP_WAIT or kind == OP_SEND:
        end_ps = max(now_ps, operation.time_ps) if kind != OP_COMPUTE else now_ps + operation.time_ps
        if begins and end_ps > now_ps:
            stream.waiting_for = WAITING_TIME
            set_wake(work, fabric.node_time, i_stream, end_ps)
            return False
        if kind == OP_SEND:
            _send(fabric, nic, work, stream, operation, operation.slot, 0, now_ps)
        return True
    if kind == OP_GROUP:
        if begins:
            _join_group(fabric, work, stream, operation, now_ps)
        return not begins
    if kind == OP_RECEIVE:
        return _consume(nic, work, stream, operation.slot)
    if kind == OP_RING:
        if begins:
            _send(fabric, nic, work, stream, operation, operation.slot, 0, now_ps)
        while _consume(nic, work, stream, operation.slot_in):
            stream.step += 1
            if stream.step == operation.n_step:
                return True
            _send(fabric, nic, work, stream, operation, operation.slot, stream.step, now_ps)
        return False
    if kind == OP_EXCHANGE:
        if begins:
            for k in range(operation.n_step):
                _send(fabric, nic, work, stream, operation, operation.slot + k, k, now_ps)
        while _consume(nic, work, stream, operation.slot_in + stream.step):
            stream.step += 1
            if stream.step == operation.n_step:
                return True
        return False
    gate = work.slots[stream.first_slot + operation.slot]
    if kind == OP_OPEN:
        work.gate_count[gate] += 1
        other = work.gate_stream[gate]
        if work.streams[other].waiting_for == WAITING_GATE:
            set_wake(work, fabric.node_time, other, now_ps)
        return True
    if work.gate_count[gate] > 0:  # OP_PASS
        work.gate_count[gate] -= 1
        return True
    stream.waiting_for = WAITING_GATE
    return False


@loop_kernel
def _write_task(work: Work, task_rows, counters, stream, operation, now_ps):
    row = counters[N_TASK_ROW]
    counters[N_TASK_ROW] = row + 1
    out = task_rows[row]
    out[0] = stream.first_task + stream.iteration * work.totals[TASKS_PER_ITERATION] + operation.task
    out[1], out[2], out[3], out[4] = stream.gpu, stream.iteration, operation.task_kind, stream.name
    out[5], out[6], out[7] = stream.begun_ps, now_ps, operation.task_bytes
    if now_ps > work.iteration_end_ps[stream.iteration]:
        work.iteration_end_ps[stream.iteration] = now_ps


@loop_kernel
def run_stream(fabric: Fabric, nic: Nic, work: Work, rows: Rows, i_stream, now_ps):
    """Carry a stream on at now_ps until it waits or ends."""
    stream = work.streams[i_stream]
    stream.waiting_for = WAITING_NOT
    if stream.wake_ps < NEVER:
        set_wake(work, fabric.node_time, i_stream, NEVER)
    while stream.iteration < stream.n_iteration:
        operation = work.operations[stream.operation]
        if stream.phase == 0:
            stream.begun_ps = now_ps
            stream.step = 0
        if not _advance_operation(fabric, nic, work, i_stream, operation, now_ps):
            return
        if operation.task >= 0:
            _write_task(work, rows.task, fabric.counters, stream, operation, now_ps)
        stream.phase = 0
        stream.operation += 1
        if stream.operation == stream.end_operation:
            stream.operation = stream.first_operation
            stream.iteration += 1
    stream.waiting_for = WAITING_DONE
    work.totals[N_STREAM_DONE] += 1
