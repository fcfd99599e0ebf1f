"""--trace: the chosen flows and ports of a run, and the rows that the kernels have written about them.

The rows of all ranks come together at the end, in an order of their own: by time, node, what happens, port, queue pair,
sequence. So the trace is the same bytes on any number of ranks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs
from models.network.state.records import FLAG_ACK, FLAG_CNP, FLAG_FRAME, FLAG_LAST, FLAG_MARKED, FLAG_MARKER, FLAG_NACK
from models.network.watch import tracing
from models.topology.graph import Topology
from models.workload.plan import WorkloadPlan
from pdes.debug.entities import PORT_FORMS, Entities
from pdes.engine.exchange import World
from pdes.errors import ConfigError

WHERE = "--trace"
ACCEPTED = "Accepted: flow=ID and port=NAME, separated by commas, such as flow=12,port=leaf3:2"
MOST_FLOWS = 64  # each packet is compared with each of them
Rows = np.ndarray
"""int64[n, tracing.N_COLUMN]"""


class TraceRequest(NamedTuple):
    """What is traced: ascending ids. n_row: at most so many rows are kept, the first ones."""

    flows: tuple[int, ...]
    ports: tuple[int, ...]
    n_row: int


def parse_trace(text: str, n_row: int, entities: Entities) -> TraceRequest:
    """ "flow=12,port=leaf3:2,flow=13". Raises ConfigError."""
    flows, ports = set(), set()
    for part in text.split(","):
        kind, _, name = (word.strip() for word in part.partition("="))
        where = f"{WHERE} {part.strip()}" if part.strip() else WHERE
        if kind == "flow" and name:
            flows.add(entities.flow(name, where))
        elif kind == "port" and name:
            ports.add(entities.port(name, where))
        else:
            raise ConfigError(where, "names no flow and no port", f"{ACCEPTED}. {PORT_FORMS}" if name else ACCEPTED)
    if len(flows) > MOST_FLOWS:
        raise ConfigError(WHERE, f"{len(flows)} flows", f"Accepted: at most {MOST_FLOWS}")
    return TraceRequest(tuple(sorted(flows)), tuple(sorted(ports)), n_row)


def traced_words(counters: np.ndarray, request: TraceRequest, n_port: int, n_part: int) -> np.ndarray:
    """`counters` with the memory of a trace behind, see `tracing`. n_part: queue pairs that share a message."""
    flows, n_range = len(request.flows), len(request.flows) * n_part
    sizes = (flows, n_range * tracing.RANGE_WORDS, n_port, request.n_row, (request.n_row + 1) * tracing.N_COLUMN)
    places = tracing.HEAD_END + np.cumsum([0, *sizes])
    words = np.zeros(int(places[-1]), np.int64)
    words[: len(counters)] = counters
    words[[tracing.FLOWS_AT, tracing.RANGES_AT, tracing.PORTS_AT, tracing.HEAP_AT, tracing.ROWS_AT]] = places[:-1]
    words[[tracing.N_ROOM, tracing.N_FLOW, tracing.N_RANGE_ROOM]] = request.n_row, flows, n_range
    words[places[0] : places[1]] = request.flows
    words[places[2] + np.array(request.ports, np.int64)] = 1
    return words


class Tracer:
    """One rank's trace. An observer where there are several ranks: each learns what bytes a flow has on the others."""

    def __init__(
        self, topology: Topology, plan: WorkloadPlan, pairs: QueuePairs, request: TraceRequest, world: World
    ) -> None:  # fmt: skip
        assert tracing.IS_TRACED, "the kernels are of the variant that writes no trace"
        self.request, self._world, self._pairs, self._plan, self._topology = request, world, pairs, plan, topology
        self.due_ps, self._n_known = 0, 0
        self._words = np.zeros(0, np.int64)

    def attach(self, state: NetworkState) -> NetworkState:
        """The state with memory for a trace, before anything runs."""
        fabric = state.fabric
        words = traced_words(fabric.counters, self.request, self._topology.n_port, self._plan.n_part)
        self._words = words
        return state._replace(fabric=fabric._replace(counters=words))

    @property
    def must_look(self) -> bool:
        """Whether it has to be among the observers."""
        return self._world.size > 1 and bool(self.request.flows)

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Learn of the messages that other ranks have posted in this round; none of their packets is here yet."""
        self.due_ps, words = horizon_ps + 1, self._words
        table = words[words[tracing.RANGES_AT] :].reshape(-1)[: words[tracing.N_RANGE_ROOM] * tracing.RANGE_WORDS]
        table = table.reshape(-1, tracing.RANGE_WORDS)
        parts = self._world.allgather(table[self._n_known : words[tracing.N_RANGE]].copy())
        new = np.concatenate(parts)
        table[self._n_known : self._n_known + len(new)] = new
        self._n_known += len(new)
        words[tracing.N_RANGE] = self._n_known
        return False

    def gather(self) -> tuple[Rows, int] | None:
        """(rows of all ranks in their order, how many there would be without a limit) on rank 0, None elsewhere."""
        words = self._words
        first = words[tracing.ROWS_AT]
        own = words[first : first + words[tracing.N_KEPT] * tracing.N_COLUMN].reshape(-1, tracing.N_COLUMN)
        parts = self._world.gather((own, int(words[tracing.N_SEEN])))
        if parts is None:
            return None
        rows = _sorted(np.concatenate([rows for rows, _ in parts]), range(tracing.N_COLUMN))[: self.request.n_row]
        rows = rows[np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)]] if len(rows) else rows  # see managed_switch
        n_seen = sum(seen for _, seen in parts)
        order = np.lexsort([*rows.T[:1:-1], rows[:, 1], self._nodes(rows), rows[:, 0]])
        return rows[order], n_seen

    def columns(self, rows: Rows) -> tuple[dict[str, np.ndarray], dict[str, Sequence[str]]]:
        """Columns of the table "trace", and the names that some of them index."""
        found = dict(zip(tracing.COLUMNS, rows.T.copy(), strict=True))
        pair = found["queue_pair"]
        found["queue_pair"] = np.where(pair >= 0, self._pairs.pair_of_row[np.maximum(pair, 0)], -1)
        found |= {"node": self._nodes(rows), "event": found.pop("kind"), "packet": found.pop("flags")}
        found["port_id"] = found.pop("port")
        return found, {"node": self._topology.node_name, "event": tracing.KINDS, "packet": PACKET_NAMES}

    def _nodes(self, rows: Rows) -> np.ndarray:
        """Where each row happened."""
        t, kind, port, pair = self._topology, rows[:, 1], np.maximum(rows[:, 2], 0), np.maximum(rows[:, 3], 0)
        at_end = np.isin(kind, (tracing.ARRIVED, tracing.DROPPED_BY_LOSS, tracing.DROPPED_BY_LINK))
        node = np.where(at_end, t.port_dst[port], t.port_src[port])
        plan_pair = self._pairs.pair_of_row[pair] if len(self._pairs.pair_of_row) else pair
        hosts = np.where(kind == tracing.DELIVERED, self._plan.pair_dst[plan_pair], self._plan.pair_src[plan_pair])
        return np.where(rows[:, 2] >= 0, node, t.host[hosts])


def _sorted(rows: Rows, columns: Sequence[int]) -> Rows:
    return rows[np.lexsort([rows[:, i] for i in reversed(columns)])]


def _packet_name(flags: int) -> str:
    if flags & FLAG_FRAME:
        return "PFC frame"
    name = "nack" if flags & FLAG_NACK else "ack" if flags & FLAG_ACK else "data"
    words = {FLAG_MARKED: "marked", FLAG_CNP: "CNP", FLAG_LAST: "last", FLAG_MARKER: "marker"}
    return " ".join([name, *(word for flag, word in words.items() if flags & flag)])


PACKET_NAMES = tuple(_packet_name(flags) for flags in range(256))
