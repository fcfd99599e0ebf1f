"""What people read of a run: the JSON files, and the summary on the terminal.

It reads results and never makes them up: what a table does not hold is not shown.
"""

import contextlib
import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdes.results.active import active_text, active_time_ps
from pdes.results.fast_forward import how_sure_text, iterations_text, passes_text, simulated_text
from pdes.results.iteration import breakdown_rows, is_shown, read_breakdown
from pdes.results.jobs import HEADINGS, job_rows, placements, read_alone
from pdes.results.opened import open_results, readable
from pdes.results.pauses import pause_warnings
from pdes.results.tables import UNWRITTEN, Columns, read_table
from pdes.results.trouble import trouble_text
from pdes.units import format_count, format_duration, format_rate, format_size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FLOW_COLUMNS = ("flow_id", "src", "dst", "size_bytes", "fct_ps", "ideal_fct_ps")
PORT_COLUMNS = ("port_id", "node", "peer", "rate_bps", "busy_ps", "max_queue_bytes", "ecn_marks")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write result.json or run.json: sorted keys, one per line; NumPy scalars and arrays as plain numbers."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False, default=_plain)
    Path(path).write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def pick_slowest_flows(groups: Iterable[Columns], n: int = 5) -> list[dict[str, Any]]:
    """The n finished flows of largest slowdown (fct / ideal), ties by id. groups: with FLOW_COLUMNS."""
    best: list[dict[str, Any]] = []
    for group in groups:
        slowdown = np.where(group["fct_ps"] == UNWRITTEN, -1.0, group["fct_ps"] / np.maximum(group["ideal_fct_ps"], 1))
        rows = [i for i in np.lexsort((group["flow_id"], -slowdown))[:n] if slowdown[i] >= 0]
        found = [{c: int(group[c][i]) for c in FLOW_COLUMNS} | {"slowdown": float(slowdown[i])} for i in rows]
        best = heapq.nsmallest(n, best + found, key=lambda flow: (-flow["slowdown"], flow["flow_id"]))
    return best


def pick_busiest_ports(
    groups: Iterable[Columns], active_ps: int, n: int = 5, names: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """The n ports that sent for the longest time, ties by id; ports that never sent are left out.

    busy_frac is the share of active_ps. groups: with PORT_COLUMNS; node and peer as str, or as indices into the lists
    `names` (as given to write_table).
    """
    best: list[dict[str, Any]] = []
    for group in groups:
        rows = [i for i in np.lexsort((group["port_id"], -group["busy_ps"]))[:n] if group["busy_ps"][i] > 0]
        found = [{column: group[column][i] for column in PORT_COLUMNS} for i in rows]
        best = heapq.nsmallest(n, best + found, key=lambda port: (-port["busy_ps"], port["port_id"]))
    for port in best:
        for column in PORT_COLUMNS:
            if column in ("node", "peer"):
                port[column] = names[column][port[column]] if names else str(port[column])
            else:
                port[column] = int(port[column])
        port["busy_frac"] = port["busy_ps"] / max(active_ps, 1)
    return best


def terminal_summary(
    result: Mapping[str, Any],
    run: Mapping[str, Any],
    breakdown: Mapping[str, int],
    slowest_flows: Sequence[Mapping[str, Any]],
    busiest_ports: Sequence[Mapping[str, Any]],
) -> None:
    """Print what a run came to on stdout.

    result, run: as in result.json, with what jobs took alone if that is known, and run.json. breakdown: of
    read_breakdown, or {} without training.
    slowest_flows, busiest_ports: of pick_slowest_flows and pick_busiest_ports, may be empty.
    """
    with contextlib.suppress(SystemExit):  # which rich raises when who reads has seen enough, as `head` does
        _print_summary(result, run, breakdown, slowest_flows, busiest_ports)


def _print_summary(
    result: Mapping[str, Any],
    run: Mapping[str, Any],
    breakdown: Mapping[str, int],
    slowest_flows: Sequence[Mapping[str, Any]],
    busiest_ports: Sequence[Mapping[str, Any]],
) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    iterations = result.get("iteration_time_ps") or []
    if iterations:
        console.print(_iteration_text(iterations), soft_wrap=True)
    if aligned := result.get("aligned_iteration_time_ps"):
        console.print(_aligned_text(aligned), soft_wrap=True)
    if "placement" in result.get("workload", {}):
        console.print(f"Ranks {result['workload']['placement']}", soft_wrap=True)
    for text in placements(result.get("jobs") or []):
        console.print(f"Job {text}", soft_wrap=True)
    tables = [_jobs_table(result, result.get("alone", {})), _breakdown_table(breakdown)]
    for table in (*tables, _flow_table(slowest_flows), _port_table(busiest_ports)):
        if table is not None:
            console.print()
            console.print(table)
    if iterations or slowest_flows or busiest_ports:
        console.print()
    _print_totals(console, result, run)


def _aligned_text(aligned: Sequence[int | None]) -> str:
    known = [time_ps for time_ps in aligned if time_ps is not None]
    if not known:
        return "Aligned with production: nothing, as it was not measured on as many GPUs"
    return f"Aligned with production {format_duration(sum(known) // len(known), 4)}"


def _iteration_text(iterations: Sequence[int]) -> str:
    if len(iterations) == 1:
        return f"Iteration time {format_duration(iterations[0], 4)}"
    shown = ", ".join(format_duration(time_ps, 4) for time_ps in iterations[:6])
    more = f", ... {format_duration(iterations[-1], 4)}" if len(iterations) > 6 else ""
    mean_ps = sum(iterations) // len(iterations)
    return f"Iteration time {format_duration(mean_ps, 4)} (mean of {len(iterations)}: {shown}{more})"


def _table(title: str, *headings: str, n_left: int = 1) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < n_left else "right", header_style="dim", no_wrap=True)
    return table


