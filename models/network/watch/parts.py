"""Rows of messages that were split over several queue pairs: the parts' rows made into one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ADDED = ("size_bytes", "retransmitted_bytes", "ecn_marks")
LATEST = ("finish_ps", "ideal_fct_ps", "hops")


class PartCollector:
    """Keeps parts until all of a flow are there. Rows of parts come in any order; one rank has all of one kind."""

    def __init__(self, n_part: int) -> None:
        self.n_part = n_part
        self._flows: dict[int, list[dict[str, int]]] = {}
        self._arrivals: dict[int, list[int]] = {}

    def flows(self, ids: np.ndarray, columns: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """(ids, columns) of the flows whose last part is among these; unfinished parts have finish_ps -1."""
        done = []
        for i, flow_id in enumerate(ids.tolist()):
            parts = self._flows.setdefault(flow_id, [])
            parts.append({name: int(values[i]) for name, values in columns.items()})
            if len(parts) == self.n_part:
                done.append((flow_id, join_parts(self._flows.pop(flow_id))))
        found = np.array([flow_id for flow_id, _ in done], np.int64)
        return found, {name: np.array([row[name] for _, row in done], np.int64) for name in columns}

    def arrivals(self, rows: np.ndarray) -> np.ndarray:
        """Rows (flow id, time) of the messages whose last part has arrived. rows: int64[n, 2] of parts."""
        done = []
        for flow_id, time_ps in rows.tolist():
            times = self._arrivals.setdefault(flow_id, [])
            times.append(time_ps)
            if len(times) == self.n_part:
                done.append((flow_id, max(self._arrivals.pop(flow_id))))
        return np.array(done, np.int64).reshape(-1, 2)

    def save(self) -> dict[str, Any]:
        """This rank's part of a checkpoint."""
        return {"flows": self._flows, "arrivals": self._arrivals}

    def load(self, parts: Sequence[dict[str, Any]], is_here: np.ndarray, node_of_arrival: dict[int, int]) -> None:
        """Go on from a checkpoint with what the hosts of this rank have to add to. parts: of all ranks.

        is_here: bool[n_node]. node_of_arrival: the receiver of every flow of which a part is still under way.
        """
        for part in parts:
            self._flows |= {flow: rows for flow, rows in part["flows"].items() if is_here[rows[0]["src"]]}
            arrivals = part["arrivals"].items()
            self._arrivals |= {flow: times for flow, times in arrivals if is_here[node_of_arrival[flow]]}


def join_parts(parts: list[dict[str, int]]) -> dict[str, int]:
    """One row for all parts of a flow: what adds up is added, the last part ends it."""
    row = dict(parts[0])
    for name in ADDED:
        row[name] = sum(part[name] for part in parts)
    for name in LATEST:
        row[name] = max(part[name] for part in parts)
    if any(part["finish_ps"] < 0 for part in parts):
        row["finish_ps"] = -1
    row["start_ps"] = min(part["start_ps"] for part in parts)
    return row
