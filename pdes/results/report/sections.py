"""The sections of one run's report: HTML, and the plots in them, which go into `plots` by name."""

import json
from collections.abc import Mapping
from typing import Any

from pdes.results.active import active_span, active_text, active_time_ps
from pdes.results.fast_forward import (
    how_sure_text,
    iterations_text,
    last_simulated,
    passes_text,
    simulated_text,
)
from pdes.results.iteration import breakdown_rows, is_shown, read_times
from pdes.results.opened import Results
from pdes.results.pauses import pause_warnings
from pdes.results.report import figures, headline, network, why
from pdes.results.report.figures import Plot
from pdes.results.report.flows import HEADINGS, FlowSample, class_rows, read_flows, tag_rows
from pdes.results.report.groups import groups_of
from pdes.results.report.ports import Ports, read_ports
from pdes.results.report.tables import paragraph, plot_html, section, table_html, tiles_html
from pdes.results.summary import alone_text
from pdes.results.tables import UNWRITTEN, read_table
from pdes.results.trouble import trouble_text
from pdes.units import format_count, format_duration

Plots = dict[str, Plot]
MOST_SERIES_POINTS = 1_000


class Facts:
    """One run, with what several sections need of it."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.result, self.run, self.folder = results.result, results.run, results.folder
        self.active_ps = active_time_ps(self.result)
        self.times = read_times(self.folder, self.result)
        self.breakdown = {} if self.times is None else self.times.mean()
        self.ports: Ports = read_ports(self.folder / "ports.parquet")
        path = self.folder / "flows.parquet"
        self.flows: FlowSample | None = read_flows(path) if path.is_file() else None

    @property
    def figures(self) -> list[headline.Figure]:
        """Everything that the headline has, in order."""
        return [
            *headline.time_figures(self.result, self.breakdown),
            *headline.flow_figures(self.result, self.flows),
            *headline.network_figures(self.result, self.ports),
            *headline.run_figures(self.result, self.run),
        ]


def headline_section(facts: Facts) -> str:
    """Tiles, and warnings."""
    parts = [paragraph(text, "warn") for text in pause_warnings(facts.result)]
    if text := trouble_text(facts.result):
        parts.append(paragraph(text))
    return section("headline", "Headline", *parts, tiles_html(headline.tiles(facts.figures)))


def time_section(facts: Facts, plots: Plots) -> str:
    """Where the time of an iteration went, over all GPUs and by groups of them."""
    times_ps = facts.result.get("iteration_time_ps") or []
    parts = []
    if facts.times is not None:
        whole_ps = facts.breakdown["iteration_time_ps"]
        shown = [(name, part_ps) for name, part_ps in breakdown_rows(facts.breakdown) if is_shown(name, part_ps)]
        rows = [(name, format_duration(part_ps), share(part_ps, whole_ps)) for name, part_ps in shown]
        rows.append(("total", format_duration(whole_ps), share(whole_ps, whole_ps)))
        caption = f"Iteration {facts.breakdown['iteration']}, mean over {facts.breakdown['n_gpu']:,} GPUs"
        parts.append(table_html(("part", "time", "share"), rows, caption=caption))
        plots["groups"] = figures.breakdown_plot(figures.stage_groups(groups_of(facts.times, facts.result)))
        note = (
            "Means over the GPUs of each group, same iteration. The bubble is what stages that take as long would wait "
            "if messages between them took no time."
        )
        parts.append(plot_html("groups", "By group of GPUs", note))
    if len(times_ps) > 1:
        plots["iterations"] = figures.iterations_plot([("", times_ps, last_simulated(facts.result) + 1)])
        note = (
            "Open circles were extrapolated from those before."
            if last_simulated(facts.result) + 1 < len(times_ps)
            else ""
        )
        parts.append(plot_html("iterations", "Iteration times", note))
    return section("time", "Where the time went", *parts)


def flows_section(facts: Facts, plots: Plots) -> str:
    """The slowest flows and why, and distributions."""
    if facts.flows is None:
        return section("flows", "Flows", paragraph("This run kept no table of flows ([output] flows = false).", "note"))
    if not len(facts.flows.fct_ps):
        return section("flows", "Flows", paragraph("No flow finished.", "note"))
    rows = why.slow_flow_rows(facts.folder / "flows.parquet", facts.ports, facts.result, facts.active_ps)
    caption = "Slowest flows, by slowdown: FCT over that of an idle network"
    parts = [table_html(why.HEADINGS, rows, 5, caption)]
    if facts.result.get("slowest_flows"):
        text = "How full a port was counts the flow itself and what others sent while it ran, evenly over their time."
        parts.append(paragraph(text, "note"))
    parts.append(table_html(("size", *HEADINGS), class_rows(facts.flows), caption="By size"))
    parts.append(table_html(("kind", *HEADINGS), tag_rows(facts.flows), caption="By kind of traffic"))
    if facts.flows.stride > 1:
        n, every = facts.flows.n_finished, facts.flows.stride
        text = f"Of {n:,} finished flows one in {every:,}, by id, stands for the others in these tables and plots."
        parts.append(paragraph(text, "note"))
    plots["slowdown"] = figures.slowdown_plot(facts.flows)
    plots["sizes"] = figures.sizes_plot(facts.flows)
    parts.append(plot_html("slowdown", "Slowdown by size"))
    parts.append(plot_html("sizes", "Completion time by size", "The slowest flows, and a sample of the others."))
    return section("flows", "Flows", *parts)


def network_section(facts: Facts, plots: Plots) -> str:
    """The busiest ports, the fabric, links between tiers, queues over time."""
    if not len(facts.ports):
        return ""
    topology = facts.result["config"].get("topology", {})
    metrics = network.metrics_of(facts.ports, facts.active_ps)
    plots["fabric"] = network.fabric_plot(facts.ports, topology, metrics)
    kind = topology.get("kind")
    places = {"torus": "rows of the torus side by side.", "dragonfly": "groups side by side."}
    text = (
        "Each cell is a node, coloured by the worst of its ports; lines are links between switches, those with the "
        f"largest values, {network.MOST_LINKS:,} at most. Hosts at the bottom, "
        + places.get(str(kind), "pods side by side, the top tier above them.")
    )
    rows = network.busiest_rows(facts.ports, facts.active_ps)
    parts = [plot_html("fabric", facts.result.get("topology", "The fabric"), text)]
    links = network.link_plot(facts.ports, topology, metrics)
    if links is not None:
        plots["links"] = links
        parts.append(plot_html("links", "Links between the two highest tiers"))
    series = network.time_plot(facts.folder / "samples_ports.parquet", facts.ports, active_span(facts.result))
    if series is not None:
        plots["series"] = series
        n = min(network.TIME_PORTS, len(facts.ports))
        text = f"The {n} ports with the largest queues, or that have sent most; of queues the largest of each span."
        parts.append(plot_html("series", "Ports over time", text))
    else:
        text = "With [output] sample_interval a run keeps what ports do over time, and this page shows it."
        parts.append(paragraph(text, "note"))
    head = [table_html(network.PORT_HEADINGS, rows, caption="Busiest ports")]
    if said := active_text(facts.result):
        head.append(paragraph(f"{said}.", "note"))
    return section("network", "Network", *head, *parts)


def fast_forward_section(facts: Facts, plots: Plots) -> str:
    """What was skipped, how, and what is known of the error."""
    found = facts.result.get("fast_forward")
    if found is None:
        return ""
    if "why_not" in found:
        return section("skipped", "Fast-forwarding", paragraph(f"Nothing was skipped: {found['why_not']}"))
    said = how_sure_text(facts.result), iterations_text(facts.result), passes_text(facts.result)
    texts = [text for text in said if text]
    rows = [(name.replace("_", " "), value) for name, value in _flat(found) if value != "0"]
    parts = [*(paragraph(text) for text in texts), table_html(("what", "value"), rows)]
    path = facts.folder / "partitions.parquet"
    if path.is_file():
        plots["partitions"] = _partitions_plot(path)
        parts.append(plot_html("partitions", "Network partitions over time"))
    return section("skipped", "Fast-forwarding", *parts)


def _flat(value: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested facts as rows."""
    rows = []
    for key, item in value.items():
        if isinstance(item, Mapping):
            rows += _flat(item, f"{before}{key}: ")
        elif item is not None and not isinstance(item, list):
            rows.append((before + key.removesuffix("_ps"), _shown(key, item)))
    return rows


