"""What GPUs do, as data: every stream of a GPU runs a short program of operations in order, again each iteration.

A program is stored once for all streams that do the same; queue pairs, groups and gates are named by slots that each
stream resolves for itself. Loops stay loops, and collectives are one operation each, expanded message by message while
they run, so memory follows what is active. Not here: how programs run (`stream`), and who writes them (`operations`,
`flows`, `collectives`, `training`).
"""

from typing import NamedTuple

import numpy as np

from models.workload.graph import Graph
from pdes.engine.jit import record

# Kinds of operation.
(
    OP_COMPUTE,  # busy for time_ps
    OP_GROUP,  # timed collective of a group inside one server: starts with its last member, lasts time_ps
    OP_SEND,  # at time_ps or later, post size_bytes on queue pair `slot`, and go on
    OP_RECEIVE,  # wait for the next message of queue pair `slot`
    OP_RING,  # n_step times: post size_bytes on `slot`, wait for a message of `slot_in`
    OP_EXCHANGE,  # post size_bytes on each of n_step queue pairs from `slot`, wait for one of each from `slot_in`
    OP_OPEN,  # let the stream behind gate `slot` pass once more
    OP_PASS,  # wait until gate `slot` is open, close it by one
    OP_WAIT,  # wait until time_ps
    OP_START,  # a flow of a list: post size_bytes on queue pair `slot` at time_ps, as an event of its own (design R2)
    OP_REPEAT,  # go back over the `slot` operations before it until they ran n_step times; `slot_in`: depth of the loop
    OP_GRAPH,  # run the nodes of a trace's graph on this GPU, which post n_step messages (`graph_stream`)
    OP_BEGIN_NODE,  # wait until the node `slot` of the graph is released
    OP_END_NODE,  # the node `slot` is complete, as an event of its own
) = range(14)
MAX_DEPTH = 4  # loops in each other

OPERATION = record(
    [
        ("kind", np.int32),
        ("slot", np.int32),
        ("slot_in", np.int32),
        ("n_step", np.int32),
        ("size_bytes", np.int64),  # of each message
        ("time_ps", np.int64),
        ("flow", np.int64),  # OP_START: id of its flow. Others number theirs in the order in which the stream posts
        ("task_bytes", np.int64),  # what the task row says
        ("task_kind", np.int32),  # -1: no task row
        ("part", np.int32),  # of PARTS, -1: none
        ("tag", np.int32),
        ("slowed_1024", np.int32),  # OP_COMPUTE: as JOB has it, of this computation; 0: the job's
    ]
)

STREAM = record(
    [
        ("operation", np.int32),  # the one that runs
        ("first_operation", np.int32),
        ("end_operation", np.int32),
        ("step", np.int32),  # progress inside the operation
        ("iteration", np.int32),
        ("n_iteration", np.int32),
        ("waiting_for", np.int32),  # queue pair whose message it waits for, or WAITING_*
        ("node", np.int32),
        ("gpu", np.int32),
        ("name", np.int32),
        ("first_slot", np.int32),  # its part of `slots`
        ("phase", np.int32),  # 0: the operation has not begun
        ("job", np.int32),  # row of `jobs`
        ("spare", np.int32),
        ("job_begin_ps", np.int64),  # instants of its operations are from here on
        ("wake_ps", np.int64),
        ("begun_ps", np.int64),
        ("first_flow", np.int64),
        ("first_task", np.int64),
        ("spent_row", np.int64),  # of `spent`, -1: its time is not accounted for
        ("n_flow", np.int64),  # of operations that are complete in this iteration
        ("n_task", np.int64),
    ]
)
WAITING_NOT, WAITING_TIME, WAITING_GROUP, WAITING_GATE, WAITING_DONE, WAITING_NODE, WAITING_GRAPH = range(-1, -8, -1)

GROUP = record(
    [
        ("first_member", np.int32),  # its streams are group_stream[first_member .. end_member - 1]
        ("end_member", np.int32),
        ("first_peer", np.int32),  # other ranks with members: group_peer[first_peer .. end_peer - 1]
        ("end_peer", np.int32),
    ]
)

