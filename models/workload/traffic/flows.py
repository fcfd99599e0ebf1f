"""Flow lists: messages with a start time each, from ns-3's `flow.txt` or a CSV file.

A source's flows are one stream that posts them in order of (start, flow id). Flow ids are the order of the file. By
default every flow has a queue pair of its own, as in ns-3; `per-pair` shares one between two hosts and priority.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.topology.ns3_time import ns3_start_ps
from models.workload.plan import WorkloadPlan
from models.workload.program import OP_START, OPERATION, STREAM, WAITING_TIME
from pdes.errors import ConfigError, SimError
from pdes.files import read_text, why_unreadable
from pdes.units import PS_PER_S, exact_number, whole_number

MAX_START_PS = 2**62 // 2
MAX_NUMBER = 2**61
N_PRIORITY = 8
NO_PRIORITY = -1  # the config's
CSV_COLUMNS = ("src", "dst", "size_bytes", "start_ps")


@dataclass(frozen=True)
class FlowList:
    """Flows in file order. src and dst: host numbers for a CSV, node ids for ns-3 (`node_ids`).

    priority: int64[n_flow] 0..7, or NO_PRIORITY; None: of no flow. line: of the file, int64[n_flow]; None: no file.
    """

    src: np.ndarray
    dst: np.ndarray
    size_bytes: np.ndarray
    start_ps: np.ndarray
    dport: np.ndarray
    tag: tuple[str, ...]
    node_ids: bool = False
    priority: np.ndarray | None = None
    line: np.ndarray | None = None


def _number(text: str, where: str, what: str) -> int:
    try:
        number = whole_number(text)
    except ValueError:
        raise ConfigError(where, f"{what} {text!r}", "a whole number") from None
    if not 0 <= number <= MAX_NUMBER:
        raise ConfigError(where, f"{what} {number}", f"a whole number from 0 to {MAX_NUMBER}")
    return number


def _read_lines(path: Path) -> list[str]:
    try:
        return read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = f"cannot be read: {why_unreadable(error)}"
        raise ConfigError(str(path), found, "a readable text file with flows") from None


def read_ns3_flows(path: Path, is_ns3: bool = False) -> FlowList:
    """ns-3's `flow.txt`: a count, then "src dst priority dport bytes start_s" per line. ConfigError names the line.

    is_ns3: starts are cut off to whole ns as ns-3 does; else to whole ps.
    """
    lines = [(i + 1, line.split()) for i, line in enumerate(_read_lines(path)) if line.strip()]
    if not lines:
        raise ConfigError(str(path), "is empty", "a count, then one flow per line")
    count = _number(lines[0][1][0], f"{path}, line {lines[0][0]}", "number of flows")
    if count < 1:
        raise ConfigError(f"{path}, line {lines[0][0]}", "announces no flow", "at least one flow")
    if len(lines) - 1 < count:
        raise ConfigError(
            f"{path}, line {lines[0][0]}",
            f"announces {count} flows and the file holds {len(lines) - 1}",
            "as many lines as announced",
        )
    rows = []
    for number, words in lines[1 : count + 1]:
        where = f"{path}, line {number}"
        if len(words) < 6:
            raise ConfigError(where, f"{len(words)} columns", "6: src dst priority dport bytes start_s")
        src, dst, priority, dport, size = (
            _number(w, where, n) for w, n in zip(words, ("src", "dst", "priority", "dport", "bytes"), strict=False)
        )
        start_ps = _start_ps(words[5], where, is_ns3)
        rows.append((src, dst, size, start_ps, dport, _priority(priority, where)))
        _check_row(where, src, dst, size, start_ps)
    table = np.array(rows, np.int64).reshape(-1, 6)
    columns = [table[:, k].copy() for k in range(6)]
    numbers = np.array([number for number, _ in lines[1 : count + 1]], np.int64)
    return FlowList(*columns[:5], tag=("",) * len(table), node_ids=True, priority=columns[5], line=numbers)


def _start_ps(text: str, where: str, is_ns3: bool) -> int:
    try:
        start_ps = ns3_start_ps(text) if is_ns3 else int(exact_number(text) * PS_PER_S)
    except ValueError:
        start_ps = None
    if start_ps is None:
        raise ConfigError(where, f"start {text!r}", "seconds, a number")
    return start_ps


def _priority(number: int, where: str) -> int:
    if not 0 <= number < N_PRIORITY:
        raise ConfigError(where, f"priority {number}", f"0..{N_PRIORITY - 1}")
    return number


def read_csv_flows(path: Path) -> FlowList:
    """A CSV file with the header src,dst,size_bytes,start_ps[,priority][,tag]; hosts by number.

    ConfigError names the line.
    """
    lines = _read_lines(path)
    header = [w.strip() for w in lines[0].split(",")] if lines else []
    missing = [c for c in CSV_COLUMNS if c not in header]
    if missing:
        raise ConfigError(
            f"{path}, line 1",
            f"header {','.join(header)!r}",
            f"columns {', '.join(CSV_COLUMNS)} and optionally priority, tag",
        )
    at = [header.index(c) for c in CSV_COLUMNS]
    tag_at = header.index("tag") if "tag" in header else -1
    priority_at = header.index("priority") if "priority" in header else -1
    rows, tags, numbers = [], [], []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        words, where = [w.strip() for w in line.split(",")], f"{path}, line {number}"
        if len(words) != len(header):
            raise ConfigError(where, f"{len(words)} columns", f"{len(header)}, as in the header")
        values = [_number(words[k], where, name) for k, name in zip(at, CSV_COLUMNS, strict=True)]
        _check_row(where, *values)
        priority = NO_PRIORITY
        if priority_at >= 0:
            priority = _priority(_number(words[priority_at], where, "priority"), where)
        rows.append((*values, 100, priority))
        tags.append(words[tag_at] if tag_at >= 0 else "")
        numbers.append(number)
    if not rows:
        raise ConfigError(f"{path}, end of file", "no flow", "at least one flow")
    table = np.array(rows, np.int64).reshape(-1, 6)
    columns = [table[:, k].copy() for k in range(6)]
    return FlowList(*columns[:5], tag=tuple(tags), priority=columns[5], line=np.array(numbers, np.int64))


def _check_row(where: str, src: int, dst: int, size_bytes: int, start_ps: int) -> None:
    if src == dst:
        raise ConfigError(where, f"a flow from {src} to itself", "two different hosts")
    if size_bytes <= 0:
        raise ConfigError(where, f"size {size_bytes} bytes", "at least 1 byte")
    if not 0 <= start_ps <= MAX_START_PS:
        raise ConfigError(where, f"start {start_ps} ps", f"0..{MAX_START_PS} ps")


def to_hosts(flows: FlowList, host: np.ndarray, path: str) -> FlowList:
    """The same flows with hosts by number. Raises ConfigError for one that the topology lacks."""
    number = {int(node): i for i, node in enumerate(host)} if flows.node_ids else {i: i for i in range(len(host))}
    for column in (flows.src, flows.dst):
        for i, node in enumerate(column.tolist()):
            if node not in number:
                where = f"{path}: flow {i}" if flows.line is None else f"{path}, line {flows.line[i]}"
                raise ConfigError(where, f"host {node}", f"one of the topology's {len(host)} hosts")
            column[i] = number[node]
    return flows


def plan_flows(flows: FlowList, n_host: int, queue_pairs: str = "per-flow", name: str = "flows") -> WorkloadPlan:
    """A plan of the flows; src and dst are host numbers (see `to_hosts`)."""
    n_flow = len(flows.src)
    if n_flow == 0:
        raise ConfigError(name, "no flow", "at least one flow")
    if queue_pairs not in ("per-flow", "per-pair"):
        raise SimError(f"queue_pairs {queue_pairs}")
    key = flows.src * n_host + flows.dst
    priority = np.full(n_flow, NO_PRIORITY, np.int64) if flows.priority is None else flows.priority
    order = np.lexsort((flows.start_ps, flows.src))  # of equal ones the first comes first
    if queue_pairs == "per-flow":
        by_key = np.argsort(key, kind="stable")
        first = np.searchsorted(key[by_key], key[by_key])
        sport = np.empty(n_flow, np.int64)
        sport[by_key] = 10000 + np.arange(n_flow) - first
        pair_of, pair_src, pair_dst, pair_dport = np.arange(n_flow), flows.src, flows.dst, flows.dport
    else:
        shared, pair_of = np.unique(np.stack([key, priority], axis=1), axis=0, return_inverse=True)
        pair_of, (shared_key, priority) = pair_of.reshape(-1), shared.T.copy()
        sport = 10000 + np.arange(len(shared)) - np.searchsorted(shared_key, shared_key)
        pair_src, pair_dst = shared_key // n_host, shared_key % n_host
        pair_dport = np.full(len(shared), 100, np.int64)
    pair_bytes = np.zeros(len(pair_src), np.int64)
    np.add.at(pair_bytes, pair_of, flows.size_bytes)
    names = tuple(dict.fromkeys(flows.tag))
    tag_number = {tag: i for i, tag in enumerate(names)}
    operations = np.zeros(n_flow, OPERATION)
    operations["kind"], operations["slot"], operations["n_step"] = OP_START, np.arange(n_flow), 1
    operations["size_bytes"], operations["time_ps"] = flows.size_bytes[order], flows.start_ps[order]
    operations["flow"], operations["task_kind"] = order, -1
    if len(names) > 1:
        operations["tag"] = np.array([tag_number[tag] for tag in flows.tag])[order]
    source = flows.src[order]
    first = np.flatnonzero(np.concatenate([[True], source[1:] != source[:-1]]))
    streams = np.zeros(len(first), STREAM)
    streams["gpu"], streams["operation"], streams["first_operation"] = source[first], first, first
    streams["end_operation"][:-1], streams["end_operation"][-1] = first[1:], n_flow
    streams["n_iteration"], streams["waiting_for"] = 1, WAITING_TIME
    streams["spent_row"] = -1
    return WorkloadPlan(
        name=name,
        pair_src=pair_src,
        pair_dst=pair_dst,
        pair_sport=sport,
        pair_dport=pair_dport,
        pair_bytes=pair_bytes,
        pair_stream=np.full(len(pair_src), -1, np.int64),
        operations=operations,
        streams=streams,
        slots=pair_of[order].astype(np.int32),
        slot_kind=np.zeros(n_flow, np.int8),
        group_start=np.zeros(1, np.int64),
        group_stream=np.zeros(0, np.int32),
        group_time_ps=np.zeros(0, np.int64),
        gate_stream=np.zeros(0, np.int32),
        n_iteration=1,
        flows_per_iteration=n_flow,
        tasks_per_iteration=0,
        burst=1,  # every start is an event of its own
        tags=names,
        kinds=(),
        stream_names=("flows",),
        facts={"flows": n_flow, "payload_bytes": int(flows.size_bytes.sum())},
        pair_priority=priority,
    )
