"""What people read of a run: the JSON files, the summary on the terminal, and where an iteration's time went.

It reads results and never makes them up: what a table does not hold is not shown.
"""

import contextlib
import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdes.errors import SimError
from pdes.results.active import active_text, active_time_ps
from pdes.results.fast_forward import (
    audit_text,
    iterations_text,
    last_simulated,
    passes_text,
    simulated_text,
)
from pdes.results.opened import open_results, readable
from pdes.results.pauses import pause_warnings
from pdes.results.tables import UNWRITTEN, Columns, read_table
from pdes.results.trouble import trouble_text
from pdes.units import format_count, format_duration, format_rate, format_size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TASK_KINDS = ("forward", "backward", "optimizer", "tp", "cp", "ep", "pp-wait", "dp", "collective")
"""Kinds of the tasks table, and what a moment counts as when several tasks of a GPU overlap: the first of these.

Computing hides communication. A GPU that waits for its pipeline is held up by the pipeline, not by the data-parallel
exchange that runs behind the wait, so "dp" counts only where nothing before it runs.
"""

_PARTS = {
    "compute_ps": (0, 1), "optimizer_ps": (2,), "tp_ps": (3,), "cp_ps": (4,), "ep_ps": (5,), "pp_wait_ps": (6,),
    "dp_ps": (7,), "collective_ps": (8,),
}  # fmt: skip
PART_NAMES = (*_PARTS, "idle_ps")

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


