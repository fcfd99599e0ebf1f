"""The results of a run, on rank 0: tables, JSON files and the summary; under final names only when all are complete."""

from collections.abc import Iterator, Sequence
from typing import Any

from pdes.results import slow_flows
from pdes.results.active import active_time_ps
from pdes.results.iteration import read_breakdown
from pdes.results.summary import (
    FLOW_COLUMNS,
    pick_busiest_ports,
    pick_slowest_flows,
    terminal_summary,
    write_json,
)
from pdes.results.tables import Columns, read_table, write_table
from pdes.scenario import Scenario
from pdes.simulation.job import Run
from pdes.simulation.loop import Ended
from pdes.simulation.outcome.facts import result_facts, run_facts
from pdes.simulation.outcome.tables import Spool, Spools, tables_of


def _slowest_flows(job: Run) -> list[dict[str, Any]]:
    groups = read_table(job.folder.work_path("flows.parquet"), FLOW_COLUMNS)
    return pick_slowest_flows(groups, slow_flows.SHOWN)


def explain(s: Scenario, slowest: list[dict[str, Any]], flows: Spool, n_flow: int) -> list[dict[str, Any]]:
    """What the slowest flows met on their ways; [] where packets choose their ways themselves. flows: all n_flow."""
    if s.parameters.routing is not None or s.plan.n_part > 1 or n_flow > slow_flows.MOST_FLOWS:
        return []
    return slow_flows.explain_slowest(slowest, _Again(flows), s.paths.start, s.paths.port)


class _Again:
    """Rows of a spool, as often as they are asked for."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def __iter__(self) -> Iterator[Columns]:
        return iter(self._spool.read_groups())


def write_results(
    job: Run, totals: dict[str, Any], compile_s: float, ended: Ended, quiet: bool, others: Sequence[str] = ()
) -> None:  # fmt: skip
    """Tables, JSON files and the summary; under final names only when all are complete. others: files made already."""
    s, folder = job.scenario, job.folder
    job.rows.fill(job.assembly)
    spools, written = Spools(job.rows.flows, job.rows.tasks, job.rows.spent), []
    for table in tables_of(s, spools, totals, s.plan):
        write_table(folder.work_path(f"{table.kind}.parquet"), table.kind, table.groups, table.names)
        written.append(table.kind)
    result, facts = result_facts(job, totals), run_facts(job, totals, compile_s, ended)
    slowest = _slowest_flows(job) if s.config.output.flows else []
    result["slowest_flows"] = explain(s, slowest, job.rows.flows, job.rows.flows.n_row)
    if job.memo is not None:
        facts["memo"] = job.memo.finish()
    write_json(folder.work_path("result.json"), result)
    write_json(folder.work_path("run.json"), facts)
    breakdown = {} if quiet else read_breakdown(folder.work, result)
    folder.commit([*others, *(f"{name}.parquet" for name in written), "run.json", "result.json"])
    if not quiet:
        names = list(s.topology.node_name)
        busiest = pick_busiest_ports([totals["ports"]], active_time_ps(result), names={"node": names, "peer": names})
        terminal_summary(result, facts, breakdown, slowest[:5], busiest)
        if not s.plan.keeps_tasks and s.config.output.tasks:
            print(f"no table of tasks, which would have {s.plan.n_task:,} rows: --set output.tasks=true writes it")
        print(f"results in {folder.directory}")
