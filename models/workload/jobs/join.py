"""Plans of jobs as one plan for the whole cluster.

Each job has been planned as if its GPUs were all there are. Here they get their numbers on the cluster, and what a job
has of everything comes behind what the jobs before it have: queue pairs, operations, slots, groups, gates, messages,
tasks, iterations. A job that begins after others is a group of streams: its own wait in it, those of the others join
it when they have ended, and `delay_ps` later all its streams begin (`streams.stream`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.workload.jobs.graphs import first_nodes, join_graphs
from models.workload.jobs.part import JobPart
from models.workload.jobs.placed import PlacedJob
from models.workload.plan import SLOT_GATE, SLOT_GROUP, SLOT_NODE, SLOT_PAIR, WorkloadPlan
from models.workload.program import OP_REPEAT
from models.workload.trace.graph import KIND_NAMES
from models.workload.traffic.flows import NO_PRIORITY

NEVER = 2**62


def join_plans(jobs: Sequence[PlacedJob]) -> WorkloadPlan:
    """The plan of all of them. Queue pairs are not scaled yet."""
    assert all(job.plan.n_part == 1 and not job.plan.jobs for job in jobs)
    plans = [job.plan for job in jobs]
    streams, rank_of = _streams(jobs)
    names = {key: _Numbered([getattr(plan, key) for plan in plans]) for key in ("tags", "stream_names")}
    of_nodes = [KIND_NAMES] if any(plan.graph is not None for plan in plans) else []
    names["kinds"] = _Numbered([plan.kinds for plan in plans], of_nodes)
    own_names = np.concatenate([plan.streams["name"] for plan in plans])
    streams["name"] = names["stream_names"].moved(own_names, _lengths(plans, "streams"))[rank_of.argsort()]
    group_start, group_stream, group_time_ps = _groups(jobs, rank_of)
    return WorkloadPlan(
        name="jobs",
        pair_src=np.concatenate([job.hosts[job.plan.pair_src] for job in jobs]),
        pair_dst=np.concatenate([job.hosts[job.plan.pair_dst] for job in jobs]),
        pair_sport=_ports(jobs),
        pair_dport=np.concatenate([plan.pair_dport for plan in plans]),
        pair_bytes=np.concatenate([plan.pair_bytes for plan in plans]),
        pair_stream=_ranked(rank_of, [plan.pair_stream for plan in plans], plans),
        pair_priority=np.concatenate([_priority(job) for job in jobs]),
        operations=_operations(plans, names["tags"], names["kinds"]),
        streams=streams,
        slots=_slots(plans),
        slot_kind=np.concatenate([plan.slot_kind for plan in plans]),
        group_start=group_start,
        group_stream=group_stream,
        group_time_ps=group_time_ps,
        gate_stream=_ranked(rank_of, [plan.gate_stream for plan in plans], plans).astype(np.int32),
        n_iteration=1,
        flows_per_iteration=sum(plan.n_flow for plan in plans),
        tasks_per_iteration=sum(plan.n_task for plan in plans),
        burst=max(plan.burst for plan in plans),
        tags=names["tags"].all(),
        kinds=names["kinds"].all(),
        stream_names=names["stream_names"].all(),
        facts={"jobs": len(jobs)},
        n_main=sum(plan.n_main for plan in plans),
        jobs=_parts(jobs),
        pair_job=np.repeat(np.arange(len(jobs)), [len(plan.pair_src) for plan in plans]),
        graph=join_graphs(jobs, rank_of, names["stream_names"].tables(), names["tags"].tables()),
    )


class _Numbered:
    """Names that several plans number for themselves, numbered together, behind those of `first`."""

    def __init__(self, lists: Sequence[tuple[str, ...]], first: Sequence[tuple[str, ...]] = ()) -> None:
        self._lists = lists
        every = dict.fromkeys(name for names in (*first, *lists) for name in names)
        self._number = {name: i for i, name in enumerate(every)}

    def all(self) -> tuple[str, ...]:
        return tuple(self._number)

    def moved(self, numbers: np.ndarray, counts: Sequence[int]) -> np.ndarray:
        """The common numbers of all plans' own, one plan's behind the other's, counts of each; -1 stays."""
        tables = self.tables()
        end = np.cumsum([len(table) for table in tables])
        last = np.repeat(end - 1, counts)  # of the plan's table, which stands for -1
        first = np.repeat(end - [len(table) for table in tables], counts)
        return np.concatenate(tables)[np.where(numbers < 0, last, first + numbers)]

    def tables(self) -> list[np.ndarray]:
        """Of each plan, its own numbers' common ones; -1 stays."""
        return [np.array([*(self._number[name] for name in names), -1], np.int64) for names in self._lists]


def stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Records of one dtype, one array behind the other. NumPy would compare the fields of each with the others'."""
    assert len({part.dtype for part in parts}) == 1
    return np.concatenate([part.view(np.uint8) for part in parts]).view(parts[0].dtype)


def _lengths(plans: Sequence[WorkloadPlan], name: str) -> list[int]:
    """Of an array that each plan has."""
    return [len(getattr(plan, name)) for plan in plans]


def _before(counts: Sequence[int]) -> list[int]:
    """What all before have, for each."""
    return [int(n) for n in np.cumsum([0, *counts[:-1]])]


def _streams(jobs: Sequence[PlacedJob]) -> tuple[np.ndarray, np.ndarray]:
    """(STREAM of all jobs by GPU, place there of each job's streams one by one)."""
    plans = [job.plan for job in jobs]
    shifts: dict[str, list[int]] = {
        "operation": _before([len(plan.operations) for plan in plans]),
        "first_slot": _before([len(plan.slots) for plan in plans]),
        "first_flow": _before([plan.n_flow for plan in plans]),
        "first_task": _before([plan.n_task for plan in plans]),
    }
    shifts["first_operation"] = shifts["end_operation"] = shifts["operation"]
    streams = stacked([plan.streams for plan in plans])
    i_job = np.repeat(np.arange(len(jobs)), _lengths(plans, "streams"))

    def each(of_jobs: Sequence[int]) -> np.ndarray:
        return np.array(of_jobs, np.int64)[i_job]

    for name, before in shifts.items():
        streams[name] += each(before)
    # Of a graph's streams, only nodes write rows: the first one's id is the job's first.
    nodes_before = first_nodes(jobs)
    streams["first_task"] -= each([0 if plan.graph is None else n for plan, n in zip(plans, nodes_before, strict=True)])
    hosts, streams["job"] = np.concatenate([job.hosts for job in jobs]), i_job
    streams["gpu"] = hosts[streams["gpu"] + each(_before([len(job.hosts) for job in jobs]))]
    first_main = each(_before([plan.n_main for plan in plans]))
    streams["spent_row"] += np.where(streams["spent_row"] >= 0, first_main, 0)
    waits, start_ps = each([bool(job.after) for job in jobs]) > 0, each([job.start_ps for job in jobs])
    streams["job_begin_ps"] = np.where(waits, -1, start_ps)
    streams["wake_ps"] = np.where(waits, NEVER, streams["wake_ps"] + start_ps)
    order = np.lexsort((np.arange(len(streams)), streams["gpu"]))
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    return streams[order], rank_of


def _ranked(rank_of: np.ndarray, numbers: Sequence[np.ndarray], plans: Sequence[WorkloadPlan]) -> np.ndarray:
    """Streams of each plan's own numbers by their place among all; -1 stays."""
    before = np.repeat(_before(_lengths(plans, "streams")), [len(own) for own in numbers])
    own = np.concatenate(numbers).astype(np.int64)
    known = own >= 0
    own[known] = rank_of[own[known] + before[known]]
    return np.where(known, own, -1)


def _operations(plans: Sequence[WorkloadPlan], tags: _Numbered, kinds: _Numbered) -> np.ndarray:
    """Tags and kinds of tasks by their common numbers; a loop's operation has no tag."""
    operations = stacked([plan.operations for plan in plans])
    is_loop = operations["kind"] == OP_REPEAT
    counts = _lengths(plans, "operations")
    own = np.where(is_loop, -1, operations["tag"])
    operations["tag"] = np.where(is_loop, operations["tag"], tags.moved(own, counts))
    operations["task_kind"] = kinds.moved(operations["task_kind"], counts)
    return operations