def _shown(key: str, value: Any) -> str:
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    if key.endswith("_ps"):
        return format_duration(int(value))
    if "share" in key or "error" in key:
        return f"{100 * value:.3g} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _partitions_plot(path: Any) -> Plot:
    names = ("partitions", "steady", "replayed", "flows", "flows_frozen")
    columns: dict[str, list[Any]] = {name: [] for name in ("time_ps", *names)}
    for group in read_table(path, tuple(columns)):
        for name, values in group.items():
            columns[name] += [None if value == UNWRITTEN else value for value in values.tolist()]
    step = -(-max(len(columns["time_ps"]), 1) // MOST_SERIES_POINTS)
    x = [round(time / 1e9, 6) for time in columns["time_ps"][::step]]
    return figures.lines_plot(x, {name.replace("_", " "): columns[name][::step] for name in names}, "ms")


def run_section(facts: Facts, plots: Plots) -> str:
    """How it was run: ranks, balance, rates."""
    result, run = facts.result, facts.run
    compute, alone = run.get("compute_seconds") or [], alone_text(run)
    rows = [
        ("simulated", simulated_text(result).removeprefix("Simulated ")),
        ("packet-hops", f"{result['packet_hops']:,} simulated, {result.get('skipped_packet_hops', 0):,} skipped"),
        ("events", f"{result['events']:,}"),
        ("ranks", f"{run['ranks']:,}" + (f": {alone}" if alone else "")),
        ("wall time", _seconds(run["wall_seconds"])),
        ("compiling", _seconds(run.get("compile_seconds", 0))),
        ("event loop", _seconds(run.get("loop_seconds", 0))),
        ("rate", f"{format_count(round(run.get('packet_hops_per_second', 0)))} packet-hops/s"),
        ("rounds", f"{run.get('rounds', 0):,}"),
        ("logical processes", f"{result.get('logical_processes', 0):,}"),
        ("lookahead", format_duration(result.get("lookahead_ps", 0))),
    ]
    if run["ranks"] > 1 and sum(compute) and not alone:
        rows.append(("heaviest rank over the mean", f"{max(compute) * len(compute) / sum(compute):.3f}"))
    if run.get("resumed_from_round"):
        rows.append(("resumed from round", f"{run['resumed_from_round']:,}"))
    rows += [("machine", run.get("machine", "")), ("MPI", run.get("mpi_library", ""))]
    versions = ", ".join(f"{name} {number}" for name, number in run.get("versions", {}).items())
    parts = [
        table_html(("what", "value"), [(name, value) for name, value in rows if value], 2),
        paragraph(versions, "note"),
    ]
    if run["ranks"] > 1 and compute:
        names = {"computing": "compute_seconds", "waiting": "wait_seconds", "exchanging": "exchange_seconds"}
        plots["ranks"] = figures.ranks_plot({name: run[key] for name, key in names.items() if run.get(key)})
        parts.append(plot_html("ranks", "Wall time of each rank"))
    return section("run", "How the run went", *parts)


def config_section(facts: Facts) -> str:
    """The whole config, folded up."""
    from html import escape

    text = json.dumps(facts.result["config"], indent=1, sort_keys=True, ensure_ascii=False)
    body = f"<details><summary>All keys, as they were used</summary><pre>{escape(text)}</pre></details>"
    return section("config", "Config", body)


def share(part: float, whole: float) -> str:
    """In percent."""
    return f"{100 * part / max(whole, 1):.1f} %"


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds * 1e3) * 10**9)
