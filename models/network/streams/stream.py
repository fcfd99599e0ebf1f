"""Running streams: `run_stream` carries one stream on from an instant until it has to wait.

Everything it touches belongs to its own LP (design R12): messages it posts on its GPU's queue pairs and gates of other
streams of its GPU. Members of a group hear of each other's arrivals, and go on at least the group's duration after any
of them: those of another LP cannot be too late to hear of it, as the lookahead is no longer than that.
"""

import numpy as np

from models.network.host.messages import post_message, post_parts, take_parts
from models.network.state.records import N_PART, N_SPENT_ROW, N_TASK_ROW, Fabric, Nic, Rows
from models.network.streams.compute_time import (
    compute_ps,
    may_slow,
    slow_computing,
)
from models.network.streams.graph_stream import begins_node, end_collective, run_graph
from models.network.streams.groups import end_in_job, join_group
from models.network.streams.wake import set_wake
from models.workload.program import (
    KEEPS_TASKS,
    N_PARTS,
    N_PASS,
    N_PASS_SPENT,
    N_PASS_TIME,
    N_STREAM_DONE,
    OP_BEGIN_NODE,
    OP_COMPUTE,
    OP_END_NODE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_REPEAT,
    OP_RING,
    OP_SEND,
    OP_START,
    OP_WAIT,
    PASS_ITERATION,
    PASS_OPERATION,
    PASS_TIMES,
    WAITING_DONE,
    WAITING_GATE,
    WAITING_GRAPH,
    WAITING_GROUP,
    WAITING_NODE,
    WAITING_NOT,
    WAITING_TIME,
    Work,
)
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.time_index import NEVER


@inlined
def _send(fabric, nic, work, stream, operation, slot, step, now_ps):
    """Post one message of an operation: on a slot's queue pair, as its step-th flow."""
    pair = np.int64(work.slots[np.uint64(stream.first_slot + slot)])
    job = work.jobs[np.uint64(stream.job)]
    first = stream.first_flow + stream.iteration * job.flows_per_iteration + stream.n_flow
    flow_id = first + operation.flow + step
    if fabric.constants[N_PART] == 1:
        post_message(fabric, nic, pair, operation.size_bytes, flow_id, np.int64(operation.tag), now_ps)
    else:
        post_parts(fabric, nic, pair, operation.size_bytes, flow_id, np.int64(operation.tag), now_ps)


@step_kernel
def _consume(nic: Nic, constants, slots, stream, slot):
    """Take one arrived message of a slot's queue pair; False, and wait for it, if none is there."""
    pair = np.int64(slots[np.uint64(stream.first_slot + slot)])
    record = nic.receivers[np.uint64(nic.receiver_row[np.uint64(pair)])]
    if constants[N_PART] > 1:
        if take_parts(nic, constants, pair):
            stream.waiting_for = WAITING_NOT
            return True
    elif record.n_arrived > 0:
        record.n_arrived -= 1
        stream.waiting_for = WAITING_NOT
        return True
    stream.waiting_for = pair
    return False


@step_kernel
def _pass_gate(work: Work, nodes, node_time, gate_id, opens, now_ps):
    """Open a gate for the stream behind it, or go through it: True if the operation is complete."""
    gate = work.gates[gate_id]
    if opens:
        gate.n_open += 1
        other = np.int64(gate.stream)
        if work.streams[other].waiting_for == WAITING_GATE:
            set_wake(work.streams, nodes, node_time, other, now_ps)
        return True
    if gate.n_open > 0:
        gate.n_open -= 1
        return True
    return False


