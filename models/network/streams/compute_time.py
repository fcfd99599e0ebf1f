"""How long a computation takes: its own time, its random part, and more while its GPU takes part in a collective."""

import numpy as np

from models.network.state.records import FIRST_TASK, SEED, Fabric
from models.network.streams.wake import set_wake
from models.workload.program import (
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_RING,
    WAITING_DONE,
    WAITING_TIME,
    Work,
)
from pdes.engine.jit import inlined, step_kernel
from pdes.engine.rng import random_bits
from pdes.random_plain import PURPOSE_COMPUTE


@inlined
def may_slow(kind):
    """Whether an operation is a collective, which takes memory bandwidth and processors from what is computed."""
    return kind == OP_RING or kind == OP_EXCHANGE or kind == OP_GROUP


@inlined
def _is_communicating(work, k):
    """Whether a stream is in the middle of a collective. Waiting for others counts: its kernels hold their place."""
    stream = work.streams[np.uint64(k)]
    if stream.phase == 0 or stream.waiting_for == WAITING_DONE:
        return False
    return may_slow(work.operations[np.uint64(stream.operation)].kind)


@inlined
def _others_communicate(fabric, work, stream, i_stream):
    node = fabric.nodes[np.uint64(stream.node)]
    found = False
    for k in range(node.first_stream, node.end_stream):
        found |= k != i_stream and _is_communicating(work, k)
    return found


@inlined
def slowed_1024_of(work, stream):
    """How slow what a stream computes is beside a collective: its own operation's, or all of its job's."""
    factor = np.int64(work.operations[np.uint64(stream.operation)].slowed_1024)
    if factor == 0:
        factor = work.jobs[np.uint64(stream.job)].slowed_1024
    return factor


@step_kernel
def slow_computing(fabric: Fabric, work: Work, stream, i_stream, begins, now_ps):
    """A stream begins or ends to communicate: what the GPU computes meanwhile takes longer, or again its own time."""
    if _others_communicate(fabric, work, stream, i_stream):
        return
    node = fabric.nodes[np.uint64(stream.node)]
    for k in range(node.first_stream, node.end_stream):
        other = work.streams[np.uint64(k)]
        if k == i_stream or other.phase == 0 or other.waiting_for != WAITING_TIME:
            continue
        if work.operations[np.uint64(other.operation)].kind != OP_COMPUTE:
            continue
        rest_ps, factor = other.wake_ps - now_ps, slowed_1024_of(work, other)
        rest_ps = -(-rest_ps * factor // 1024) if begins else -(-rest_ps * 1024 // factor)
        set_wake(work.streams, fabric.nodes, fabric.node_time, k, now_ps + rest_ps)


@step_kernel
def compute_ps(fabric: Fabric, work: Work, stream, i_stream, time_ps):
    """How long a computation takes that begins now: its time, its random part, and longer beside a collective."""
    job = work.jobs[np.uint64(stream.job)]
    jitter_ppm = job.jitter_ppm
    if jitter_ppm > 0 and time_ps > 0:
        task_id = stream.first_task + stream.iteration * job.tasks_per_iteration + stream.n_task
        bits = random_bits(fabric.constants[SEED], task_id - fabric.constants[FIRST_TASK], PURPOSE_COMPUTE, 0)
        part_ppm = np.int64(bits % np.uint64(2 * jitter_ppm + 1)) - jitter_ppm
        time_ps += time_ps * part_ppm // 1_000_000
    if job.slowed_1024 > 1024 and _others_communicate(fabric, work, stream, i_stream):
        time_ps = -(-time_ps * slowed_1024_of(work, stream) // 1024)
    return time_ps
