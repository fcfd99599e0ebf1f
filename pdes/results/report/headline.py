"""The figures of a run that people ask for first, by name: the headline of a report, and what a comparison compares."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pdes.results.active import active_text, active_time_ps
from pdes.results.iteration import breakdown_rows, is_shown
from pdes.results.report.flows import FlowSample, quantile
from pdes.results.report.ports import Ports
from pdes.results.report.tables import Tile
from pdes.units import format_count, format_duration, format_size

EXPOSED = ("TP exposed", "CP exposed", "EP exposed", "PP exposed", "DP exposed", "other collectives")


class Figure(NamedTuple):
    """A figure. is_less_better: None if neither is. A value of None: this run has none."""

    name: str
    value: float | None
    text: str
    note: str = ""
    is_less_better: bool | None = True


def mean_iteration_ps(result: Mapping[str, Any]) -> int | None:
    """Mean iteration time, as the summary has it; None without training."""
    times_ps = result.get("iteration_time_ps") or []
    return sum(times_ps) // len(times_ps) if times_ps else None


def mfu(result: Mapping[str, Any]) -> float | None:
    """Model FLOPs utilisation: what the model takes, over what the GPUs could do in the mean iteration."""
    facts, mean_ps = result.get("workload", {}), mean_iteration_ps(result)
    flops, peak = facts.get("model_flops_per_iteration"), facts.get("peak_flops_per_s")
    return flops / (peak * (mean_ps / 1e12)) if mean_ps and flops and peak else None


def time_figures(result: Mapping[str, Any], breakdown: Mapping[str, int]) -> list[Figure]:
    """Iteration time, MFU, what was exposed, the bubble; of a run without training the time that it took."""
    mean_ps, found = mean_iteration_ps(result), []
    if mean_ps is None:
        took_ps = result["simulated_time_ps"]
        note = f"{format_duration(active_time_ps(result), 4)} of traffic" if active_text(result) else ""
        found.append(Figure("simulated time", took_ps, format_duration(took_ps, 4), note))
    else:
        n = len(result["iteration_time_ps"])
        note = f"mean of {n}" if n > 1 else ""
        found.append(Figure("iteration time", mean_ps, format_duration(mean_ps, 4), note))
    share = mfu(result)
    if share is not None:
        found.append(Figure("MFU", share, f"{100 * share:.1f} %", "of the GPUs' peak", is_less_better=False))
    if breakdown:
        rows, whole_ps = dict(breakdown_rows(breakdown)), max(breakdown["iteration_time_ps"], 1)
        exposed = {name: rows[name] for name in EXPOSED if is_shown(name, rows[name])}
        total_ps = sum(exposed.values())
        found.append(_part("exposed communication", total_ps, whole_ps))
        found += [_part(name, part_ps, whole_ps) for name, part_ps in exposed.items() if part_ps]
        found.append(_part("pipeline bubble", rows["pipeline bubble"], whole_ps))
        found.append(_part("compute", rows["compute"], whole_ps))
    return found


def _part(name: str, part_ps: int, whole_ps: int) -> Figure:
    is_less_better = None if name == "compute" else True
    return Figure(name, part_ps, f"{100 * part_ps / whole_ps:.1f} %", format_duration(part_ps), is_less_better)


def flow_figures(result: Mapping[str, Any], sample: FlowSample | None) -> list[Figure]:
    """How many flows, and how slow."""
    n_done = result.get("flows_finished", result["flows"])
    of_all = "" if n_done == result["flows"] else f"of {result['flows']:,}"
    found = [Figure("flows finished", n_done, f"{n_done:,}", of_all, is_less_better=None)]
    if sample is not None and len(sample.fct_ps):
        slowdown = sample.slowdown
        for name, share in (("median slowdown", 0.5), ("99 % slowdown", 0.99)):
            value = float(quantile(slowdown, share))
            found.append(Figure(name, value, f"{value:.2f}"))
        value = int(quantile(sample.fct_ps, 0.99))
        found.append(Figure("99 % FCT", value, format_duration(value)))
    return found


def network_figures(result: Mapping[str, Any], ports: Ports) -> list[Figure]:
    """The busiest port, the largest queue, marks, pauses, losses."""
    if not len(ports):
        return []
    busy, columns = ports.busy_frac(active_time_ps(result)), ports.columns
    i_busy, i_queue = int(busy.argmax()), int(columns["max_queue_bytes"].argmax())
    queue_bytes, network = int(columns["max_queue_bytes"][i_queue]), result.get("network", {})
    found = [
        Figure("busiest port", float(busy[i_busy]), f"{100 * busy[i_busy]:.1f} %", ports.name(i_busy), None),
        Figure("largest queue", queue_bytes, format_size(queue_bytes), ports.name(i_queue)),
    ]
    paused_ps = int(columns["paused_ps"].sum())
    counts = [
        ("ECN marks", int(columns["ecn_marks"].sum()), "packets"),
        ("pause frames", int(columns["pause_frames"].sum()), f"{format_duration(paused_ps)} of pauses, all ports"),
        ("drops", int(columns["drops"].sum()), "packets"),
        ("retransmission timeouts", network.get("retransmission_timeouts", 0), ""),
    ]
    found += [Figure(name, n, f"{n:,}", note) for name, n, note in counts if n]
    return found


def run_figures(result: Mapping[str, Any], run: Mapping[str, Any]) -> list[Figure]:
    """What was skipped and how long the computer took."""
    hops, skipped, wall_s = result["packet_hops"], result.get("skipped_packet_hops", 0), run["wall_seconds"]
    share = skipped / max(hops + skipped, 1)
    found = []
    if skipped:
        note = f"{format_count(skipped)} of {format_count(hops + skipped)} packet-hops"
        found.append(Figure("skipped", share, f"{100 * share:.4g} %", note, None))
    ranks = f"on {run['ranks']} rank{'s' if run['ranks'] != 1 else ''}"
    return [*found, Figure("wall time", wall_s, format_duration(round(wall_s * 1e3) * 10**9), ranks, None)]


def tiles(figures: list[Figure]) -> list[Tile]:
    """As the headline shows them."""
    return [Tile(figure.name, figure.text, figure.note) for figure in figures]
