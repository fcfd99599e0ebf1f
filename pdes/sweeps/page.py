"""The report of a sweep: one page with the verdicts, plots and tables."""

import math

from pdes.results.report.figures import Plot
from pdes.results.report.page import page_html
from pdes.results.report.tables import Tile, paragraph, plot_html, section, table_html, tiles_html
from pdes.sweeps.found import Found
from pdes.sweeps.load import label
from pdes.sweeps.metrics import Metric
from pdes.sweeps.plots import heat_plot, lines_plot, pareto_plots
from pdes.sweeps.sensitivity import effects
from pdes.sweeps.store import DONE
from pdes.sweeps.told import with_half

MOST_ROWS, MOST_VERDICTS, MOST_FAILURES = 1000, 20, 50


def page(found: Found) -> str:
    """As HTML."""
    plots: dict[str, Plot] = {}
    sections = [section("headline", "Headline", tiles_html(_tiles(found)), *_notes(found))]
    for metric in found.compared:
        sections.append(section(metric.name, metric.name, *_metric(found, metric, plots)))
    front = pareto_plots(found)
    if front:
        text = f"Each point's mean. No point of the front is beaten in {found.traded_text} at once."
        shown = []
        for other, plot in front:
            plots[name := f"pareto-{len(shown)}"] = plot
            shown.append(plot_html(name, f"{found.traded[0].name} and {other.name}", text))
        sections.append(section("pareto", "Pareto front", *shown))
    sections.append(section("points", "Points", _points(found)))
    sections.append(section("failures", "Runs without a result", _failures(found)))
    wall_s = sum(row.wall_s for row in found.rows)
    footer = f"{len(found.rows):,} runs, {wall_s:,.1f} s of run time in all"
    seeds = f"{len(found.sweep.seeds):,} seed{'s' * (len(found.sweep.seeds) > 1)}"
    subtitle = f"{found.sweep.source}: {len(found.sweep.points):,} points, {seeds}"
    return page_html(found.sweep.directory.resolve().name, subtitle, sections, plots, footer)


def _tiles(found: Found) -> list[Tile]:
    n_done = sum(row.status == DONE for row in found.rows)
    tiles = [Tile("points", f"{len(found.sweep.points):,}", ""), Tile("runs", f"{n_done:,}", f"of {len(found.rows):,}")]
    for metric in found.compared[:2]:
        i = found.order(metric)[0]
        own = found.intervals(metric)[i]
        tiles.append(Tile(f"best {metric.name}", with_half(metric, own), found.label(found.sweep.points[i])))
    return tiles


def _notes(found: Found) -> list[str]:
    if len(found.sweep.seeds) > 1 and not found.is_drawn and found.compared:
        return [paragraph("Every seed says the same: nothing is drawn in these runs, so one seed is enough.", "note")]
    if len(found.sweep.seeds) == 1:
        return [paragraph("One seed: there are no intervals, and a difference may be chance where something is drawn.")]
    return []


def _metric(found: Found, metric: Metric, plots: dict[str, Plot]) -> list[str]:
    """Verdicts, plots, and which axis matters."""
    parts = []
    verdicts = found.compare(metric.name)
    if verdicts:
        rows = [[verdict.text] for verdict in verdicts[:MOST_VERDICTS]]
        caption = "the best point beside the others"
        if found.is_drawn:
            caption += f"; all {len(verdicts)} intervals hold together with 95 %"
        parts.append(table_html(["verdict"], rows, 1, caption))
    for kind, plot, title in (
        ("lines", lines_plot(found, metric), metric.name), ("heat", heat_plot(found, metric), f"{metric.name}, mean"),
    ):  # fmt: skip
        if plot is not None:
            plots[f"{kind}-{metric.name}"] = plot
            note = "Bars are 95 % intervals of the mean, each by itself." if kind == "lines" and found.is_drawn else ""
            parts.append(plot_html(f"{kind}-{metric.name}", title, note))
    own = [effect for effect in effects(found, metric) if effect.groups]
    if len(found.sweep.axes) > 1 and own:
        rows = []
        for effect in own:
            low, high = (pick(effect.groups, key=lambda group: group[1]) for pick in (min, max))
            share = "-" if math.isnan(effect.share) else f"{100 * effect.share:.1f} %"
            rows.append([effect.axis, f"{low[0]}: {metric.show(low[1])}", f"{high[0]}: {metric.show(high[1])}", share])
        headings = ["axis", "least mean", "largest mean", "share of variance"]
        parts.append(table_html(headings, rows, 3, "what each axis changes by itself"))
    return parts


def _points(found: Found) -> str:
    if not found.compared:
        return ""
    shown = found.metrics[:8]
    order = found.order(found.compared[0])
    intervals = [found.intervals(metric) for metric in shown]
    rows = [
        [*map(label, found.sweep.points[i]), *(with_half(m, own[i]) for m, own in zip(shown, intervals, strict=True))]
        for i in order[:MOST_ROWS]
    ]
    headings = [*(axis.name for axis in found.sweep.axes), *(metric.name for metric in shown)]
    more = f"; {len(order) - MOST_ROWS:,} more in points.parquet" if len(order) > MOST_ROWS else ""
    return table_html(headings, rows, len(found.sweep.axes), f"by {found.compared[0].name}{more}")


def _failures(found: Found) -> str:
    n = len(found.sweep.points)
    rows = [
        [found.label(found.sweep.points[i % n]), str(row.seed), row.status, row.message]
        for i, row in enumerate(found.rows)
        if row.status != DONE
    ]
    if not rows:
        return ""
    more = f"; {len(rows) - MOST_FAILURES:,} more in runs.parquet" if len(rows) > MOST_FAILURES else ""
    return table_html(["point", "seed", "", "message"], rows[:MOST_FAILURES], 4, f"{len(rows):,} runs{more}")
