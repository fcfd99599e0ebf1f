"""A trace in memory: every rank's nodes in the order of its file, as arrays: what importers make and all else reads.

A node waits for nodes of its own rank alone (design R12): what comes from another rank is a message, so a send there
and a receive here. Sizes of collectives are what `collectives` means by them: the whole buffer of a rank, for an
all-gather the gathered result; importers convert. Not here: whether a trace makes sense (`checks`), and how it
is run (`plan`).
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pdes.errors import ConfigError

COMPUTE, SEND, RECEIVE, COLLECTIVE, NOTHING = range(5)  # NOTHING: takes no time and no lane, only orders others
KIND_NAMES = ("compute", "send", "receive", "collective", "metadata")
COLLECTIVES = (
    "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce", "gather", "scatter", "barrier",
)  # fmt: skip
ANY = -1  # of a receive's peer or tag
NO_COMMUNICATOR = -1


@dataclass(frozen=True)
class TraceGraph:
    """Nodes of all ranks, rank after rank. dep: CSR of the nodes (global numbers) that each node waits for."""

    name: str
    files: tuple[str, ...]  # one per rank, or one for all
    rank_start: np.ndarray  # int64[n_rank + 1]
    node_id: np.ndarray  # int64[n_node]  as in the file
    kind: np.ndarray  # int8[n_node]
    duration_ps: np.ndarray  # int64[n_node]  of a compute node
    size_bytes: np.ndarray  # int64[n_node]
    peer: np.ndarray  # int32[n_node]  rank at the other end of a send or receive, or ANY
    tag: np.ndarray  # int64[n_node]
    communicator: np.ndarray  # int32[n_node]
    operation: np.ndarray  # int8[n_node]  of a collective: place in COLLECTIVES
    root: np.ndarray  # int32[n_node]  of a collective: rank
    lane: np.ndarray  # int16[n_node]  compute nodes of one lane run one after the other
    label: np.ndarray  # int32[n_node]  place in `names`
    names: tuple[str, ...]
    dep_start: np.ndarray  # int64[n_node + 1]
    dep: np.ndarray  # int64[]
    communicators: tuple[tuple[int, ...], ...]
    communicator_names: tuple[str, ...]
    waits_for_ack: bool = False  # a send is complete when all of it is acknowledged, else when it is posted
    warnings: tuple[str, ...] = ()
    left_out: dict[str, int] = field(default_factory=dict)  # what the warnings are about, and how often
    facts: dict = field(default_factory=dict)

    @property
    def n_rank(self) -> int:
        """Ranks of the traced job."""
        return len(self.rank_start) - 1

    @property
    def n_node(self) -> int:
        """Nodes of all ranks."""
        return len(self.kind)

    def rank_of(self, node: int) -> int:
        """The rank that a node belongs to."""
        return int(np.searchsorted(self.rank_start, node, side="right")) - 1

    def where(self, node: int) -> str:
        """File, rank and node, for messages."""
        rank = self.rank_of(node)
        path = self.files[rank if len(self.files) > 1 else 0]
        name = self.names[self.label[node]]
        return f"{path}, rank {rank}, node {self.node_id[node]}" + (f" ({name})" if name else "")


class Leniency:
    """What to do about faults that some tools are known to write: raise, or, when tolerant, count and warn."""

    def __init__(self, tolerant: bool = False) -> None:
        self.tolerant = tolerant
        self._seen: dict[str, list] = {}

    def fault(self, what: str, where: str, found: str, accepted: str) -> None:
        """Raise ConfigError, or count one fault of the sort `what`."""
        if not self.tolerant:
            raise ConfigError(where, found, f"{accepted}; --tolerant leaves it out with a warning")
        self._seen.setdefault(what, [0, f"{where}: {found}"])[0] += 1

    def note(self, what: str, where: str) -> None:
        """Count something that is no fault, but that people should know."""
        self._seen.setdefault(what, [0, where])[0] += 1

    def warnings(self) -> tuple[str, ...]:
        """One line per sort of fault, with how many and the first of them."""
        return tuple(f"{what}: {count}, the first {first}" for what, (count, first) in self._seen.items())

    def counts(self) -> dict[str, int]:
        """How many of each sort."""
        return {what: count for what, (count, _) in self._seen.items()}


class TraceNode(NamedTuple):
    """A node of a trace as an importer reads it; the fields are _COLUMNS, but for name and after."""

    node_id: int
    kind: int
    duration_ps: int = 0
    size_bytes: int = 0
    peer: int = ANY
    tag: int = 0
    communicator: int = NO_COMMUNICATOR
    operation: int = 0
    root: int = 0
    lane: int = 0
    name: str = ""
    after: Sequence[int] = ()  # ids of the nodes that it waits for, in any order


class GraphBuilder:
    """Collects the nodes of a trace, rank after rank, and then their dependencies by the ids of the file."""

    def __init__(self, name: str, leniency: Leniency | None = None) -> None:
        self.name, self.leniency = name, leniency or Leniency()
        self.files: list[str] = []
        self._rank_start = [0]
        self._columns = {name: array("q") for name in _COLUMNS}
        self._dep_count, self._dep_id = array("q"), array("q")
        self._labels: dict[str, int] = {}
        self._communicators: dict[str, tuple[int, ...]] = {}
        self._communicator_number: dict[str, int] = {}

    @property
    def n_node(self) -> int:
        """Nodes so far."""
        return len(self._dep_count)

    def communicator(self, name: str, ranks: tuple[int, ...]) -> int:
        """The number of a communicator; the same for the same name."""
        if name not in self._communicators:
            self._communicators[name] = ranks
            self._communicator_number[name] = len(self._communicator_number)
        return self._communicator_number[name]

    def add(self, node: TraceNode) -> None:
        """Append a node to the rank under way."""
        row = (*node[:-2], self._labels.setdefault(node.name, len(self._labels)))
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        self._dep_count.append(len(node.after))
        self._dep_id.extend(node.after)

    def end_rank(self, path: str) -> None:
        """All nodes of a rank are there. path: the file they came from."""
        self.files.append(path)
        self._rank_start.append(self.n_node)

    def finish(self, waits_for_ack: bool = False, facts: dict | None = None) -> TraceGraph:
        """The graph. ConfigError: an id twice in a rank, or a dependency on a node that the rank does not have."""
        columns: dict[str, Any] = {
            name: np.frombuffer(column, np.int64).astype(_COLUMNS[name]) if len(column) else np.zeros(0, _COLUMNS[name])
            for name, column in self._columns.items()
        }
        names, communicators = tuple(self._labels), tuple(self._communicators.values())
        counts = np.array(self._dep_count, np.int64)
        wanted = np.array(self._dep_id, np.int64)
        rank_start = np.array(self._rank_start, np.int64)
        dep_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        graph = TraceGraph(
            name=self.name,
            files=tuple(self.files),
            rank_start=rank_start,
            **columns,
            names=names,
            dep_start=dep_start,
            dep=wanted,
            communicators=communicators,
            communicator_names=tuple(self._communicators),
            waits_for_ack=waits_for_ack,
            facts=facts or {},
        )
        return _resolve(graph, self.leniency)


_COLUMNS: dict[str, type] = {
    "node_id": np.int64,
    "kind": np.int8,
    "duration_ps": np.int64,
    "size_bytes": np.int64,
    "peer": np.int32,
    "tag": np.int64,
    "communicator": np.int32,
    "operation": np.int8,
    "root": np.int32,
    "lane": np.int16,
    "label": np.int32,
}


def _resolve(graph: TraceGraph, leniency: Leniency) -> TraceGraph:
    """Turn the ids of dependencies into places, those that are there twice into one."""
    owner = np.repeat(np.arange(graph.n_node), np.diff(graph.dep_start))
    place = np.full(len(owner), -1, np.int64)
    for rank in range(graph.n_rank):
        begin, end = int(graph.rank_start[rank]), int(graph.rank_start[rank + 1])
        ids = graph.node_id[begin:end]
        order = np.argsort(ids, kind="stable")
        twice = np.flatnonzero(np.diff(ids[order]) == 0)
        if len(twice):
            first, second = sorted(int(k) for k in order[twice[0] : twice[0] + 2])
            found = f"the id of the {first + 1}th node of the rank a second time, {second + 1}th"
            raise ConfigError(graph.where(begin + second), found, "each id once per rank")
        span = slice(int(graph.dep_start[begin]), int(graph.dep_start[end]))
        if begin < end:
            at = np.minimum(np.searchsorted(ids[order], graph.dep[span]), len(ids) - 1)
            found_there = ids[order][at] == graph.dep[span]
            place[span] = np.where(found_there, begin + order[at], -1)
    for k in np.flatnonzero(place < 0).tolist():
        found = f"waits for node {graph.dep[k]}, which its rank does not have"
        leniency.fault("dependencies on missing nodes", graph.where(int(owner[k])), found, "ids of nodes of the rank")
    for k in np.flatnonzero(place == owner).tolist():
        accepted = "ids of other nodes of the rank"
        leniency.fault("dependencies on oneself", graph.where(int(owner[k])), "waits for itself", accepted)
    keep = (place >= 0) & (place != owner)
    pairs = np.unique(np.stack([owner[keep], place[keep]], axis=1), axis=0).reshape(-1, 2)
    counts = np.bincount(pairs[:, 0], minlength=graph.n_node)
    return replace(graph, dep_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), dep=pairs[:, 1].copy())
