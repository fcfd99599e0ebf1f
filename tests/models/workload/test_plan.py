"""Plans: what the builder hands over, and the bound on what one event can cause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.workload.operations import Operation, burst_of
from models.workload.plan import SLOT_GATE, SLOT_PAIR, PlanBuilder
from models.workload.program import (
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_RING,
    OP_SEND,
    OP_WAIT,
    OPERATION,
)
from pdes.errors import ConfigError


def sender_plan(program: list[Operation], n_iteration: int):
    """One stream on host 0 with one queue pair to host 1, nobody waits for its messages."""
    builder = PlanBuilder("test", 2, n_iteration)
    builder.stream(0, "main", program, [(SLOT_PAIR, builder.pair(0, 1))])
    return builder.finish()


def most_at_one_instant(program: list[Operation], n_iteration: int) -> int:
    """Messages that a stream of sends, waits and computes posts at one instant, by running it."""
    now_ps, posted = 0, {}
    for _ in range(n_iteration):
        for op in program:
            if op.kind == OP_COMPUTE:
                now_ps += op.time_ps
            else:
                now_ps = max(now_ps, op.time_ps)
            if op.kind == OP_SEND:
                posted[now_ps] = posted.get(now_ps, 0) + 1
    return max(posted.values(), default=0)


def send(time_ps: int = 0) -> Operation:
    return Operation(OP_SEND, 0, size_bytes=1, time_ps=time_ps)


TIMED = st.one_of(
    st.builds(send, st.sampled_from([0, 0, 5, 9])),
    st.builds(lambda t: Operation(OP_COMPUTE, time_ps=t), st.integers(0, 2)),
    st.builds(lambda t: Operation(OP_WAIT, time_ps=t), st.integers(0, 9)),
)


@given(st.lists(TIMED, min_size=1, max_size=8))
def test_an_event_of_one_iteration_posts_no_more_than_the_bound(program):
    assert sender_plan(program, 1).burst >= most_at_one_instant(program, 1)


@given(st.lists(TIMED, min_size=1, max_size=8), st.integers(2, 20))
def test_an_event_of_many_iterations_posts_no_more_than_the_bound(program, n_iteration):
    """Iterations follow each other without a pause: what has no wait in it is posted at once, all iterations of it."""
    assert sender_plan(program, n_iteration).burst >= most_at_one_instant(program, n_iteration)


def test_computing_parts_bursts():
    compute = Operation(OP_COMPUTE, time_ps=1)
    assert burst_of([send(), send(), compute, send()]) == burst_of([send()] * 3 + [compute])
    assert burst_of([send(), compute] * 50) < 5


def test_a_burst_counts_every_message_of_a_collective():
    assert burst_of([Operation(OP_EXCHANGE, 0, 7, n_step=7)]) >= 14  # this iteration's, and the next one's
    assert burst_of([Operation(OP_RING, 0, 1, n_step=6)]) >= 12


def test_memory_for_a_burst_of_a_collective_does_not_grow_with_iterations():
    for operation in (Operation(OP_EXCHANGE, 0, 7, n_step=7), Operation(OP_RING, 0, 1, n_step=6)):
        assert burst_of([operation], 10**6) == burst_of([operation], 3)


def test_pairs_between_two_hosts_have_source_ports_of_their_own():
    builder = PlanBuilder("test", 3)
    pairs = [builder.pair(0, 1), builder.pair(0, 1), builder.pair(1, 0), builder.pair(0, 2), builder.pair(0, 1)]
    builder.stream(0, "main", [send()], [(SLOT_PAIR, 0)])
    plan = builder.finish()
    assert pairs == list(range(5))
    assert plan.pair_sport.tolist() == [10000, 10001, 10000, 10000, 10002]


def test_a_program_is_stored_once_however_many_run_it():
    builder = PlanBuilder("test", 100)
    for gpu in range(99):
        builder.stream(gpu, "main", [send(), Operation(OP_COMPUTE, time_ps=3)], [(SLOT_PAIR, builder.pair(gpu, 99))])
    plan = builder.finish()
    assert plan.operations.dtype == OPERATION and len(plan.operations) == 2
    assert len(plan.streams) == 99


def test_ids_follow_the_gpus_whatever_the_order_of_writing():
    builder = PlanBuilder("test", 4, n_iteration=3)
    for gpu in (2, 0, 2, 1):
        pair = builder.pair(gpu, 3)
        program = [Operation(OP_SEND, size_bytes=5, task="a"), Operation(OP_RING, 0, 0, 4, 1, task="b", task_bytes=4)]
        builder.stream(gpu, f"s{gpu}", program, [(SLOT_PAIR, pair)])
    plan = builder.finish()
    assert plan.streams["gpu"].tolist() == [0, 1, 2, 2]
    assert plan.streams["first_flow"].tolist() == [0, 5, 10, 15]
    assert plan.streams["first_task"].tolist() == [0, 2, 4, 6]
    assert (plan.flows_per_iteration, plan.tasks_per_iteration, plan.n_flow, plan.n_task) == (20, 8, 60, 24)
    assert plan.pair_bytes.tolist() == [27] * 4
    assert plan.kinds == ("a", "b")


def test_who_consumes_a_pairs_messages_and_who_stands_behind_a_gate():
    builder = PlanBuilder("test", 3)
    pair, gate = builder.pair(2, 0), builder.gate()
    late = builder.stream(2, "late", [Operation(OP_PASS, 0), send()], [(SLOT_GATE, gate)] * 2, passes=(gate,))
    early = builder.stream(0, "early", [Operation(OP_RECEIVE, 0)], [(SLOT_PAIR, pair)])
    builder.stream(2, "opener", [Operation(OP_OPEN, 0)], [(SLOT_GATE, gate)])
    plan = builder.finish()
    assert (late, early) == (0, 1)  # in order of writing; in the plan they stand by GPU
    assert plan.pair_stream.tolist() == [0]
    assert plan.gate_stream.tolist() == [1]


def test_a_plan_without_queue_pairs_has_empty_columns():
    builder = PlanBuilder("test", 1)
    builder.stream(0, "main", [Operation(OP_COMPUTE, time_ps=3)], [])
    plan = builder.finish()
    assert len(plan.pair_src) == len(plan.pair_bytes) == len(plan.pair_stream) == 0


def test_what_cannot_be_is_refused():
    builder = PlanBuilder("test", 2)
    with pytest.raises(ConfigError, match="a queue pair from host 1 to itself"):
        builder.pair(1, 1)
    with pytest.raises(ConfigError, match="an empty program"):
        builder.stream(0, "main", [], [])