def _jobs_table(result: Mapping[str, Any], alone: Mapping[str, Any]) -> "Table | None":
    """alone: what the jobs took by themselves; {}: then no column is about it."""
    jobs = result.get("jobs")
    if not jobs:
        return None
    n = len(HEADINGS) if alone else len(HEADINGS) - 1
    table = _table("Jobs", *HEADINGS[:n])
    for row in job_rows(jobs, alone):
        table.add_row(*row[:n])
    return table


def print_jobs(result: Mapping[str, Any], alone: Mapping[str, Any]) -> None:
    """Print the table of jobs alone, once it is known what each took by itself."""
    from rich.console import Console

    table = _jobs_table(result, alone)
    if table is not None:
        Console(markup=False, highlight=False, emoji=False).print(table)


def _breakdown_table(breakdown: Mapping[str, int]) -> "Table | None":
    if not breakdown:
        return None
    time_ps = breakdown["iteration_time_ps"]
    title = f"Iteration {breakdown['iteration']}, mean over {breakdown['n_gpu']} GPUs"
    table = _table(title, "part", "time", "share")
    for name, part_ps in breakdown_rows(breakdown):
        if is_shown(name, part_ps):
            table.add_row(name, format_duration(part_ps), f"{100 * part_ps / max(time_ps, 1):.1f} %")
    table.add_row("total", format_duration(time_ps), "100.0 %")
    return table


def _flow_table(flows: Sequence[Mapping[str, Any]]) -> "Table | None":
    if not flows:
        return None
    table = _table("Slowest flows", "flow", "src -> dst", "size", "FCT", "slowdown", n_left=2)
    for flow in flows:
        ends = f"{flow['src']} -> {flow['dst']}"
        figures = (format_size(flow["size_bytes"]), format_duration(flow["fct_ps"]), f"{flow['slowdown']:.2f}")
        table.add_row(str(flow["flow_id"]), ends, *figures)
    return table


