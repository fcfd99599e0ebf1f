"""From a workload's plan to what one rank runs of it: streams, groups, gates, and buffers for finished rows."""

import numpy as np

from models.network.build.arrays import QueuePairs
from models.network.host.rtt_rows import MAX_RTT_ROWS
from models.network.state.records import N_ROW, SPENT_COLUMNS, Fabric, Rows
from models.topology.graph import Topology
from models.workload.graph import make_graph
from models.workload.plan import WorkloadPlan
from models.workload.program import (
    GATE,
    GROUP,
    JOB,
    KEEPS_TASKS,
    MAX_DEPTH,
    MEMBER,
    N_PARTS,
    N_PASS_COLUMN,
    N_PASS_SPENT,
    N_TOTAL,
    WAITING_GRAPH,
    WAITING_GROUP,
    Work,
)
from pdes.engine.jit import zeros_for
from pdes.engine.time_index import NEVER, set_all_times


def make_streams(topology: Topology, plan: WorkloadPlan) -> np.ndarray:
    """Streams before anything has happened, all asleep: the same on every rank, so in memory once until one changes."""
    streams = plan.streams.copy()
    streams["node"] = topology.host[streams["gpu"]]
    streams["phase"] = 0
    streams["waiting_for"] = -1
    begins_later = streams["job_begin_ps"] < 0
    streams["waiting_for"][begins_later] = WAITING_GROUP
    if plan.graph is not None:
        runs = plan.graph.agenda_stream
        streams["waiting_for"][runs], streams["step"][runs] = WAITING_GRAPH, np.arange(len(runs))
    streams["wake_ps"] = NEVER
    return streams


def make_work(
    streams: np.ndarray, pairs: QueuePairs, slots: np.ndarray, plan: WorkloadPlan, fabric: Fabric, here: np.ndarray
) -> Work:
    """Those of this rank's nodes wake when the plan says. streams: `make_streams`. slots: `PairFacts.slots`."""
    own = np.flatnonzero(here[streams["node"]])
    streams["wake_ps"][own] = plan.streams["wake_ps"][own]
    np.minimum.at(fabric.nodes["wake_ps"], streams["node"][own], streams["wake_ps"][own])
    set_all_times(fabric.node_time, fabric.nodes["wake_ps"])
    passes = zeros_for(len(own) * N_PASS_COLUMN, len(streams) * N_PASS_COLUMN, np.int64).reshape(-1, N_PASS_COLUMN)
    passes[own] = -1
    totals = np.zeros(N_TOTAL, np.int64)
    totals[KEEPS_TASKS] = plan.keeps_tasks
    jobs, ends = _make_jobs(plan)
    n_iteration = max(1, sum(job.n_iteration for job in plan.parts))
    groups = np.zeros(len(plan.group_start) - 1, GROUP)
    groups["first_member"], groups["end_member"] = plan.group_start[:-1], plan.group_start[1:]
    members = np.zeros(len(plan.group_stream), MEMBER)
    members["is_here"] = here[streams["node"][plan.group_stream]]
    for job in plan.parts:
        if job.group >= 0:  # its streams wait there for those of others, and count as arrived
            rows = slice(*plan.group_start[job.group : job.group + 2])
            members["n_arrived"][rows], members["end_ps"][rows] = job.n_stream, job.start_ps
    gates = np.zeros(len(plan.gate_stream), GATE)
    gates["stream"] = plan.gate_stream
    return Work(
        operations=plan.operations,
        jobs=jobs,
        ends=ends,
        streams=streams,
        loops=zeros_for(len(own) * MAX_DEPTH, len(streams) * MAX_DEPTH, np.int32).reshape(-1, MAX_DEPTH),
        passes=passes,
        passed=np.zeros((max(1, plan.n_main), N_PASS_SPENT, N_PARTS), np.int64),
        slots=slots,
        groups=groups,
        group_stream=plan.group_stream,
        members=members,
        group_peer=np.zeros(0, np.int32),
        joined=np.zeros((0, 2), np.int64),
        gates=gates,
        iteration_end_ps=np.full(n_iteration, -1, np.int64),
        iteration_tasks=np.zeros(n_iteration, np.int64),
        spent=np.zeros((max(1, plan.n_main), N_PARTS), np.int64),
        totals=totals,
        graph=make_graph(plan.graph, pairs.row_of_pair),
    )


def _make_jobs(plan: WorkloadPlan) -> tuple[np.ndarray, np.ndarray]:
    """`Work.jobs` and `Work.ends`."""
    jobs, parts = np.zeros(len(plan.parts), JOB), plan.parts
    same = ("flows_per_iteration", "tasks_per_iteration", "n_main", "first_iteration", "slowed_1024", "jitter_ppm")
    for name in same:
        jobs[name] = [getattr(part, name) for part in parts]
    jobs["first_spent"] = [part.first_spent - part.first_main for part in parts]
    ends = [(group, plan.group_time_ps[group]) for part in parts for group in part.ends]
    jobs["end_end"] = np.cumsum([len(part.ends) for part in parts])
    jobs["first_end"] = jobs["end_end"] - [len(part.ends) for part in parts]
    return jobs, np.array(ends, np.int64).reshape(-1, 2)


def make_rows(burst: int, rtt_flow: int = -1) -> Rows:
    """Empty row buffers with room for some events' worth, and for round-trip times for good."""
    n_row, n_rtt = max(N_ROW, 4 * burst), MAX_RTT_ROWS if rtt_flow >= 0 else 0
    shapes = ((n_row, 8), (n_row, 2), (n_row, 8), (n_row, len(SPENT_COLUMNS) + N_PARTS), (n_rtt, 3))
    return Rows(*(np.zeros(shape, np.int64) for shape in shapes))