def breakdown_of_tasks(
    columns: Columns,
    n_gpu: int,
    iteration: int,
    n_stage: int = 1,
    n_microbatch: int = 1,
    span_ps: tuple[int, int] | None = None,
) -> dict[str, int]:
    """Where the time of one iteration went, as a mean over GPUs.

    columns: gpu, iteration, start_ps, end_ps int64[n_task], and kind, int64 index into TASK_KINDS or str; of this
    iteration, the one before and any later, because iteration i lasts from the last task end of i-1 (or 0) to its own,
    and GPUs may work on the next one meanwhile. Unfinished tasks (UNWRITTEN) are left out. n_stage, n_microbatch: of
    the pipeline. span_ps: begin and end of the iteration, where the columns have only some of the GPUs.

    Returns iteration, n_gpu, iteration_time_ps, PART_NAMES (which add up to iteration_time_ps; each means the time that
    counts as that part, see TASK_KINDS, rounded down, idle taking the rest), and bubble_ps: of pp_wait_ps and idle_ps,
    what a 1F1B pipeline needs on a perfect network, (n_stage - 1) / n_microbatch of compute and TP.
    SimError: no finished task in that iteration, an unknown kind, a GPU out of range.
    """
    begin_ps, end_ps = iteration_span(columns, iteration) if span_ps is None else span_ps
    kept = (columns["end_ps"] > begin_ps) & (columns["start_ps"] < end_ps) & (columns["start_ps"] != UNWRITTEN)
    gpu, kind = columns["gpu"][kept], _kind_codes(columns["kind"][kept])
    if len(gpu) and not (0 <= gpu.min() and gpu.max() < n_gpu):
        raise SimError(f"the tasks table has GPUs {gpu.min()}..{gpu.max()}, but the run has {n_gpu}")
    start_ps = np.maximum(columns["start_ps"][kept], begin_ps)
    total_ps = _exposed_ps(gpu, kind, start_ps, np.minimum(columns["end_ps"][kept], end_ps))
    time_ps = end_ps - begin_ps
    if sum(total_ps) > n_gpu * time_ps:
        raise SimError(f"iteration {iteration}: tasks fill {sum(total_ps)} ps of {n_gpu} GPUs x {time_ps} ps")
    parts = {name: sum(total_ps[code] for code in codes) // n_gpu for name, codes in _PARTS.items()}
    parts["idle_ps"] = time_ps - sum(parts.values())
    ideal_bubble_ps = (parts["compute_ps"] + parts["tp_ps"]) * (n_stage - 1) // n_microbatch
    bubble_ps = min(ideal_bubble_ps, parts["pp_wait_ps"] + parts["idle_ps"])
    head = {"iteration": iteration, "n_gpu": n_gpu, "iteration_time_ps": time_ps, "bubble_ps": bubble_ps}
    return head | parts


def iteration_span(columns: Columns, iteration: int) -> tuple[int, int]:
    """Begin and end of an iteration, ps."""
    ends = []
    for i in (iteration - 1, iteration):
        end_ps = columns["end_ps"][(columns["iteration"] == i) & (columns["end_ps"] != UNWRITTEN)]
        ends.append(int(end_ps.max()) if len(end_ps) else None)
    if ends[1] is None:
        raise SimError(f"the tasks table has no finished task of iteration {iteration}")
    return ends[0] or 0, ends[1]


def _kind_codes(kind: np.ndarray) -> np.ndarray:
    if kind.dtype.kind in "iu":
        return kind
    code = np.full(len(kind), -1, np.int64)
    for i, name in enumerate(TASK_KINDS):
        code[kind == name] = i
    if len(code) and code.min() < 0:
        raise SimError(f'the tasks table has the unknown kind "{kind[code < 0][0]}"')
    return code


def _exposed_ps(gpu: np.ndarray, kind: np.ndarray, start_ps: np.ndarray, end_ps: np.ndarray) -> list[int]:
    """Time per kind, summed over GPUs, each moment counted for the first kind that runs then on that GPU.

    One sweep over the starts and ends of all GPUs: as many tasks end as start on each, so the counts of running tasks
    are back at zero when the next GPU's begin. Sums stay below 2**63 for 32k GPUs x 280 s.
    """
    moment_ps = np.concatenate([start_ps, end_ps])
    order = np.lexsort((moment_ps, np.concatenate([gpu, gpu])))
    moment_ps, change = moment_ps[order], np.repeat([1, -1], len(gpu))[order]
    kind_of = np.concatenate([kind, kind])[order]
    length_ps = np.diff(moment_ps, append=moment_ps[-1:])  # from one GPU to the next nothing runs: never counted
    is_free = np.ones(len(moment_ps), bool)
    total_ps = []
    for code in range(len(TASK_KINDS)):
        is_running = np.cumsum(np.where(kind_of == code, change, 0)) > 0
        total_ps.append(int(length_ps[is_running & is_free].sum()))
        is_free &= ~is_running
    return total_ps


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


def pipeline_shape(result: Mapping[str, Any]) -> tuple[int, int]:
    """Stages and microbatches of the training job in a result's embedded config; (1, 1) where there is none."""
    workload = result.get("config", {}).get("workload", {})
    n_stage = int(workload.get("parallel", {}).get("pp") or 1)
    return n_stage, int(result.get("workload", {}).get("microbatches") or workload.get("microbatches") or n_stage)


def terminal_summary(
    result: Mapping[str, Any],
    run: Mapping[str, Any],
    breakdown: Mapping[str, int],
    slowest_flows: Sequence[Mapping[str, Any]],
    busiest_ports: Sequence[Mapping[str, Any]],
) -> None:
    """Print what a run came to on stdout.

    result, run: as in result.json and run.json. breakdown: of breakdown_of_tasks, or {} without training.
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
    for table in (_breakdown_table(breakdown), _flow_table(slowest_flows), _port_table(busiest_ports)):
        if table is not None:
            console.print()
            console.print(table)
    if iterations or slowest_flows or busiest_ports:
        console.print()
    _print_totals(console, result, run)


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


def breakdown_rows(breakdown: Mapping[str, int]) -> list[tuple[str, int]]:
    """(part, time in ps) as people read them: the bubble is taken out of waiting and idling. Adds up to the whole."""
    bubble_of_wait_ps = min(breakdown["bubble_ps"], breakdown["pp_wait_ps"])
    return [
        ("compute", breakdown["compute_ps"]),
        ("optimizer", breakdown["optimizer_ps"]),
        ("TP exposed", breakdown["tp_ps"]),
        ("CP exposed", breakdown["cp_ps"]),
        ("EP exposed", breakdown["ep_ps"]),
        ("PP exposed", breakdown["pp_wait_ps"] - bubble_of_wait_ps),
        ("DP exposed", breakdown["dp_ps"]),
        ("other collectives", breakdown["collective_ps"]),
        ("pipeline bubble", breakdown["bubble_ps"]),
        ("idle", breakdown["idle_ps"] - (breakdown["bubble_ps"] - bubble_of_wait_ps)),
    ]


def is_shown(part: str, part_ps: int) -> bool:
    """Whether a part has a row: not every job has all kinds of parallelism."""
    return part_ps > 0 or part not in ("CP exposed", "EP exposed", "other collectives")


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
    console.print(
        f"{simulated_text(result)}: {flows}, "
        f"{format_count(result['packet_hops'])} packet-hops, {format_count(result['events'])} events"
        + (f", {format_count(skipped)} packet-hops skipped" if skipped else ""),
        soft_wrap=True,
    )
    if "logical_processes" in result:
        threshold = format_duration(result["config"]["partition"]["delay_threshold_ps"])
        how = "given" if run.get("threshold_choice") == "given" else "chosen"
        console.print(
            f"Cut into {result['logical_processes']:,} logical processes at a delay threshold of {threshold} ({how}), "
            f"lookahead {format_duration(result['lookahead_ps'])}",
            soft_wrap=True,
        )
    texts = (active_text, iterations_text, passes_text, audit_text, trouble_text)
    for line in filter(None, (*(text(result) for text in texts), *pause_warnings(result))):
        console.print(line, soft_wrap=True)
    loop_s = run.get("loop_seconds", 0.0)
    ranks = f"{run['ranks']} rank{'s' if run['ranks'] != 1 else ''}"
    text = f"Run {_seconds(run['wall_seconds'])} on {ranks}, {_seconds(loop_s)} in the event loop"
    if loop_s > 0:
        hops_per_s, events_per_s = round(run["packet_hops_per_second"]), round(result["events"] / loop_s)
        text += f": {format_count(hops_per_s)} packet-hops/s, {format_count(events_per_s)} events/s"
    console.print(text, soft_wrap=True)


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds * 1e3) * 10**9)  # wall time below a millisecond says nothing


def print_report(directory: str | Path) -> None:
    """Print the summary of a result folder. ConfigError: it holds no complete result, or one that cannot be read."""
    folder, result, run = open_results(directory)
    with readable(folder):
        breakdown = read_breakdown(folder, result)
        flows = pick_slowest_flows(_groups(folder / "flows.parquet", FLOW_COLUMNS))
        ports = pick_busiest_ports(_groups(folder / "ports.parquet", PORT_COLUMNS), active_time_ps(result))
        terminal_summary(result, run, breakdown, flows, ports)


def read_breakdown(folder: Path, result: Mapping[str, Any]) -> dict[str, int]:
    """The breakdown of the last simulated iteration from tasks.parquet in `folder`; {} without training.

    The tasks of another tool's trace are its nodes, which say nothing of parallelism.
    """
    last = last_simulated(result)
    if last < 0 or "nodes" in result.get("workload", {}):
        return {}
    if not (folder / "tasks.parquet").is_file():
        return _main_streams(folder, last, *pipeline_shape(result))
    groups = []
    for group in _groups(folder / "tasks.parquet", ("gpu", "iteration", "kind", "start_ps", "end_ps")):
        kept = (group["iteration"] >= last - 1) & (group["end_ps"] != UNWRITTEN)  # the rest has no kind either
        group = {column: value[kept] for column, value in group.items()}
        groups.append(group | {"kind": _kind_codes(group["kind"])})
    if not groups:
        return {}
    columns = {column: np.concatenate([group[column] for group in groups]) for column in groups[0]}
    return breakdown_of_tasks(columns, int(columns["gpu"].max()) + 1, last, *pipeline_shape(result))


def _main_streams(folder: Path, iteration: int, n_stage: int, n_microbatch: int) -> dict[str, int]:
    """The breakdown where there are no task rows: of the GPUs' main streams, each over its own iteration."""
    total, n_gpu = dict.fromkeys(STREAM_PARTS.values(), 0), 0
    for group in _groups(folder / "breakdown.parquet", ("iteration", *STREAM_PARTS)):
        kept = (group["iteration"] == iteration) & (group["span_ps"] != UNWRITTEN)
        n_gpu += int(kept.sum())
        for column, name in STREAM_PARTS.items():
            total[name] += int(group[column][kept].sum())
    if n_gpu == 0:
        return {}
    mean = stream_mean(total, n_gpu, n_stage, n_microbatch)
    return {"iteration": iteration, "n_gpu": n_gpu} | mean


STREAM_PARTS = {f"{name}_ps": f"{name}_ps" for name in ("compute", "optimizer", "tp", "cp", "ep", "dp", "idle")} | {
    "pp_ps": "pp_wait_ps", "span_ps": "iteration_time_ps",
}  # fmt: skip
"""Columns of the breakdown table, as a breakdown calls them."""


def stream_mean(total: Mapping[str, int], n_gpu: int, n_stage: int, n_microbatch: int) -> dict[str, int]:
    """The mean over GPUs of parts that were added up, each rounded down and idle taking the rest, and the bubble."""
    parts = {name: value // n_gpu for name, value in total.items()} | {"collective_ps": 0}
    parts["idle_ps"] += parts["iteration_time_ps"] - sum(parts[name] for name in PART_NAMES)
    ideal_bubble_ps = (parts["compute_ps"] + parts["tp_ps"]) * (n_stage - 1) // n_microbatch
    bubble_ps = min(ideal_bubble_ps, parts["pp_wait_ps"] + parts["idle_ps"])
    return {"bubble_ps": bubble_ps} | parts


def _groups(path: Path, columns: Sequence[str]) -> Iterable[dict[str, np.ndarray]]:
    return read_table(path, columns) if path.is_file() else iter(())
