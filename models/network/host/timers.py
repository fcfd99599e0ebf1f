"""Timers of queue pairs: one min-tree per host over its queue pairs, each standing for its earliest timer.

A queue pair has the congestion control's timers, 0 .. N_LAW_TIMER - 1, and the retransmission timeout, which comes last
among equals (design R2, kind 2: queue pair, then timer). The timeout is looked at lazily: an acknowledgement only moves
`deadline_ps`; the check that was armed earlier finds that out and moves on. The control's timers of a queue pair with
nothing to do are not in the tree: they fire, each at its own time, before anything else happens to it
(`sender.catch_up_timers`), so that they neither cost events nor keep a run from ending.
"""

import numpy as np

from models.congestion.interface import FLOW_TIMER, N_TIMER
from pdes.engine.jit import step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def first_timer_ps(timers, node):
    """When the first timer of a host fires, NEVER if none is set. node: its NODE record."""
    return timers[np.uint64(node.first_timer + 1)] if node.n_timer > 0 else NEVER


@step_kernel
def first_timer_leaf(timers, node):
    """The lowest leaf among those that fire first."""
    i = np.int64(1)
    while i < node.n_timer:
        left = timers[np.uint64(node.first_timer + 2 * i)]
        right = timers[np.uint64(node.first_timer + 2 * i + 1)]
        i = 2 * i if left <= right else 2 * i + 1
    return i - node.n_timer


@step_kernel
def first_law_timer_ps(control, pair):
    """When the congestion control's first timer of a queue pair fires, NEVER if none is set."""
    least_ps = NEVER
    for k in range(N_TIMER):
        least_ps = min(least_ps, control[np.uint64(pair), np.uint64(FLOW_TIMER + k)])
    return least_ps


@step_kernel
def set_timers(timers, node, control, record, pair):
    """Enter a queue pair's earliest timer into its host's tree."""
    least_ps = np.int64(record.check_ps)
    if record.acked_byte < record.posted_end:
        least_ps = min(least_ps, first_law_timer_ps(control, pair))
    i = node.n_timer + record.timer_leaf
    first = node.first_timer
    if timers[np.uint64(first + i)] == least_ps:
        return
    timers[np.uint64(first + i)] = least_ps
    while i > 1:
        other = timers[np.uint64(first + (i ^ 1))]
        least_ps = min(least_ps, other)
        i >>= 1
        if timers[np.uint64(first + i)] == least_ps:
            return
        timers[np.uint64(first + i)] = least_ps


@step_kernel
def due_timer(control, pair, now_ps):
    """The congestion control's first timer that is due, N_TIMER if it is the timeout's check."""
    for k in range(N_TIMER):
        if control[np.uint64(pair), np.uint64(FLOW_TIMER + k)] <= now_ps:
            return k
    return N_TIMER


@step_kernel
def stop_timers(control, record, pair):
    """Clear all timers of a queue pair; the tree is set afterwards."""
    record.check_ps, record.deadline_ps = NEVER, NEVER
    for k in range(N_TIMER):
        control[np.uint64(pair), np.uint64(FLOW_TIMER + k)] = NEVER