MEMBER = record(  # what a stream knows of a group that it is a member of
    [
        ("n_arrived", np.int32),  # members that have arrived, itself included
        ("is_here", np.int32),  # on this rank; else nothing is written here
        ("end_ps", np.int64),  # when the group ends as far as is known
    ]
)

GATE = record([("n_open", np.int32), ("stream", np.int32)])  # stream: the one behind it

JOB = record(  # what all streams of a job have in common; never changes
    [
        ("flows_per_iteration", np.int64),
        ("tasks_per_iteration", np.int64),
        ("n_main", np.int64),  # streams whose time is accounted for
        ("first_spent", np.int64),  # row of the breakdown of iteration 0, of the stream whose spent_row were 0
        ("first_iteration", np.int64),  # row of iteration 0 in `iteration_end_ps`
        (
            "slowed_1024",
            np.int64,
        ),  # computing takes so many 1024ths of its time while another stream communicates; 1024:
        # nothing of the job is slowed
        ("jitter_ppm", np.int64),  # the time of a computation is up to this much longer or shorter
        ("first_end", np.int64),  # rows of `ends`: groups of jobs that begin after it
        ("end_end", np.int64),
    ]
)

# What `totals` (int64[N_TOTAL]) holds.
(
    N_STREAM_DONE,
    KEEPS_TASKS,  # task rows are written
    N_JOINED,
    N_TOTAL,
) = range(4)

PARTS = ("compute", "optimizer", "tp", "cp", "ep", "dp", "pp")
"""What the time of a GPU's main stream is spent on, see PART_OF_TASK; the rest of an iteration is idle."""
PART_OF_TASK = {
    "forward": "compute", "backward": "compute", "optimizer": "optimizer", "tp": "tp", "cp": "cp", "ep": "ep",
    "dp": "dp", "pp-wait": "pp",
}  # fmt: skip
N_PARTS = len(PARTS)


# What a row of `Work.passes` holds: of the outermost loop that a stream runs, when its body was done and ran again.
PASS_OPERATION, PASS_ITERATION, N_PASS, PASS_TIMES = range(4)  # PASS_OPERATION: of the OP_REPEAT, -1: none yet
N_PASS_TIME = 9  # the last ones; the n-th is at PASS_TIMES + n % N_PASS_TIME
N_PASS_COLUMN = PASS_TIMES + N_PASS_TIME
N_PASS_SPENT = 3


class Work(NamedTuple):
    """Streams and their programs. Slots hold global ids of queue pairs, groups or gates."""

    operations: np.ndarray  # OPERATION[n_operation]
    jobs: np.ndarray  # JOB[n_job]
    ends: np.ndarray  # int64[n, 2]  (group, delay_ps) that streams join when they have ended
    streams: np.ndarray  # STREAM[n_stream], sorted by node: see NODE.first_stream
    loops: np.ndarray  # int32[n_stream, MAX_DEPTH]  how often the operations of a loop have run
    passes: np.ndarray  # int64[n_stream, N_PASS_COLUMN]
    passed: np.ndarray  # int64[n_main, N_PASS_SPENT, N_PARTS]  `spent` at the last passes, the n-th at n % N_PASS_SPENT
    slots: np.ndarray  # int32[]
    groups: np.ndarray  # GROUP[n_group]
    group_stream: np.ndarray  # int32[]
    members: np.ndarray  # MEMBER[], of group_stream's rows
    group_peer: np.ndarray  # int32[]  rows of ExchangeState.peer
    joined: np.ndarray  # int64[n, 2]  totals[N_JOINED] arrivals that other ranks do not know of: group, end_ps
    gates: np.ndarray  # GATE[n_gate]
    iteration_end_ps: np.ndarray  # int64[n_iteration]  last task end so far, -1 if none; of all jobs, one by one
    iteration_tasks: np.ndarray  # int64[n_iteration]  tasks that have ended
    spent: np.ndarray  # int64[n_main, N_PARTS]  time of main streams in their iteration so far
    totals: np.ndarray  # int64[N_TOTAL]
    graph: Graph
