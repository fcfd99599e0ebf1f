"""What a pass through a loop does, counted from the program, against the program written out."""

import numpy as np
import pytest

from models.workload.operations import Operation, Program, Repeat
from models.workload.pass_use import PassUse, times_of, use_of_passes
from models.workload.plan import SLOT_GATE, SLOT_GROUP, SLOT_PAIR, PlanBuilder, Slot, WorkloadPlan
from models.workload.program import (
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_REPEAT,
    OP_RING,
    OP_SEND,
    OP_WAIT,
    Work,
)
from reference.training_case import expanded

PAYLOAD_BYTES = 1000
COMPUTE = Operation(OP_COMPUTE, time_ps=5, task="forward")


class Built:
    """Streams of GPUs with slots, as the network has them, but for what it adds."""

    def __init__(self, n_gpu: int) -> None:
        self.builder, self.programs, self.slots = PlanBuilder("test", n_gpu), [], []
        self.n_pair = 0

    def pair(self, src: int, dst: int) -> Slot:
        self.n_pair += 1
        return SLOT_PAIR, self.builder.pair(src, dst)

    def use(self, *streams: tuple[int, str, Program, list[Slot]], takes: bool = True) -> PassUse:
        """Of the last loop that each stream's program has, at depth 0."""
        for stream in streams:
            self.builder.stream(*stream)
        plan: WorkloadPlan = self.builder.finish({})
        repeat_of = np.full(len(plan.streams), -1, np.int64)
        for i, stream in enumerate(plan.streams):
            rows = range(int(stream["first_operation"]), int(stream["end_operation"]))
            loops = [r for r in rows if plan.operations["kind"][r] == OP_REPEAT and plan.operations["slot_in"][r] == 0]
            repeat_of[i] = loops[-1] if loops else -1
        groups = np.zeros(len(plan.group_start) - 1, [("first_member", np.int32), ("end_member", np.int32)])
        groups["first_member"], groups["end_member"] = plan.group_start[:-1], plan.group_start[1:]
        work: Work = type("", (), {
            "streams": plan.streams, "operations": plan.operations, "slots": plan.slots, "groups": groups,
            "gates": np.zeros(len(plan.gate_stream)),
        })  # type: ignore[assignment]  # fmt: skip
        consumer = plan.pair_stream if takes else np.full(len(plan.pair_stream), -1, np.int64)
        return use_of_passes(work, repeat_of, consumer, PAYLOAD_BYTES)


def loop(*body: Operation | Repeat) -> list[Operation | Repeat]:
    return [COMPUTE, Repeat(7, body), COMPUTE]


def test_a_ring_posts_what_its_members_take() -> None:
    """Three GPUs, a nested loop of two rings of five steps: packets of 2,500 B are three, and lack 500 B."""
    built = Built(3)
    out = [built.pair(g, (g + 1) % 3) for g in range(3)]
    ring = Operation(OP_RING, 0, 1, n_step=5, size_bytes=2500, task="dp")
    body = (COMPUTE, Repeat(2, (ring, COMPUTE)))
    use = built.use(*((g, "main", loop(*body), [out[g], out[g - 1]]) for g in range(3)))
    assert use.is_even
    assert use.flows.tolist() == [10] * 3 and use.tasks.tolist() == [1 + 2 * 2] * 3
    assert (
        use.posts.tolist() == [10] * 3 and use.packets.tolist() == [30] * 3 and use.short_bytes.tolist() == [5000] * 3
    )
    written_out = list(expanded(body))
    assert use.flows[0] == sum(op.n_flow() for op in written_out)
    assert use.tasks[0] == sum(bool(op.task) for op in written_out)


@pytest.mark.parametrize(("n_taken", "is_even"), [(1, False), (2, True), (3, False)])
def test_passes_that_take_more_or_less_than_is_posted_are_uneven(n_taken: int, is_even: bool) -> None:
    built = Built(2)
    way = built.pair(0, 1)
    send = Operation(OP_SEND, 0, size_bytes=700)
    receive = Operation(OP_RECEIVE, 0)
    use = built.use((0, "main", loop(send, send), [way]), (1, "main", loop(*[receive] * n_taken), [way]))
    assert use.is_even == is_even and use.posts.tolist() == [2] and use.short_bytes.tolist() == [600]


def test_a_receiver_that_is_in_no_loop_makes_them_uneven_unless_nobody_takes_the_messages() -> None:
    send = Operation(OP_SEND, 0, size_bytes=700)
    for takes in (True, False):
        built = Built(2)
        way = built.pair(0, 1)
        receiver = (1, "main", [Operation(OP_RECEIVE, 0)] * 7, [way])
        assert built.use((0, "main", loop(send), [way]), receiver, takes=takes).is_even == (not takes)


def test_an_exchange_posts_to_each_and_takes_from_each() -> None:
    built = Built(3)
    ways = {(a, b): built.pair(a, b) for a in range(3) for b in range(3) if a != b}
    exchange = Operation(OP_EXCHANGE, 0, 2, n_step=2, size_bytes=1000, task="ep")
    streams = []
    for g in range(3):
        others = [o for o in range(3) if o != g]
        streams.append((g, "main", loop(exchange), [*(ways[g, o] for o in others), *(ways[o, g] for o in others)]))
    use = built.use(*streams)
    assert use.is_even and use.flows.tolist() == [2] * 3 and use.posts.tolist() == [1] * 6
    assert use.packets.tolist() == [1] * 6 and not use.short_bytes.any()


@pytest.mark.parametrize("n_passed", [1, 2])
def test_gates_are_passed_as_often_as_opened(n_passed: int) -> None:
    built = Built(1)
    gate = (SLOT_GATE, built.builder.gate())
    opens = loop(Operation(OP_OPEN, 0), COMPUTE)
    passes = loop(*[Operation(OP_PASS, 0)] * n_passed)
    assert built.use((0, "main", opens, [gate]), (0, "beside", passes, [gate])).is_even == (n_passed == 1)


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 2), (1, 0)])
def test_all_members_come_to_a_group_equally_often(counts: tuple[int, int]) -> None:
    built = Built(2)
    group = (SLOT_GROUP, built.builder.group())
    join = Operation(OP_GROUP, 0, time_ps=9, task="tp")
    use = built.use(*((g, "main", [join, *loop(*[join] * n, COMPUTE)], [group]) for g, n in enumerate(counts)))
    assert use.is_even == (counts[0] == counts[1])


@pytest.mark.parametrize("op", [Operation(OP_WAIT, time_ps=3), Operation(OP_SEND, 0, size_bytes=1, time_ps=3)])
def test_nothing_that_waits_for_an_instant_may_be_in_a_pass(op: Operation) -> None:
    built = Built(2)
    way = built.pair(0, 1)
    assert not built.use((0, "main", loop(op), [way]), (1, "main", [COMPUTE], []), takes=False).is_even


def test_loops_in_loops_multiply() -> None:
    built = Built(1)
    built.builder.stream(0, "main", [Repeat(9, (COMPUTE, Repeat(3, (COMPUTE, Repeat(4, (COMPUTE,)))), COMPUTE))], [])
    operations = built.builder.finish({}).operations
    outer = next(i for i, op in enumerate(operations) if op["kind"] == OP_REPEAT and op["slot_in"] == 0)
    kinds = operations["kind"][outer - int(operations["slot"][outer]) : outer]
    assert times_of(operations, outer)[kinds == OP_COMPUTE].tolist() == [1, 3, 12, 1]
