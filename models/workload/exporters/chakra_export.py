"""Our workload as a Chakra execution trace: `<prefix>.<gpu>.et`, and `<prefix>.json` with the communicators.

Any reader of schema 0.0.4 finds compute nodes with whole microseconds, sends, receives and collectives, each behind
what its stream did before it, and data dependencies where one stream waits for another of its GPU. What Chakra has no
word for stands in attributes `pdes_...`: exact times, streams, queue pairs, task kinds; with them `own_streams` makes
the same plan again. A ring of one round is written as a reduce-scatter: its messages are those of an all-gather.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from models.workload.exporters.unroll import Step, check_exportable, communicator_members, steps_of
from models.workload.importers import wire
from models.workload.importers.chakra import EVERYONE
from models.workload.importers.chakra_node import COMM_COLL, COMM_RECV, COMM_SEND, COMP, METADATA
from models.workload.plan import WorkloadPlan
from models.workload.program import (
    OP_COMPUTE,
    OP_EXCHANGE,
    OP_GROUP,
    OP_OPEN,
    OP_PASS,
    OP_RECEIVE,
    OP_RING,
    OP_SEND,
    OP_WAIT,
)
from pdes.errors import ConfigError
from pdes.units import PS_PER_US

VERSION = "0.0.4"
OWN_FORM = 1  # of the attributes
OPERATION_NAMES = {
    OP_COMPUTE: "compute", OP_GROUP: "group", OP_SEND: "send", OP_RECEIVE: "receive", OP_RING: "ring",
    OP_EXCHANGE: "exchange", OP_OPEN: "open", OP_PASS: "pass", OP_WAIT: "wait",
}  # fmt: skip
ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER = 0, 6, 7  # of Chakra's CollectiveCommType
_STRING, _INT64, _BOOL = 29, 9, 27


def write_chakra(plan: WorkloadPlan, prefix: Path) -> list[Path]:
    """Write all files; their names. ConfigError: the plan cannot be written so, or the folder not be written to."""
    check_exportable(plan)
    steps = [list(steps_of(plan, i)) for i in range(len(plan.streams))]
    members = communicator_members(plan, steps)
    groups = {ranks: str(number) for number, ranks in enumerate(dict.fromkeys(members.values()), 1)}
    gpus = plan.streams["gpu"].tolist()
    n_gpu = max(gpus) + 1
    written = []
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
        for gpu in range(n_gpu):
            mine = [(i, steps[i]) for i in range(len(gpus)) if gpus[i] == gpu]
            content = b"".join(wire.message(part) for part in _rank(plan, mine, members, groups))
            written.append(prefix.with_name(f"{prefix.name}.{gpu}.et"))
            written[-1].write_bytes(content)
        written.append(prefix.with_name(f"{prefix.name}.json"))
        written[-1].write_text(json.dumps({name: list(ranks) for ranks, name in groups.items()}) + "\n")
    except OSError as error:
        raise ConfigError(str(prefix), f"cannot be written: {error.strerror}", "a folder to write to") from error
    return written


def _rank(plan: WorkloadPlan, mine: list[tuple[int, list[Step]]], members: dict, groups: dict) -> Iterator[bytes]:
    """The messages of one file."""
    facts = {
        "pdes_form": OWN_FORM,
        "pdes_name": plan.name,
        "pdes_iterations": plan.n_iteration,
        "pdes_slowed_1024": plan.slowed_1024,
        "pdes_jitter_ppm": plan.jitter_ppm,
    }
    yield wire.bytes_field(1, VERSION) + b"".join(_attribute(name, value, 2) for name, value in facts.items())
    opened: dict[int, list[int]] = {}
    number = 0
    for _, steps in mine:
        for step in steps:
            number += 1
            if step.kind == OP_OPEN:
                opened.setdefault(step.number, []).append(number)
    number = 0
    passed: dict[int, int] = {}
    for i_stream, steps in mine:
        name = plan.stream_names[int(plan.streams["name"][i_stream])]
        for place, step in enumerate(steps):
            number += 1
            after = [number - 1] if place else []
            if step.kind == OP_PASS:
                k = passed.get(step.number, 0)
                passed[step.number] = k + 1
                after += opened.get(step.number, [])[k : k + 1]
            kind, words = _words(plan, step, members, groups)
            stream: dict[str, int | str] = {"pdes_stream": name, "pdes_stream_id": i_stream}
            yield _node(plan, number, kind, words | stream, step, after)


def _node(
    plan: WorkloadPlan, number: int, kind: int, words: dict[str, int | str], step: Step, after: list[int]
) -> bytes:
    attributes: dict[str, int | str] = (
        words
        | {
            "pdes_op": OPERATION_NAMES[step.kind],
            "pdes_iteration": step.iteration,
            "pdes_time_ps": step.time_ps,
            "pdes_size": step.size_bytes,
            "pdes_n_step": step.n_step,
            "pdes_task": step.task,
            "pdes_task_bytes": step.task_bytes,
            "pdes_tag": step.tag,
            "pdes_number": step.number,
            "pdes_out": " ".join(f"{p}:{plan.pair_dst[p]}:{plan.pair_sport[p]}" for p in step.out),
            "pdes_in": " ".join(map(str, step.into)),
        }
        | ({"pdes_slowed_1024": step.slowed_1024} if step.slowed_1024 else {})
    )
    content = wire.number_field(1, number) + wire.bytes_field(2, step.task or step.tag or OPERATION_NAMES[step.kind])
    content += wire.number_field(3, kind)
    if after:
        content += wire.packed_field(5, sorted(after))
    if step.kind in (OP_COMPUTE, OP_GROUP):
        content += wire.number_field(7, -(-step.time_ps // PS_PER_US))
    content += wire.bytes_field(10, wire.bytes_field(1, "is_cpu_op") + wire.number_field(_BOOL, 0))
    return content + b"".join(_attribute(name, value, 10) for name, value in attributes.items())


def _words(plan: WorkloadPlan, step: Step, members: dict, groups: dict) -> tuple[int, dict[str, int | str]]:
    """What Chakra calls a step: (node type, attributes)."""
    if step.kind == OP_COMPUTE:
        return COMP, {}
    if step.kind == OP_SEND:
        (pair,) = step.out
        return COMM_SEND, {"comm_size": step.size_bytes, "comm_dst": int(plan.pair_dst[pair]), "comm_tag": pair}
    if step.kind == OP_RECEIVE:
        (pair,) = step.into
        size_bytes = step.task_bytes or step.size_bytes or 1
        return COMM_RECV, {"comm_size": size_bytes, "comm_src": int(plan.pair_src[pair]), "comm_tag": pair}
    if step.kind in (OP_RING, OP_EXCHANGE, OP_GROUP):
        ranks = members[(-1, step.number) if step.kind == OP_GROUP else step.out]
        size_bytes, kind = step.size_bytes * len(ranks), ALL_TO_ALL
        if step.kind != OP_EXCHANGE:
            kind = REDUCE_SCATTER if step.kind == OP_RING and step.n_step < 2 * (len(ranks) - 1) else ALL_REDUCE
        if step.kind == OP_GROUP:
            size_bytes = step.task_bytes
        return COMM_COLL, {"comm_type": kind, "comm_size": size_bytes, "pg_name": groups.get(ranks, EVERYONE)}
    return METADATA, {}


def _attribute(name: str, value: int | str, field: int) -> bytes:
    content = wire.bytes_field(1, name)
    content += wire.bytes_field(_STRING, value) if isinstance(value, str) else wire.number_field(_INT64, value)
    return wire.bytes_field(field, content)
