"""What came of a search: the best candidate, a row for each, and how sure it is."""

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from pdes.config.search import LAYOUT_TABLE
from pdes.searching.climb import Climbed
from pdes.searching.load import Search
from pdes.searching.screen import Screened
from pdes.sweeps.load import label
from pdes.sweeps.store import Row

if TYPE_CHECKING:
    import pyarrow as pa

SHORT = {key: name for name, key in LAYOUT_TABLE.items()}
UNITS = {
    "iteration": "s per iteration", "throughput": "s per token", "price": "price x s per token",
    "energy": "J per token",
}  # fmt: skip


class Found:
    """rows: of candidates, as they were screened. flow, packets: runs by candidate. n_new: of them were run now."""

    def __init__(
        self, search: Search, rows: list[Screened], climbed: Climbed, runs: dict[str, dict[int, Row]], n_new: int
    ) -> None:
        self.search, self.rows, self.climbed, self.runs, self.n_new = search, rows, climbed, runs, n_new

    def __repr__(self) -> str:
        return f"{self.label(self.climbed.best)}, the best of {len(self.rows):,}, in {str(self.search.directory)!r}"

    @property
    def names(self) -> dict[str, str]:
        """Key of the config -> what tables call it."""
        axes = {
            key: axis.name if len(axis.keys) == 1 else key.rpartition(".")[2]
            for axis in self.search.axes for key in axis.keys
        }  # fmt: skip
        keys = dict.fromkeys(key for row in self.rows for key in row.values)
        return {key: SHORT.get(key) or axes.get(key, key) for key in keys}

    def best(self) -> dict[str, Any]:
        """The best candidate, {key: value}."""
        return dict(self.rows[self.climbed.best].values)

    @property
    def best_config(self) -> dict[str, Any]:
        """Its config, as `pdes.make_config` takes it."""
        from pdes.searching.space import tables_of

        return tables_of(self.search, self.best())

    @property
    def gap(self) -> float:
        """How much better a candidate might be that was not run with packets, by the least ratios that were seen."""
        return self.climbed.gap

    def order(self) -> list[int]:
        """Candidates that are not refused: those with packets first, then those with flow mode, each by cost."""
        c = self.climbed
        there = [i for i in range(len(self.rows)) if math.isfinite(c.closed[i])]

        def key(i: int) -> tuple[int, float]:
            level = 0 if math.isfinite(c.packets[i]) else 1 if math.isfinite(c.flow[i]) else 2
            return level, float((c.packets, c.flow, c.closed)[level][i])

        return sorted(there, key=key)

    def refused(self) -> Counter[str]:
        """Reasons, in a word, and how many."""
        return Counter(row.kind for row in self.rows if row.kind)

    def seconds(self, i: int) -> tuple[float, float, float]:
        """Of an iteration, by the three fidelities."""
        c, weight = self.climbed, self.rows[i].weight
        return self.rows[i].closed_s, float(c.flow[i] / weight), float(c.packets[i] / weight)

    def label(self, i: int) -> str:
        """ "tp 4, pp 2"."""
        names = self.names
        return ", ".join(f"{names[key]} {label(value)}" for key, value in self.rows[i].values.items())

    def candidates(self) -> "pa.Table":
        """A row a candidate: what is free, whether it is refused and why, its estimate, runs, cost, price, memory."""
        import pyarrow as pa

        names, n = self.names, range(len(self.rows))
        columns: dict[str, Any] = {
            name: _column([row.values.get(key) for row in self.rows]) for key, name in names.items()
        }
        columns["status"] = ["refused" if row.kind else "candidate" for row in self.rows]
        times = np.array([self.seconds(i) for i in n]).reshape(-1, 3).T
        for name, own in zip(("closed_s", "flow_s", "packets_s"), times, strict=True):
            columns[name] = pa.array([_plain(value) for value in own], pa.float64())
        c = self.climbed
        cost = np.where(np.isfinite(c.packets), c.packets, np.where(np.isfinite(c.flow), c.flow, c.closed))
        columns["cost"] = pa.array([_plain(value) for value in cost], pa.float64())
        for name in ("price", "power", "memory_bytes", "tokens"):
            columns[name] = [getattr(row, name) for row in self.rows]
        for name, runs in self.runs.items():
            columns[f"{name}_key"] = [runs[i].key if i in runs else "" for i in n]
        columns["reason"] = [row.reason or self._failure(i) for i, row in enumerate(self.rows)]
        return pa.table(columns)

    def _failure(self, i: int) -> str:
        return next((runs[i].message for runs in self.runs.values() if i in runs and runs[i].message), "")

    def to_pandas(self) -> Any:
        """`candidates` as a data frame; needs pandas."""
        return self.candidates().to_pandas()


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _column(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} or kinds <= {float} or kinds <= {bool} or kinds <= {str}:
        return values
    return [value if isinstance(value, str) else json.dumps(value, default=str) for value in values]
