"""The results of a run, on rank 0: tables, JSON files and the summary; under final names only when all are complete."""

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import Any

import numpy as np

from models.network.host.rtt_rows import MAX_RTT_ROWS
from models.network.skip.make_fast_forward import why_not
from models.network.skip.skipped import CAUSES
from models.workload.agreement import agreement
from pdes.engine.round import N_REDUCTION, N_ROUND
from pdes.results import slow_flows
from pdes.results.active import active_time_ps
from pdes.results.breakdown import breakdown_groups
from pdes.results.fast_forward import Iterations, extrapolate
from pdes.results.iteration import read_breakdown
from pdes.results.pauses import find_storms
from pdes.results.spool import RowSpool
from pdes.results.summary import (
    FLOW_COLUMNS,
    pick_busiest_ports,
    pick_slowest_flows,
    terminal_summary,
    write_json,
)
from pdes.results.tables import read_table, write_table
from pdes.results.trouble import count_trouble
from pdes.scenario.queues import find_queues
from pdes.simulation.active import active_ps
from pdes.simulation.job import Run


def _find_iterations(job: Run, totals: dict[str, Any]) -> Iterations:
    """The whole iterations. A stop time or a deadlock can leave the last ones unfinished: they have no time."""
    plan, n_repeat = job.scenario.plan, job.scenario.config.wormhole.n_repeat
    n_whole = int((np.cumprod(totals["n_task_done"] == plan.tasks_per_iteration)).sum())
    times_ps = np.diff(totals["iteration_end_ps"][:n_whole], prepend=0).tolist()
    is_complete = n_whole == job.n_iteration and not job.circles
    agreed = job.iterations.agreed if job.iterations is not None and is_complete else None
    compared = agreed or (agreement(times_ps, n_repeat, inf) if n_repeat and plan.tasks_per_iteration else None)
    bound, cycle = (compared.bound, compared.cycle) if compared else (None, None)
    return extrapolate(
        times_ps, agreed.times_ps if agreed else (), plan.n_iteration - n_whole, totals["last_ps"],
        job.scenario.stop_ps, bound, cycle,
    )  # fmt: skip


def _result(job: Run, totals: dict[str, Any]) -> dict[str, Any]:
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
        "flows": job.n_flow,
        "flows_finished": totals["n_flow_done"],
        "tasks": job.n_task,
        "network": count_trouble(totals["ports"], totals["timeouts"]),
    }
    if s.config.wormhole.mode != "off":
        found["fast_forward"] = iterations.facts() | _fast_forward_facts(job, totals)
    if job.memo is not None:  # what was read has a share in what was simulated
        found["config"]["wormhole"]["memo_sha256"] = job.memo.digest
    if job.queue_model_digest is not None:
        found["config"]["wormhole"]["paper"]["restoration_model_sha256"] = job.queue_model_digest
    if s.config.network.has_pfc:
        found["pfc_deadlock"] = deadlocks(job, totals)
        found["pfc_storm"] = find_storms(totals["ports"], active[1] - active[0], s.topology.node_name)
    if job.sampler is not None:
        n_row = {kind: len(table["time_ps"]) for kind, table in totals["samples"].items()}
        found["samples"] = {
            "interval_ps": job.sampler.interval_ps, "instants": len(job.sampler.times_ps), "rows": n_row,
        }  # fmt: skip
    if totals["rtt"]:
        n_row = len(totals["rtt"]["flow_id"])
        found["rtt"] = {"flow_id": s.parameters.rtt_flow, "rows": n_row, "is_complete": n_row < MAX_RTT_ROWS}
    return found | job.debug.facts()


def _fast_forward_facts(job: Run, totals: dict[str, Any]) -> dict[str, Any]:
    """What was skipped, and how often something was decided."""
    fast, hops, flow_ps = job.model.fast_forward, totals["skipped"], totals["skipped_flow_ps"]
    if fast is None:
        return {"why_not": why_not(job.scenario.parameters)}
    return {
        "skipped_share": hops.total() / max(totals["hops"] + hops.total(), 1),
        "skipped_packet_hops": {cause: hops[cause] for cause in CAUSES},
        "steady_share_of_flow_time": flow_ps["steady"] / max(totals["flow_ps"], 1),
        "skipped_share_of_flow_time": flow_ps.total() / max(totals["flow_ps"], 1),
        "criterion": fast.criterion,
        **asdict(fast.counters),
        **({} if fast.memo is None else {"memo": fast.memo.facts()}),
        **({} if fast.waves is None else {"waves": fast.waves.facts()}),
        **({} if fast.lanes is None else {"lanes": fast.lanes.lanes.facts()}),
        **fast.audit_facts(),
        **({} if job.repeats is None else {"passes": job.repeats.facts()}),
    }


def deadlocks(job: Run, totals: dict[str, Any]) -> list[dict[str, Any]]:
    """What `result.json` says of the deadlocks that the run ended with, on rank 0."""
    s = job.scenario
    priority = find_queues(s.config.network, s.plan).priority
    found_ps = job.watch.found_ps if job.watch is not None and job.is_deadlocked else totals["last_ps"]

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
        for circle in job.circles
    ]


