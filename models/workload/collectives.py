"""Collectives as operations: ring all-reduce, reduce-scatter and all-gather, all-to-all, point to point.

Sizes: `size_bytes` is the whole buffer of a rank (for an all-gather: the gathered result). Every step of a ring carries
one chunk of ceil(size / n) bytes, as NCCL pads, and is sent when the chunk before it has arrived (Patarasuk and Yuan
2009, section 3). An all-to-all sends ceil(size / n) to each peer, the next GPU first, all at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from models.workload.operations import Repeat
from models.workload.plan import SLOT_GATE, SLOT_PAIR, Operation, PlanBuilder, Slot, WorkloadPlan
from models.workload.program import OP_EXCHANGE, OP_OPEN, OP_PASS, OP_RECEIVE, OP_RING, OP_SEND, OP_WAIT
from pdes.errors import ConfigError

RING_STEPS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}  # times n - 1
OPERATIONS = (*RING_STEPS, "all-to-all", "point-to-point")


@dataclass(frozen=True)
class Collective:
    """One collective over some GPUs. after: names of collectives that must be done on a GPU before it joins."""

    name: str
    operation: str
    size_bytes: int
    gpus: tuple[int, ...]
    start_ps: int = 0
    after: tuple[str, ...] = ()


class Part(NamedTuple):
    """What one stream of a GPU does of a collective: operations that use the slots from 0 on. passes: gates in them."""

    gpu: int
    stream: str
    operations: Sequence[Operation | Repeat]
    slots: list[Slot]
    passes: tuple[int, ...] = ()


def chunk_bytes(size_bytes: int, n_gpu: int) -> int:
    """Bytes of one chunk."""
    return -(-size_bytes // n_gpu)


def ring_operation(
    operation: str, size_bytes: int, n_gpu: int, slot: int, slot_in: int, task: str, tag: str
) -> Operation:
    """A ring collective over queue pairs to the next (slot) and from the previous (slot_in) GPU of the ring."""
    return Operation(
        OP_RING, slot, slot_in, RING_STEPS[operation] * (n_gpu - 1), chunk_bytes(size_bytes, n_gpu),
        task=task, task_bytes=size_bytes, tag=tag,
    )  # fmt: skip


def ring_pairs(builder: PlanBuilder, gpus: tuple[int, ...]) -> list[list[Slot]]:
    """Queue pairs of a ring; for each GPU its slots: to the next one, from the previous one."""
    to_next = [builder.pair(gpu, gpus[(i + 1) % len(gpus)]) for i, gpu in enumerate(gpus)]
    return [[(SLOT_PAIR, to_next[i]), (SLOT_PAIR, to_next[i - 1])] for i in range(len(gpus))]


def exchange_pairs(builder: PlanBuilder, gpus: tuple[int, ...]) -> list[list[Slot]]:
    """Queue pairs of an all-to-all; each GPU's slots: to every other GPU, the next one first, then from every other."""
    n = len(gpus)
    pair = {(i, j): builder.pair(gpus[i], gpus[j]) for i in range(n) for j in range(n) if i != j}
    return [
        [(SLOT_PAIR, pair[i, (i + k) % n]) for k in range(1, n)]
        + [(SLOT_PAIR, pair[(i - k) % n, i]) for k in range(1, n)]
        for i in range(n)
    ]


