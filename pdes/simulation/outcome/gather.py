"""What the ranks counted in a run, added up for its results."""

from collections import Counter
from typing import Any

import numpy as np

from models.network.flow_mode.totals import add_to_ports, packet_hops, settle_passes
from models.network.state.records import EVENTS, LAST_EVENT_PS, N_TIMEOUT, PACKET_HOPS, RTT_COLUMNS
from models.network.streams.repeats import RepeatWatch
from models.network.watch.blocked import explain_blocked
from models.network.watch.results import port_columns
from pdes.simulation.job import Run
from pdes.simulation.jobs import begins_ps
from pdes.simulation.outcome.active import last_use_ps


def gather(job: Run) -> dict[str, Any]:
    """What the ranks counted, added up; the same on every rank, except that only rank 0 has samples."""
    counters, work, fast = job.model.state.fabric.counters, job.model.state.work, job.model.fast_forward
    assembly, repeats = job.assembly, job.assembly.repeats
    last_ps = max(job.world.allgather(int(counters[LAST_EVENT_PS])))
    if assembly.is_deadlocked and assembly.watch is not None:
        last_ps = assembly.watch.found_ps
    if assembly.debug.stopped_ps is not None:
        last_ps = assembly.debug.stopped_ps
    if fast is not None:
        fast.settle(job.model.state)
        if repeats is not None and repeats.packets is not None and repeats.short_bytes is not None:
            fast.settle_passes(job.model.state, repeats.packets, repeats.short_bytes)
    skipped = Counter() if fast is None else Counter(fast.skipped.hops_by_cause)
    skipped_ps = Counter() if fast is None else Counter(fast.skipped.flow_ps_by_cause)
    job.model.finish_audit()
    if job.model.flow is not None:
        hops = packet_hops(job.model.flow)
        if repeats is not None and repeats.packets is not None and repeats.short_bytes is not None:
            settle_passes(job.model.state, job.model.flow, repeats.packets, repeats.short_bytes)
        add_to_ports(job.model.state, job.model.flow)
        if job.world.rank == 0:
            skipped["fluid"], skipped["pass"] = hops, packet_hops(job.model.flow) - hops
        skipped_ps["fluid"] = job.rows.flow_ps
    last_finish_ps, used_ps = last_use_ps(job)
    own = {
        "hops": int(counters[PACKET_HOPS]),
        "events": int(counters[EVENTS]),
        "timeouts": int(counters[N_TIMEOUT]),
        "iteration_end_ps": work.iteration_end_ps,
        "n_flow_done": job.rows.n_flow_done,
        "n_task_done": work.iteration_tasks,
        "ports": port_columns(job.model.state, job.scenario.topology, job.model.rank_of_node, job.world.rank,
                              last_ps),
        "skipped": skipped,
        "skipped_flow_ps": skipped_ps,
        "flow_ps": job.rows.flow_ps,
        "last_finish_ps": last_finish_ps,
        "jobs": _of_jobs(job),
        "last_use_ps": used_ps,
        "stalled": _stalled(job),
        "blocked": explain_blocked(job.model.state, job.scenario.topology, job.scenario.plan, job.world.rank,
                                   job.model.rank_of_node),
    }  # fmt: skip
    parts = job.world.allgather(own)
    totals = {
        "hops": sum(p["hops"] for p in parts),
        "events": sum(p["events"] for p in parts),
        **{name: sum((p[name] for p in parts), Counter()) for name in ("skipped", "skipped_flow_ps")},
        "flow_ps": sum(p["flow_ps"] for p in parts),
        "timeouts": sum(p["timeouts"] for p in parts),
        "last_ps": last_ps,
        **{name: max(p[name] for p in parts) for name in ("last_finish_ps", "last_use_ps")},
        "iteration_end_ps": np.max([p["iteration_end_ps"] for p in parts], axis=0),
        "n_flow_done": sum(p["n_flow_done"] for p in parts),
        "jobs": {
            "n_flow_done": np.sum([p["jobs"]["n_flow_done"] for p in parts], axis=0),
            **{name: np.max([p["jobs"][name] for p in parts], axis=0) for name in ("last_finish_ps", "begin_ps")},
        },
        "n_task_done": np.sum([p["n_task_done"] for p in parts], axis=0),
        "ports": {name: np.sum([p["ports"][name] for p in parts], axis=0) for name in parts[0]["ports"]},
        "stalled": [item for p in parts for item in p["stalled"]],
        "blocked": [item for p in parts for item in p["blocked"]],
        "samples": {} if assembly.sampler is None else assembly.sampler.gather(),
        "rtt": _gather_rtt(job),
        "partitions": {} if fast is None or fast.series is None else fast.series.columns(),
    }
    if repeats is not None:
        _count_repeats(repeats, totals)
    return totals


def _of_jobs(job: Run) -> dict[str, np.ndarray]:
    """What this rank knows of each job."""
    work, topology, counts = job.model.state.work, job.scenario.topology, job.rows.jobs
    mine = job.model.rank_of_node[topology.host[work.streams["gpu"]]] == job.world.rank
    return {
        "n_flow_done": counts.n_flow_done,
        "last_finish_ps": counts.last_finish_ps,
        "begin_ps": begins_ps(job.scenario.plan, work, mine),
    }


def _stalled(job: Run) -> list[Any]:
    """What this rank knows of why nothing gets through, if that ended the run."""
    stall = job.assembly.stall
    return stall.explain(job.model.state) if stall is not None and job.assembly.is_stalled else []


def _count_repeats(repeats: RepeatWatch, totals: dict[str, Any]) -> None:
    """Count passes that were left out: their messages take as long as the others do on average."""
    ends = totals["iteration_end_ps"]
    totals["iteration_end_ps"] = np.where(ends >= 0, ends + repeats.skipped_before_end_of(len(ends)), ends)
    totals["last_ps"] += repeats.skipped_ps
    spared_ps = totals["flow_ps"] * repeats.n_flow // max(totals["n_flow_done"], 1)
    totals["flow_ps"] += spared_ps
    totals["skipped_flow_ps"]["pass"] += spared_ps
    totals["n_flow_done"] += repeats.n_flow


def _gather_rtt(job: Run) -> dict[str, np.ndarray]:
    """The table of round-trip times on rank 0, {} elsewhere and if none are asked for."""
    flow = job.scenario.parameters.rtt_flow
    parts = job.world.gather(job.model.rtt_rows()) if flow >= 0 else None
    if parts is None:
        return {}
    rows = np.concatenate(parts)  # all of one rank: of the flow's source
    return {"flow_id": np.full(len(rows), flow)} | dict(zip(RTT_COLUMNS, rows.T.copy(), strict=True))
