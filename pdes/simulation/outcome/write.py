"""The results of a run, on rank 0: tables, JSON files and the summary; under final names only when all are complete."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pdes.results import slow_flows
from pdes.results.active import active_time_ps
from pdes.results.breakdown import Share, breakdown_groups
from pdes.results.iteration import read_breakdown
from pdes.results.spool import RowSpool
from pdes.results.summary import (
    FLOW_COLUMNS,
    pick_busiest_ports,
    pick_slowest_flows,
    terminal_summary,
    write_json,
)
from pdes.results.tables import read_table, with_jobs, write_table
from pdes.simulation.job import Run
from pdes.simulation.loop import Ended
from pdes.simulation.outcome.facts import result_facts, run_facts


def _slowest_flows(job: Run) -> list[dict[str, Any]]:
    groups = read_table(job.folder.work_path("flows.parquet"), FLOW_COLUMNS)
    return pick_slowest_flows(groups, slow_flows.SHOWN)


def _explain(job: Run, slowest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the slowest flows met on their ways; [] where packets choose their ways themselves."""
    s = job.scenario
    if s.parameters.routing is not None or s.plan.n_part > 1 or job.rows.flows.n_row > slow_flows.MOST_FLOWS:
        return []
    return slow_flows.explain_slowest(slowest, _Again(job.rows.flows), s.paths.start, s.paths.port)


class _Again:
    """Rows of a spool, as often as they are asked for."""

    def __init__(self, spool: RowSpool) -> None:
        self._spool = spool

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return iter(self._spool.read_groups())


def write_results(
    job: Run, totals: dict[str, Any], compile_s: float, ended: Ended, quiet: bool, others: Sequence[str] = ()
) -> None:  # fmt: skip
    """Tables, JSON files and the summary; under final names only when all are complete. others: files made already."""
    s, folder = job.scenario, job.folder
    job.rows.fill(job.assembly)
    written = ["ports"]
    jobs = {"job": [part.name for part in s.plan.jobs]} if s.plan.jobs else {}
    if s.config.output.flows:
        rows, names = job.rows.flows.read_groups(), {"tag": list(s.plan.tags) or [""]}
        rows = with_jobs(rows, [part.first_flow for part in s.plan.jobs])
        write_table(folder.work_path("flows.parquet"), "flows", rows, names | jobs)
        written.append("flows")
    if s.config.output.tasks:
        task_names = {"kind": list(s.plan.kinds), "stream": list(s.plan.stream_names)}
        rows = with_jobs(job.rows.tasks.read_groups(), [part.first_task for part in s.plan.jobs])
        write_table(folder.work_path("tasks.parquet"), "tasks", rows, task_names | jobs)
        written.append("tasks")
    if s.plan.n_main:
        begins_ps = np.maximum(totals["jobs"]["begin_ps"], 0).tolist() if s.plan.jobs else [0]
        shares = [
            Share(part.n_main * part.n_iteration, part.n_main, begin_ps)
            for part, begin_ps in zip(s.plan.parts, begins_ps, strict=True)
        ]
        rows = breakdown_groups(job.rows.spent.read_groups(), shares)
        rows = with_jobs(rows, [part.first_spent for part in s.plan.jobs])
        write_table(folder.work_path("breakdown.parquet"), "breakdown", rows, jobs)
        written.append("breakdown")
    node_names = {"node": list(s.topology.node_name), "peer": list(s.topology.node_name)}
    write_table(folder.work_path("ports.parquet"), "ports", [totals["ports"]], node_names)
    series = {f"samples_{kind}": table for kind, table in totals["samples"].items()}
    series |= {name: totals[name] for name in ("rtt", "partitions") if totals[name]}
    for name, table in series.items():
        write_table(folder.work_path(f"{name}.parquet"), name, [table])
    result, facts = result_facts(job, totals), run_facts(job, totals, compile_s, ended)
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