@inlined
def _advance_operation(fabric, nic, work, rows, stream, i_stream, operation, now_ps):
    """Carry the current operation on; True if it is complete. stream.phase 0: it begins now."""
    kind = operation.kind
    begins = stream.phase == 0
    stream.phase = 1
    done = False
    if kind == OP_COMPUTE or kind == OP_WAIT or kind == OP_SEND or kind == OP_START or kind == OP_END_NODE:
        end_ps = max(now_ps, operation.time_ps + stream.job_begin_ps)
        if kind == OP_COMPUTE:
            end_ps = now_ps + (compute_ps(fabric, work, stream, i_stream, operation.time_ps) if begins else 0)
        done = not (begins and (end_ps > now_ps or kind == OP_START or kind == OP_END_NODE))
        if done and kind == OP_END_NODE:
            i_node = np.int64(work.slots[np.uint64(stream.first_slot + operation.slot)])
            end_collective(fabric, work, rows.task, i_node, now_ps)
        if not done:
            stream.waiting_for = WAITING_TIME
            set_wake(work.streams, fabric.nodes, fabric.node_time, i_stream, end_ps)
    elif kind == OP_GROUP:
        done = not begins
        if begins:
            stream.waiting_for = WAITING_GROUP
            group_id = np.int64(work.slots[np.uint64(stream.first_slot + operation.slot)])
            join_group(work, fabric.nodes, fabric.node_time, group_id, operation.time_ps, now_ps)
    elif kind == OP_REPEAT:
        done = True
    elif kind == OP_RECEIVE:
        done = _consume(nic, fabric.constants, work.slots, stream, np.int64(operation.slot))
    elif kind == OP_OPEN or kind == OP_PASS:
        gate_id = np.int64(work.slots[np.uint64(stream.first_slot + operation.slot)])
        done = _pass_gate(work, fabric.nodes, fabric.node_time, gate_id, kind == OP_OPEN, now_ps)
        if not done:
            stream.waiting_for = WAITING_GATE
    elif kind == OP_BEGIN_NODE:
        done = begins_node(work, np.int64(work.slots[np.uint64(stream.first_slot + operation.slot)]), now_ps)
        if not done:
            stream.waiting_for = WAITING_NODE
    return done


@inlined
def _sends_now(stream, operation, begins, done):
    """How many messages an operation posts before it waits: all of an exchange, the first of a ring, one of a send."""
    n_send = 0
    if done and (operation.kind == OP_SEND or operation.kind == OP_START):
        n_send = 1
    elif begins and operation.kind == OP_RING:
        n_send = 1
    elif begins and operation.kind == OP_EXCHANGE:
        n_send = np.int64(operation.n_step)
    return n_send


@inlined
def _end_task(work, task_rows, counters, stream, operation, now_ps):
    """Count a task that ends, and write its row."""
    job = work.jobs[np.uint64(stream.job)]
    iteration = np.uint64(job.first_iteration + stream.iteration)
    work.iteration_tasks[iteration] += 1
    if now_ps > work.iteration_end_ps[iteration]:
        work.iteration_end_ps[iteration] = now_ps
    if stream.spent_row >= 0 and operation.part >= 0:
        work.spent[np.uint64(stream.spent_row), np.uint64(operation.part)] += now_ps - stream.begun_ps
    n_task = stream.n_task
    stream.n_task = n_task + 1
    if not work.totals[KEEPS_TASKS]:
        return
    row = counters[N_TASK_ROW]
    counters[N_TASK_ROW] = row + 1
    out = task_rows[np.uint64(row)]
    out[0] = stream.first_task + stream.iteration * job.tasks_per_iteration + n_task
    out[1], out[2], out[3], out[4] = stream.gpu, stream.iteration, operation.task_kind, stream.name
    out[5], out[6], out[7] = stream.begun_ps, now_ps, operation.task_bytes


@inlined
def _n_flow(operation):
    """Flows that an operation numbers in the stream's order; a flow of a list has its own number."""
    if operation.kind == OP_RING or operation.kind == OP_EXCHANGE:
        return np.int64(operation.n_step)
    return np.int64(operation.kind == OP_SEND)


@inlined
def _write_spent(work, spent_rows, counters, stream, now_ps):
    """What a main stream spent the iteration on that it has just ended; the next one begins from nothing."""
    row = counters[N_SPENT_ROW]
    counters[N_SPENT_ROW] = row + 1
    out, spent = spent_rows[np.uint64(row)], work.spent[np.uint64(stream.spent_row)]
    iteration, job = stream.iteration - 1, work.jobs[np.uint64(stream.job)]
    out[0] = job.first_spent + iteration * job.n_main + stream.spent_row
    out[1], out[2], out[3] = stream.gpu, iteration, now_ps
    for i in range(N_PARTS):
        out[4 + i] = spent[i]
        spent[i] = 0


