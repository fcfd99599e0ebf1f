"""Two configs over the same seeds: each seed has the same jobs and failures in both, so differences say most.

The interval is Student's t for the mean of the differences; it holds for each figure alone.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pdes.sweeps.paired import Difference, more_text, paired
from pdes.units import US_PER_S, format_long_duration


class Figure(NamedTuple):
    """Of result.json. kind: "time" or "share". sign: 1 if less of it is better, -1 if more is."""

    name: str
    path: tuple[str, ...]
    kind: str
    sign: int
    better: str

    def value(self, result: dict[str, Any]) -> float:
        """NaN: the run has none, as no job is done."""
        found: Any = result
        for key in self.path:
            found = found.get(key, math.nan) if isinstance(found, dict) else math.nan
        return float(found)


FIGURES = (
    Figure("mean completion", ("completion_s", "mean"), "time", 1, "faster"),
    Figure("p99 completion", ("completion_s", "p99"), "time", 1, "faster"),
    Figure("mean wait", ("wait_s", "mean"), "time", 1, "shorter"),
    Figure("p99 wait", ("wait_s", "p99"), "time", 1, "shorter"),
    Figure("goodput", ("goodput",), "share", -1, "higher"),
    Figure("GPUs held", ("held_share",), "share", -1, "higher"),
)


def verdict(figure: Figure, found: Difference) -> str:
    """For people."""
    if math.isnan(found.mean):
        return "no job is done in one of them"
    if found.mean == 0 and found.half == 0:
        return "the same in every seed"
    if found.more:
        return more_text(found.more)
    name = "B" if figure.sign * found.mean < 0 else "A"
    return f"{name} is {figure.better} by {show(figure, abs(found.mean))} ± {show(figure, found.half)}"


def show(figure: Figure, value: float) -> str:
    """A value with its unit."""
    if math.isnan(value):
        return "-"
    sign = "-" if value < 0 else ""
    if figure.kind == "time":
        return sign + format_long_duration(abs(value) * US_PER_S)
    return f"{sign}{100 * abs(value):.3g} %"


def lines(results: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """A line for each figure, under a heading. results: of A and B, by seed."""
    rows = [("", "A", "B", "B - A", "")]
    for figure in FIGURES:
        found = paired([figure.value(a) for a, _ in results], [figure.value(b) for _, b in results])
        change = f"{show(figure, found.mean)} ± {show(figure, found.half)}"
        rows.append((figure.name, show(figure, found.a), show(figure, found.b), change, verdict(figure, found)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    texts = []
    for row in rows:
        cells = [f"{row[0]:<{widths[0]}}", *(f"{row[i]:>{widths[i]}}" for i in range(1, 4)), row[4]]
        texts.append("  ".join(cells).rstrip())
    return texts
