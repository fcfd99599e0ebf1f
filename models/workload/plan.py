"""Building a workload: queue pairs, programs and streams, collected in Python and handed over as arrays.

Every workload (`flows`, `collectives`, `training`) uses `PlanBuilder`; the engine's side only sees `WorkloadPlan`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from models.workload.graph import GraphPlan
from models.workload.jobs.part import JobPart
from models.workload.operations import Operation, Program, Repeat, Use, burst_of, use_of
from models.workload.program import MAX_DEPTH, OP_REPEAT, OPERATION, PART_OF_TASK, PARTS, STREAM, WAITING_TIME
from pdes.errors import ConfigError, SimError

MAIN = "main"
"""Name of the stream of a GPU whose time is accounted for, from iteration to iteration."""
SLOT_PAIR, SLOT_GROUP, SLOT_GATE, SLOT_UNUSED, SLOT_NODE = range(5)
Slot = tuple[int, int]


class StoredProgram(NamedTuple):
    """A program in the operation table: rows first .. end - 1, and what an iteration of it does (`Use`)."""

    first: int
    end: int
    use: Use


@dataclass(frozen=True)
class WorkloadPlan:
    """A workload as arrays. Hosts are numbered as `Topology.host` lists them; n_flow and n_task are totals."""

    name: str
    pair_src: np.ndarray  # int64[n_pair]  host numbers
    pair_dst: np.ndarray
    pair_sport: np.ndarray
    pair_dport: np.ndarray
    pair_bytes: np.ndarray  # int64[n_pair]  payload over the whole run, for balancing and for `plan`
    pair_stream: np.ndarray  # int64[n_pair]  stream that consumes its messages, -1: none
    operations: np.ndarray
    streams: np.ndarray  # STREAM, sorted by gpu; `node` is filled in by the network
    slots: np.ndarray  # int32
    slot_kind: np.ndarray  # int8
    group_start: np.ndarray
    group_stream: np.ndarray
    group_time_ps: np.ndarray  # int64[n_group]  the least duration that any of its operations has
    gate_stream: np.ndarray
    n_iteration: int
    flows_per_iteration: int
    tasks_per_iteration: int
    burst: int  # messages, and rows, that one event can cause at most
    tags: tuple[str, ...]
    kinds: tuple[str, ...]
    stream_names: tuple[str, ...]
    facts: dict = field(default_factory=dict)  # what the summary says about the workload
    n_main: int = 0  # streams whose time is accounted for
    keeps_tasks: bool = True  # task rows are written
    slowed_1024: int = 1024  # see program.SLOWED_1024
    jitter_ppm: int = 0
    n_part: int = 1  # queue pairs that share each message: pairs i * n_part .. i * n_part + n_part - 1
    graph: GraphPlan | None = None  # of a trace
    pair_priority: np.ndarray | None = None  # int64[n_pair]  0..7, 7 the highest; -1, or None for all: the config's
    jobs: tuple[JobPart, ...] = ()  # if there are several: then all of it counts as one iteration
    pair_job: np.ndarray | None = None  # int64[n_pair]  job of each queue pair; None: there is one

    @property
    def parts(self) -> tuple[JobPart, ...]:
        """The jobs, or all of it as the only one."""
        if self.jobs:
            return self.jobs
        counts = (self.n_iteration, self.flows_per_iteration, self.tasks_per_iteration, self.n_main)
        return (JobPart(self.name, *counts, len(self.streams), self.slowed_1024, self.jitter_ppm),)

    @property
    def n_spent(self) -> int:
        """Rows of the breakdown of main streams in the whole run."""
        return sum(part.n_main * part.n_iteration for part in self.parts)

    @property
    def n_flow(self) -> int:
        """Messages of the whole run."""
        return self.flows_per_iteration * self.n_iteration

    @property
    def n_task(self) -> int:
        """Task rows of the whole run."""
        return self.tasks_per_iteration * self.n_iteration


class Names:
    """Strings numbered in order of first use."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self._index.setdefault(name, len(self._index))

    def all(self) -> tuple[str, ...]:
        """Every name, by number."""
        return tuple(self._index)