def _run_facts(job: Run, totals: dict[str, Any], compile_s: float, loop_s: float) -> dict[str, Any]:
    """`run.json`: how it was run."""
    names = ("pdes-sim", "numpy", "numba", "mpi4py", "pyarrow", "pymetis")
    rounds, hops, events = int(job.loop[N_ROUND]), totals["hops"], totals["events"]
    before = job.restored  # what was restored has not been simulated here
    compute, wait, exchange = zip(*totals["seconds"], strict=True)
    return {
        "ranks": job.world.size,
        "mpi_library": job.world.library(),
        "placement": job.scenario.config.partition.placement,
        "rank_of_lp": job.rank_of_lp.tolist(),
        "expected_imbalance": job.balance,
        "rebalance": job.balancer.facts() if job.balancer is not None else {},
        "threshold_choice": job.scenario.threshold_reason,
        "output": str(job.folder.directory),
        "wall_seconds": time.monotonic() - job.begin_s,
        "compile_seconds": compile_s,
        "loop_seconds": loop_s,
        "packet_hops_per_second": (hops - before["hops"]) / max(loop_s, 1e-9),
        "events_per_second": (events - before["events"]) / max(loop_s, 1e-9),
        "rounds": rounds - before["rounds"],
        "reductions": int(job.loop[N_REDUCTION]),
        "resumed_from_round": before["rounds"],
        "checkpoints": job.checkpoints.facts() if job.checkpoints is not None else {},
        "compute_seconds": list(compute),
        "wait_seconds": list(wait),
        "exchange_seconds": list(exchange),
        "versions": {name: version_of(name) for name in names} | {"python": platform.python_version()},
        "machine": f"{platform.machine()} {platform.system()}",
    }


def version_of(name: str) -> str:
    """Of an installed distribution."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _slowest_flows(job: Run) -> list[dict[str, Any]]:
    groups = read_table(job.folder.work_path("flows.parquet"), FLOW_COLUMNS)
    return pick_slowest_flows(groups, slow_flows.SHOWN)


def _explain(job: Run, slowest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the slowest flows met on their ways; [] where packets choose their ways themselves."""
    s = job.scenario
    if s.parameters.routing is not None or s.plan.n_part > 1 or job.flows.n_row > slow_flows.MOST_FLOWS:
        return []
    return slow_flows.explain_slowest(slowest, _Again(job.flows), s.paths.start, s.paths.port)


class _Again:
    """Rows of a spool, as often as they are asked for."""

    def __init__(self, spool: RowSpool) -> None:
        self._spool = spool

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return iter(self._spool.read_groups())


def write_results(
    job: Run, totals: dict[str, Any], seconds: tuple[float, float], quiet: bool, others: Sequence[str] = ()
) -> None:  # fmt: skip
    """Tables, JSON files and the summary; under final names only when all are complete. others: files made already."""
    s, folder = job.scenario, job.folder
    job.fill()
    written = ["ports"]
    if s.config.output.flows:
        rows, names = job.flows.read_groups(), {"tag": list(s.plan.tags) or [""]}
        write_table(folder.work_path("flows.parquet"), "flows", rows, names)
        written.append("flows")
    if s.config.output.tasks:
        task_names = {"kind": list(s.plan.kinds), "stream": list(s.plan.stream_names)}
        write_table(folder.work_path("tasks.parquet"), "tasks", job.tasks.read_groups(), task_names)
        written.append("tasks")
    if s.plan.n_main:
        rows = breakdown_groups(job.spent.read_groups(), s.plan.n_main)
        write_table(folder.work_path("breakdown.parquet"), "breakdown", rows)
        written.append("breakdown")
    node_names = {"node": list(s.topology.node_name), "peer": list(s.topology.node_name)}
    write_table(folder.work_path("ports.parquet"), "ports", [totals["ports"]], node_names)
    series = {f"samples_{kind}": table for kind, table in totals["samples"].items()}
    series |= {name: totals[name] for name in ("rtt", "partitions") if totals[name]}
    for name, table in series.items():
        write_table(folder.work_path(f"{name}.parquet"), name, [table])
    result, facts = _result(job, totals), _run_facts(job, totals, *seconds)
    slowest = _slowest_flows(job) if s.config.output.flows else []
    result["slowest_flows"] = _explain(job, slowest)
    if job.memo is not None:
        facts["memo"] = job.memo.finish()
    write_json(folder.work_path("result.json"), result)
    write_json(folder.work_path("run.json"), facts)
    breakdown = {} if quiet else read_breakdown(folder.work, result)
    folder.commit([*others, *(f"{name}.parquet" for name in (*written, *series)), "run.json", "result.json"])
    if not quiet:
        busiest = pick_busiest_ports([totals["ports"]], active_time_ps(result), names=node_names)
        terminal_summary(result, facts, breakdown, slowest[:5], busiest)
        print(f"results in {folder.directory}")
