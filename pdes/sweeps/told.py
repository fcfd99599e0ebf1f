"""A sweep for people: the lines after it, and sweep.json."""

import math
from collections import Counter
from typing import Any

from pdes.sweeps.found import Found
from pdes.sweeps.load import label
from pdes.sweeps.metrics import Metric
from pdes.sweeps.paired import Interval
from pdes.sweeps.sensitivity import effects
from pdes.sweeps.store import DONE

MOST_LINES = 10


def facts(found: Found) -> dict[str, Any]:
    """sweep.json."""
    sweep = found.sweep
    result: dict[str, Any] = {
        "config": str(sweep.source),
        "points": len(sweep.points),
        "seeds": list(sweep.seeds),
        "runs": dict(Counter(row.status for row in found.rows)),
        "metrics": {},
    }
    for metric in found.compared:
        best = found.order(metric)[0]
        own = found.intervals(metric)[best]
        result["metrics"][metric.name] = {
            "unit": metric.unit,
            "best": found.label(sweep.points[best]), "mean": _number(own.mean), "half": _number(own.half),
            "verdicts": [verdict.text for verdict in found.compare(metric.name)[:MOST_LINES]],
            "share_of_variance": {effect.axis: _number(effect.share) for effect in effects(found, metric)},
        }  # fmt: skip
    return result


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def lines(found: Found) -> list[str]:
    """After the sweep."""
    sweep, counts = found.sweep, Counter(row.status for row in found.rows)
    n_seed = len(sweep.seeds)
    seeds = f"{n_seed} seeds, {sweep.seeds[0]} to {sweep.seeds[-1]}" if n_seed > 1 else "one seed"
    said = [f"{len(sweep.points):,} points, {seeds}: {len(found.rows):,} runs, {found.n_new:,} of them now"]
    for status in sorted(set(counts) - {DONE}):
        first = next(row for row in found.rows if row.status == status)
        said.append(f"{counts[status]:,} runs {status}; the first, {first.point}: {first.message.splitlines()[0]}")
    if not found.compared:
        return [*said, "nothing is measured"]
    metric = found.compared[0]
    said += ["", *_table(found)]
    if n_seed > 1 and not found.is_drawn:
        said += ["", "Every seed says the same: nothing is drawn in these runs, so one seed is enough"]
    verdicts = found.compare()
    if verdicts:
        said += ["", f"By {metric.name}:", *(f"  {verdict.text}" for verdict in verdicts[:3])]
        if n_seed > 2 and found.is_drawn and len(verdicts) > 1:
            said.append(f"  (all {len(verdicts)} comparisons hold together with 95 %)")
    if n_seed == 1 and verdicts:
        said.append("  One seed has no interval: give `seeds` where something is drawn")
    shares = [effect for effect in effects(found, metric) if math.isfinite(effect.share)]
    if len(sweep.axes) > 1 and shares:
        parts = ", ".join(f"{effect.axis} {100 * effect.share:.0f} %" for effect in shares)
        said += ["", f"Share of {metric.name}'s variance that an axis explains alone: {parts}"]
    front = [found.label(sweep.points[i]) for i in found.front_points()]
    if front:
        left = f"; and {len(front) - MOST_LINES:,} more" if len(front) > MOST_LINES else ""
        said += ["", f"Pareto front of {found.traded_text}: {'; '.join(front[:MOST_LINES])}{left}"]
    return said


def _table(found: Found) -> list[str]:
    """The best points."""
    shown = found.compared[:4]
    columns = [metric.name for metric in shown]
    rows = [[*(axis.name for axis in found.sweep.axes), *columns]]
    order = found.order(shown[0])
    intervals = [found.intervals(metric) for metric in shown]
    for i in order[:MOST_LINES]:
        values = [with_half(metric, own[i]) for metric, own in zip(shown, intervals, strict=True)]
        rows.append([*map(label, found.sweep.points[i]), *values])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    signs = ["<"] * len(found.sweep.axes) + [">"] * len(shown)
    text = [
        "  ".join(f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True)).rstrip()
        for row in rows
    ]
    left = len(order) - MOST_LINES
    return [*text, *([f"... and {left:,} more"] if left > 0 else [])]


def with_half(metric: Metric, own: Interval) -> str:
    """ "12.3 ms ± 0.1 ms"."""
    half = "" if not own.half > 0 else f" ± {metric.show(own.half)}"
    return metric.show(own.mean) + half
