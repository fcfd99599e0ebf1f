"""Which job was where and when, how full servers were, and who used racks' uplinks: plots of bounded size."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdes.results.report.figures import SERIES_COLOURS, Plot, rounded
from pdes.units import format_long_duration

MOST_BARS, MOST_ROWS, MOST_COLUMNS = 3000, 96, 240
DAY_US, HOUR_US = 86400e6, 3600e6
PER_RACK = 16  # where a config does not say
Arrays = Mapping[str, np.ndarray]


class Servers:
    """Of a cluster, as its config has it. gpus: of each server. racks: the first server of each, and the end."""

    def __init__(self, pools: Sequence[Mapping[str, Any]]) -> None:
        self.gpus = np.repeat([p["gpus_per_server"] for p in pools], [p["servers"] for p in pools])
        firsts = np.cumsum([0, *(p["servers"] for p in pools)])
        names = [f"{first} to {end - 1} {p['gpu']}" for p, first, end in zip(pools, firsts, firsts[1:], strict=False)]
        self.racks = np.array([
            *(server for p, first, end in zip(pools, firsts, firsts[1:], strict=False)
              for server in range(first, end, p.get("servers_per_rack", PER_RACK))),
            firsts[-1],
        ])  # fmt: skip
        self.text = f"Servers by number: {', '.join(names[:8])}{', ..' if len(names) > 8 else ''}."


def gantt(places: Arrays, names: Sequence[str], servers: Servers, end_us: int) -> tuple[Plot, str]:
    """A bar for each stretch of servers that a job had, as thick as its GPUs; and what of all GPU time they are.

    names: of jobs by job_id. end_us: of the run. The MOST_BARS with the most GPU time are drawn.
    """
    start, stop, first, n_server, gpus, weight = _columns(places, end_us)
    shown = np.sort(np.argsort(-weight, kind="stable")[:MOST_BARS])
    shown = shown[np.argsort(start[shown], kind="stable")]
    unit, us = _unit(end_us)
    lows, heights = _lanes(start[shown], stop[shown], first[shown], n_server[shown], gpus[shown], servers.gpus)
    jobs = places["job_id"][shown]
    texts = [
        f"{names[job]}: {k * n:,} GPUs, {format_long_duration(float(b - a))}"
        for job, k, n, a, b in zip(jobs, n_server[shown], gpus[shown], start[shown], stop[shown], strict=True)
    ]
    data = [{
        "type": "bar", "orientation": "h",
        "base": rounded5(start[shown] / us), "x": rounded5((stop - start)[shown] / us),
        "y": rounded5(lows + heights / 2), "width": rounded5(heights), "customdata": texts,
        "marker": {
            "color": [SERIES_COLOURS[job % len(SERIES_COLOURS)] for job in jobs.tolist()], "line": {"width": 0},
        },
        "hovertemplate": "%{customdata}<extra></extra>",
    }]  # fmt: skip
    layout = {
        "barmode": "overlay", "xaxis": {"title": {"text": unit}, "range": [0, end_us / us]},
        "yaxis": {"title": {"text": "server"}, "range": [len(servers.gpus) - 0.5, -0.5]},
        "showlegend": False,
    }  # fmt: skip
    text = servers.text
    if len(shown) < len(weight):
        share = 100 * weight[shown].sum() / max(weight.sum(), 1)
        text += f" The {len(shown):,} bars with the most GPU time are drawn, of {len(weight):,}: {share:.1f} % of it."
        text += " What is blank need not be idle."
    return {"data": data, "layout": layout, "height": min(max(180 + 14 * len(servers.gpus), 260), 640)}, text


def heat_map(places: Arrays, servers: Servers, end_us: int) -> tuple[Plot, str]:
    """The share of GPUs that jobs held, of groups of servers, over time."""
    n_all = len(servers.gpus)
    edges = np.unique(np.linspace(0, n_all, min(n_all, MOST_ROWS) + 1).round().astype(int))
    labels = [_range(low, high) for low, high in zip(edges, edges[1:], strict=False)]
    plot, width_us = _heat(places, servers, end_us, edges, ("servers", labels))
    text = f"Mean share of all their GPUs, up or down, in {format_long_duration(width_us)} each."
    if len(labels) < n_all:
        text += f" {len(labels)} groups of servers that follow each other."
    return plot, text


def uplinks_map(places: Arrays, servers: Servers, end_us: int) -> tuple[Plot, str] | None:
    """The share of a rack's GPUs whose jobs are in other racks, too, over time: who sends through its uplinks.

    None: there is one rack.
    """
    n_all = len(servers.racks) - 1
    if n_all < 2:
        return None
    picked = np.unique(np.linspace(0, n_all, min(n_all, MOST_ROWS) + 1).round().astype(int))
    labels = [_range(low, high) for low, high in zip(picked, picked[1:], strict=False)]
    there = in_several_racks(places, servers)
    own = {name: column[there] for name, column in places.items()}
    plot, width_us = _heat(own, servers, end_us, servers.racks[picked], ("racks", labels))
    text = (
        "Mean share of the rack's GPUs that jobs held which were in other racks, too, and so sent through its uplinks, "
    )
    text += f"in {format_long_duration(width_us)} each. How much they sent is not known here."
    if len(labels) < n_all:
        text += f" {len(labels)} groups of racks that follow each other."
    return plot, text


def in_several_racks(places: Arrays, servers: Servers) -> np.ndarray:
    """Of each stretch of servers, whether its job was in several racks at that time; bool[n]."""
    first, last = places["server"], places["server"] + places["servers"] - 1
    low, high = (np.searchsorted(servers.racks, each, side="right") - 1 for each in (first, last))
    stay, of_stay = np.unique(np.stack([places["job_id"], places["start_us"]]), axis=1, return_inverse=True)
    least, most = np.full(stay.shape[1], len(servers.racks)), np.full(stay.shape[1], -1)
    np.minimum.at(least, of_stay.reshape(-1), low)
    np.maximum.at(most, of_stay.reshape(-1), high)
    return (most > least)[of_stay.reshape(-1)]


def _range(low: int, high: int) -> str:
    return f"{low}" if high == low + 1 else f"{low} to {high - 1}"


def _heat(
    places: Arrays, servers: Servers, end_us: int, edges: np.ndarray, rows: tuple[str, list[str]]
) -> tuple[Plot, float]:  # fmt: skip
    """(the share of GPUs held, of servers from edge to edge, over time; the width of a column). rows: what, labels."""
    start, stop, first, n_server, gpus, _ = _columns(places, end_us)
    what, labels = rows
    width_us = max(end_us / MOST_COLUMNS, 1.0)
    held = np.zeros((len(edges) - 1, MOST_COLUMNS))
    for row, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        n_here = np.minimum(first + n_server, high) - np.maximum(first, low)
        own = n_here > 0
        rate = (n_here * gpus)[own].astype(float)
        held[row] = (_integral(start[own], rate, width_us) - _integral(stop[own], rate, width_us)) / width_us
    there = np.add.reduceat(servers.gpus, edges[:-1])
    unit, us = _unit(end_us)
    data = [{
        "type": "heatmap", "meta": {"heat": True}, "zmin": 0, "zmax": 100,
        "z": rounded(100 * np.clip(held / there[:, None], 0, 1)),
        "x": rounded5((np.arange(MOST_COLUMNS) + 0.5) * width_us / us), "y": labels,
        "colorbar": {"title": {"text": "%"}},
        "hovertemplate": f"{what} %{{y}}, %{{x:,.4~g}} {unit}: %{{z:.3~g}} %<extra></extra>",
    }]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": unit}},
        "yaxis": {"title": {"text": what}, "type": "category", "autorange": "reversed", "automargin": True},
    }  # fmt: skip
    return {"data": data, "layout": layout, "height": min(max(160 + 14 * len(labels), 260), 560)}, width_us


def rounded5(values: np.ndarray) -> list[float]:
    """With six significant digits."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def _columns(places: Arrays, end_us: int) -> tuple[np.ndarray, ...]:
    start, first, n_server, gpus = (places[name] for name in ("start_us", "server", "servers", "gpus"))
    stop = np.where(places["end_us"] < 0, end_us, places["end_us"])
    return start, stop, first, n_server, gpus, (stop - start) * n_server * gpus


