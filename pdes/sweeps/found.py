"""What came of a sweep: a row a run, a row a point with its interval, who is better, and which axis matters.

Intervals are of the mean over seeds, 95 % each. Where the best point is compared with all others, the level is shared
out among all pairs of points (Bonferroni), so that all verdicts hold together 95 % of the time, though it is the same
runs that say which point is the best.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pdes.errors import ConfigError
from pdes.sweeps.design import Point
from pdes.sweeps.load import Sweep, label
from pdes.sweeps.metrics import Metric, chosen
from pdes.sweeps.paired import CONFIDENCE, Difference, Interval, interval, more_text, paired
from pdes.sweeps.pareto import pareto
from pdes.sweeps.store import DONE, Row

if TYPE_CHECKING:
    import pyarrow as pa


class Verdict(NamedTuple):
    """Of the best point beside another one."""

    best: Point
    other: Point
    difference: Difference
    text: str


class Found:
    """rows: of runs, seed by seed, point by point as in sweep.points. n_new: of them were run now."""

    def __init__(self, sweep: Sweep, rows: Sequence[Row], n_new: int) -> None:
        self.sweep, self.rows, self.n_new = sweep, list(rows), n_new

    def __repr__(self) -> str:
        return f"{len(self.sweep.points)} points of {len(self.sweep.seeds)} seeds, in {str(self.sweep.directory)!r}"

    @cached_property
    def metrics(self) -> list[Metric]:
        """That some run has: those that are asked for first, and first of all."""
        there = {name for row in self.rows for name in row.metrics}
        known = [metric for metric in self.sweep.known if metric.name in there]
        return [*self.sweep.wanted, *(metric for metric in known if metric not in self.sweep.wanted)]

    @cached_property
    def compared(self) -> list[Metric]:
        """That have a better and a worse, at most four unless they are asked for."""
        own = [metric for metric in self.metrics if metric.sign]
        return list(self.sweep.wanted) or own[:4]

    @cached_property
    def traded(self) -> list[Metric]:
        """That the Pareto front is of: all that are asked for, else the first two that are compared."""
        return [metric for metric in self.compared if metric.sign] if self.sweep.wanted else self.compared[:2]

    @property
    def traded_text(self) -> str:
        """Their names."""
        *names, last = [metric.name for metric in self.traded]
        return f"{', '.join(names)} and {last}" if names else last

    def front(self) -> list[dict[str, Any]]:
        """Points whose means no other point beats in all metrics that are traded, {key: value} each, the best by the
        first of these first; [] if there are not two."""
        return [self._keys_of(self.sweep.points[i]) for i in self.front_points()]

    def front_points(self) -> list[int]:
        """Their numbers."""
        if len(self.traded) < 2 or len(self.sweep.points) < 2:
            return []
        return pareto(*(self.values(metric).mean(axis=1) * metric.sign for metric in self.traded))

    def values(self, metric: Metric) -> np.ndarray:
        """float64[n_point, n_seed], NaN where a run has none."""
        flat = [row.metrics.get(metric.name, math.nan) if row.status == DONE else math.nan for row in self.rows]
        return np.array(flat, float).reshape(len(self.sweep.seeds), len(self.sweep.points)).T

    def intervals(self, metric: Metric) -> list[Interval]:
        """Of each point; NaN where a seed is missing."""
        return [interval(row.tolist()) for row in self.values(metric)]

    def order(self, metric: Metric) -> list[int]:
        """Points from the best to the worst; those without a value at the end."""
        means = self.values(metric).mean(axis=1) * (metric.sign or 1)
        return [int(i) for i in np.argsort(means, kind="stable")]

    def best(self, name: str | None = None) -> dict[str, Any]:
        """The point with the best mean, {key: value}. name: of a metric, or None, the first. ConfigError: none."""
        metric = self.metric(name)
        i = self.order(metric)[0]
        if math.isnan(self.intervals(metric)[i].mean):
            raise ConfigError(self.sweep.where, f"no point has {metric.name} in every seed", "another metric")
        return self._keys_of(self.sweep.points[i])

    def _keys_of(self, point: Point) -> dict[str, Any]:
        pairs = zip(self.sweep.axes, point, strict=True)
        return {key: own for axis, value in pairs for key, own in axis.items(value)}

    def metric(self, name: str | None = None) -> Metric:
        """By name; the first that is compared. ConfigError: no run has it."""
        if name is not None:
            return chosen([name], self.metrics, self.sweep.where)[0]
        if not self.compared:
            raise ConfigError(self.sweep.where, "no run has anything to compare", "[sweep] metrics")
        return self.compared[0]

    def compare(self, name: str | None = None) -> list[Verdict]:
        """The best point beside each other one, best first. ConfigError: SciPy is missing."""
        metric = self.metric(name)
        order, values = self.order(metric), self.values(metric)
        order = [i for i in order if np.isfinite(values[i]).all()]
        found, n_pair = [], len(order) * (len(order) - 1) // 2
        for j in order[1:]:
            if len(self.sweep.seeds) == 1:
                change = float(values[j, 0] - values[order[0], 0])
                one = Difference(float(values[order[0], 0]), float(values[j, 0]), change, math.nan, 0)
            else:
                one = paired(values[order[0]].tolist(), values[j].tolist(), 1 - (1 - CONFIDENCE) / n_pair)
            best, other = self.sweep.points[order[0]], self.sweep.points[j]
            found.append(Verdict(best, other, one, self._verdict(metric, best, other, one)))
        return found

    def _verdict(self, metric: Metric, best: Point, other: Point, found: Difference) -> str:
        a, b = self.label(best), self.label(other)
        if found.mean == 0 and not found.half > 0:
            return f"{a} and {b} are the same" + (" in every seed" if len(self.sweep.seeds) > 1 else "")
        if found.more:
            return f"{a} or {b}: {more_text(found.more)}"
        size = metric.show(abs(found.mean))
        scatter = "" if math.isnan(found.half) else f" ± {metric.show(found.half)}"
        share = abs(found.mean) / abs(found.b) if found.b else math.nan
        word = "is better than" if metric.unit != "s" else "is faster than"
        return f"{a} {word} {b} by {size}{scatter}" + ("" if math.isnan(share) else f" ({100 * share:.3g} %)")

    def label(self, point: Point) -> str:
        """For people."""
        return ", ".join(
            label(value) if isinstance(value, str) else f"{axis.name} {label(value)}"
            for axis, value in zip(self.sweep.axes, point, strict=True)
        )

    @property
    def is_drawn(self) -> bool:
        """Whether seeds change anything that is measured; so taken where no point has all its seeds."""
        whole = [own[np.isfinite(own).all(axis=1)] for own in map(self.values, self.metrics)]
        there = [own for own in whole if len(own)]
        return len(self.sweep.seeds) > 1 and (not there or any(np.ptp(own, axis=1).max() > 0 for own in there))

    def runs(self) -> "pa.Table":
        """A row a run: the axes, seed, status, metrics, message, seconds."""
        import pyarrow as pa

        n = len(self.sweep.points)
        columns: dict[str, Any] = {"point": [i % n for i in range(len(self.rows))]}
        for k, axis in enumerate(self.sweep.axes):
            columns[axis.name] = _column([self.sweep.points[i % n][k] for i in range(len(self.rows))])
        columns["seed"] = [self.sweep.seeds[i // n] for i in range(len(self.rows))]
        columns["status"] = [row.status for row in self.rows]
        for metric in self.metrics:
            columns[_titled(metric)] = pa.array([row.metrics.get(metric.name) for row in self.rows], pa.float64())
        columns["key"] = [row.key for row in self.rows]
        columns["message"] = [row.message for row in self.rows]
        columns["wall_s"] = pa.array([row.wall_s for row in self.rows], pa.float64())
        return pa.table(columns)

    def points(self) -> "pa.Table":
        """A row a point: the axes, and of each metric the mean and half of its interval."""
        import pyarrow as pa

        columns: dict[str, Any] = {"point": list(range(len(self.sweep.points)))}
        for k, axis in enumerate(self.sweep.axes):
            columns[axis.name] = _column([point[k] for point in self.sweep.points])
        is_done = np.array([row.status == DONE for row in self.rows]).reshape(len(self.sweep.seeds), -1)
        columns["runs"] = is_done.sum(axis=0)
        for metric in self.metrics:
            found = self.intervals(metric)
            columns[_titled(metric)] = pa.array([_plain(own.mean) for own in found], pa.float64())
            columns[f"{_titled(metric)}_half"] = pa.array([_plain(own.half) for own in found], pa.float64())
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """`points` as a data frame; needs pandas."""
        return self.points().to_pandas()


def _titled(metric: Metric) -> str:
    return f"{metric.name}_s" if metric.unit == "s" else metric.name


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _column(values: Sequence[Any]) -> list[Any]:
    """Numbers if all are numbers, else texts."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) for value in values] if any(isinstance(value, float) for value in values) else list(values)
    if all(isinstance(value, bool) for value in values):
        return list(values)
    return [label(value) for value in values]