def packet_parts(builder: PlanBuilder, job: Collective) -> list[Part]:
    """A collective without anything timed: one stream for each of its GPUs."""
    n = len(job.gpus)
    if job.operation in RING_STEPS:
        op = ring_operation(job.operation, job.size_bytes, n, 0, 1, "collective", job.name)
        return [
            Part(gpu, job.name, [op], slots) for gpu, slots in zip(job.gpus, ring_pairs(builder, job.gpus), strict=True)
        ]
    if job.operation == "all-to-all":
        op = Operation(
            OP_EXCHANGE, 0, n - 1, n - 1, chunk_bytes(job.size_bytes, n),
            task="collective", task_bytes=job.size_bytes, tag=job.name,
        )  # fmt: skip
        return [
            Part(gpu, job.name, [op], slots)
            for gpu, slots in zip(job.gpus, exchange_pairs(builder, job.gpus), strict=True)
        ]
    pair: list[Slot] = [(SLOT_PAIR, builder.pair(job.gpus[0], job.gpus[1]))]
    send = Operation(OP_SEND, 0, size_bytes=job.size_bytes, tag=job.name)
    receive = Operation(OP_RECEIVE, 0, task="collective", task_bytes=job.size_bytes)
    return [Part(job.gpus[0], job.name, [send], pair), Part(job.gpus[1], job.name, [receive], pair)]


MakeParts = Callable[[PlanBuilder, Collective], list[Part]]


def _check(job: Collective, n_host: int, known: set[str], operations: tuple[str, ...]) -> None:
    where = f"[[workload.collective]] {job.name}"
    if job.operation not in operations:
        raise ConfigError(where, f'operation = "{job.operation}"', f"Accepted: {', '.join(operations)}")
    if len(set(job.gpus)) != len(job.gpus) or len(job.gpus) < 2:
        raise ConfigError(where, f"gpus = {list(job.gpus)[:8]}", "at least two GPUs, none of them twice")
    if job.operation == "point-to-point" and len(job.gpus) != 2:
        raise ConfigError(where, f"{len(job.gpus)} GPUs", "a point-to-point has two: from the first to the second")
    outside = [gpu for gpu in job.gpus if not 0 <= gpu < n_host]
    if outside:
        raise ConfigError(where, f"GPU {outside[0]}", f"the topology has GPUs 0..{n_host - 1}")
    missing = [name for name in job.after if name not in known]
    if missing:
        raise ConfigError(where, f'after = "{missing[0]}"', "the name of a collective above this one")


def plan_collectives(
    jobs: list[Collective],
    n_host: int,
    n_iteration: int = 1,
    make_parts: MakeParts = packet_parts,
    operations: tuple[str, ...] = OPERATIONS,
) -> WorkloadPlan:
    """Every collective is a stream, or several, on each of its GPUs; `after` holds a GPU's part back until its earlier
    part is done. make_parts plans one collective; operations: those that it knows.

    Raises ConfigError that names the collective.
    """
    builder = PlanBuilder("collectives", n_host, n_iteration)
    known: set[str] = set()
    for job in jobs:
        _check(job, n_host, known, operations)
        known.add(job.name)
    parts = [(job, part) for job in jobs for part in make_parts(builder, job)]
    here: dict[tuple[str, int], list[int]] = {}
    for i, (job, part) in enumerate(parts):
        here.setdefault((job.name, part.gpu), []).append(i)
    gates: dict[int, list[int]] = {i: [] for i in range(len(parts))}  # that a part opens
    before: dict[int, list[int]] = {i: [] for i in range(len(parts))}
    for i, (job, part) in enumerate(parts):
        for earlier in (j for name in job.after for j in here.get((name, part.gpu), ())):
            gate = builder.gate()
            gates[earlier].append(gate)
            before[i].append(gate)
    for i, (job, part) in enumerate(parts):
        n_slot = len(part.slots)
        program: list[Operation | Repeat] = [Operation(OP_WAIT, time_ps=job.start_ps)] if job.start_ps else []
        program += [Operation(OP_PASS, n_slot + k) for k in range(len(before[i]))]
        program += part.operations
        program += [Operation(OP_OPEN, n_slot + len(before[i]) + k) for k in range(len(gates[i]))]
        slots = part.slots + [(SLOT_GATE, gate) for gate in before[i] + gates[i]]
        builder.stream(part.gpu, part.stream, program, slots, passes=(*part.passes, *before[i]))
    return builder.finish({"collectives": len(jobs), "payload_bytes": builder.payload_bytes()})
