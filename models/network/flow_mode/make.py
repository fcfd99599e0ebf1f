"""From the parts of a network to what flow mode keeps of it."""

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.flow_mode.state import FlowMode, make_flow_mode
from models.network.link.wire_time import transmission_ps
from models.network.state.parameters import NetworkParameters
from models.network.state.ways import Ways, ack_ways, data_ways
from models.topology.graph import Topology
from models.topology.routing import Paths
from pdes.engine.gathering import Gathering
from pdes.skipping.max_min.table import make_max_min
from pdes.units import BITS_PER_BYTE, PS_PER_S


def latencies(topology: Topology, ways: Ways, ack_ways: Ways, p: NetworkParameters):
    """(delay_ps int64, forward_ps float64, ack_ps int64) of each way, see `state.TRANSFER`."""
    assert p.flow is not None
    byte_ps = BITS_PER_BYTE * PS_PER_S / topology.port_rate_bps
    delay_ps, each_ps = _sum(topology.port_delay_ps, ways), _sum(byte_ps, ways)
    slowest_ps = np.maximum.reduceat(byte_ps[ways[1]], ways[0][:-1]) if len(delay_ps) else each_ps
    forward_ps = np.maximum(each_ps - slowest_ps, 0.0) * p.flow.forwards
    wire_ps = np.array([transmission_ps(p.ack_bytes, int(rate), 0) for rate in topology.port_rate_bps], np.int64)
    return delay_ps, forward_ps, _sum(topology.port_delay_ps + wire_ps, ack_ways) * p.flow.acknowledges


def _sum(values: np.ndarray, ways: Ways) -> np.ndarray:
    total = np.concatenate([[0], np.cumsum(values[ways[1]])])
    return total[ways[0][1:]] - total[ways[0][:-1]]


def least_latency_ps(topology: Topology, paths: Paths, p: NetworkParameters) -> int:
    """The least time between the posting of a message and anything elsewhere; paths as the plan has them, data and ACKs
    in turn."""
    start = paths.start
    length = np.diff(start)[::2]
    first = np.concatenate([[0], np.cumsum(length)])
    rows = np.arange(first[-1]) + np.repeat(start[:-1:2] - first[:-1], length)
    ways = first.astype(np.int64), paths.port[rows]
    none = np.zeros(len(length) + 1, np.int64), np.zeros(0, np.int64)
    delay_ps, forward_ps, _ = latencies(topology, ways, none, p)
    return int((delay_ps + ((1 + p.header_bytes) * forward_ps).astype(np.int64)).min(initial=2**62))


def make(
    topology: Topology, state: NetworkState, p: NetworkParameters, here: np.ndarray, gathering: Gathering
) -> FlowMode:  # fmt: skip
    """Of one rank. here: bool[n_node], its nodes."""
    facts, ways = state.nic.facts, (data_ways(state), ack_ways(state))
    assert p.flow is not None
    byte_per_ps = topology.port_rate_bps / (BITS_PER_BYTE * PS_PER_S)
    back_share = p.ack_bytes / (p.payload_bytes + p.header_bytes)
    max_min = make_max_min(ways[0], byte_per_ps, ways[1] if p.flow.acknowledges else None, back_share, p.flow.fracs)
    ends = facts["node"], facts["receiver"]
    return make_flow_mode(max_min, latencies(topology, *ways, p), ends, here, gathering, p.flow.queue_ps)
