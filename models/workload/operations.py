"""Programs as their writers give them, operations and loops, and what they do in an iteration, without running them.

`program` has the same as the engine sees it. Counted here: messages, task rows, bytes, and the most at one instant.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from models.workload.program import (
    OP_COMPUTE,
    OP_END_NODE,
    OP_EXCHANGE,
    OP_GRAPH,
    OP_GROUP,
    OP_RECEIVE,
    OP_RING,
    OP_SEND,
)


@dataclass(frozen=True)
class Operation:
    """One operation of a program; the fields are those of `program.OPERATION` that a writer decides."""

    kind: int
    slot: int = 0
    slot_in: int = 0
    n_step: int = 1
    size_bytes: int = 0
    time_ps: int = 0
    task: str = ""
    task_bytes: int = 0
    tag: str = ""
    slowed_1024: int = 0

    def n_flow(self) -> int:
        """Messages that it sends."""
        return self.n_step if self.kind in (OP_RING, OP_EXCHANGE, OP_GRAPH) else int(self.kind == OP_SEND)

    def takes_time(self) -> bool:
        """Whether nothing behind it can happen at the instant at which it begins."""
        return self.kind == OP_END_NODE or (self.kind in (OP_COMPUTE, OP_GROUP) and self.time_ps > 0)

    def holds(self) -> bool:
        """Whether it waits for what other members do in it."""
        return self.kind in (OP_RING, OP_EXCHANGE)


@dataclass(frozen=True)
class Repeat:
    """A part of a program that runs n times, at least once."""

    n: int
    body: tuple["Operation | Repeat", ...]


Program = Sequence[Operation | Repeat]


class Use(NamedTuple):
    """What one iteration of a program does. Slots as the program numbers them."""

    n_flow: int
    n_task: int
    sends: tuple[tuple[int, int], ...]  # (slot, bytes)
    receives: tuple[int, ...]  # slots whose messages it consumes
    groups: tuple[tuple[int, int], ...]  # (slot, least duration in ps)


def with_counts(program: Program, n: int = 1) -> Iterator[tuple[Operation, int]]:
    """Every operation and how often it runs in an iteration."""
    for op in program:
        if isinstance(op, Repeat):
            yield from with_counts(op.body, n * op.n)
        else:
            yield op, n


def use_of(program: Program) -> Use:
    """Count what a program does."""
    n_flow = n_task = 0
    sends: Counter[int] = Counter()
    receives: dict[int, None] = {}
    groups: dict[int, int] = {}
    for op, n in with_counts(program):
        n_flow += n * op.n_flow()
        n_task += n * bool(op.task)
        if op.kind == OP_GROUP:
            groups[op.slot] = min(groups.get(op.slot, op.time_ps), op.time_ps)
        elif op.kind in (OP_SEND, OP_RING):
            sends[op.slot] += n * op.n_flow() * op.size_bytes
        elif op.kind == OP_EXCHANGE:
            sends.update({op.slot + k: n * op.size_bytes for k in range(op.n_step)})
            receives.update(dict.fromkeys(range(op.slot_in, op.slot_in + op.n_step)))
        if op.kind == OP_RECEIVE:
            receives[op.slot] = None
        elif op.kind == OP_RING:
            receives[op.slot_in] = None
    return Use(n_flow, n_task, tuple(sends.items()), tuple(receives), tuple(groups.items()))


def _unrolled(program: Program) -> Iterator[Operation | tuple[Operation, int]]:
    """The program with every loop that holds run four times, which shows all that it can do at once, and one that takes
    time twice: nothing goes on over an operation that does, so what comes before a third time comes before the second.

    A loop that does neither passes at one instant: as a pair of its first operation and all messages and rows of it.
    """
    for op in program:
        if not isinstance(op, Repeat):
            yield op
        elif any(inner.takes_time() for inner, _ in with_counts(op.body)):
            yield from list(_unrolled(op.body)) * min(op.n, 2)
        elif any(inner.holds() for inner, _ in with_counts(op.body)):
            yield from list(_unrolled(op.body)) * min(op.n, 4)
        else:
            counts = list(with_counts(op.body, op.n))
            yield counts[0][0], sum(n * (inner.n_flow() + 1) for inner, n in counts)


def burst_of(program: Program, n_iteration: int = 1) -> int:
    """Most messages and rows that one event can cause in a program: the longest run between operations that take time.

    Waits for an instant do not count, as they hold once at most. Where no operation takes time, rings and exchanges
    hold a stream back: nobody completes one that another member has not begun, so an event ends at most the one under
    way and the next one, and begins a third. Without either, all iterations can follow each other at once.
    """
    longest = current = 0
    since_hold: list[int] = []  # what came before each operation that holds, in this run
    takes_time = any(op.takes_time() for op, _ in with_counts(program))
    holds = takes_time or any(op.holds() for op, _ in with_counts(program))
    n_lap = 2 if takes_time else 3 if holds else max(3, n_iteration)
    once = list(_unrolled(program))
    if n_lap > 3:
        return n_lap * sum(_weight(op) for op in once)
    for op in once * n_lap:
        if isinstance(op, Operation) and op.takes_time():
            longest, current, since_hold = max(longest, current), 0, []
        current += _weight(op)
        if isinstance(op, Operation) and op.holds():
            since_hold.append(current)
            if len(since_hold) > 3:
                current -= since_hold[0]
                since_hold = [at - since_hold[0] for at in since_hold[1:]]
            longest = max(longest, current)
    return max(longest, current)


def _weight(op: Operation | tuple[Operation, int]) -> int:
    """A graph posts one message, or writes one row, in an event."""
    if isinstance(op, tuple):
        return op[1]
    return 2 if op.kind == OP_GRAPH else op.n_flow() + 1
