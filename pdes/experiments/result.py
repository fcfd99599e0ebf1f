"""What came of one experiment, in memory: the tables and figures that a run of its config leaves in a folder."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from models.network.model import NetworkModel
from models.workload.plan import WorkloadPlan
from pdes.errors import ConfigError
from pdes.result import Outcome
from pdes.results import slow_flows
from pdes.results.summary import FLOW_COLUMNS, pick_slowest_flows
from pdes.results.tables import Columns, arrow_table, arrow_tables, complete, write_table
from pdes.scenario import Scenario
from pdes.simulation.assemble import Assembly
from pdes.simulation.outcome.facts import result_facts
from pdes.simulation.outcome.tables import Spools, Table, tables_of
from pdes.simulation.outcome.write import explain
from pdes.simulation.shared_memo import SharedMemo

if TYPE_CHECKING:
    import pyarrow as pa


class Part:
    """Rows of one experiment, for `Spools`."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def read_groups(self) -> list[Columns]:
        """All of them; none if there are none."""
        return [self.columns] if self.columns and len(next(iter(self.columns.values()))) else []


class Ran(NamedTuple):
    """For `result_facts`. assembly: of the scenario, with the model of all."""

    scenario: Scenario
    assembly: Assembly
    memo: SharedMemo | None = None
    queue_model_digest: str | None = None

    @property
    def model(self) -> NetworkModel:
        """Of all experiments."""
        return self.assembly.model


class FlowTables:
    """Tables of flows of all that ran together: the first that is asked for makes all, in a tenth of the time."""

    def __init__(self, columns: Columns, ends: Sequence[int], tags: Sequence[str]) -> None:
        """columns: rows of all, ids and nodes as each has them by itself. ends: behind the last row of each."""
        self._columns, self._ends, self._tags = columns, ends, tags

    @cached_property
    def all(self) -> list["pa.Table"]:
        """In order."""
        return arrow_tables("flows", self._columns, {"tag": list(self._tags) or [""]}, self._ends)


class ExperimentResult(Outcome):
    """One of several that ran together. Nothing of it lies on the disk."""

    def __init__(
        self, ran: Ran, rows: Spools, totals: dict[str, Any], named: WorkloadPlan, how: dict[str, Any],
        flows: tuple[FlowTables, int],
    ) -> None:  # fmt: skip
        """rows: of `Part`s. totals: see `gather`. named: see `tables_of`. how: for `run`. flows: with its number."""
        self._ran, self._rows, self._totals, self._named, self.run = ran, rows, totals, named, how
        self._flows = flows

    def __repr__(self) -> str:
        return f"ExperimentResult: {', '.join(self.tables)}"

    @property
    def tables(self) -> list[str]:
        """Names of the tables that there are."""
        return sorted(each.kind for each in self._made())

    def table(self, name: str) -> "pa.Table":
        """A table by its name, as Arrow. ConfigError: there is none."""
        if name == "flows" and self._ran.scenario.config.output.flows:
            tables, number = self._flows
            return tables.all[number]
        for each in self._made():
            if each.kind == name:
                return arrow_table(each.kind, each.groups, each.names)
        raise ConfigError("experiment", f"has no table {name}", f"Accepted: {', '.join(self.tables)}")

    def write_tables(self, folder: Path) -> None:
        """Write them as Parquet: the bytes that a run of the config by itself leaves. folder: made if there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        for each in self._made():
            write_table(folder / f"{each.kind}.parquet", each.kind, each.groups, each.names)

    def _made(self) -> Iterator[Table]:
        """Anew: groups may be read once."""
        return tables_of(self._ran.scenario, self._rows, self._totals, self._named)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The summary but for `slowest_flows`, which takes longer than the rest."""
        return result_facts(self._ran, self._totals)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What `result.json` says of a run."""
        s, flows = self._ran.scenario, self._rows.flows
        groups = [complete(group, FLOW_COLUMNS, 0) for group in flows.read_groups()]
        slowest = pick_slowest_flows(groups, slow_flows.SHOWN) if s.config.output.flows else []
        return self.facts | {"slowest_flows": explain(s, slowest, flows, s.plan.n_flow)}


class ReadResult(Outcome):
    """Of a run by itself, all that it left, read into memory."""

    def __init__(self, result: Outcome) -> None:
        self.summary, self.run = result.summary, result.run
        self._tables = {name: result.table(name) for name in result.tables}

    def __repr__(self) -> str:
        return f"ReadResult: {', '.join(self.tables)}"

    @property
    def tables(self) -> list[str]:
        """Names of the tables that there are."""
        return sorted(self._tables)

    def table(self, name: str) -> "pa.Table":
        """A table by its name, as Arrow. ConfigError: there is none."""
        if name not in self._tables:
            raise ConfigError("experiment", f"has no table {name}", f"Accepted: {', '.join(self.tables)}")
        return self._tables[name]
