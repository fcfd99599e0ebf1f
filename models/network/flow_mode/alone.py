"""The least time of a message in flow mode, alone on its way: the slowdown's divisor."""

import numpy as np

from models.network.flow_mode.make import latencies
from models.network.flow_mode.ways import Shared
from models.network.state.parameters import NetworkParameters
from models.topology.graph import Topology
from models.topology.routing import Paths


class Alone:
    """Least times of messages by queue pair, in the plan's order."""

    def __init__(self, topology: Topology, paths: Paths, p: NetworkParameters) -> None:
        ways = [path_ways(paths, is_ack, p.routing is not None) for is_ack in (0, 1)]
        self._payload_bytes, self._header_bytes = p.payload_bytes, p.header_bytes
        self._times = latencies(topology, ways[0], ways[1], p)

    def least_ps(self, pair: np.ndarray, size_bytes: np.ndarray) -> np.ndarray:
        """From the posting until its sender knows that it is over. Both int64[n]; so is what is returned.

        At whole link rates, whatever part of them data get. Rounded down, as rates that change leave rounding errors.
        """
        n_packet = -(-size_bytes // self._payload_bytes)
        wire_ps = (size_bytes + n_packet * self._header_bytes) * self._times["byte_ps"][pair]
        first_bytes = np.minimum(size_bytes, self._payload_bytes) + self._header_bytes
        begin_ps = self._times["delay_ps"][pair] + (first_bytes * self._times["forward_ps"][pair]).astype(np.int64)
        return begin_ps + wire_ps.astype(np.int64) + self._ack_ps(pair, size_bytes)

    def _ack_ps(self, pair: np.ndarray, size_bytes: np.ndarray) -> np.ndarray:
        """As `transfers` has it."""
        last_bytes = (size_bytes - 1) % self._payload_bytes + 1 + self._header_bytes
        last_ps = (last_bytes * self._times["byte_ps"][pair]).astype(np.int64)
        waits_ps = np.maximum(self._times["ack_wire_ps"][pair] - last_ps, 0) * (size_bytes > self._payload_bytes)
        return self._times["ack_ps"][pair] + waits_ps


def path_ways(paths: Paths, is_ack: int, has_others: bool) -> Shared:
    """The ways of the plan's queue pairs, of data (is_ack 0) or acknowledgements (1).

    has_others: switches may choose other ways; then the ports alone that all have, the first and the last one.
    """
    first, end = paths.start[is_ack:-1:2], paths.start[is_ack + 1 :: 2]
    if has_others:
        port = np.stack([paths.port[first], paths.port[end - 1]], axis=1)
        kept = np.stack([np.ones(len(first), np.bool_), end - first > 1], axis=1)
        start, port = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]), port[kept]
    else:
        start = np.concatenate([[0], np.cumsum(end - first)])
        port = paths.port[np.arange(start[-1]) + np.repeat(first - start[:-1], end - first)]
    return Shared(start.astype(np.int64), port.astype(np.int32), np.ones(len(port), np.float32))
