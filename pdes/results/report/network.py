"""The network as plots: heat maps over the fabric and over time, links between tiers, and the busiest ports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.results.report.fabric import MOST_COLUMNS, Fabric, draw
from pdes.results.report.figures import Plot, rounded
from pdes.results.report.ports import Ports
from pdes.results.tables import read_table
from pdes.units import PS_PER_S, format_rate, format_size

MOST_LINKS = 1_100  # drawn one by one: those with the largest values
MOST_CELLS = 60_000  # of a plot of the links between two tiers
LEAST_SHARE = 0.2  # of its cells that are links: else it would be mostly empty
LINE_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the largest value: shades of links
TIME_PORTS, TIME_BINS = 32, 240
TABLE_PORTS = 15
LEAST_COLUMNS = 16
FEW_ROWS = 64  # up to so many, cells have gaps between them
NAMED_NODES = 100  # up to so many have their names in the fabric


class Metric(NamedTuple):
    """Something that ports have a figure of."""

    name: str
    unit: str
    value: np.ndarray  # float64[n_port]


def metrics_of(ports: Ports, active_ps: int) -> list[Metric]:
    """What there is to see: how busy ports were, and whatever is above zero anywhere."""
    found = [
        Metric("busy", "% of the time", 100 * ports.busy_frac(active_ps)),
        Metric("largest queue", "bytes", ports.columns["max_queue_bytes"].astype(float)),
        Metric("paused", "% of the time", 100 * ports.paused_frac(active_ps)),
        Metric("ECN marks", "packets", ports.columns["ecn_marks"].astype(float)),
        Metric("drops", "packets", ports.columns["drops"].astype(float)),
    ]
    return [metric for i, metric in enumerate(found) if i == 0 or metric.value.any()]


def busiest_rows(ports: Ports, active_ps: int) -> list[tuple[str, ...]]:
    """Rows of the table of the busiest ports, ties by id."""
    order = np.lexsort((np.arange(len(ports)), -ports.columns["busy_ps"]))[:TABLE_PORTS]
    busy, paused, c = ports.busy_frac(active_ps), ports.paused_frac(active_ps), ports.columns
    return [
        (
            ports.name(i), format_rate(int(c["rate_bps"][i])), f"{100 * busy[i]:.1f} %",
            format_size(int(c["max_queue_bytes"][i])), f"{c['ecn_marks'][i]:,}", f"{100 * paused[i]:.2g} %",
            f"{c['drops'][i]:,}",
        )
        for i in order.tolist() if c["busy_ps"][i] > 0
    ]  # fmt: skip


PORT_HEADINGS = ("port", "rate", "busy", "largest queue", "ECN marks", "paused", "drops")


def fabric_plot(ports: Ports, topology: Mapping[str, Any], metrics: list[Metric]) -> Plot:
    """The fabric as a heat map: every node by the worst of its ports, with the worst links between switches."""
    fabric = draw(ports, topology)
    rows, columns = fabric.shape
    names = np.full((rows, columns), "", object)
    names[fabric.row, fabric.column] = ports.nodes
    states = []
    for metric in metrics:
        value, worst = _by_node(ports, fabric, metric.value)
        z, text = np.full((rows, columns), np.nan), np.full((rows, columns), "", object)
        z[fabric.row, fabric.column] = value
        text[fabric.row, fabric.column] = [
            ports.name(port) if port >= 0 and tier else "" for port, tier in zip(worst, fabric.tier, strict=True)
        ]
        lines = _lines(ports, fabric, metric.value)
        states.append((metric, rounded(z), text.tolist(), lines))
    gap = 1 if columns <= MOST_COLUMNS // 2 else 0.3
    data = [_line(i, share) for i, share in enumerate(LINE_SHARES)]
    data.append({
        "type": "heatmap", "text": names.tolist(), "xgap": gap, "ygap": gap, "meta": {"heat": True}, "zmin": 0,
        "hoverongaps": False, "colorbar": {"thickness": 10, "title": {"side": "right"}},
    })  # fmt: skip
    if len(ports.nodes) <= NAMED_NODES:
        data[-1] |= {"texttemplate": "%{text}", "textfont": {"size": 9}}
    choices = []
    for metric, z, text, lines in states:
        template = f"%{{text}}: %{{z:,.4~g}} {metric.unit}<br>%{{customdata}}<extra></extra>"
        most = float(metric.value.max(initial=0)) or 1.0
        title = f"{metric.name}, {metric.unit}"
        cell = {"z": [z], "customdata": [text], "hovertemplate": template, "zmax": most, "colorbar.title.text": title}
        drawn = {"x": [line[0] for line in lines], "y": [line[1] for line in lines]}
        updates = [[drawn, list(range(len(lines)))], [cell, [len(lines)]]]
        choices.append({"label": metric.name, "updates": updates})
    least = max(columns, LEAST_COLUMNS, 2 * rows)  # so that the cells of a small fabric are no bars
    middle, axis = (columns - 1) / 2, {"visible": False}
    layout = {
        "xaxis": axis | {"range": [middle - least / 2, middle + least / 2]},
        "yaxis": axis | {"range": [rows - 0.4, -0.6]}, "showlegend": False, "hovermode": "closest",
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": min(640, max(260, 40 + 20 * rows)), "choices": choices}


def _by_node(ports: Ports, fabric: Fabric, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(largest value of each node's ports, that port or -1): of those that it sends on; of a host those to it, too."""
    at_host = fabric.tier[ports.peer] == 0
    node = np.concatenate([ports.node, ports.peer[at_host]])
    port = np.concatenate([np.arange(len(ports)), np.flatnonzero(at_host)])
    order = np.lexsort((-port, value[port], node))  # the last one of a node is its largest, of equals the first by id
    is_last = np.append(np.diff(node[order]) != 0, True)[: len(order)]
    found, worst = np.full(len(ports.nodes), 0.0), np.full(len(ports.nodes), -1)
    found[node[order][is_last]], worst[node[order][is_last]] = value[port[order][is_last]], port[order][is_last]
    return found, np.where(found > 0, worst, -1)


