"""What the JSON files of a run say: what the config determines, and how it was run."""

import platform
import time
from dataclasses import asdict
from math import inf
from typing import Any, Protocol

import numpy as np

from models.network.flow_mode.audit_state import audit_facts
from models.network.flow_mode.totals import flow_facts
from models.network.host.rtt_rows import MAX_RTT_ROWS
from models.network.model import NetworkModel
from models.network.skip.make_fast_forward import NO_STAGES, why_not
from models.network.skip.skipped import CAUSES
from models.workload.agreement import agreement
from pdes.config.calibration import Alignment
from pdes.engine.round import N_REDUCTION, N_ROUND
from pdes.results.fast_forward import Iterations, extrapolate
from pdes.results.pauses import find_storms
from pdes.results.trouble import count_trouble
from pdes.scenario import Scenario
from pdes.scenario.queues import find_queues
from pdes.simulation.assemble import Assembly
from pdes.simulation.crew import counted
from pdes.simulation.job import Run
from pdes.simulation.jobs import job_facts
from pdes.simulation.loop import Ended
from pdes.simulation.outcome.active import active_ps
from pdes.simulation.shared_memo import SharedMemo
from pdes.simulation.versions import version_of
from pdes.units import PS_PER_S


class Ran(Protocol):
    """What of a run says what came of it."""

    @property
    def scenario(self) -> Scenario: ...
    @property
    def assembly(self) -> Assembly: ...
    @property
    def memo(self) -> SharedMemo | None: ...
    @property
    def queue_model_digest(self) -> str | None: ...
    @property
    def model(self) -> NetworkModel: ...


def _find_iterations(job: Ran, totals: dict[str, Any]) -> Iterations:
    """The whole iterations. A stop time or a deadlock can leave the last ones unfinished: they have no time."""
    plan, n_repeat = job.scenario.plan, job.scenario.config.wormhole.n_repeat
    if plan.jobs:
        return extrapolate([], (), 0, totals["last_ps"], None, None, None)
    n_whole = int((np.cumprod(totals["n_task_done"] == plan.tasks_per_iteration)).sum())
    times_ps = np.diff(totals["iteration_end_ps"][:n_whole], prepend=0).tolist()
    is_complete = n_whole == job.assembly.n_iteration and not job.assembly.circles
    watch = job.assembly.iterations
    agreed = watch.agreed if watch is not None and is_complete else None
    compared = agreed or (agreement(times_ps, n_repeat, inf) if n_repeat and plan.tasks_per_iteration else None)
    bound, cycle = (compared.bound, compared.cycle) if compared else (None, None)
    return extrapolate(
        times_ps, agreed.times_ps if agreed else (), plan.n_iteration - n_whole, totals["last_ps"],
        job.scenario.stop_ps, bound, cycle,
    )  # fmt: skip


def _aligned_ps(alignment: Alignment, n_host: int, times_ps: list[int]) -> list[int | None]:
    """None: the measurements behind the alignment are of fewer or of more GPUs."""
    found = [alignment.aligned_s(n_host, time_ps / PS_PER_S) for time_ps in times_ps]
    return [None if time_s is None else round(time_s * PS_PER_S) for time_s in found]


def result_facts(job: Ran, totals: dict[str, Any]) -> dict[str, Any]:
    """`result.json`: what the config determines."""
    s, iterations, active = job.scenario, _find_iterations(job, totals), active_ps(job.scenario.plan, totals)
    found = {
        "config": s.identity(),
        "topology": s.topology.name,
        "workload": s.plan.facts | {"kind": s.plan.name},
        "hosts": s.topology.n_host,
        "logical_processes": s.n_lp,
        "lookahead_ps": s.lookahead_ps,
        "base_rtt_ps": s.base_rtt_ps,
        "iteration_time_ps": iterations.time_ps if s.config.workload.kind in ("training", "trace") else [],
        "simulated_time_ps": totals["last_ps"] + iterations.extrapolated_ps,
        "active_ps": active,
        "packet_hops": totals["hops"],
        "skipped_packet_hops": totals["skipped"].total(),
        "events": totals["events"],
        "flows": job.assembly.n_flow,
        "flows_finished": totals["n_flow_done"],
        "tasks": job.assembly.n_task,
        "network": count_trouble(totals["ports"], totals["timeouts"]),
    }
    if s.config.alignment is not None and found["iteration_time_ps"]:
        found["aligned_iteration_time_ps"] = _aligned_ps(s.config.alignment, s.topology.n_host, iterations.time_ps)
    if s.plan.jobs:
        found["jobs"] = job_facts(s.plan, s.topology, s.paths, totals)
    if s.config.wormhole.mode != "off":
        found["fast_forward"] = iterations.facts() | _fast_forward_facts(job, totals)
    if job.memo is not None:  # what was read has a share in what was simulated
        found["config"]["wormhole"]["memo_sha256"] = job.memo.digest
    if job.queue_model_digest is not None:
        found["config"]["wormhole"]["paper"]["restoration_model_sha256"] = job.queue_model_digest
    if s.config.network.has_pfc:
        found["pfc_deadlock"] = deadlocks(job, totals)
        found["pfc_storm"] = find_storms(totals["ports"], active[1] - active[0], s.topology.node_name)
    sampler = job.assembly.sampler
    if sampler is not None:
        n_row = {kind: len(table["time_ps"]) for kind, table in totals["samples"].items()}
        found["samples"] = {
            "interval_ps": sampler.interval_ps, "instants": len(sampler.times_ps), "rows": n_row,
        }  # fmt: skip
    if totals["rtt"]:
        n_row = len(totals["rtt"]["flow_id"])
        found["rtt"] = {"flow_id": s.parameters.rtt_flow, "rows": n_row, "is_complete": n_row < MAX_RTT_ROWS}
    return found | job.assembly.debug.facts()


