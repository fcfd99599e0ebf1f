"""What a run counts by job, where the config has several."""

from typing import Any

import numpy as np

from models.topology.graph import Topology
from models.topology.paths import Paths
from models.workload.jobs.part import JobPart
from models.workload.plan import WorkloadPlan
from models.workload.program import Work

SHOWN_PORTS = 5


class JobCounts:
    """Messages of each job that this rank's hosts have finished: how many, and when the last one was."""

    def __init__(self, plan: WorkloadPlan) -> None:
        self._first = np.array([part.first_flow for part in plan.jobs], np.int64)
        self.n_flow_done = np.zeros(len(plan.jobs), np.int64)
        self.last_finish_ps = np.full(len(plan.jobs), -1, np.int64)

    def take(self, flow_ids: np.ndarray, finish_ps: np.ndarray) -> None:
        """Messages that ended, int64[n] each; finish_ps -1: one that has not. Without jobs nothing is counted."""
        if not len(self._first):
            return
        job = np.searchsorted(self._first, flow_ids, side="right") - 1
        np.add.at(self.n_flow_done, job, finish_ps >= 0)
        np.maximum.at(self.last_finish_ps, job, finish_ps)

    def save(self) -> np.ndarray:
        """This rank's part, for a checkpoint."""
        return np.stack([self.n_flow_done, self.last_finish_ps])

    def load(self, parts: list[np.ndarray]) -> None:
        """What several ranks had."""
        self.n_flow_done = np.sum([part[0] for part in parts], axis=0)
        self.last_finish_ps = np.max([part[1] for part in parts], axis=0)


def begins_ps(plan: WorkloadPlan, work: Work, mine: np.ndarray) -> np.ndarray:
    """int64[n_job]: when jobs began of which streams run here, -1 for others. mine: bool[n_stream]."""
    found = np.full(len(plan.jobs), -1, np.int64)
    if plan.jobs:
        np.maximum.at(found, work.streams["job"][mine], work.streams["job_begin_ps"][mine])
    return found


def job_facts(plan: WorkloadPlan, topology: Topology, paths: Paths, totals: dict[str, Any]) -> list[dict[str, Any]]:
    """What `result.json` says of each job. totals: see `gather`."""
    bytes_of = _port_bytes(plan, paths, topology.n_port)
    users = (bytes_of > 0).sum(axis=0)
    found = []
    for i, part in enumerate(plan.jobs):
        done, begin_ps = int(totals["jobs"]["n_flow_done"][i]), int(totals["jobs"]["begin_ps"][i])
        times_ps = _iteration_times(part, begin_ps, totals)
        rows = slice(part.first_iteration, part.first_iteration + part.n_iteration)
        last_ps = max(int(totals["jobs"]["last_finish_ps"][i]), int(totals["iteration_end_ps"][rows].max(initial=-1)))
        is_done = done == part.n_flow and len(times_ps) == part.n_iteration
        shared = np.flatnonzero((bytes_of[i] > 0) & (users > 1))
        found.append({
            "name": part.name,
            "workload": part.facts,
            "gpus": list(part.hosts),
            "begin_ps": begin_ps if begin_ps >= 0 else None,
            "end_ps": last_ps if is_done else None,
            "iteration_time_ps": times_ps if part.tasks_per_iteration else [],
            "flows": part.n_flow,
            "flows_finished": done,
            "payload_bytes": int(plan.pair_bytes[_pairs_of(plan, i)].sum()),
            "ports": int((bytes_of[i] > 0).sum()),
            "shared_ports": len(shared),
            "most_shared": _most_shared(plan, topology, bytes_of, i, shared),
        })  # fmt: skip
    return found


def _pairs_of(plan: WorkloadPlan, i: int) -> np.ndarray:
    assert plan.pair_job is not None
    return plan.pair_job == i


def _port_bytes(plan: WorkloadPlan, paths: Paths, n_port: int) -> np.ndarray:
    """int64[n_job, n_port]: payload that jobs send over ports between switches and hosts, by the ways of their queue
    pairs. Where switches choose ways packet by packet, by the ways that these pairs have to begin with.
    """
    assert plan.pair_job is not None
    found = np.zeros((len(plan.jobs), n_port), np.int64)
    hops = np.diff(paths.start)[::2]
    row = np.repeat(np.arange(len(hops)), hops)
    within = np.arange(len(row)) - np.repeat(np.cumsum(hops) - hops, hops)
    port = paths.port[paths.start[:-1:2][row] + within]
    np.add.at(found, (plan.pair_job[row], port), plan.pair_bytes[row])
    return found


def _iteration_times(part: JobPart, begin_ps: int, totals: dict[str, Any]) -> list[int]:
    """Of the whole iterations, the first one from when the job began."""
    rows = slice(part.first_iteration, part.first_iteration + part.n_iteration)
    n_whole = int(np.cumprod(totals["n_task_done"][rows] == part.tasks_per_iteration).sum())
    if begin_ps < 0:
        return []
    return np.diff(totals["iteration_end_ps"][rows][:n_whole], prepend=begin_ps).tolist()


def _most_shared(
    plan: WorkloadPlan, topology: Topology, bytes_of: np.ndarray, i: int, shared: np.ndarray
) -> list[dict[str, Any]]:
    """The ports with the most payload of others of those that a job uses."""
    others = bytes_of[:, shared].sum(axis=0) - bytes_of[i, shared]
    names, order = topology.node_name, np.lexsort((shared, -others))[:SHOWN_PORTS]
    return [
        {
            "port": f"{names[topology.port_src[port]]}->{names[topology.port_dst[port]]}",
            "bytes": {
                plan.jobs[k].name: int(bytes_of[k, port]) for k in range(len(plan.jobs)) if bytes_of[k, port] > 0
            },
        }
        for port in shared[order].tolist()
    ]
