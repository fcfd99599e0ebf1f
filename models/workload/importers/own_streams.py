"""A trace of ours (`chakra_export`) back to the plan that it was written from: the attributes say streams and pairs.

A trace whose dependencies are not those of its streams has been changed since; it is refused here, as only one of the
two could be run.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from models.workload.exporters.chakra_export import OPERATION_NAMES, OWN_FORM
from models.workload.importers.chakra import rank_files
from models.workload.importers.chakra_node import ChakraNode, read_metadata, read_nodes
from models.workload.operations import Operation
from models.workload.plan import SLOT_GATE, SLOT_GROUP, SLOT_PAIR, PlanBuilder, Slot, WorkloadPlan
from models.workload.program import OP_EXCHANGE, OP_GROUP, OP_OPEN, OP_PASS, OP_RECEIVE, OP_RING, OP_SEND
from pdes.errors import ConfigError

KINDS = {name: kind for kind, name in OPERATION_NAMES.items()}


@dataclass
class _Stream:
    gpu: int
    name: str
    nodes: list[ChakraNode]


def is_own(prefix: Path) -> bool:
    """Whether a Chakra trace is one that we wrote."""
    path = rank_files(prefix)[0]
    return path.suffix == ".et" and "pdes_form" in read_metadata(path)


def plan_own(prefix: Path, n_host: int, n_iteration: int) -> WorkloadPlan:
    """The plan. ConfigError: another number of iterations or more GPUs than here, or a trace that was changed."""
    paths = rank_files(prefix)
    facts = read_metadata(paths[0])
    if facts["pdes_form"] != OWN_FORM:
        raise ConfigError(str(paths[0]), f"pdes_form {facts['pdes_form']}", str(OWN_FORM))
    if facts.get("pdes_iterations") != n_iteration:
        found = f"{n_iteration}, and the trace {prefix} has {facts.get('pdes_iterations')}"
        raise ConfigError("[simulation] iterations", found, "as many as the trace has")
    if len(paths) > n_host:
        raise ConfigError(str(prefix), f"{len(paths)} ranks", f"at most {n_host}, the topology's hosts")
    streams = _read(paths)
    ends = _pair_ends(streams)
    builder = PlanBuilder(str(facts.get("pdes_name", prefix.name)), n_host, n_iteration)
    place = {number: builder.pair(src, dst) for number, (src, dst, _) in sorted(ends.items())}
    groups, gates = _Numbers(builder.group), _Numbers(builder.gate)
    for number in sorted({n.number("pdes_number", -1) or 0 for s in streams for n in s.nodes if _kind(n) == OP_GROUP}):
        groups(number)
    for stream in streams:
        _add_stream(builder, stream, place, groups, gates, n_iteration)
    plan = builder.finish({"trace": prefix.name, "ranks": len(paths), "payload_bytes": builder.payload_bytes()})
    sport = np.array([ends[number][2] for number in sorted(ends)], np.int64)
    return replace(
        plan, pair_sport=sport, slowed_1024=int(facts["pdes_slowed_1024"]), jitter_ppm=int(facts["pdes_jitter_ppm"]),
    )  # fmt: skip


class _Numbers:
    """Gates or groups by the numbers of the trace."""

    def __init__(self, make) -> None:
        self._make, self._known = make, {}

    def __call__(self, number: int) -> int:
        if number not in self._known:
            self._known[number] = self._make()
        return self._known[number]


def _kind(node: ChakraNode) -> int:
    return KINDS.get(str(node.attributes.get("pdes_op")), -1)


def _read(paths: list[Path]) -> list[_Stream]:
    """Streams in the order of the plan that was written, checked against the dependencies."""
    streams: dict[int, _Stream] = {}
    for gpu, path in enumerate(paths):
        opened: dict[int, list[int]] = {}
        passes: list[tuple[ChakraNode, int, int]] = []
        n_passed: dict[int, int] = {}
        for node in read_nodes(path):
            where = f"{path}, rank {gpu}, node {node.node_id}"
            number = node.number("pdes_stream_id")
            if number is None or _kind(node) < 0:
                raise ConfigError(where, "no pdes_stream_id or pdes_op, which all others have", "a trace as exported")
            stream = streams.setdefault(number, _Stream(gpu, str(node.attributes.get("pdes_stream", "")), []))
            before = [stream.nodes[-1].node_id] if stream.nodes else []
            gate = node.number("pdes_number", -1) or 0
            if _kind(node) == OP_OPEN:
                opened.setdefault(gate, []).append(node.node_id)
            if _kind(node) == OP_PASS:
                passes.append((node, gate, before[0] if before else -1))
            elif sorted(node.after) != before:
                raise _changed(where)
            stream.nodes.append(node)
        for node, gate, before in passes:
            k = n_passed.get(gate, 0)
            n_passed[gate] = k + 1
            expected = opened.get(gate, [])[k : k + 1] + ([before] if before >= 0 else [])
            if sorted(node.after) != sorted(expected):
                raise _changed(f"{path}, rank {gpu}, node {node.node_id}")
    return [streams[number] for number in sorted(streams)]


def _changed(where: str) -> ConfigError:
    accepted = "a trace as exported; without its pdes_ attributes it runs as any other tool's"
    return ConfigError(where, "dependencies that are not those of its pdes_stream", accepted)


def _pair_ends(streams: list[_Stream]) -> dict[int, tuple[int, int, int]]:
    """(source, destination, source port) of every queue pair by its number."""
    ends = {}
    for stream in streams:
        for node in stream.nodes:
            for word in str(node.attributes.get("pdes_out", "")).split():
                number, dst, sport = map(int, word.split(":"))
                ends[number] = stream.gpu, dst, sport
    return ends


def _add_stream(
    builder: PlanBuilder, stream: _Stream, place: dict[int, int], groups: _Numbers, gates: _Numbers, n_iteration: int
) -> None:
    per_iteration = len(stream.nodes) // n_iteration
    slots: list[Slot] = []
    slot_of: dict[tuple, int] = {}
    passes: dict[int, None] = {}

    def slot(kind: int, numbers: tuple[int, ...]) -> int:
        if (kind, numbers) not in slot_of:
            slot_of[kind, numbers] = len(slots)
            slots.extend((kind, number) for number in numbers)
        return slot_of[kind, numbers]

    program = []
    for node in stream.nodes[:per_iteration]:
        kind, a = _kind(node), node.attributes
        out = tuple(place[int(word.split(":")[0])] for word in str(a.get("pdes_out", "")).split())
        into = tuple(place[int(word)] for word in str(a.get("pdes_in", "")).split())
        number = node.number("pdes_number", -1) or 0
        at = at_in = 0
        if kind in (OP_SEND, OP_RING, OP_EXCHANGE):
            at = slot(SLOT_PAIR, out)
        if kind in (OP_RING, OP_EXCHANGE):
            at_in = slot(SLOT_PAIR, into)
        if kind == OP_RECEIVE:
            at = slot(SLOT_PAIR, into)
        if kind == OP_GROUP:
            at = slot(SLOT_GROUP, (groups(number),))
        if kind in (OP_OPEN, OP_PASS):
            at = slot(SLOT_GATE, (gates(number),))
            if kind == OP_PASS:
                passes[gates(number)] = None
        task = str(a.get("pdes_task", ""))
        program.append(
            Operation(
                kind, at, at_in, node.number("pdes_n_step", 1) or 1, node.number("pdes_size", 0) or 0,
                node.number("pdes_time_ps", 0) or 0, task, node.number("pdes_task_bytes", 0) or 0,
                str(a.get("pdes_tag", "")), node.number("pdes_slowed_1024", 0) or 0,
            )
        )  # fmt: skip
    builder.stream(stream.gpu, stream.name, program, slots, passes=tuple(passes))
