"""Which tables a run leaves, and what is in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from models.workload.plan import WorkloadPlan
from pdes.results.breakdown import Share, breakdown_groups
from pdes.results.tables import Columns, with_jobs
from pdes.scenario import Scenario


class Spool(Protocol):
    """Rows in order, as often as they are asked for."""

    def read_groups(self) -> Iterable[Columns]: ...


class Spools(NamedTuple):
    """What the kernels said of messages, tasks and times spent."""

    flows: Spool
    tasks: Spool
    spent: Spool


class Table(NamedTuple):
    """As `pdes.results.tables.write_table` takes it. kind: the schema's name, the file's too."""

    kind: str
    groups: Iterable[Columns]
    names: Mapping[str, Sequence[str]]


def tables_of(s: Scenario, rows: Spools, totals: dict[str, Any], named: WorkloadPlan) -> Iterator[Table]:
    """The tables of a run. totals: see `gather`. named: has the names that the rows' numbers stand for."""
    jobs = {"job": [part.name for part in s.plan.jobs]} if s.plan.jobs else {}
    if s.config.output.flows:
        groups = with_jobs(rows.flows.read_groups(), [part.first_flow for part in s.plan.jobs])
        yield Table("flows", groups, {"tag": list(named.tags) or [""]} | jobs)
    if s.plan.keeps_tasks:
        groups = with_jobs(rows.tasks.read_groups(), [part.first_task for part in s.plan.jobs])
        yield Table("tasks", groups, {"kind": list(named.kinds), "stream": list(named.stream_names)} | jobs)
    if s.plan.n_main:
        begins_ps = np.maximum(totals["jobs"]["begin_ps"], 0).tolist() if s.plan.jobs else [0]
        shares = [
            Share(part.n_main * part.n_iteration, part.n_main, begin_ps)
            for part, begin_ps in zip(s.plan.parts, begins_ps, strict=True)
        ]
        groups = breakdown_groups(rows.spent.read_groups(), shares)
        yield Table("breakdown", with_jobs(groups, [part.first_spent for part in s.plan.jobs]), jobs)
    names = list(s.topology.node_name)
    yield Table("ports", [totals["ports"]], {"node": names, "peer": names})
    series = {f"samples_{kind}": table for kind, table in totals["samples"].items()}
    series |= {name: totals[name] for name in ("rtt", "partitions") if totals[name]}
    for name, table in series.items():
        yield Table(name, [table], {})
