"""Plots of a sweep, as `pdes.results.report.figures` has them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pdes.results.report.figures import NAMED, SERIES_COLOURS, Plot, rounded
from pdes.results.report.figures import label as as_text
from pdes.sweeps.design import Axis, number_of
from pdes.sweeps.found import Found
from pdes.sweeps.load import label
from pdes.sweeps.metrics import Metric

MOST_LINES, MOST_BARS, LEAST_ON_A_LINE = 10, 40, 3


def scaled(found: Found, metric: Metric) -> tuple[str, float]:
    """(title of an axis, what values are divided by)."""
    if metric.unit != "s":
        return metric.name + (" (share)" if metric.unit == "share" else f" ({metric.unit})" if metric.unit else ""), 1.0
    most = float(np.nanmax(np.abs(found.values(metric)), initial=0.0))
    units = (("d", 86400.0), ("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    unit, size = next((each for each in units if most >= each[1] * (2 if each[1] > 1 else 1)), units[-1])
    return f"{metric.name} ({unit})", size


def lines_plot(found: Found, metric: Metric) -> Plot | None:
    """The metric over the first axis on a scale, a line for each combination of the others; bars if there is none."""
    axes, points = found.sweep.axes, found.sweep.points
    k = next((k for k in range(len(axes)) if _is_scale([point[k] for point in points])), None)
    if k is None:
        return _bars(found, metric)
    title, size = scaled(found, metric)
    own = found.intervals(metric)
    by_line: dict[str, list[int]] = {}
    for i, point in enumerate(points):
        name = ", ".join(_named(axes[j], point[j]) for j in range(len(axes)) if j != k)
        by_line.setdefault(name, []).append(i)
    data = []
    drawn = len(by_line) > MOST_LINES or max(map(len, by_line.values())) < LEAST_ON_A_LINE
    if drawn:  # each point its own: dots
        by_line = {"points": list(range(len(points)))}
    for n, (name, members) in enumerate(by_line.items()):
        members = [i for i in members if math.isfinite(own[i].mean)]
        if not members:
            continue
        members = sorted(members, key=lambda i: number_of(points[i][k]) or 0.0)
        halves = [own[i].half / size for i in members]
        data.append({
            "type": "scatter", "mode": "markers" if drawn else "lines+markers", "name": as_text(name or metric.name),
            "x": [_tick(points[i][k]) for i in members], "y": _numbers([own[i].mean / size for i in members]),
            "error_y": {"type": "data", "array": _numbers(halves), "visible": any(half > 0 for half in halves)},
            "marker": {"color": SERIES_COLOURS[n % len(SERIES_COLOURS)]},
            "hovertemplate": "%{x}: %{y:,.4~g}" + NAMED,
        })  # fmt: skip
    is_number = all(isinstance(point[k], int | float) for point in points)
    axis: dict[str, Any] = {"title": {"text": as_text(axes[k].name)}}
    if not is_number:
        order = sorted({label(point[k]) for point in points}, key=lambda text: number_of(text) or 0.0)
        axis |= {"type": "category", "categoryorder": "array", "categoryarray": order}
    layout = {"xaxis": axis, "yaxis": {"title": {"text": title}}, "showlegend": len(data) > 1}
    return {"data": data, "layout": layout, "height": 320}


def heat_plot(found: Found, metric: Metric) -> Plot | None:
    """The mean over two axes, over all values of the others; None: there are no two, or values do not come again."""
    axes, points = found.sweep.axes, found.sweep.points
    values = [list(dict.fromkeys(label(point[k]) for point in points)) for k in range(len(axes))]
    there = [k for k in range(len(axes)) if 2 <= len(values[k]) <= 60]
    if len(there) < 2 or len(points) < len(values[there[0]]) * len(values[there[1]]) / 2:
        return None
    a, b = there[:2]
    title, size = scaled(found, metric)
    sums, counts = np.zeros((2, len(values[b]), len(values[a])))
    for point, mean in zip(points, found.values(metric).mean(axis=1), strict=True):
        if math.isfinite(mean):
            place = values[b].index(label(point[b])), values[a].index(label(point[a]))
            sums[place] += mean / size
            counts[place] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        z = rounded(sums / counts)
    data = [{
        "type": "heatmap", "x": list(map(as_text, values[a])), "y": list(map(as_text, values[b])), "z": z,
        "colorbar": {"title": {"text": title}}, "meta": "heat",
        "hovertemplate": "%{x}, %{y}: %{z:,.4~g}<extra></extra>",
    }]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": as_text(axes[a].name)}, "type": "category"},
        "yaxis": {"title": {"text": as_text(axes[b].name)}, "type": "category", "automargin": True},
    }
    return {"data": data, "layout": layout, "height": 120 + 34 * len(values[b])}


def pareto_plots(found: Found) -> list[tuple[Metric, Plot]]:
    """Each other metric that is traded against the first, and the front of all; []: there is none."""
    front = found.front_points()
    return [(other, _front(found, other, front)) for other in found.traded[1:]] if front else []


def _front(found: Found, b: Metric, front: list[int]) -> Plot:
    a = found.traded[0]
    (x_title, x_size), (y_title, y_size) = scaled(found, a), scaled(found, b)
    x, y = (found.values(metric).mean(axis=1) for metric in (a, b))
    is_line = len(found.traded) == 2  # of more, the front is no line here
    names = [as_text(found.label(point)) for point in found.sweep.points]
    data = [
        {
            "type": "scatter", "mode": "markers", "name": "points",
            "x": _numbers(x / x_size), "y": _numbers(y / y_size), "text": names,
            "marker": {"color": "#8a8f98", "size": 6},
            "hovertemplate": "%{text}<br>%{x:,.4~g}, %{y:,.4~g}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "lines+markers" if is_line else "markers", "name": "Pareto front",
            "x": _numbers(x[front] / x_size), "y": _numbers(y[front] / y_size), "text": [names[i] for i in front],
            "line": {"shape": "hv" if a.sign > 0 else "vh", "color": SERIES_COLOURS[1]},
            "hovertemplate": "%{text}<br>%{x:,.4~g}, %{y:,.4~g}<extra></extra>",
        },
    ]  # fmt: skip
    layout = {"xaxis": {"title": {"text": x_title}}, "yaxis": {"title": {"text": y_title}}, "showlegend": True}
    return {"data": data, "layout": layout, "height": 340}


def _bars(found: Found, metric: Metric) -> Plot:
    """The best points."""
    title, size = scaled(found, metric)
    own, order = found.intervals(metric), found.order(metric)[:MOST_BARS]
    halves = [own[i].half / size for i in order]
    data = [{
        "type": "bar", "orientation": "h", "y": [as_text(found.label(found.sweep.points[i])) for i in order],
        "x": _numbers([own[i].mean / size for i in order]), "marker": {"color": SERIES_COLOURS[0]},
        "error_x": {"type": "data", "array": _numbers(halves), "visible": any(half > 0 for half in halves)},
        "hovertemplate": "%{y}: %{x:,.4~g}<extra></extra>",
    }]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
    }
    return {"data": data, "layout": layout, "height": 90 + 26 * len(order)}


def _is_scale(values: Sequence[Any]) -> bool:
    return all(number_of(value) is not None for value in values) and len(set(map(label, values))) >= LEAST_ON_A_LINE


def _named(axis: Axis, value: Any) -> str:
    return value if isinstance(value, str) else f"{axis.name} {label(value)}"


def _tick(value: Any) -> Any:
    return value if isinstance(value, int | float) else label(value)


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