def _lines(ports: Ports, fabric: Fabric, value: np.ndarray) -> list[tuple[list[float | None], list[float | None]]]:
    """For each shade the lines of the links between switches, as x and y with gaps."""
    tier = fabric.tier
    is_drawn = (tier[ports.node] >= 1) & (tier[ports.peer] >= 1) & (value > 0)
    if len(np.unique(fabric.row[tier == 1])) > 1:  # pods below each other: lines to the top would hide them
        is_drawn &= fabric.pod[ports.node] == fabric.pod[ports.peer]
    port = np.flatnonzero(is_drawn)
    port = port[np.argsort(-value[port], kind="stable")][: 2 * MOST_LINKS]
    low, high = np.minimum(ports.node[port], ports.peer[port]), np.maximum(ports.node[port], ports.peer[port])
    _, first = np.unique(np.stack([low, high]), axis=1, return_index=True)
    port = port[np.sort(first)][:MOST_LINKS]  # the larger direction of each link
    shade = np.searchsorted(LINE_SHARES, value[port] / max(value.max(initial=0), 1e-9))
    found = []
    for i in range(len(LINE_SHARES)):
        src, dst = ports.node[port[shade == i]], ports.peer[port[shade == i]]
        edge = 0.5 * np.sign(fabric.row[dst] - fabric.row[src])  # lines begin and end at the borders of the cells
        x = _with_gaps(fabric.column[src], fabric.column[dst])
        found.append((x, _with_gaps(fabric.row[src] + edge, fabric.row[dst] - edge)))
    return found


def _with_gaps(begin: np.ndarray, end: np.ndarray) -> list[float | None]:
    return [x for a, b in zip(begin.tolist(), end.tolist(), strict=True) for x in (a, b, None)]


def _line(shade: int, share: float) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "x": [], "y": [], "hoverinfo": "skip", "meta": {"shade": share},
        "line": {"width": 0.5 + 0.5 * shade}, "opacity": 0.25 + 0.2 * shade,
    }  # fmt: skip


def link_plot(ports: Ports, topology: Mapping[str, Any], metrics: list[Metric]) -> Plot | None:
    """Links between the two highest tiers, a row for each lower and a column for each upper switch; None: too few."""
    fabric = draw(ports, topology)
    lower, upper = np.flatnonzero(fabric.tier == fabric.top - 1), np.flatnonzero(fabric.tier == fabric.top)
    if fabric.top < 2 or len(lower) * len(upper) > MOST_CELLS or len(lower) * len(upper) < 4:
        return None
    place = np.full(len(ports.nodes), -1)
    place[lower], place[upper] = np.arange(len(lower)), np.arange(len(upper))
    is_up = (fabric.tier[ports.node] == fabric.top - 1) & (fabric.tier[ports.peer] == fabric.top)
    is_down = (fabric.tier[ports.node] == fabric.top) & (fabric.tier[ports.peer] == fabric.top - 1)
    if is_up.sum() < LEAST_SHARE * len(lower) * len(upper):
        return None
    choices = []
    for metric in metrics:
        for way, taken in (("up", is_up), ("down", is_down)):
            ends = (ports.node, ports.peer) if way == "up" else (ports.peer, ports.node)
            z = np.full((len(lower), len(upper)), -np.inf)
            np.maximum.at(z, (place[ends[0][taken]], place[ends[1][taken]]), metric.value[taken])
            arrow = "to" if way == "up" else "from"
            template = f"%{{y}} {arrow} %{{x}}: %{{z:,.4~g}} {metric.unit}<extra></extra>"
            update = {"z": [rounded(z)], "zmax": float(metric.value.max(initial=0)) or 1.0,
                      "hovertemplate": template, "colorbar.title.text": f"{metric.name}, {metric.unit}"}  # fmt: skip
            choices.append({"label": f"{metric.name}, {way}", "updates": [[update, [0]]]})
    gap = 1 if len(lower) <= FEW_ROWS else 0
    heat = {
        "type": "heatmap", "x": [ports.nodes[i] for i in upper], "y": [ports.nodes[i] for i in lower], "zmin": 0,
        "meta": {"heat": True}, "xgap": gap, "ygap": gap, "hoverongaps": False,
        "colorbar": {"thickness": 10, "title": {"side": "right"}},
    }  # fmt: skip
    layout = {"xaxis": {"type": "category"}, "yaxis": {"type": "category", "autorange": "reversed"}}
    return {"data": [heat], "layout": layout, "height": min(640, max(240, 100 + 14 * len(lower))), "choices": choices}


