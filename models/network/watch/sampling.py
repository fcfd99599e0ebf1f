"""Sampled time series of ports and flows: an observer that writes down what it sees every so often.

Instants are round ends (design R6): the first whose horizon has reached a multiple of the interval; a row's time is
that horizon, and it says what is so when every event before it has run. What is kept depends on the rows of all ranks,
so it is the same on any number of ranks.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs, is_managed
from models.network.state.pair_records import NO_WINDOW
from models.network.state.parameters import NetworkParameters
from models.network.watch.sample_rows import BYTES_PER_VALUE, FlowRows, PortRows, instants_kept
from models.topology.graph import Topology
from pdes.engine.exchange import World

PORT_SAMPLE_COLUMNS = ("time_ps", "port_id", "queue_bytes", "paused", "tx_bytes")
FLOW_SAMPLE_COLUMNS = ("time_ps", "flow_id", "rate_bps", "window_bytes", "in_flight_bytes", "acked_bytes")
PORTS, FLOWS = "ports", "flows"
Table = dict[str, np.ndarray]


class Sampling(NamedTuple):
    """What is sampled, and how often."""

    interval_ps: int
    kinds: Sequence[str]  # PORTS, FLOWS
    limit_bytes: int  # of all rows of all ranks


class Sampler:
    """One rank's rows: of the ports at its nodes and the queue pairs of its hosts."""

    def __init__(
        self,
        topology: Topology,
        parameters: NetworkParameters,
        pairs: QueuePairs,
        rank_of_node: np.ndarray,
        world: World,
        wanted: Sampling,
        queue_bits: Sequence[int],
    ) -> None:
        """queue_bits: for each queue, its bit in the column `paused`."""
        interval_ps, kinds = wanted.interval_ps, wanted.kinds
        self._world, self._limit_bytes, self._pairs = world, wanted.limit_bytes, pairs
        self._ports = np.flatnonzero(rank_of_node[topology.port_src] == world.rank)
        self._at_switch = topology.is_switch[topology.port_src[self._ports]]
        self._is_managed = is_managed(parameters)
        self._paused = _all_masks(queue_bits)
        self.interval_ps = interval_ps
        self.due_ps = interval_ps
        self.times_ps: list[int] = []
        self._port_rows = PortRows(topology.n_port) if PORTS in kinds else None
        self._flow_rows = FlowRows() if FLOWS in kinds else None

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Add an instant, and thin them out while all ranks together have too many rows. Never ends a run."""
        instant = len(self.times_ps)
        self.times_ps.append(horizon_ps)
        if self._port_rows is not None:
            self._port_rows.add(instant, self._ports, self._port_state(state, horizon_ps))
        if self._flow_rows is not None:
            self._flow_rows.add(instant, self._flow_state(state, horizon_ps))
        while sum(self._world.allgather(self._n_byte())) > self._limit_bytes and self.times_ps:
            self._thin()
        self.due_ps = (horizon_ps // self.interval_ps + 1) * self.interval_ps
        return False

    def _n_byte(self) -> int:
        return BYTES_PER_VALUE * sum(len(rows) * rows.N_COLUMN for rows in self._series())

    def _series(self) -> list[PortRows | FlowRows]:
        return [rows for rows in (self._port_rows, self._flow_rows) if rows is not None]

    def _thin(self) -> None:
        times_ps = np.array(self.times_ps, np.int64)
        self.interval_ps *= 2
        kept = instants_kept(times_ps, self.interval_ps)
        self.times_ps = times_ps[kept].tolist()
        for rows in self._series():
            rows.thin(kept)

    def _port_state(self, state: NetworkState, now_ps: int) -> np.ndarray:
        """int64[n, 3]: data that waits (a host makes its packets when they leave), paused priorities, bytes sent."""
        ports, mine = state.fabric.ports, self._ports
        paused = state.nic.nic_ports["paused"][mine]
        if self._is_managed:
            paused = np.where(self._at_switch, state.buffers.managed["paused"][mine], paused)
        else:
            paused = np.where(self._at_switch, 0, paused)
        return np.column_stack([ports["queued_bytes"][mine], self._paused[paused], ports["tx_bytes"][mine]])

    def _flow_state(self, state: NetworkState, now_ps: int) -> np.ndarray:
        """int64[n, 6] of the queue pairs that have bytes to send or to be acknowledged: see FlowRows.

        The flow is the message being sent, the last one if all are sent.
        """
        table, messages = state.nic.queue_pairs, state.nic.messages
        sends = state.nic.sends
        rows = sends[table["acked_byte"][sends] < table["posted_end"][sends]]
        active = table[rows]
        message = messages[np.where(active["sending_message"] >= 0, active["sending_message"], active["last_message"])]
        size_bytes = message["size_bytes"]
        acked_bytes = active["acked_byte"] - (message["end_byte"] - size_bytes)
        window_bytes = np.where(active["window_bytes"] >= NO_WINDOW, -1, active["window_bytes"])
        columns = [
            message["flow_id"],
            self._pairs.pair_of_row[rows],
            active["rate_bps"],
            window_bytes,
            np.maximum(active["next_byte"] - active["acked_byte"], 0),
            np.clip(acked_bytes, 0, size_bytes),
        ]
        return np.column_stack(columns).astype(np.int64)

    def save(self) -> dict[str, Any]:
        """This rank's part of a checkpoint."""
        return {
            "interval_ps": self.interval_ps, "due_ps": self.due_ps, "times_ps": list(self.times_ps),
            "rows": [rows.table() for rows in self._series()],
            "last": None if self._port_rows is None else (self._ports, self._port_rows.last[self._ports]),
        }  # fmt: skip

    def load(self, parts: Sequence[dict[str, Any]], sends_here: np.ndarray) -> None:
        """Go on from a checkpoint. parts: of all ranks. sends_here: bool[n_pair], the plan's queue pairs."""
        first = parts[0]
        self.interval_ps, self.due_ps, self.times_ps = first["interval_ps"], first["due_ps"], list(first["times_ps"])
        for i, series in enumerate(self._series()):
            rows = np.concatenate([part["rows"][i] for part in parts])
            is_mine = sends_here[rows[:, 2]] if series is self._flow_rows else np.isin(rows[:, 1], self._ports)
            series.start_with(rows[is_mine])
        if self._port_rows is not None:
            for ports, last in (part["last"] for part in parts):
                self._port_rows.last[ports] = last

    def gather(self) -> dict[str, Table]:
        """The tables of all ranks by kind, sorted by time and id, on rank 0; {} elsewhere."""
        parts = self._world.gather([rows.table() for rows in self._series()])
        if parts is None:
            return {}
        times_ps, tables = np.array(self.times_ps, np.int64), {}
        kinds = [PORTS] * (self._port_rows is not None) + [FLOWS] * (self._flow_rows is not None)
        for i, kind in enumerate(kinds):
            rows = np.concatenate([part[i] for part in parts])
            rows = rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))]  # flows: of parts of one message, by pair
            columns = rows.T.copy() if kind == PORTS else np.delete(rows, 2, axis=1).T.copy()
            columns[0] = times_ps[columns[0]]
            names = PORT_SAMPLE_COLUMNS if kind == PORTS else FLOW_SAMPLE_COLUMNS
            tables[kind] = dict(zip(names, columns, strict=True))
        return tables


def _all_masks(queue_bits: Sequence[int]) -> np.ndarray:
    """int64[2^n_queue]: for each set of queues, the bits that stand for it in the table."""
    masks = np.arange(1 << len(queue_bits))
    return sum((((masks >> q) & 1) * bit for q, bit in enumerate(queue_bits)), np.zeros(len(masks), np.int64))
