"""Members of a group hear of each other's arrivals: of a timed collective, or of jobs that others wait for."""

import numpy as np

from models.network.streams.wake import set_wake
from models.workload.program import N_JOINED, WAITING_GROUP, Work
from pdes.engine.apart import apart
from pdes.engine.jit import step_kernel


@step_kernel
def _leave_job_group(work: Work, nodes, node_time, i_stream, end_ps):
    """A member of a job's group knows of all arrivals: its job begins then, or it has ended and let that job begin."""
    apart()
    stream = work.streams[np.uint64(i_stream)]
    if stream.job_begin_ps < 0:
        stream.job_begin_ps = end_ps
        set_wake(work.streams, nodes, node_time, i_stream, end_ps)


@step_kernel
def hear_of_arrival(work: Work, nodes, node_time, group_id, end_ps):
    """Tell this rank's members that one arrived, whose own duration is over at end_ps; who knows of all goes on."""
    group = work.groups[group_id]
    n_member = group.end_member - group.first_member
    for k in range(group.first_member, group.end_member):
        member = work.members[np.uint64(k)]
        if not member.is_here:
            continue
        member.n_arrived += 1
        member.end_ps = max(member.end_ps, end_ps)
        if member.n_arrived == n_member:
            i_stream = np.int64(work.group_stream[np.uint64(k)])
            stream = work.streams[np.uint64(i_stream)]
            if stream.job_begin_ps < 0 or stream.waiting_for != WAITING_GROUP:
                _leave_job_group(work, nodes, node_time, i_stream, member.end_ps)
            else:
                set_wake(work.streams, nodes, node_time, i_stream, member.end_ps)
            member.n_arrived = 0
            member.end_ps = 0


@step_kernel
def join_group(work: Work, nodes, node_time, group_id, time_ps, now_ps):
    """A member arrived; all go on when they know of all, time_ps after the latest arrival."""
    group, end_ps = work.groups[group_id], now_ps + time_ps
    hear_of_arrival(work, nodes, node_time, group_id, end_ps)
    if group.end_peer > group.first_peer:
        row = work.joined[np.uint64(work.totals[N_JOINED])]
        row[0], row[1] = group_id, end_ps
        work.totals[N_JOINED] += 1


@step_kernel
def end_in_job(work: Work, nodes, node_time, job, now_ps):
    """A stream has ended: jobs that wait for its job hear of it."""
    apart()
    for k in range(job.first_end, job.end_end):
        row = work.ends[np.uint64(k)]
        join_group(work, nodes, node_time, row[0], row[1], now_ps)