def time_plot(path: Path, ports: Ports, span_ps: tuple[int, int]) -> Plot | None:
    """What ports have sent, queues and pauses in a span of time, of the ports with the largest queues, or that have
    sent most; None: nothing was sampled then."""
    if not path.is_file() or not len(ports):
        return None
    keys = [-ports.columns[name] for name in ("tx_bytes", "paused_ps", "max_queue_bytes")]
    order = np.lexsort((np.arange(len(ports)), *keys))
    chosen = order[:TIME_PORTS]
    place = np.full(len(ports), -1)
    place[chosen] = np.arange(len(chosen))
    instants = [np.unique(group["time_ps"]) for group in read_table(path, ("time_ps",))]
    instants = np.unique(np.concatenate(instants)) if instants else np.zeros(0, np.int64)
    begin_ps, end_ps = span_ps
    instants = instants[(instants >= begin_ps) & (instants <= end_ps)] - begin_ps
    n_bin = min(max(len(instants) // 2, 1), TIME_BINS)
    width_ps = max(-(-(end_ps - begin_ps) // n_bin), 1)
    queue, paused, sent = np.zeros((3, len(chosen), n_bin))
    for group in read_table(path, ("time_ps", "port_id", "queue_bytes", "paused", "tx_bytes")):
        kept = (place[group["port_id"]] >= 0) & (group["time_ps"] >= begin_ps) & (group["time_ps"] <= end_ps)
        at_ps = group["time_ps"][kept] - begin_ps
        cell = place[group["port_id"][kept]], np.minimum(at_ps // width_ps, n_bin - 1)
        np.maximum.at(queue, cell, group["queue_bytes"][kept])
        np.add.at(paused, cell, group["paused"][kept] != 0)
        np.maximum.at(sent, cell, group["tx_bytes"][kept])
    n_instant = np.bincount(np.minimum(instants // width_ps, n_bin - 1), minlength=n_bin)
    shares = 100 * paused / np.maximum(n_instant, 1)
    last_ps = np.zeros(n_bin)  # instant of each span
    np.maximum.at(last_ps, np.minimum(instants // width_ps, n_bin - 1), instants)
    between_ps = np.minimum(np.diff(np.maximum.accumulate(last_ps), prepend=0), width_ps)
    most_bytes = ports.columns["rate_bps"][chosen, None] / 8 * (between_ps / PS_PER_S)
    sent = np.diff(np.maximum.accumulate(sent, axis=1), prepend=0, axis=1)  # no row: it has sent nothing since
    sent = np.minimum(100 * sent / np.maximum(most_bytes, 1e-9), 100)
    states = [
        ("largest queue", "bytes", queue, queue.any()), ("paused", "% of the samples", shares, paused.any()),
        ("sent", "% of the link's rate", sent, True),
    ]  # fmt: skip
    choices = []
    for name, unit, z, is_shown in states:
        if not is_shown:
            continue
        z = np.where(n_instant[None, :] > 0, z, np.nan)
        template = f"%{{y}}, from %{{x:,.4~g}} ms: %{{z:,.4~g}} {unit}<extra></extra>"
        update = {"z": [rounded(z)], "zmax": float(np.nanmax(z, initial=0)) or 1.0, "hovertemplate": template,
                  "colorbar.title.text": f"{name}, {unit}"}  # fmt: skip
        choices.append({"label": name, "updates": [[update, [0]]]})
    heat = {
        "type": "heatmap", "x": [round((begin_ps + i * width_ps) / 1e9, 6) for i in range(n_bin)],
        "y": [ports.name(int(port)) for port in chosen], "zmin": 0, "meta": {"heat": True}, "hoverongaps": False,
        "colorbar": {"thickness": 10, "title": {"side": "right"}},
    }  # fmt: skip
    layout = {"xaxis": {"title": {"text": "ms"}}, "yaxis": {"type": "category", "autorange": "reversed"}}
    return {"data": [heat], "layout": layout, "height": 120 + 15 * len(chosen), "choices": choices}
