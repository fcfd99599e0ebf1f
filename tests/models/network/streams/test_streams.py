"""Claims about running streams: loops, computing beside collectives, random computing times, and what time goes to."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.topology.leaf_spine import leaf_spine
from models.workload.operations import Operation, Program, Repeat, burst_of, use_of
from models.workload.plan import SLOT_GATE, SLOT_GROUP, SLOT_PAIR, PlanBuilder, WorkloadPlan
from models.workload.program import (
    MAX_DEPTH,
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_RING,
    OP_SEND,
    PARTS,
)
from pdes.errors import SimError
from pdes.random_plain import PURPOSE_COMPUTE, random_bits_plain
from reference.network_case import Outcome, make_plan_case

GBPS, NS, US = 10**9, 10**3, 10**6


def compute(time_ps: int) -> Operation:
    return Operation(OP_COMPUTE, time_ps=time_ps, task="forward")


def both_ways(program: Program, n_iteration: int = 1) -> WorkloadPlan:
    """The same program on two hosts; slot 0 is the queue pair to the other one, slot 1 that from it."""
    builder = PlanBuilder("test", 2, n_iteration)
    forth, back = builder.pair(0, 1), builder.pair(1, 0)
    builder.stream(0, "main", program, [(SLOT_PAIR, forth), (SLOT_PAIR, back)])
    builder.stream(1, "main", program, [(SLOT_PAIR, back), (SLOT_PAIR, forth)])
    return builder.finish()


def run(plan: WorkloadPlan, topology=None) -> Outcome:
    return make_plan_case(topology or leaf_spine(1, 0, 2, 100 * GBPS, 100 * GBPS, US, US), plan).run()


def unrolled(program: Program) -> list[Operation]:
    ops: list[Operation] = []
    for op in program:
        ops += unrolled(op.body) * op.n if isinstance(op, Repeat) else [op]
    return ops


OPERATIONS = st.sampled_from(
    [
        compute(3 * US),
        Operation(OP_SEND, 0, size_bytes=5000, tag="a"),
        Operation(OP_RING, 0, 1, 3, 4000, task="dp", task_bytes=9, tag="b"),
        Operation(OP_EXCHANGE, 0, 1, 1, 2500, task="ep", tag="c"),
    ]
)
PROGRAMS = st.recursive(
    st.lists(OPERATIONS, min_size=1, max_size=3).map(tuple),
    lambda inner: st.lists(
        st.one_of(OPERATIONS, st.builds(Repeat, st.integers(1, 4), inner)), min_size=1, max_size=3
    ).map(tuple),
    max_leaves=3,
)


@settings(max_examples=25)
@given(PROGRAMS, st.integers(1, 3))
def test_a_loop_runs_as_the_operations_written_out(program, n_iteration):
    """Sends are received by nobody here but rings and exchanges, which take them for theirs, in both forms alike."""
    looped, plain = both_ways(program, n_iteration), both_ways(unrolled(program), n_iteration)
    assert use_of(program)[:2] == use_of(unrolled(program))[:2]
    assert (looped.flows_per_iteration, looped.tasks_per_iteration) == (
        plain.flows_per_iteration,
        plain.tasks_per_iteration,
    )
    assert looped.pair_bytes.tolist() == plain.pair_bytes.tolist()
    a, b = run(looped), run(plain)
    assert (a.flows, a.tasks, a.spent, a.ports) == (b.flows, b.tasks, b.spent, b.ports)


@given(PROGRAMS, st.integers(1, 3))
def test_a_loop_bursts_no_more_than_the_operations_written_out_and_no_less(program, n_iteration):
    assert burst_of(program, n_iteration) == burst_of(unrolled(program), n_iteration)


def test_a_loop_takes_a_row_however_often_it_runs():
    plan = both_ways([Repeat(10**6, (compute(1), Repeat(100, (compute(1),))))])
    assert len(plan.operations) == 4 and plan.tasks_per_iteration == 2 * 10**6 * 101


def test_loops_nest_as_deep_as_they_may_and_no_deeper():
    program: Program = [compute(NS)]
    for _ in range(MAX_DEPTH):
        program = [Repeat(2, tuple(program))]
    assert len(run(both_ways(program)).tasks) == 2 * 2**MAX_DEPTH
    with pytest.raises(SimError, match="loops in each other"):
        both_ways([Repeat(2, tuple(program))])


def beside(compute_ps: int, ring: Operation, phi_1024: int, delay_ps: int = 0) -> Outcome:
    """Host 0 computes while another stream of it takes part in a ring with host 1, which joins it delay_ps late."""
    builder = PlanBuilder("test", 2)
    forth, back = builder.pair(0, 1), builder.pair(1, 0)
    builder.stream(0, "main", [compute(compute_ps)], [])
    builder.stream(0, "ring", [ring], [(SLOT_PAIR, forth), (SLOT_PAIR, back)])
    ahead = [compute(delay_ps)] if delay_ps else []
    builder.stream(1, "ring", [*ahead, ring], [(SLOT_PAIR, back), (SLOT_PAIR, forth)])
    return run(replace(builder.finish(), slowed_1024=phi_1024))


def ends(outcome: Outcome) -> dict[int, int]:
    """End of each task by its id: 0 what host 0 computes, 1 its ring."""
    return {row[0]: row[6] for row in outcome.tasks}


RING = Operation(OP_RING, 0, 1, 4, 100_000, task="dp")


def test_computing_takes_longer_while_the_gpu_communicates():
    """Half the speed during the ring, and full speed after it: the end is late by half of the ring's time."""
    alone, slowed = ends(beside(1000 * US, RING, 1024)), ends(beside(1000 * US, RING, 2048))
    assert alone[0] == 1000 * US and slowed[1] == alone[1]
    assert abs(slowed[0] - (1000 * US + alone[1] // 2)) <= 1
    inside = ends(beside(5 * US, RING, 2048))
    assert inside[0] == 10 * US < alone[1]


def test_a_gpu_that_waits_for_others_in_a_collective_communicates():
    """The kernels of a collective wait on the processors."""
    late = ends(beside(1000 * US, RING, 2048, delay_ps=300 * US))
    assert abs(late[0] - (1000 * US + late[1] // 2)) <= 1 and late[1] > 300 * US


def test_timed_collectives_slow_computing_too():
    builder = PlanBuilder("test", 2)
    group = builder.group()
    timed = Operation(OP_GROUP, 0, time_ps=100 * US, task="tp")
    builder.stream(0, "main", [compute(US * 400)], [])
    builder.stream(0, "tp", [compute(200 * US), timed], [(SLOT_GROUP, group)])
    outcome = run(replace(builder.finish(), slowed_1024=1536))
    main = next(row for row in outcome.tasks if row[0] == 0)
    assert main[6] == 400 * US + 100 * US // 3 + 1  # 100 us at two thirds of the speed


def test_a_computation_may_be_slowed_by_as_much_as_its_own_kernels():
    """A computation's own factor stands before that of its job, whether the ring is there first or comes to it."""

    def both(first_ps: int) -> dict[int, int]:
        builder = PlanBuilder("test", 2)
        forth, back = builder.pair(0, 1), builder.pair(1, 0)
        builder.stream(0, "main", [compute(first_ps), replace(compute(1000 * US), slowed_1024=1536)], [])
        builder.stream(0, "ring", [compute(50 * US), RING], [(SLOT_PAIR, forth), (SLOT_PAIR, back)])
        builder.stream(1, "ring", [compute(50 * US), RING], [(SLOT_PAIR, back), (SLOT_PAIR, forth)])
        return ends(run(replace(builder.finish(), slowed_1024=4096)))

    for first_ps in (20 * US, 49 * US):  # before the ring begins
        found = both(first_ps)
        ring_ps = found[3] - found[2]
        assert abs(found[1] - (first_ps + 1000 * US + ring_ps // 3)) <= 2  # two thirds of its speed
    unslowed = replace(compute(100 * US), slowed_1024=1024)
    builder = PlanBuilder("test", 2)
    forth, back = builder.pair(0, 1), builder.pair(1, 0)
    builder.stream(0, "main", [unslowed], [])
    builder.stream(0, "ring", [RING], [(SLOT_PAIR, forth), (SLOT_PAIR, back)])
    builder.stream(1, "ring", [RING], [(SLOT_PAIR, back), (SLOT_PAIR, forth)])
    assert ends(run(replace(builder.finish(), slowed_1024=2048)))[0] == 100 * US


def test_random_computing_times_are_drawn_by_task():
    plan = replace(both_ways([Repeat(20, (compute(100 * US),))]), jitter_ppm=30_000)
    rows = sorted(run(plan).tasks)
    for row in rows:
        part_ppm = random_bits_plain(1, row[0], PURPOSE_COMPUTE, 0) % 60_001 - 30_000
        assert row[6] - row[5] == 100 * US + 100 * US * part_ppm // 10**6
    assert len({row[6] - row[5] for row in rows}) > 30


def test_all_of_a_main_streams_time_is_accounted_for():
    """A gate, a receive, a ring, and computing: the parts add up to the time from one end to the next."""
    builder = PlanBuilder("test", 2, 3)
    forth, back = builder.pair(0, 1), builder.pair(1, 0)
    ring = Operation(OP_RING, 0, 1, 2, 50_000, task="dp")
    gate = builder.gate()
    wait = Operation(OP_PASS, 2, task="dp")
    builder.stream(0, "main", [compute(7 * US), wait, compute(US)], [(SLOT_PAIR, 0)] * 2 + [(SLOT_GATE, gate)], (gate,))
    builder.stream(0, "dp", [ring, Operation(OP_OPEN, 2)], [(SLOT_PAIR, forth), (SLOT_PAIR, back), (SLOT_GATE, gate)])
    builder.stream(1, "main", [ring, compute(2 * US)], [(SLOT_PAIR, back), (SLOT_PAIR, forth)])
    outcome = run(builder.finish())
    assert len(outcome.spent) == 2 * 3
    before = {0: 0, 1: 0}
    for row in sorted(outcome.spent):
        row_id, gpu, iteration, end_ps = row[:4]
        assert row_id == 2 * iteration + gpu
        assert sum(row[4:]) == end_ps - before[gpu]
        assert row[4 + PARTS.index("compute")] == (8 * US if gpu == 0 else 2 * US)
        assert row[4 + PARTS.index("dp")] > 0
        before[gpu] = end_ps


def test_receives_and_sends_in_loops_keep_their_order():
    """Host 1 takes ten messages one by one; each is posted after a microsecond of computing."""
    builder = PlanBuilder("test", 2)
    pair = builder.pair(0, 1)
    builder.stream(0, "main", [Repeat(10, (compute(US), Operation(OP_SEND, 0, size_bytes=1000)))], [(SLOT_PAIR, pair)])
    taken = Operation(OP_RECEIVE, 0, task="pp-wait")
    builder.stream(1, "main", [Repeat(10, (taken,))], [(SLOT_PAIR, pair)])
    outcome = run(builder.finish())
    assert [outcome.flows[i][0] for i in range(10)] == [(1 + i) * US for i in range(10)]
    assert [row[6] for row in sorted(outcome.tasks)[10:]] == [outcome.flows[i][1] for i in range(10)]
