"""What the slowest flows met on their ways: for `result.json`, from which the report says why they were slow.

Counts only: a flow that runs beside another puts its bytes on their common port evenly over its time, which is an
estimate. It says nothing where packets choose their ways themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pdes.results.tables import UNWRITTEN, Columns

SHOWN = 20
MOST_FLOWS = 20_000_000  # above, nobody is counted beside: each flow of the run would be looked at


def explain_slowest(
    slowest: Sequence[Mapping[str, Any]], groups: Iterable[Columns], path_start: np.ndarray, path_port: np.ndarray
) -> list[dict[str, Any]]:
    """For each of the slowest flows, in order, its way, and at each port who else used it meanwhile.

    slowest: with flow_id. groups: of all flows, in order of id: flow_id (or ids from 0 on), pair, size_bytes, start_ps,
    finish_ps. path_start, path_port: of the queue pairs' data and ACK paths, as in `topology.paths.Paths`.
    Returns flow_id and path: [{port_id, flows_beside, bytes_beside}]. Integers that no order of adding changes.
    """
    found = _rows_of([flow["flow_id"] for flow in slowest], groups)
    ways = [path_port[path_start[2 * row[0]] : path_start[2 * row[0] + 1]] for row in found]
    counts = [np.zeros((len(way), 2), np.int64) for way in ways]
    users = _users(np.unique(np.concatenate(ways)) if ways else np.zeros(0, np.int64), path_start, path_port)
    for first, group in _numbered(groups):
        for i, (row, way) in enumerate(zip(found, ways, strict=True)):
            counts[i] += _beside(slowest[i]["flow_id"] - first, row, way, group, users)
    return [
        {
            "flow_id": int(flow["flow_id"]),
            "path": [
                {"port_id": int(port), "flows_beside": int(n), "bytes_beside": int(size)}
                for port, (n, size) in zip(way, count, strict=True)
            ],
        }
        for flow, way, count in zip(slowest, ways, counts, strict=True)
    ]


def _numbered(groups: Iterable[Columns]) -> Iterable[tuple[int, Columns]]:
    first = 0
    for group in groups:
        yield first, group
        first += len(group["pair"])


def _rows_of(flow_ids: Sequence[int], groups: Iterable[Columns]) -> list[tuple[int, int, int]]:
    """(queue pair, start, finish) of these flows."""
    rows = {}
    for first, group in _numbered(groups):
        for flow_id in flow_ids:
            if first <= flow_id < first + len(group["pair"]):
                rows[flow_id] = tuple(int(group[name][flow_id - first]) for name in ("pair", "start_ps", "finish_ps"))
    return [rows[flow_id] for flow_id in flow_ids]


def _users(ports: np.ndarray, path_start: np.ndarray, path_port: np.ndarray) -> dict[int, np.ndarray]:
    """Queue pairs whose data goes over each of these ports, ascending."""
    place = np.flatnonzero(np.isin(path_port, ports))
    row = np.searchsorted(path_start, place, side="right") - 1
    is_data = row % 2 == 0
    place, pair = place[is_data], row[is_data] // 2
    return {int(port): np.unique(pair[path_port[place] == port]) for port in ports}


def _beside(
    own: int, flow: tuple[int, int, int], way: np.ndarray, group: Columns, users: Mapping[int, np.ndarray]
) -> np.ndarray:
    """int64[n_port, 2]: flows of the group on each port of the way while the flow ran, and their bytes meanwhile.

    own: place of the flow itself in the group, if it is there.
    """
    _, begin_ps, end_ps = flow
    finish_ps = group["finish_ps"]
    is_beside = (finish_ps > begin_ps) & (group["start_ps"] < end_ps) & (finish_ps != UNWRITTEN)
    if 0 <= own < len(is_beside):
        is_beside[own] = False
    rows = np.flatnonzero(is_beside)
    start_ps, finish_ps = group["start_ps"][rows], finish_ps[rows]
    common_ps = np.minimum(finish_ps, end_ps) - np.maximum(start_ps, begin_ps)
    size_bytes = group["size_bytes"][rows] * (common_ps / np.maximum(finish_ps - start_ps, 1))
    size_bytes, pair = np.floor(size_bytes).astype(np.int64), group["pair"][rows]
    n_pair = 1 + max((int(pairs[-1]) for pairs in users.values()), default=0)
    known = pair < n_pair
    flows_of, bytes_of = np.bincount(pair[known], minlength=n_pair), np.zeros(n_pair, np.int64)
    np.add.at(bytes_of, pair[known], size_bytes[known])
    counts = [(flows_of[users[port]].sum(), bytes_of[users[port]].sum()) for port in way.tolist()]
    return np.array(counts, np.int64).reshape(-1, 2)
