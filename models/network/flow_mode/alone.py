"""What a message takes in flow mode that has all ports on its way to itself: its least time, the slowdown's divisor."""

import numpy as np

from models.network.flow_mode.make import latencies, ways_of
from models.network.state.parameters import NetworkParameters
from models.topology.graph import Topology
from models.topology.routing import Paths
from pdes.units import BITS_PER_BYTE, PS_PER_S


class Alone:
    """Least times of messages by queue pair, in the plan's order."""

    def __init__(self, topology: Topology, paths: Paths, p: NetworkParameters) -> None:
        start, port = ways = ways_of(paths, 0)
        self._payload_bytes, self._header_bytes = p.payload_bytes, p.header_bytes
        self._delay_ps, self._forward_ps, self._ack_ps = latencies(topology, ways, ways_of(paths, 1), p)
        byte_ps = BITS_PER_BYTE * PS_PER_S / topology.port_rate_bps[port]
        self._byte_ps = np.maximum.reduceat(byte_ps, start[:-1]) if len(port) else byte_ps  # at the slowest port

    def least_ps(self, pair: np.ndarray, size_bytes: np.ndarray) -> np.ndarray:
        """From the posting until its sender knows that it is over. Both int64[n]; so is what is returned.

        At whole link rates, whatever part of them data get. Rounded down, as rates that change leave rounding errors.
        """
        n_packet = -(-size_bytes // self._payload_bytes)
        wire_ps = (size_bytes + n_packet * self._header_bytes) * self._byte_ps[pair]
        first_bytes = np.minimum(size_bytes, self._payload_bytes) + self._header_bytes
        begin_ps = self._delay_ps[pair] + (first_bytes * self._forward_ps[pair]).astype(np.int64)
        return begin_ps + wire_ps.astype(np.int64) + self._ack_ps[pair]
