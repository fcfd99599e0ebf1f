"""Plots as Plotly draws them, as plain data: {"data", "layout", "height"} and "choices" of what is shown.

Colours of text, grid and heat maps follow the reader's light or dark theme: the page's script sets them, by `meta`.
With "showlegend" the page has the names of what is drawn above the plot, where they wrap.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pdes.results.iteration import breakdown_rows, is_shown
from pdes.results.report.flows import FlowSample, distribution, points, size_classes
from pdes.results.report.groups import Group

Plot = dict[str, Any]

PART_COLOURS = {
    "compute": "#4c78a8", "optimizer": "#72b7b2", "TP exposed": "#f58518", "CP exposed": "#d6a51c",
    "EP exposed": "#b279a2", "PP exposed": "#ff9da6", "DP exposed": "#e45756", "other collectives": "#9d755d",
    "pipeline bubble": "#9aa5b1", "idle": "#c9ced6",
}  # fmt: skip
SERIES_COLOURS = (
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#e45756",
    "#b279a2",
    "#72b7b2",
    "#d6a51c",
    "#9d755d",
    "#ff9da6",
    "#8a8f98",
)


FEW_DECADES = 3
NAMED = "<extra>%{fullData.name}</extra>"


def rounded(values: np.ndarray) -> list[Any]:
    """Nested lists with 4 significant digits, None for what is not finite: JSON has no such numbers."""
    flat = [float(f"{x:.4g}") if np.isfinite(x) else None for x in values.ravel().tolist()]
    columns = values.shape[-1]
    return [flat[i : i + columns] for i in range(0, len(flat), columns)] if values.ndim == 2 else flat


def log_axis(title: str, values: np.ndarray) -> dict[str, Any]:
    """A logarithmic axis for positive values whose labels do not meet: up to a decade as on a linear axis, up to
    FEW_DECADES 1, 2 and 5, else powers of ten.
    """
    decades = float(np.log10(values.max() / max(values.min(), 1e-9)))
    return {
        "type": "log", "title": {"text": title},
        "dtick": None if decades <= 1 else "D2" if decades <= FEW_DECADES else 1,
    }  # fmt: skip


def label(text: str) -> str:
    """Text that somebody else chose, as it is: Plotly would take tags in it for formatting."""
    return escape(text, quote=False)


def time_unit(most_ps: float) -> tuple[str, float]:
    """(unit, ps in it) in which a time up to this one reads well."""
    for unit, ps in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)):
        if most_ps >= ps:
            return unit, ps
    return "ps", 1.0


def breakdown_plot(groups: Sequence[tuple[str, Mapping[str, int]]]) -> Plot:
    """A bar for each group (or run), made of the parts of its time."""
    unit, ps = time_unit(max(parts["iteration_time_ps"] for _, parts in groups))
    names, rows = [label(name) for name, _ in groups], [breakdown_rows(parts) for _, parts in groups]
    data = []
    for i, (part, _) in enumerate(rows[0]):
        values = [row[i][1] for row in rows]
        if any(is_shown(part, value) for value in values) and any(values):
            data.append({
                "type": "bar", "orientation": "h", "name": part, "y": names, "x": [value / ps for value in values],
                "marker": {"color": PART_COLOURS[part]},
                "hovertemplate": f"%{{y}}<br>{part}: %{{x:,.4~g}} {unit}<extra></extra>",
            })  # fmt: skip
    layout = {
        "barmode": "stack", "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
        "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": 90 + 26 * len(groups)}


def stage_groups(groups: Sequence[Group]) -> list[tuple[str, Mapping[str, int]]]:
    """Groups as `breakdown_plot` takes them."""
    return [(group.name, group.parts) for group in groups]


def iterations_plot(series: Sequence[tuple[str, Sequence[int], int]]) -> Plot:
    """Time of each iteration. series: name, times in ps, and how many of them were simulated."""
    unit, ps = time_unit(max(max(times) for _, times, _ in series))
    most = max(len(times) for _, times, _ in series)
    data = []
    for i, (name, times, n_simulated) in enumerate(series):
        shown = np.unique(np.linspace(0, len(times) - 1, min(len(times), 500)).round().astype(int)).tolist()
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": label(name), "x": shown,
            "y": [times[k] / ps for k in shown], "line": {"color": SERIES_COLOURS[i % len(SERIES_COLOURS)]},
            "marker": {"symbol": ["circle" if k < n_simulated else "circle-open" for k in shown]},
            "hovertemplate": f"iteration %{{x}}: %{{y:,.5~g}} {unit}" + NAMED,
        })  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": "iteration"}, "dtick": 1 if most <= 12 else None},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "showlegend": len(series) > 1,
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": 260}


def slowdown_plot(sample: FlowSample) -> Plot:
    """How many flows of each size have at most which slowdown."""
    kind, names = size_classes(sample.size_bytes)
    series = [(f"{names[i]}", sample.slowdown[kind == i]) for i in np.unique(kind)]
    return distributions_plot(series, "slowdown: FCT over that of an idle network")


def distributions_plot(series: Sequence[tuple[str, np.ndarray]], title: str) -> Plot:
    """Cumulative distributions."""
    data = []
    for i, (name, values) in enumerate(series):
        x, y = distribution(values)
        data.append({
            "type": "scatter", "mode": "lines", "name": label(name), "x": x, "y": y,
            "line": {"shape": "hv", "color": SERIES_COLOURS[i % len(SERIES_COLOURS)]},
            "hovertemplate": "%{y:.2%} up to %{x:,.4~g}" + NAMED,
        })  # fmt: skip
    most = max((trace["x"][-1] for trace in data), default=1)
    axis = {"title": {"text": title}, "type": "log" if most > 20 else "linear"}
    layout = {
        "xaxis": axis, "yaxis": {"title": {"text": "share of flows"}, "tickformat": ".0%", "range": [0, 1.02]},
        "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": 310}


def sizes_plot(sample: FlowSample) -> Plot:
    """Completion times over sizes, flow by flow, and the idle network's."""
    shown = points(sample)
    unit, ps = time_unit(float(sample.fct_ps[shown].max(initial=1)))
    data, base = [], {"type": "scatter", "mode": "markers"}
    for tag in np.unique(sample.tag[shown]).tolist():
        own = shown[sample.tag[shown] == tag]
        data.append(base | {
            "name": label(sample.tags[tag]) or "flows", "x": sample.size_bytes[own].tolist(),
            "y": rounded(sample.fct_ps[own] / ps), "customdata": rounded(sample.slowdown[own]),
            "marker": {"size": 5, "opacity": 0.55, "color": SERIES_COLOURS[len(data) % len(SERIES_COLOURS)]},
            "hovertemplate": f"%{{x:,}} B in %{{y:,.4~g}} {unit}, slowdown %{{customdata:.2f}}" + NAMED,
        })  # fmt: skip
    pairs = np.unique(np.stack([sample.size_bytes[shown], sample.ideal_fct_ps[shown]]), axis=1)  # near and far ones
    data.append(base | {
        "name": "idle network", "x": pairs[0].tolist(), "y": rounded(pairs[1] / ps), "hoverinfo": "skip",
        "marker": {"size": 4, "color": "#8a8f98", "symbol": "line-ew-open"},
    })  # fmt: skip
    layout = {
        "xaxis": log_axis("bytes", sample.size_bytes[shown]),
        "yaxis": log_axis(f"FCT, {unit}", np.concatenate([sample.fct_ps[shown], pairs[1]]) / ps),
        "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": 330}


def ranks_plot(seconds: Mapping[str, Sequence[float]]) -> Plot:
    """What each rank spent its wall time on."""
    data = [
        {"type": "bar", "name": name, "x": list(range(len(values))), "y": [round(value, 4) for value in values],
         "marker": {"color": SERIES_COLOURS[i]}, "hovertemplate": f"rank %{{x}}, {name}: %{{y:,.4~g}} s<extra></extra>"}
        for i, (name, values) in enumerate(seconds.items())
    ]  # fmt: skip
    layout = {
        "barmode": "stack", "xaxis": {"title": {"text": "rank"}, "dtick": 1 if len(data[0]["x"]) <= 32 else None},
        "yaxis": {"title": {"text": "s"}}, "showlegend": True,
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": 260}


def lines_plot(x: Sequence[float], series: Mapping[str, Sequence[Any]], x_title: str) -> Plot:
    """Several lines over one axis."""
    data = [
        {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y),
         "line": {"color": SERIES_COLOURS[i], "shape": "hv"}}
        for i, (name, y) in enumerate(series.items())
    ]  # fmt: skip
    layout = {"xaxis": {"title": {"text": x_title}}, "showlegend": True}
    return {"data": data, "layout": layout, "height": 250}
