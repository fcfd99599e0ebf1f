"""The ports table whole, as arrays: a port is a direction of a link, so even 16k GPUs have few."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdes.results.tables import COLUMNS, read_table


@dataclass(frozen=True, eq=False)
class Ports:
    """All ports by id, and the nodes that they join."""

    nodes: tuple[str, ...]
    """Names, in order of node id as far as links end there: ports are sorted by the node at their end."""
    node: np.ndarray
    """int64[n_port], index into nodes: who sends."""
    peer: np.ndarray
    """int64[n_port], index into nodes: who receives."""
    columns: dict[str, np.ndarray]
    """The figures of the table, int64[n_port]."""

    def __len__(self) -> int:
        return len(self.node)

    def name(self, port: int) -> str:
        """As people write it."""
        return f"{self.nodes[self.node[port]]} -> {self.nodes[self.peer[port]]}"

    def busy_frac(self, active_ps: int) -> np.ndarray:
        """float64[n_port]: share of the span in which something happened that it sent."""
        return self.columns["busy_ps"] / max(active_ps, 1)

    def paused_frac(self, active_ps: int) -> np.ndarray:
        """float64[n_port]: share of that span that any of its queues was paused."""
        return self.columns["paused_ps"] / max(active_ps, 1)


def read_ports(path: Path) -> Ports:
    """Read ports.parquet."""
    groups = list(read_table(path, COLUMNS["ports"]))
    whole = {name: np.concatenate([group[name] for group in groups]) for name in COLUMNS["ports"]} if groups else {}
    node, peer = (whole.pop(name, np.zeros(0, object)).tolist() for name in ("node", "peer"))
    place = {name: i for i, name in enumerate(dict.fromkeys([*peer, *node]))}
    ends = [np.array([place[name] for name in names], np.int64) for names in (node, peer)]
    columns = {
        name: whole.get(name, np.zeros(0, np.int64)) for name in COLUMNS["ports"] if name not in ("node", "peer")
    }
    return Ports(tuple(place), ends[0], ends[1], columns)