def _fast_forward_facts(job: Ran, totals: dict[str, Any]) -> dict[str, Any]:
    """What was skipped, and how often something was decided."""
    fast, hops, flow_ps = job.model.fast_forward, totals["skipped"], totals["skipped_flow_ps"]
    repeats = job.assembly.repeats
    passes = {} if repeats is None else {"passes": repeats.facts()}
    if job.model.flow is not None:
        by_cause = {cause: hops[cause] for cause in CAUSES}
        found = {"skipped_packet_hops": by_cause, "flow_mode": flow_facts(job.model.flow), **passes}
        return found if job.model.audit is None else found | {"audit": audit_facts(job.model.audit, job.model.flow)}
    if fast is None:
        return {"why_not": why_not(job.scenario.parameters) or NO_STAGES}
    return {
        "skipped_share": hops.total() / max(totals["hops"] + hops.total(), 1),
        "skipped_packet_hops": {cause: hops[cause] for cause in CAUSES},
        "steady_share_of_flow_time": flow_ps["steady"] / max(totals["flow_ps"], 1),
        "skipped_share_of_flow_time": flow_ps.total() / max(totals["flow_ps"], 1),
        "criterion": fast.criterion,
        **asdict(fast.counters),
        **({} if fast.memo is None else {"memo": fast.memo.facts()}),
        **({} if fast.waves is None else {"waves": fast.waves.facts()}),
        **({} if fast.fluid is None else {"fluid": fast.fluid.fluid.facts()}),
        **fast.audit_facts(),
        **passes,
    }


def deadlocks(job: Ran, totals: dict[str, Any]) -> list[dict[str, Any]]:
    """What `result.json` says of the deadlocks that the run ended with, on rank 0."""
    s, assembly, watch = job.scenario, job.assembly, job.assembly.watch
    priority = find_queues(s.config.network, s.plan).priority
    found_ps = watch.found_ps if watch is not None and assembly.is_deadlocked else totals["last_ps"]

    def port_name(port: int) -> str:
        src, dst = s.topology.port_src[port], s.topology.port_dst[port]
        return f"{s.topology.node_name[src]}->{s.topology.node_name[dst]}"

    return [
        {
            "time_ps": found_ps,
            "circle": [
                {"port": port_name(q.port), "priority": priority[q.queue - 1], "queue_bytes": q.queued_bytes}
                for q in circle
            ],
        }
        for circle in assembly.circles
    ]


def run_facts(job: Run, totals: dict[str, Any], compile_s: float, ended: Ended) -> dict[str, Any]:
    """`run.json`: how it was run."""
    names = ("pdes-sim", "numpy", "numba", "mpi4py", "pyarrow", "pymetis")
    rounds, hops, events = int(job.loop[N_ROUND]), totals["hops"], totals["events"]
    before = job.restored  # what was restored has not been simulated here
    compute, wait, exchange, hops_by_rank = zip(*(ended.ranks or [counted(job)]), strict=True)
    return {
        "ranks": job.everyone.size,
        "mpi_library": job.everyone.library(),
        "placement": job.scenario.placement,
        "rank_of_lp": job.rank_of_lp.tolist(),
        "expected_imbalance": job.balance,
        "rebalance": ended.balance,
        "spreading": ended.spreading,
        "threshold_choice": job.scenario.threshold_reason,
        "output": str(job.folder.directory),
        "wall_seconds": time.monotonic() - job.begin_s,
        "compile_seconds": compile_s,
        "loop_seconds": ended.seconds,
        "packet_hops_per_second": (hops - before["hops"]) / max(ended.seconds, 1e-9),
        "events_per_second": (events - before["events"]) / max(ended.seconds, 1e-9),
        "rounds": rounds - before["rounds"],
        "reductions": int(job.loop[N_REDUCTION]),
        "resumed_from_round": before["rounds"],
        "checkpoints": ended.checkpoints,
        "compute_seconds": list(compute),
        "wait_seconds": list(wait),
        "exchange_seconds": list(exchange),
        "packet_hops_by_rank": list(hops_by_rank),
        "versions": {name: version_of(name) for name in names} | {"python": platform.python_version()},
        "machine": f"{platform.machine()} {platform.system()}",
    }