@step_kernel
def _note_pass(work: Work, stream, i_stream, now_ps):
    """An outermost loop begins again: note when, and what a main stream has spent by then."""
    row = work.passes[np.uint64(i_stream)]
    if row[PASS_OPERATION] != stream.operation or row[PASS_ITERATION] != stream.iteration:
        row[PASS_OPERATION], row[PASS_ITERATION], row[N_PASS] = stream.operation, stream.iteration, 0
    n_pass = row[N_PASS]
    row[PASS_TIMES + n_pass % N_PASS_TIME] = now_ps
    row[N_PASS] = n_pass + 1
    if stream.spent_row >= 0:
        spent, passed = work.spent[np.uint64(stream.spent_row)], work.passed[np.uint64(stream.spent_row)]
        for i in range(N_PARTS):
            passed[n_pass % N_PASS_SPENT, i] = spent[i]


@inlined
def _go_on(work, stream, i_stream, operation, now_ps):
    """Put a stream behind a complete operation: to the next one, back in a loop, or to the first of an iteration."""
    if operation.kind == OP_REPEAT:
        depth = np.uint64(operation.slot_in)
        loops = work.loops[np.uint64(i_stream)]
        loops[depth] += 1
        if loops[depth] < operation.n_step:
            if operation.slot_in == 0:
                _note_pass(work, stream, i_stream, now_ps)
            stream.operation -= operation.slot
            return
        loops[depth] = 0
    stream.operation += 1
    if stream.operation == stream.end_operation:
        stream.operation = stream.first_operation
        stream.iteration += 1
        stream.n_flow = 0
        stream.n_task = 0


@step_kernel
def run_stream(fabric: Fabric, nic: Nic, work: Work, rows: Rows, i_stream, now_ps):
    """Carry a stream on at now_ps until it waits or ends."""
    stream = work.streams[np.uint64(i_stream)]
    if stream.waiting_for == WAITING_GRAPH:
        run_graph(fabric, nic, work, rows.task, i_stream, now_ps)
        return
    stream.waiting_for = WAITING_NOT
    if stream.wake_ps < NEVER:
        set_wake(work.streams, fabric.nodes, fabric.node_time, i_stream, NEVER)
    job = work.jobs[np.uint64(stream.job)]
    while stream.iteration < stream.n_iteration:
        operation = work.operations[np.uint64(stream.operation)]
        begins = stream.phase == 0
        slows = job.slowed_1024 > 1024 and may_slow(operation.kind)
        if begins:
            stream.begun_ps = now_ps
            stream.step = 0
            if slows:
                slow_computing(fabric, work, stream, i_stream, True, now_ps)
        done = _advance_operation(fabric, nic, work, rows, stream, i_stream, operation, now_ps)
        n_send, n_sent = _sends_now(stream, operation, begins, done), 0
        is_ring = operation.kind == OP_RING
        waits = is_ring or operation.kind == OP_EXCHANGE
        while n_sent < n_send or waits:
            if n_sent < n_send:
                # A ring's next chunk goes out on the same queue pair; an exchange's messages on one each.
                slot = operation.slot + (0 if is_ring else n_sent)
                _send(fabric, nic, work, stream, operation, slot, stream.step if is_ring else n_sent, now_ps)
                n_sent += 1
                continue
            slot_in = np.int64(operation.slot_in) + (0 if is_ring else np.int64(stream.step))
            if not _consume(nic, fabric.constants, work.slots, stream, slot_in):
                break
            stream.step += 1
            done = stream.step == operation.n_step
            waits = not done
            if is_ring and waits:
                n_send += 1
        if not done:
            return
        if slows:
            slow_computing(fabric, work, stream, i_stream, False, now_ps)
        if operation.task_kind >= 0:
            _end_task(work, rows.task, fabric.counters, stream, operation, now_ps)
        stream.phase = 0
        stream.n_flow += _n_flow(operation)
        iteration = stream.iteration
        _go_on(work, stream, i_stream, operation, now_ps)
        if stream.iteration > iteration and stream.spent_row >= 0:
            _write_spent(work, rows.spent, fabric.counters, stream, now_ps)
    stream.waiting_for = WAITING_DONE
    work.totals[N_STREAM_DONE] += 1
    if job.end_end > job.first_end:
        end_in_job(work, fabric.nodes, fabric.node_time, job, now_ps)
