"""What a trace shows, read from the tables: chosen GPUs' tasks and messages, and the queues of chosen ports.

Where there is more than asked for, the longest stay: what is left out is too short to be seen from afar.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdes.results.tables import UNWRITTEN, read_table

Rows = dict[str, np.ndarray]

TASK_NAMES = ("task_id", "gpu", "iteration", "kind", "stream", "start_ps", "end_ps", "bytes")
FLOW_NAMES = ("flow_id", "src", "dst", "size_bytes", "start_ps", "delivered_ps", "finish_ps", "ideal_fct_ps", "tag")


def read_tasks(path: Path, gpus: np.ndarray, iterations: frozenset[int] | None, most: int) -> tuple[Rows, int]:
    """(finished tasks of these GPUs and iterations, the longest `most`, by start; how many there are)."""
    kept: list[Rows] = []
    n_all = 0
    for group in read_table(path, TASK_NAMES):
        taken = np.isin(group["gpu"], gpus) & (group["end_ps"] != UNWRITTEN) & (group["start_ps"] != UNWRITTEN)
        if iterations is not None:
            taken &= np.isin(group["iteration"], sorted(iterations))
        n_all += int(taken.sum())
        kept.append(_filtered(group, taken))
        if sum(len(rows["gpu"]) for rows in kept) > 4 * most:
            kept = [_longest(kept, TASK_NAMES, "end_ps", most)]
    return _longest(kept, TASK_NAMES, "end_ps", most), n_all


def read_messages(path: Path, nodes: np.ndarray, span_ps: tuple[int, int], most: int) -> tuple[Rows, int]:
    """(delivered flows that begin or end at these nodes in a span of time, the longest `most`; how many there are)."""
    kept: list[Rows] = []
    n_all = 0
    for group in read_table(path, FLOW_NAMES):
        taken = np.isin(group["src"], nodes) | np.isin(group["dst"], nodes)
        taken &= (group["delivered_ps"] != UNWRITTEN) & (group["finish_ps"] != UNWRITTEN)
        taken &= (group["finish_ps"] > span_ps[0]) & (group["start_ps"] < span_ps[1])
        n_all += int(taken.sum())
        kept.append(_filtered(group, taken))
        if sum(len(rows["src"]) for rows in kept) > 4 * most:
            kept = [_longest(kept, FLOW_NAMES, "finish_ps", most)]
    return _longest(kept, FLOW_NAMES, "finish_ps", most), n_all


def _filtered(group: Rows, taken: np.ndarray) -> Rows:
    return {name: column[taken] for name, column in group.items()}


def _longest(kept: Sequence[Rows], names: Sequence[str], end: str, most: int) -> Rows:
    """The rows that last longest, of equals the first by id, in order of start and id."""
    whole = {name: np.concatenate([rows[name] for rows in kept]) if kept else np.zeros(0, np.int64) for name in names}
    length_ps, row_id = whole[end] - whole["start_ps"], whole[names[0]]
    order = np.lexsort((row_id, -length_ps))[:most]
    order = order[np.lexsort((row_id[order], whole["start_ps"][order]))]
    return {name: column[order] for name, column in whole.items()}


def read_queues(path: Path, ports: Sequence[int], span_ps: tuple[int, int], most: int) -> list[list[tuple[int, int]]]:
    """For each port (time, bytes that wait) wherever these change, at most `most` of all ports.

    A port without a row at an instant is idle. With too many points every n-th instant stays.
    """
    columns: list[Rows] = []
    instants: list[np.ndarray] = []
    for group in read_table(path, ("time_ps", "port_id", "queue_bytes")):
        instants.append(np.unique(group["time_ps"]))
        columns.append(_filtered(group, np.isin(group["port_id"], ports)))
    times_ps = np.unique(np.concatenate(instants)) if instants else np.zeros(0, np.int64)
    times_ps = times_ps[(times_ps >= span_ps[0]) & (times_ps <= span_ps[1])]
    times_ps = times_ps[:: max(1, -(-len(times_ps) * max(len(ports), 1) // most))]
    whole = {name: np.concatenate([rows[name] for rows in columns]) for name in (columns[0] if columns else ())}
    found = []
    for port in ports if whole else ():
        own = whole["port_id"] == port
        queue = np.zeros(len(times_ps), np.int64)
        hits = np.isin(whole["time_ps"][own], times_ps)
        queue[np.searchsorted(times_ps, whole["time_ps"][own][hits])] = whole["queue_bytes"][own][hits]
        changes = np.flatnonzero(np.diff(queue, prepend=-1))
        found.append(list(zip(times_ps[changes].tolist(), queue[changes].tolist(), strict=True)))
    return found
