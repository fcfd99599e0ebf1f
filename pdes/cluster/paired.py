"""Two configs over the same seeds: each seed has the same jobs and failures in both, so differences say most.

The interval is Student's t for the mean of the differences; it holds for each figure alone.
"""

import importlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pdes.errors import ConfigError
from pdes.units import US_PER_S, format_long_duration

CONFIDENCE, MOST_SEEDS = 0.95, 10_000


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


class Difference(NamedTuple):
    """B - A of one figure.

    half: of the interval's width. more: seeds until it is decided, about; 0: it is decided; -1: it will never be.
    """

    a: float
    b: float
    mean: float
    half: float
    more: int


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """By the same seeds, at least two of them."""
    own, other = np.array(a, float), np.array(b, float)
    differences = other - own
    n, mean, scatter = len(differences), float(differences.mean()), float(differences.std(ddof=1))
    half = quantile(n) * scatter / math.sqrt(n)
    return Difference(float(own.mean()), float(other.mean()), mean, half, _more(n, abs(mean), scatter))


def quantile(n: int) -> float:
    """Student's t of the confidence for so many differences. ConfigError: SciPy is missing."""
    try:
        return float(importlib.import_module("scipy.special").stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    except ImportError as error:
        found, accepted = "it needs SciPy, which is not installed", 'pip install "pdes-sim[cluster]"'
        raise ConfigError("compare", found, accepted) from error


def _more(n: int, mean: float, scatter: float) -> int:
    """Were mean and scatter those of all seeds."""
    if quantile(n) * scatter / math.sqrt(n) < mean:
        return 0
    if quantile(MOST_SEEDS) * scatter / math.sqrt(MOST_SEEDS) >= mean:
        return -1
    low, high = n, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if quantile(middle) * scatter / math.sqrt(middle) < mean else (middle, high)
    return high - n


def verdict(figure: Figure, found: Difference) -> str:
    """For people."""
    if math.isnan(found.mean):
        return "no job is done in one of them"
    if found.mean == 0 and found.half == 0:
        return "the same in every seed"
    if found.more:
        wanted = (
            f"about {found.more:,} more seed{'s' * (found.more > 1)}"
            if found.more > 0
            else f"more than {MOST_SEEDS:,} seeds, if at all"
        )
        return f"not decided: {wanted}"
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
