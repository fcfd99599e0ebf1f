"""The report of a search: one page with the winner, what is left open, the three fidelities, costs and candidates."""

import math
from typing import Any

import numpy as np

from pdes.results.report.figures import NAMED, SERIES_COLOURS, Plot
from pdes.results.report.figures import label as as_text
from pdes.results.report.page import page_html
from pdes.results.report.tables import Tile, paragraph, plot_html, section, table_html, tiles_html
from pdes.searching.found import Found
from pdes.searching.told import TIME, table_rows, verdicts
from pdes.sweeps.pareto import pareto

MOST_ROWS, MOST_REASONS, MOST_DOTS = 500, 50, 5000


def page(found: Found) -> str:
    """As HTML."""
    plots: dict[str, Plot] = {"fidelities": _fidelities(found)}
    headings, rows = table_rows(found, MOST_ROWS)
    left = len(found.order()) - MOST_ROWS
    more = f"; {left:,} more in candidates.parquet" if left > 0 else ""
    sections = [
        section("headline", "Headline", tiles_html(_tiles(found)), *(paragraph(text) for text in verdicts(found))),
        section("fidelities", "Fidelities", plot_html(
            "fidelities", "Time of an iteration: higher fidelity over closed form",
            "On the line a fidelity says what the closed form says; dots below it are better than that.",
        )),
    ]  # fmt: skip
    for name in ("price", "power"):
        if getattr(found.search.config, name) is not None:
            plots[name] = _front(found, name)
            text = "Each candidate by the highest fidelity that it has. No candidate of the front is beaten in both."
            sections.append(
                section(
                    name,
                    name.capitalize(),
                    plot_html(name, f"Pareto front of {name} and the time of an iteration", text),
                )
            )
    caption = f"those with packets first, then those of flow mode, then the rest by the closed form{more}"
    sections.append(section("candidates", "Candidates", table_html(headings, rows, len(found.names), caption)))
    sections.append(section("refused", "Refused", _refused(found)))
    wall_s = sum(row.wall_s for runs in found.runs.values() for row in runs.values())
    subtitle = f"{found.search.source}: {len(found.rows):,} candidates, by {found.search.config.objective}"
    footer = f"{wall_s:,.1f} s of run time in all"
    return page_html(found.search.directory.resolve().name, subtitle, sections, plots, footer)


def _tiles(found: Found) -> list[Tile]:
    c = found.climbed
    runs = {name: len(own) for name, own in found.runs.items()}
    n_refused = sum(found.refused().values())
    return [
        Tile("best", TIME.show(found.seconds(c.best)[2]), found.label(c.best)),
        Tile("gap", f"{100 * c.gap:.3g} %", "by the ratios that were seen"),
        Tile("candidates", f"{len(found.rows):,}", f"{n_refused:,} refused"),
        Tile("runs", f"{runs['packets']:,}", f"with packets; {runs['flow']:,} in flow mode"),
    ]


def _fidelities(found: Found) -> Plot:
    times = np.array([found.seconds(i) for i in range(len(found.rows))]).reshape(-1, 3)
    most = float(np.nanmax(times, initial=0.0))
    unit, size = ("ms", 1e-3) if most < 2 else ("s", 1.0)
    data: list[dict[str, Any]] = []
    for k, name in ((1, "flow mode"), (2, "packets")):
        there = np.flatnonzero(np.isfinite(times[:, 0]) & np.isfinite(times[:, k]))
        data.append({
            "type": "scatter", "mode": "markers", "name": name, "x": _numbers(times[there, 0] / size),
            "y": _numbers(times[there, k] / size), "text": [as_text(found.label(int(i))) for i in there],
            "marker": {"color": SERIES_COLOURS[k - 1], "size": 7, "symbol": "circle" if k == 1 else "x"},
            "hovertemplate": "%{text}<br>%{x:,.4~g}, %{y:,.4~g}" + NAMED,
        })  # fmt: skip
    ends = _numbers(np.array([np.nanmin(times), most]) / size)
    data.append({
        "type": "scatter", "mode": "lines", "name": "the same", "x": ends, "y": ends,
        "line": {"color": "#8a8f98", "dash": "dot"}, "hoverinfo": "skip",
    })  # fmt: skip
    axes = {"xaxis": f"closed form ({unit})", "yaxis": f"higher fidelity ({unit})"}
    layout: dict[str, Any] = {name: {"title": {"text": text}} for name, text in axes.items()}
    return {"data": data, "layout": layout | {"showlegend": True}, "height": 360}


def _front(found: Found, name: str) -> Plot:
    """Time and cost of all candidates, and those that no other beats in both."""
    order = found.order()
    times = [[t for t in found.seconds(i) if math.isfinite(t)][-1] for i in order]
    costs = np.array([getattr(found.rows[i], name) for i in order])
    seconds, names = np.array(times), [as_text(found.label(i)) for i in order]
    front, shown = pareto(costs, seconds), list(range(min(len(order), MOST_DOTS)))
    data = [
        {
            "type": "scatter", "mode": "markers", "name": "candidates", "x": _numbers(costs[shown]),
            "y": _numbers(1e3 * seconds[shown]), "text": [names[i] for i in shown],
            "marker": {"color": "#8a8f98", "size": 6},
            "hovertemplate": "%{text}<br>%{x:,.4~g}, %{y:,.4~g} ms<extra></extra>",
        },
        {
            "type": "scatter", "mode": "lines+markers", "name": "Pareto front", "x": _numbers(costs[front]),
            "y": _numbers(1e3 * seconds[front]), "text": [names[i] for i in front],
            "line": {"shape": "hv", "color": SERIES_COLOURS[1]},
            "hovertemplate": "%{text}<br>%{x:,.4~g}, %{y:,.4~g} ms<extra></extra>",
        },
    ]  # fmt: skip
    title = "power (W)" if name == "power" else name
    layout = {"xaxis": {"title": {"text": title}}, "yaxis": {"title": {"text": "iteration (ms)"}}, "showlegend": True}
    return {"data": data, "layout": layout, "height": 360}


def _refused(found: Found) -> str:
    counts = found.refused()
    first = {row.kind: row.reason for row in reversed(found.rows) if row.kind}
    rows = [[kind, first[kind].splitlines()[0], f"{n:,}"] for kind, n in counts.most_common(MOST_REASONS)]
    return table_html(["by", "the first", "candidates"], rows, 2) if rows else ""


def _numbers(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
