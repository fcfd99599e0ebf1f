"""Several runs side by side, differences first: figures, then config keys, then plots with all of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdes.results.fast_forward import last_simulated
from pdes.results.report import figures
from pdes.results.report.headline import Figure
from pdes.results.report.sections import Facts, Plots
from pdes.results.report.tables import paragraph, plot_html, section, table_html

NOT_THERE = "-"
SAME = "the same"


def run_names(facts: Sequence[Facts]) -> list[str]:
    """The folders' names, or whole paths where these do not tell runs apart."""
    short = [one.folder.resolve().name for one in facts]
    names = short if len(set(short)) == len(short) else [str(one.folder) for one in facts]
    return names if len(set(names)) == len(names) else [f"{name} ({i + 1})" for i, name in enumerate(names)]


def change_text(first: Figure, other: Figure) -> str:
    """How a figure of a later run differs from the first run's."""
    if first.value is None or other.value is None:
        return NOT_THERE
    if first.value == other.value:
        return SAME
    if not first.value:
        return other.text
    change = 100 * (other.value - first.value) / abs(first.value)
    text = f"{change:+.3g} %" if abs(change) < 1000 else f"x {other.value / first.value:.3g}"
    if first.is_less_better is None:
        return text
    return f"{text} {'better' if (change < 0) == first.is_less_better else 'worse'}"


def figure_rows(facts: Sequence[Facts]) -> list[tuple[str, ...]]:
    """A row per figure that any run has: with the changes: the times, then what differs, then what is equal."""
    by_name = [{figure.name: figure for figure in one.figures} for one in facts]
    names = list(dict.fromkeys(name for own in by_name for name in own))
    rows = []
    for name in names:
        own = [figures_of.get(name, Figure(name, None, NOT_THERE)) for figures_of in by_name]
        changes = [change_text(own[0], other) for other in own[1:]]
        rows.append((_difference(own), (name, *(figure.text for figure in own), *changes)))
    is_head = {"iteration time", "simulated time", "MFU"}
    rows.sort(key=lambda row: (row[1][0] not in is_head, row[0] == 0))  # stable: as in the headline otherwise
    return [row for _, row in rows]


def print_differences(facts: Sequence[Facts]) -> None:
    """The same table on the terminal."""
    from rich.console import Console
    from rich.table import Table

    names = run_names(facts)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, heading in enumerate(("figure", *names, *(f"{name} against {names[0]}" for name in names[1:]))):
        table.add_column(heading, justify="left" if i == 0 else "right", header_style="dim")
    for row in figure_rows(facts):
        table.add_row(*row)
    Console(markup=False, highlight=False, emoji=False).print(table)


def _difference(own: Sequence[Figure]) -> float:
    values = [figure.value for figure in own]
    return 0.0 if all(value == values[0] for value in values) else 1.0


def config_rows(configs: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Keys whose values differ, with their values."""
    flat = [_flat(config) for config in configs]
    keys = sorted(set().union(*flat))
    rows = [(key, *(flat_one.get(key, NOT_THERE) for flat_one in flat)) for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def _flat(value: Any, before: str = "") -> dict[str, str]:
    if isinstance(value, Mapping) and value:
        found: dict[str, str] = {}
        for key, item in value.items():
            found |= _flat(item, f"{before}.{key}" if before else str(key))
        return found
    return {before: str(value)}


def comparison_sections(facts: Sequence[Facts], plots: Plots) -> list[str]:
    """All sections of a comparison."""
    names = run_names(facts)
    changes = [f"{name} against {names[0]}" for name in names[1:]]
    rows = figure_rows(facts)
    parts = [table_html(("figure", *names, *changes), rows)]
    found = config_rows([one.result["config"] for one in facts])
    keys = table_html(("key", *names), found, 1 + len(names)) if found else paragraph("The configs are the same.")
    return [
        section("differences", "Differences", *parts),
        section("config", "What was configured differently", keys),
        _time_section(facts, names, plots),
        _flows_section(facts, names, plots),
        _ports_section(facts, names, plots),
    ]


def _time_section(facts: Sequence[Facts], names: Sequence[str], plots: Plots) -> str:
    parts = []
    own = [(name, one.breakdown) for name, one in zip(names, facts, strict=True) if one.breakdown]
    if own:
        plots["groups"] = figures.breakdown_plot(own)
        parts.append(plot_html("groups", "Last simulated iteration", "Means over all GPUs of each run."))
    times = [
        (name, one.result["iteration_time_ps"], last_simulated(one.result) + 1)
        for name, one in zip(names, facts, strict=True)
        if one.result.get("iteration_time_ps")
    ]
    if any(len(times_ps) > 1 for _, times_ps, _ in times):
        plots["iterations"] = figures.iterations_plot(times)
        parts.append(plot_html("iterations", "Iteration times"))
    return section("time", "Where the time went", *parts)


def _flows_section(facts: Sequence[Facts], names: Sequence[str], plots: Plots) -> str:
    own = [(name, one.flows) for name, one in zip(names, facts, strict=True) if one.flows and len(one.flows.fct_ps)]
    if not own:
        return ""
    slowdowns = [(name, sample.slowdown) for name, sample in own]
    unit, ps = figures.time_unit(max(float(sample.fct_ps.max()) for _, sample in own))
    plots["slowdown"] = figures.distributions_plot(slowdowns, "slowdown: FCT over that of an idle network")
    plots["fct"] = figures.distributions_plot([(name, sample.fct_ps / ps) for name, sample in own], f"FCT, {unit}")
    return section("flows", "Flows", plot_html("slowdown", "Slowdown"), plot_html("fct", "Completion times"))


def _ports_section(facts: Sequence[Facts], names: Sequence[str], plots: Plots) -> str:
    own = [(name, one) for name, one in zip(names, facts, strict=True) if len(one.ports)]
    if not own:
        return ""
    choices: list[tuple[str, list[tuple[str, np.ndarray]]]] = [
        ("busy, % of the time", [(name, 100 * one.ports.busy_frac(one.active_ps)) for name, one in own]),
        ("largest queue, bytes", [(name, one.ports.columns["max_queue_bytes"].astype(float)) for name, one in own]),
    ]
    parts = []
    for i, (title, series) in enumerate(choices):
        plot = figures.distributions_plot(series, title)
        plot["layout"]["yaxis"]["title"]["text"] = "share of ports"
        plot["layout"]["xaxis"]["type"] = "linear"
        plots[f"ports{i}"] = plot
        parts.append(plot_html(f"ports{i}", title))
    return section("network", "Ports", *parts)