def _port_table(ports: Sequence[Mapping[str, Any]]) -> "Table | None":
    if not ports:
        return None
    table = _table("Busiest ports", "port", "rate", "busy", "max queue", "ECN marks")
    for port in ports:
        figures = (f"{100 * port['busy_frac']:.1f} %", format_size(port["max_queue_bytes"]), f"{port['ecn_marks']:,}")
        table.add_row(f"{port['node']} -> {port['peer']}", format_rate(port["rate_bps"]), *figures)
    return table


def _print_totals(console: "Console", result: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    skipped, n_done = result.get("skipped_packet_hops", 0), result.get("flows_finished", result["flows"])
    flows = f"{result['flows']:,} flows" if n_done == result["flows"] else f"{n_done:,} of {result['flows']:,} flows"
    packets = f"{format_count(result['packet_hops'])} packet-hops"
    rest = f", {format_count(skipped)} packet-hops skipped" if skipped else ""
    if _has_no_packets(result):
        packets, rest = f"no packets (as packets {format_count(skipped)} packet-hops)", ""
    events = f"{format_count(result['events'])} events"
    console.print(f"{simulated_text(result)}: {flows}, {packets}, {events}{rest}", soft_wrap=True)
    if "logical_processes" in result:
        threshold = format_duration(result["config"]["partition"]["delay_threshold_ps"])
        how = "given" if run.get("threshold_choice") == "given" else "chosen"
        console.print(
            f"Cut into {result['logical_processes']:,} logical processes at a delay threshold of {threshold} ({how}), "
            f"lookahead {format_duration(result['lookahead_ps'])}",
            soft_wrap=True,
        )
    texts = (active_text, iterations_text, passes_text, how_sure_text, trouble_text)
    for line in filter(None, (*(text(result) for text in texts), *pause_warnings(result))):
        console.print(line, soft_wrap=True)
    loop_s = run.get("loop_seconds", 0.0)
    ranks = f"{run['ranks']} rank{'s' if run['ranks'] != 1 else ''}"
    alone = f" ({text})" if (text := alone_text(run)) else ""
    text = f"Run {_seconds(run['wall_seconds'])} on {ranks}{alone}, {_seconds(loop_s)} in the event loop"
    if loop_s > 0:
        hops_per_s, events_per_s = round(run["packet_hops_per_second"]), round(result["events"] / loop_s)
        each = f"{format_count(hops_per_s)} packet-hops/s"
        if _has_no_packets(result):
            each = f"{format_count(round(n_done / loop_s))} flows/s"
        text += f": {each}, {format_count(events_per_s)} events/s"
    console.print(text, soft_wrap=True)


def alone_text(run: Mapping[str, Any]) -> str:
    """Whether rank 0 has simulated alone, "" if all ranks have from the first event on. run: `run.json`."""
    spreading = run.get("spreading") or {}
    if not spreading:
        return ""
    n_join = sum(change["to"] == "all ranks" for change in spreading["changes"])
    times = "once" if n_join == 1 else f"{n_join} times"
    return f"rank 0 began alone, the others joined it {times}" if n_join else "rank 0 alone"


def _has_no_packets(result: Mapping[str, Any]) -> bool:
    return result["config"].get("wormhole", {}).get("mode") == "flow"


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds * 1e3) * 10**9)  # wall time below a millisecond says nothing


def print_report(directory: str | Path) -> None:
    """Print the summary of a result folder. ConfigError: it holds no complete result, or one that cannot be read."""
    folder, result, run = open_results(directory)
    with readable(folder):
        breakdown = read_breakdown(folder, result)
        flows = pick_slowest_flows(_groups(folder / "flows.parquet", FLOW_COLUMNS))
        ports = pick_busiest_ports(_groups(folder / "ports.parquet", PORT_COLUMNS), active_time_ps(result))
        terminal_summary(result | {"alone": read_alone(folder)}, run, breakdown, flows, ports)


def _groups(path: Path, columns: Sequence[str]) -> Iterable[dict[str, np.ndarray]]:
    return read_table(path, columns) if path.is_file() else iter(())