def _unit(end_us: int) -> tuple[str, float]:
    return ("days", DAY_US) if end_us >= 3 * DAY_US else ("hours", HOUR_US)


def _integral(at_us: np.ndarray, rate: np.ndarray, width_us: float) -> np.ndarray:
    """By columns of time: what rates that begin then come to in each, in rate times microseconds."""
    column = np.minimum((at_us / width_us).astype(int), MOST_COLUMNS - 1)
    rest = (column + 1) * width_us - at_us
    begun = np.bincount(column, rate, MOST_COLUMNS)
    return np.bincount(column, rate * rest, MOST_COLUMNS) + width_us * (np.cumsum(begun) - begun)


def _lanes(
    start: np.ndarray,
    stop: np.ndarray,
    first: np.ndarray,
    n_server: np.ndarray,
    gpus: np.ndarray,
    per_server: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(upper edge, thickness) of each bar, in servers; jobs of one server lie beside each other. Sorted by start."""
    lows, heights = first - 0.5, n_server.astype(float)
    there: dict[int, list[tuple[int, int, int]]] = {}  # by server: end, lane, and GPUs of its bars
    for i in np.flatnonzero(gpus < per_server[first]).tolist():
        server, n, whole = int(first[i]), int(gpus[i]), int(per_server[first[i]])
        own = there[server] = sorted(bar for bar in there.get(server, []) if bar[0] > start[i])
        lane = 0
        for _, other, size in sorted(own, key=lambda bar: bar[1]):
            if lane + n <= other:
                break
            lane = max(lane, other + size)
        lane = min(lane, whole - n)
        own.append((int(stop[i]), lane, n))
        if n_server[i] == 1:
            lows[i], heights[i] = server - 0.5 + lane / whole, n / whole
    return lows, heights
