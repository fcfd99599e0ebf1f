"""A plan's programs step by step: loops and iterations written out, slots resolved, for those who write them down."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from models.workload.plan import SLOT_GATE, SLOT_GROUP, SLOT_PAIR, WorkloadPlan
from models.workload.program import (
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_REPEAT,
    OP_RING,
    OP_SEND,
    OP_START,
)
from pdes.errors import ConfigError

MAX_STEPS = 10**7


class Step(NamedTuple):
    """One operation as it runs. out, into: queue pairs that it sends on and takes from; number: gate or group."""

    kind: int
    iteration: int
    out: tuple[int, ...]
    into: tuple[int, ...]
    number: int
    n_step: int
    size_bytes: int
    time_ps: int
    task: str
    task_bytes: int
    tag: str
    slowed_1024: int = 0


def check_exportable(plan: WorkloadPlan) -> None:
    """Raise ConfigError for a plan that cannot be written step by step."""
    accepted = 'a [workload] of kind "training" or "collectives"'
    if plan.jobs:
        raise ConfigError("[[job]]", f"{len(plan.jobs)} jobs", f"{accepted}, alone")
    if plan.graph is not None or (plan.operations["kind"] == OP_START).any():
        raise ConfigError(f"workload {plan.name}", "no programs of GPUs, but flows or another tool's trace", accepted)
    if plan.n_part > 1:
        raise ConfigError("[network.routing] queue_pairs_per_flow", f"{plan.n_part}", "1 to export a workload")


def rows_of(plan: WorkloadPlan, stream: np.void) -> list[int]:
    """Places in the operation table that a stream runs in an iteration, loops written out."""
    rows: list[int] = []
    _unroll(plan.operations, int(stream["first_operation"]), int(stream["end_operation"]), rows)
    return rows


def _unroll(operations: np.ndarray, first: int, end: int, rows: list[int]) -> None:
    """Append what operations[first:end] run; a loop's mark stands behind its body."""
    k = end - 1
    parts: list[list[int]] = []
    while k >= first:
        if operations["kind"][k] == OP_REPEAT:
            n_back = int(operations["slot"][k])
            body: list[int] = []
            _unroll(operations, k - n_back, k, body)
            if len(body) * int(operations["n_step"][k]) > MAX_STEPS:
                raise ConfigError("the workload", f"more than {MAX_STEPS} operations of one GPU", "a smaller one")
            parts.append(body * int(operations["n_step"][k]))
            k -= n_back + 1
        else:
            parts.append([k])
            k -= 1
    for part in reversed(parts):
        rows.extend(part)


def steps_of(plan: WorkloadPlan, i_stream: int) -> Iterator[Step]:
    """What a stream does over all iterations."""
    stream = plan.streams[i_stream]
    steps = [_step(plan, stream, plan.operations[row]) for row in rows_of(plan, stream)]
    for iteration in range(plan.n_iteration):
        for step in steps:
            yield step._replace(iteration=iteration)


def _step(plan: WorkloadPlan, stream: np.void, operation: np.void) -> Step:
    kind, slot, slot_in = int(operation["kind"]), int(operation["slot"]), int(operation["slot_in"])
    n_step = int(operation["n_step"])
    first = int(stream["first_slot"])

    def found(at: int, n: int, what: int) -> tuple[int, ...]:
        assert (plan.slot_kind[first + at : first + at + n] == what).all()
        return tuple(plan.slots[first + at : first + at + n].tolist())

    out: tuple[int, ...] = ()
    into: tuple[int, ...] = ()
    number = -1
    if kind in (OP_SEND, OP_RING):
        out = found(slot, 1, SLOT_PAIR)
    if kind in (OP_RECEIVE, OP_RING):
        into = found(slot if kind == OP_RECEIVE else slot_in, 1, SLOT_PAIR)
    if kind == OP_EXCHANGE:
        out, into = found(slot, n_step, SLOT_PAIR), found(slot_in, n_step, SLOT_PAIR)
    if kind == OP_GROUP:
        (number,) = found(slot, 1, SLOT_GROUP)
    if kind in (OP_OPEN, OP_PASS):
        (number,) = found(slot, 1, SLOT_GATE)
    task = plan.kinds[int(operation["task_kind"])] if operation["task_kind"] >= 0 else ""
    return Step(
        kind, 0, out, into, number, n_step, int(operation["size_bytes"]), int(operation["time_ps"]), task,
        int(operation["task_bytes"]), plan.tags[int(operation["tag"])], int(operation["slowed_1024"]),
    )  # fmt: skip


def communicator_members(plan: WorkloadPlan, steps: list[list[Step]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """GPUs of the collective that a step is part of, by the queue pairs it sends on (a group: by (-1, its number)).

    steps: of every stream. A ring's members stand in its order, from the least on.
    """
    following = {step.into[0]: step.out[0] for one in steps for step in one if step.kind == OP_RING}
    members: dict[tuple[int, ...], tuple[int, ...]] = {}
    for i_stream, one in enumerate(steps):
        gpu = int(plan.streams["gpu"][i_stream])
        for step in one:
            if step.kind == OP_RING and step.out not in members:
                ring, pair = [gpu], step.out[0]
                while (other := int(plan.pair_dst[pair])) != gpu:
                    ring.append(other)
                    pair = following[pair]
                at = ring.index(min(ring))
                members[step.out] = tuple(ring[at:] + ring[:at])
            elif step.kind == OP_EXCHANGE:
                members[step.out] = tuple(sorted({gpu, *plan.pair_dst[list(step.out)].tolist()}))
            elif step.kind == OP_GROUP:
                begin, end = plan.group_start[step.number : step.number + 2].tolist()
                in_group = plan.streams["gpu"][plan.group_stream[begin:end]].tolist()
                members[-1, step.number] = tuple(sorted(in_group))
    return members
