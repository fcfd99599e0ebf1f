"""When flows end: a heap of those under way, by the instant and then by the flow's number."""

import numpy as np

from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping.max_min.table import N_END, NOTHING


@step_kernel
def _is_before(flows, a, b):
    end_ps, other_ps = flows[np.uint64(a)].end_ps, flows[np.uint64(b)].end_ps
    return end_ps < other_ps or (end_ps == other_ps and a < b)


@step_kernel
def _move_up(flows, ends, at, flow):
    while at > 0:
        above = (at - 1) >> 1
        other = np.int64(ends[np.uint64(above)])
        if not _is_before(flows, flow, other):
            break
        ends[np.uint64(at)], flows[np.uint64(other)].place = other, at
        at = above
    ends[np.uint64(at)], flows[np.uint64(flow)].place = flow, at


@step_kernel
def _move_down(flows, ends, n_end, at, flow):
    while True:
        below = 2 * at + 1
        if below >= n_end:
            break
        other = np.int64(ends[np.uint64(below)])
        if below + 1 < n_end:
            second = np.int64(ends[np.uint64(below + 1)])
            if _is_before(flows, second, other):
                below, other = below + 1, second
        if not _is_before(flows, other, flow):
            break
        ends[np.uint64(at)], flows[np.uint64(other)].place = other, at
        at = below
    ends[np.uint64(at)], flows[np.uint64(flow)].place = flow, at


@step_kernel
def put_end(flows, ends, words, flow, end_ps):
    """A flow ends at another instant than it was going to."""
    at, old_ps = np.int64(flows[np.uint64(flow)].place), flows[np.uint64(flow)].end_ps
    flows[np.uint64(flow)].end_ps = end_ps
    if at == NOTHING:
        at = words[N_END]
        words[N_END] += 1
        _move_up(flows, ends, at, flow)
    elif end_ps < old_ps:
        _move_up(flows, ends, at, flow)
    elif end_ps > old_ps:
        _move_down(flows, ends, words[N_END], at, flow)


@step_kernel
def drop_end(flows, ends, words, flow):
    """A flow is not under way any more."""
    at = np.int64(flows[np.uint64(flow)].place)
    flows[np.uint64(flow)].end_ps = NEVER
    if at == NOTHING:
        return
    flows[np.uint64(flow)].place = NOTHING
    words[N_END] -= 1
    last = np.int64(ends[np.uint64(words[N_END])])
    if last == flow:
        return
    if at > 0 and _is_before(flows, last, np.int64(ends[np.uint64((at - 1) >> 1)])):
        _move_up(flows, ends, at, last)
    else:
        _move_down(flows, ends, words[N_END], at, last)