def _slots(plans: Sequence[WorkloadPlan]) -> np.ndarray:
    counts = {
        SLOT_NODE: _before([0 if plan.graph is None else len(plan.graph.nodes) for plan in plans]),
        SLOT_PAIR: _before([len(plan.pair_src) for plan in plans]),
        SLOT_GROUP: _before([len(plan.group_start) - 1 for plan in plans]),
        SLOT_GATE: _before([len(plan.gate_stream) for plan in plans]),
    }
    slots, kinds = (np.concatenate([getattr(plan, name) for plan in plans]) for name in ("slots", "slot_kind"))
    n_own = _lengths(plans, "slots")
    for kind, before in counts.items():
        slots += np.where(kinds == kind, np.repeat(before, n_own), 0).astype(slots.dtype)
    return slots


def _groups(jobs: Sequence[PlacedJob], rank_of: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(start, streams, times) of all groups; behind jobs' own, one for each that waits: its streams, then others'."""
    plans, before = [job.plan for job in jobs], _before([len(job.plan.streams) for job in jobs])
    members = [_ranked(rank_of, [plan.group_stream for plan in plans], plans)]
    sizes, times = [np.diff(plan.group_start) for plan in plans], [plan.group_time_ps for plan in plans]
    for i, job in enumerate(jobs):
        if job.after:
            own = [rank_of[before[k] : before[k] + len(plans[k].streams)] for k in (i, *job.after)]
            members += own
            sizes.append(np.array([sum(len(part) for part in own)]))
            times.append(np.array([job.delay_ps]))
    start = np.cumsum(np.concatenate([[0], *sizes])).astype(np.int64)
    return start, np.concatenate(members).astype(np.int32), np.concatenate(times).astype(np.int64)


def _priority(job: PlacedJob) -> np.ndarray:
    own = job.plan.pair_priority
    own = np.full(len(job.plan.pair_src), NO_PRIORITY) if own is None else own
    return np.where(own == NO_PRIORITY, job.priority, own)


def _ports(jobs: Sequence[PlacedJob]) -> np.ndarray:
    """Source ports: a job's own, so that it takes the same ways by itself, but none of another one's on its GPUs."""
    hosts = np.concatenate([job.hosts for job in jobs])
    if len(np.unique(hosts)) == len(hosts):
        return np.concatenate([job.plan.pair_sport for job in jobs])
    taken: dict[tuple[int, int], int] = {}
    found = []
    for job in jobs:
        sport = job.plan.pair_sport.copy()
        ends = list(zip(job.hosts[job.plan.pair_src].tolist(), job.hosts[job.plan.pair_dst].tolist(), strict=True))
        if taken:
            sport += [taken.get(pair, 0) for pair in ends]
        for pair, port in zip(ends, sport.tolist(), strict=True):
            taken[pair] = max(taken.get(pair, 0), port - 10_000 + 1)
        found.append(sport)
    return np.concatenate(found)


def _parts(jobs: Sequence[PlacedJob]) -> tuple[JobPart, ...]:
    n_group = sum(len(job.plan.group_start) - 1 for job in jobs)
    waiting = [i for i, job in enumerate(jobs) if job.after]
    group_of = {i: n_group + k for k, i in enumerate(waiting)}
    found: list[JobPart] = []
    end: dict[str, Any] = dict.fromkeys(("first_flow", "first_task", "first_iteration", "first_main", "first_spent"), 0)
    for i, job in enumerate(jobs):
        (own,) = job.plan.parts
        own = own._replace(
            **end, name=job.name, hosts=tuple(job.hosts.tolist()), start_ps=job.start_ps, group=group_of.get(i, -1),
            ends=tuple(group_of[k] for k in waiting if i in jobs[k].after),
            facts=job.plan.facts | {"kind": job.plan.name},
        )  # fmt: skip
        found.append(own)
        added = (own.n_flow, own.n_task, own.n_iteration, own.n_main, own.n_main * own.n_iteration)
        end = {name: n + more for (name, n), more in zip(end.items(), added, strict=True)}
    return tuple(found)
