"""From the parts of a network to what flow mode keeps of it."""

import numpy as np

from models.network.build.arrays import QueuePairs
from models.network.flow_mode.state import CHANGE, MOVE, TRANSFER, FlowMode, make_flow_mode, make_hybrid
from models.network.flow_mode.ways import Shared, ways_of
from models.network.link.wire_time import transmission_ps
from models.network.state.parameters import NetworkParameters
from models.network.state.records import Nic
from models.network.state.switch_state import Routing
from models.topology.graph import Topology
from models.topology.routing import Paths
from pdes.engine.gathering import Gathering
from pdes.engine.jit import aligned_zeros
from pdes.skipping.max_min.table import make_max_min, places_of
from pdes.units import BITS_PER_BYTE, PS_PER_S


def latencies(topology: Topology, ways: Shared, ack_ways: Shared, p: NetworkParameters) -> dict[str, np.ndarray]:
    """Times of each queue pair as `state.TRANSFER` has them; of ways that part the mean, as parts of a message have."""
    assert p.flow is not None
    byte_ps = BITS_PER_BYTE * PS_PER_S / topology.port_rate_bps
    delay_ps, each_ps, slowest_ps = _sum(topology.port_delay_ps, ways), _sum(byte_ps, ways), _most(byte_ps, ways)
    forward_ps = np.maximum(each_ps - slowest_ps, 0.0) * p.flow.forwards
    rates, kind = np.unique(topology.port_rate_bps, return_inverse=True)
    wire_ps = np.array([transmission_ps(p.ack_bytes, int(rate), 0) for rate in rates], np.int64)[kind]
    ack_ps = _sum(topology.port_delay_ps + wire_ps, ack_ways) * p.flow.acknowledges
    return {
        "delay_ps": np.rint(delay_ps).astype(np.int64), "forward_ps": forward_ps,
        "byte_ps": slowest_ps, "ack_ps": np.rint(ack_ps).astype(np.int64),
        "ack_wire_ps": (_most(wire_ps, ack_ways) * p.flow.acknowledges).astype(np.int64),
    }  # fmt: skip


def _sum(values: np.ndarray, ways: Shared) -> np.ndarray:
    """Of the values of a way's ports, each as often as a message goes over it."""
    total = np.concatenate([[0.0], np.cumsum(values[ways.port] * ways.usage.astype(np.float64))])
    return total[ways.start[1:]] - total[ways.start[:-1]]


def _most(values: np.ndarray, ways: Shared) -> np.ndarray:
    """The largest of the values of a way's ports, 0 if there is none."""
    has_way, most = np.diff(ways.start) > 0, np.zeros(len(ways.start) - 1)
    if has_way.any():
        most[has_way] = np.maximum.reduceat(values[ways.port], ways.start[:-1][has_way])
    return most


def least_latency_ps(topology: Topology, paths: Paths, p: NetworkParameters) -> int:
    """The least time between the posting of a message and anything elsewhere.

    Any way that a queue pair may have has the two ports that its path, data and ACKs in turn, begins and ends with.
    """
    assert p.flow is not None
    start, end = paths.start[:-1:2], paths.start[1::2]
    delay_ps = topology.port_delay_ps[paths.port]
    ends_ps = delay_ps[start] + np.where(end - start > 1, delay_ps[end - 1], 0)
    if p.routing is not None:
        return int(ends_ps.min(initial=2**62))
    total = np.concatenate([[0], np.cumsum(delay_ps)])
    return int((total[end] - total[start]).min(initial=2**62))


def make(
    topology: Topology, pairs: QueuePairs, nic: Nic, routing: Routing, p: NetworkParameters, here: np.ndarray,
    gathering: Gathering,
) -> FlowMode:  # fmt: skip
    """Of one rank. here: bool[n_node], its nodes."""
    assert p.flow is not None
    facts, goes = nic.facts, nic.goes
    byte_per_ps = topology.port_rate_bps / (BITS_PER_BYTE * PS_PER_S)
    epochs_ps = [0] if p.routing is None else routing.epoch_ps.tolist()
    ways, acks = (
        [ways_of(topology, pairs, routing, epoch, is_ack) for epoch in range(len(epochs_ps))] for is_ack in (0, 1)
    )
    back_share = p.ack_bytes / (p.payload_bytes + p.header_bytes)
    back = acks if p.flow.acknowledges else []
    max_min = make_max_min(ways, byte_per_ps, back, back_share, p.flow.fracs, p.is_hybrid, p.flow.use)
    if p.flow.weight is not None:
        max_min.flows["weight"] = p.flow.weight[pairs.pair_of_row]
    transfers = aligned_zeros(len(facts), TRANSFER)
    times = [latencies(topology, ways[epoch], acks[epoch], p) for epoch in range(len(epochs_ps))]
    for name, values in times[0].items():
        transfers[name] = values
    for name, node in (("data_link", facts["receiver"]), ("ack_link", facts["node"])):
        transfers[name] = np.where(here[node], topology.in_start[node], -1)
    moves = [np.zeros(0, MOVE)]
    for epoch in range(1, len(epochs_ps)):
        changed = np.flatnonzero(_differ(ways[epoch - 1 : epoch + 1]) | _differ(acks[epoch - 1 : epoch + 1]))
        rows = np.zeros(len(changed), MOVE)
        rows["time_ps"], rows["pair"], rows["places"] = epochs_ps[epoch], changed, places_of(ways, back, epoch)[changed]
        for name, values in times[epoch].items():
            rows[name] = values[changed]
        moves.append(rows)
    made = make_flow_mode(
        max_min, transfers, _changes(topology, p), np.concatenate(moves), gathering, p.flow.queue_ps,
        make_hybrid(p.flow.trusts, goes, topology),
    )  # fmt: skip
    return made._replace(ended=np.zeros((len(transfers), 4), np.int64)) if p.flow.audited else made


def _differ(two: list[Shared]) -> np.ndarray:
    """bool[n_qp]: which of the queue pairs have other ports, or other parts of a message on them."""
    (a, b), n_pair = two, len(two[0].start) - 1
    length = np.diff(a.start)
    found = length != np.diff(b.start)
    same = np.flatnonzero(~found)
    inside = np.arange(int(length[same].sum())) - np.repeat(np.cumsum(length[same]) - length[same], length[same])
    at, other = (np.repeat(way.start[same], length[same]) + inside for way in two)
    is_other = (a.port[at] != b.port[other]) | (a.usage[at] != b.usage[other])
    return found | (np.bincount(np.repeat(same, length[same]), weights=is_other, minlength=n_pair) > 0)


def _changes(topology: Topology, p: NetworkParameters) -> np.ndarray:
    """CHANGE rows of links that change, both directions, in order of time."""
    rows = []
    for change in sorted(p.link_changes, key=lambda change: change.time_ps):
        byte_per_ps = change.rate_bps * change.is_up / (BITS_PER_BYTE * PS_PER_S)
        rows += [(change.time_ps, byte_per_ps, port) for port in (change.port, int(topology.port_peer[change.port]))]
    return np.array(rows, CHANGE) if rows else np.zeros(0, CHANGE)
