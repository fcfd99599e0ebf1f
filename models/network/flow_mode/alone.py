"""What a message takes in flow mode that has all ports on its way to itself: its least time, the slowdown's divisor."""

from dataclasses import replace

import numpy as np

from models.network.flow_mode.make import latencies
from models.network.flow_mode.ways import ALL, Shared
from models.network.state.parameters import NetworkParameters
from models.topology.graph import Topology
from models.topology.routing import Paths
from pdes.units import BITS_PER_BYTE, PS_PER_S


class Alone:
    """Least times of messages by queue pair, in the plan's order, at whole link rates, whatever part of them data get.

    Packets take as long, but that what each takes at a port is rounded up there, and that they are acknowledged.
    """

    def __init__(self, topology: Topology, paths: Paths, p: NetworkParameters, is_routed: np.ndarray) -> None:
        """is_routed: bool[n_pair], those whose path is one of several: all that is sure is its first port, and its
        length."""
        assert p.flow is not None
        self._payload_bytes, self._header_bytes = p.payload_bytes, p.header_bytes
        self.are_acknowledged = p.flow.acknowledges
        fastest = replace(topology, port_rate_bps=_fastest_bps(topology, p))
        ways, acks = (_ways(paths, i_row) for i_row in (0, 1))
        self._times = latencies(fastest, ways, acks, p)
        first, n_more = ways.port[ways.start[:-1]][is_routed], np.diff(ways.start)[is_routed] - 1
        least_ps = int(topology.port_delay_ps.min(initial=2**62)) if len(first) else 0
        self._times["delay_ps"][is_routed] = topology.port_delay_ps[first] + n_more * least_ps
        self._times["byte_ps"][is_routed] = BITS_PER_BYTE * PS_PER_S / fastest.port_rate_bps[first]

    def least_ps(self, pair: np.ndarray, size_bytes: np.ndarray) -> np.ndarray:
        """From the posting until its sender knows that it is over. Both int64[n]; so is what is returned.

        Rounded down: where rates change, what is left of a message has rounding errors.
        """
        t = {name: values[pair] for name, values in self._times.items()}
        n_packet = -(-size_bytes // self._payload_bytes)
        first_bytes = np.minimum(size_bytes, self._payload_bytes) + self._header_bytes
        last_bytes = (size_bytes - 1) % self._payload_bytes + 1 + self._header_bytes
        begin_ps = t["delay_ps"] + (first_bytes * t["forward_ps"]).astype(np.int64)
        wire_ps = (size_bytes + n_packet * self._header_bytes) * t["byte_ps"]
        last_ps = (last_bytes * t["byte_ps"]).astype(np.int64)
        waits_ps = np.where(n_packet > 1, np.maximum(t["ack_wire_ps"] - last_ps, 0), 0)
        return begin_ps + wire_ps.astype(np.int64) + t["ack_ps"] + waits_ps


def _ways(paths: Paths, i_row: int) -> Shared:
    """The ways of the plan's queue pairs. i_row: 0: of data, 1: of acknowledgements."""
    first, length = paths.start[i_row:-1:2], np.diff(paths.start)[i_row::2]
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    port = paths.port[np.arange(start[-1]) + np.repeat(first - start[:-1], length)]
    return Shared(start, port, np.full(len(port), ALL, np.float32))


def _fastest_bps(topology: Topology, p: NetworkParameters) -> np.ndarray:
    """int64[n_port]: the highest rate that each port has in the run."""
    rate_bps = topology.port_rate_bps.copy()
    for change in p.link_changes:
        for port in (change.port, int(topology.port_peer[change.port])):
            rate_bps[port] = max(rate_bps[port], change.rate_bps)
    return rate_bps
