"""Programs of a collective carried out with symbols, without a network: who waits for whom, and what is in a message.

Operations are taken one by one: a ring posts, waits, posts again; a group lets all of it go on. What a message carries
is for a `Meaning` to say; it knows slots by their keys.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Protocol

from models.workload.nccl.communicator import Communicator
from models.workload.operations import Operation, Program, Repeat
from models.workload.plan import SLOT_GROUP, PlanBuilder
from models.workload.program import OP_EXCHANGE, OP_GROUP, OP_RECEIVE, OP_RING, OP_SEND
from models.workload.slots import SlotNames

Action = tuple[str, int, int]
"""("post", slot, bytes), ("take", slot, 0) or ("group", slot, ps)."""


class Meaning(Protocol):
    """What messages carry. key: of the slot; n: how many went or came there before."""

    def post(self, gpu: int, key: str, n: int) -> object:
        """The content of a message."""

    def take(self, gpu: int, key: str, n: int, content: object) -> None:
        """A message arrives."""


def actions(program: Program) -> Iterator[Action]:
    """A program unrolled."""
    for op in program:
        if isinstance(op, Repeat):
            for _ in range(op.n):
                yield from actions(op.body)
        elif op.kind == OP_RING:
            for _ in range(op.n_step):
                yield "post", op.slot, op.size_bytes
                yield "take", op.slot_in, 0
        elif op.kind == OP_EXCHANGE:
            yield from (("post", op.slot + k, op.size_bytes) for k in range(op.n_step))
            yield from (("take", op.slot_in + k, 0) for k in range(op.n_step))
        else:
            yield _single(op)


def _single(op: Operation) -> Action:
    if op.kind == OP_SEND:
        return "post", op.slot, op.size_bytes
    if op.kind == OP_RECEIVE:
        return "take", op.slot, 0
    assert op.kind == OP_GROUP
    return "group", op.slot, op.time_ps


def keys_of(names: SlotNames) -> list[str]:
    """The key of each slot of a program."""
    return [key for key, (_, n) in names._first.items() for _ in range(n)]


def carry_out(communicator: Communicator, n_host: int, kind: str, size_bytes: int, meaning: Meaning) -> Counter:
    """Run a collective as each member plans it; bytes by (sender, receiver). AssertionError if it stops half-way."""
    members = [gpu for group in communicator.layout.groups for gpu in group]
    programs = {}
    for gpu in members:
        names = SlotNames()
        programs[gpu] = names, communicator.operations_of(gpu, names, kind, size_bytes, "dp", "dp")
    builder = PlanBuilder("symbols", n_host)
    table = communicator.connect(builder)
    slots = {gpu: names.resolve(table[gpu]) for gpu, (names, _) in programs.items()}
    keys = {gpu: [key.split(":", 1)[1] for key in keys_of(names)] for gpu, (names, _) in programs.items()}
    left = {gpu: deque(actions(program)) for gpu, (_, program) in programs.items()}
    sizes = Counter(slot for gpu in members for slot in slots[gpu] if slot[0] == SLOT_GROUP)
    wires: dict[int, deque] = {}
    arrived: dict[int, set[int]] = {}
    count: Counter = Counter()
    sent: Counter = Counter()
    moved = True
    while moved:
        moved = False
        for gpu in members:
            while left[gpu]:
                what, slot, number = left[gpu][0]
                wire, key = slots[gpu][slot][1], keys[gpu][slot]
                if what == "post":
                    wires.setdefault(wire, deque()).append(meaning.post(gpu, key, count[gpu, slot]))
                    sent[builder._pairs[wire][:2]] += number
                elif what == "take":
                    if not wires.get(wire):
                        break
                    meaning.take(gpu, key, count[gpu, slot], wires[wire].popleft())
                else:
                    here = arrived.setdefault(wire, set())
                    here.add(gpu)
                    if len(here) < sizes[SLOT_GROUP, wire]:
                        break
                    for other in here:
                        left[other].popleft()
                    arrived[wire] = set()
                    moved = True
                    continue
                count[gpu, slot] += 1
                left[gpu].popleft()
                moved = True
    assert not any(left.values()), {gpu: actions[0] for gpu, actions in left.items() if actions}
    assert not any(wires.values())
    return sent