class PlanBuilder:
    """Collects pairs, groups, gates and streams; `finish` turns them into a WorkloadPlan."""

    def __init__(self, name: str, n_host: int, n_iteration: int = 1) -> None:
        self.name, self.n_host, self.n_iteration = name, n_host, n_iteration
        self._pairs: list[tuple[int, int, int]] = []
        self._pair_bytes: list[int] = []
        self._pair_stream: list[int] = []
        self._sport: dict[tuple[int, int], int] = {}
        self._programs: dict[tuple[Operation | Repeat, ...], StoredProgram] = {}
        self._operations: list[tuple] = []
        self._streams: list[tuple] = []
        self._slots: list[Slot] = []
        self._groups: list[list[int]] = []
        self._group_time_ps: list[int] = []
        self._gates: list[int] = []
        self._tags, self._kinds, self._names = Names(), Names(), Names()
        self._burst = 1

    def pair(self, src: int, dst: int) -> int:
        """A new queue pair between two hosts; source ports count from 10000 per pair of hosts, as ns-3 does."""
        if src == dst:
            raise ConfigError("workload", f"a queue pair from host {src} to itself", "two different hosts")
        number = self._sport.get((src, dst), 0)
        self._sport[src, dst] = number + 1
        self._pairs.append((src, dst, 10000 + number))
        self._pair_bytes.append(0)
        self._pair_stream.append(-1)
        return len(self._pairs) - 1

    def payload_bytes(self) -> int:
        """Bytes that the streams so far send over all iterations."""
        return sum(self._pair_bytes)

    def group(self) -> int:
        """A new group for timed collectives; streams join it by using it in a slot."""
        self._groups.append([])
        self._group_time_ps.append(2**62)
        return len(self._groups) - 1

    def gate(self) -> int:
        """A new gate; the stream that passes it is the one behind it."""
        self._gates.append(-1)
        return len(self._gates) - 1

    def stream(
        self,
        gpu: int,
        name: str,
        program: Program | StoredProgram,
        slots: list[Slot],
        passes: tuple[int, ...] = (),
    ) -> int:
        """A stream of a GPU that runs `program` each iteration. passes: gates that it waits behind."""
        stored = program if isinstance(program, StoredProgram) else self.store(program)
        i_stream = len(self._streams)
        self._streams.append((gpu, self._names(name), stored, len(self._slots)))
        self._slots.extend(slots)
        for gate in passes:
            self._gates[gate] = i_stream
        for slot, time_ps in stored.use.groups:
            group = slots[slot][1]
            self._groups[group].append(i_stream)
            self._group_time_ps[group] = min(self._group_time_ps[group], time_ps)
        for slot, size_bytes in stored.use.sends:
            self._pair_bytes[slots[slot][1]] += size_bytes * self.n_iteration
        for slot in stored.use.receives:
            self._pair_stream[slots[slot][1]] = i_stream
        return i_stream

    def store(self, program: Program) -> StoredProgram:
        """Rows of a program in the operation table, stored once however often it is given."""
        if not program:
            raise ConfigError(f"workload {self.name}", "an empty program", "at least one operation per stream")
        key = tuple(program)
        if key not in self._programs:
            first = len(self._operations)
            self._append(key, 0)
            self._burst = max(self._burst, burst_of(key, self.n_iteration))
            self._programs[key] = StoredProgram(first, len(self._operations), use_of(key))
        return self._programs[key]

    def _append(self, program: Program, depth: int) -> None:
        for op in program:
            if isinstance(op, Repeat):
                if depth == MAX_DEPTH:
                    raise SimError(f"workload {self.name}: more than {MAX_DEPTH} loops in each other")
                first = len(self._operations)
                self._append(op.body, depth + 1)
                n_back = len(self._operations) - first
                self._operations.append((OP_REPEAT, n_back, depth, op.n, 0, 0, 0, 0, -1, -1, 0, 0))
                continue
            task_kind = self._kinds(op.task) if op.task else -1
            part = PARTS.index(PART_OF_TASK[op.task]) if op.task in PART_OF_TASK else -1
            self._operations.append(
                (op.kind, op.slot, op.slot_in, op.n_step, op.size_bytes, op.time_ps, 0, op.task_bytes, task_kind,
                 part, self._tags(op.tag), op.slowed_1024)
            )  # fmt: skip

    def finish(self, facts: dict | None = None) -> WorkloadPlan:
        """The plan. Streams are sorted by GPU, and flow and task ids follow that order."""
        order = sorted(range(len(self._streams)), key=lambda i: (self._streams[i][0], i))
        rank_of = np.empty(len(order) + 1, np.int64)
        rank_of[order] = np.arange(len(order))
        rank_of[-1] = -1
        streams = np.zeros(len(order), STREAM)
        given = [self._streams[i] for i in order]
        streams["gpu"], streams["name"] = [s[0] for s in given], [s[1] for s in given]
        streams["first_slot"] = [s[3] for s in given]
        streams["operation"] = streams["first_operation"] = [s[2].first for s in given]
        streams["end_operation"], streams["n_iteration"] = [s[2].end for s in given], self.n_iteration
        is_main = streams["name"] == self._names(MAIN)
        n_main = int(is_main.sum())
        streams["spent_row"] = np.where(is_main, np.cumsum(is_main) - 1, -1)
        streams["waiting_for"] = WAITING_TIME
        n_flow, n_task = (np.array([getattr(s[2].use, name) for s in given], np.int64) for name in ("n_flow", "n_task"))
        streams["first_flow"], streams["first_task"] = np.cumsum(n_flow) - n_flow, np.cumsum(n_task) - n_task
        flow, task = int(n_flow.sum()), int(n_task.sum())
        pairs = np.array(self._pairs, np.int64).reshape(-1, 3)
        slots = np.array(self._slots, np.int64).reshape(-1, 2)
        lengths = np.cumsum([0] + [len(g) for g in self._groups])
        members = [i for g in self._groups for i in g]
        return WorkloadPlan(
            name=self.name,
            pair_src=pairs[:, 0].copy(),
            pair_dst=pairs[:, 1].copy(),
            pair_sport=pairs[:, 2].copy(),
            pair_dport=np.full(len(pairs), 100, np.int64),
            pair_bytes=np.array(self._pair_bytes, np.int64),
            pair_stream=rank_of[np.array(self._pair_stream, np.int64)],
            operations=np.array(self._operations, OPERATION),
            streams=streams,
            slots=slots[:, 1].astype(np.int32),
            slot_kind=slots[:, 0].astype(np.int8),
            group_start=lengths.astype(np.int64),
            group_stream=rank_of[np.array(members, np.int64)].astype(np.int32),
            group_time_ps=np.array(self._group_time_ps, np.int64),
            gate_stream=rank_of[np.array(self._gates, np.int64)].astype(np.int32),
            n_iteration=self.n_iteration,
            flows_per_iteration=flow,
            tasks_per_iteration=task,
            burst=self._burst,
            tags=self._tags.all(),
            kinds=self._kinds.all(),
            stream_names=self._names.all(),
            facts=facts or {},
            n_main=n_main,
        )
