"""From a topology, paths and a workload to the arrays of one rank.

Everything here is a function of the scenario alone, except which nodes are this rank's: so every rank builds the same
tables and differs only in what it activates.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.network.link.link_changes import changing_ports
from models.network.link.link_order import LINK_SLOT
from models.network.link.wire_time import transmission_ps
from models.network.state.constants import make_constants
from models.network.state.pair_records import MESSAGE
from models.network.state.parameters import NO_MARKING, NetworkParameters, used_ports
from models.network.state.records import (
    FREE_MESSAGE,
    FREE_PACKET,
    LINK_BITS,
    N_COUNTER,
    N_EXTRA,
    N_FREE_MESSAGE,
    N_FREE_PACKET,
    N_POSTED_COLUMN,
    NODE,
    NOT_CHAINED,
    PACKET,
    PORT,
    PORT_INFO,
    SLOT_PS,
    Fabric,
    Nic,
    Rows,
)
from models.network.state.switch_state import FIRST_ROUTE, Buffers, Routing
from models.topology.graph import Topology
from models.topology.routing import Paths
from models.workload.plan import WorkloadPlan
from models.workload.program import (
    Work,
)
from pdes.engine.bits import n_word
from pdes.engine.jit import aligned_zeros, zeros_for
from pdes.engine.time_index import NEVER, make_time_index
from pdes.units import BITS_PER_BYTE, PS_PER_S

FIRST_PACKETS = 4096


@dataclass(frozen=True)
class QueuePairs:
    """The plan's queue pairs in the order of the network: sorted by sending port, then by plan."""

    row_of_pair: np.ndarray  # int64[n_pair]  plan's number -> row
    pair_of_row: np.ndarray
    path_start: (
        np.ndarray
    )  # int64[2 * n_pair + 1]  rows of path_port, by plan's number, as Paths.start with one more each
    path_port: np.ndarray  # int32[]
    port: np.ndarray  # int64[n_pair]  sending port, by row


class NetworkState(NamedTuple):
    """Everything the kernels of one rank work on."""

    fabric: Fabric
    buffers: Buffers
    routing: Routing
    nic: Nic
    work: Work
    rows: Rows


def cannot_grow() -> NetworkState:
    """What stands for a model's way to make its pool of packets grow until it says which that is."""
    raise AssertionError("the model has not given a way to let its pool of packets grow")


def arrange_pairs(paths: Paths, is_routed: np.ndarray | None = None) -> QueuePairs:
    """Close every path by -1 and sort the pairs by sending port.

    is_routed: bool[n_pair], pairs whose packets take routes (switch_state.FIRST_ROUTE) from their first switch on.
    """
    n_row = len(paths.start) - 1
    start = paths.start + np.arange(n_row + 1)
    path_port = np.full(int(start[-1]), -1, np.int32)
    lengths = np.diff(paths.start)
    inside = np.arange(len(paths.port)) + np.repeat(np.arange(n_row), lengths)
    path_port[inside] = paths.port
    if is_routed is not None:
        rows = np.flatnonzero(np.repeat(is_routed, 2))
        path_port[start[rows] + 1] = np.where(lengths[rows] > 1, FIRST_ROUTE - rows, -1)
    first_port = path_port[start[:-1:2]].astype(np.int64)
    pair_of_row = np.argsort(first_port, kind="stable")
    row_of_pair = np.empty(n_row // 2, np.int64)
    row_of_pair[pair_of_row] = np.arange(n_row // 2)
    return QueuePairs(row_of_pair, pair_of_row, start, path_port, first_port[pair_of_row])


def ports_kept(topology: Topology, parameters: NetworkParameters, here: np.ndarray) -> np.ndarray:
    """int64[]: the ports that a rank keeps records of, those with an end on it; the rows of others stay zeros.

    All of them where something may be skipped, which every rank decides alike. here: bool[n_node], its nodes.
    """
    is_kept = np.ones(topology.n_port, np.bool_)
    if not parameters.may_skip:
        is_kept = here[topology.port_src] | here[topology.port_dst]
    return np.flatnonzero(is_kept)


def make_ports(topology: Topology, parameters: NetworkParameters, kept: np.ndarray) -> np.ndarray:
    """Port records with their constants; nothing queued. kept: `ports_kept`."""
    ports = zeros_for(len(kept), topology.n_port, PORT)
    bit_s, rate_bps = BITS_PER_BYTE * PS_PER_S, topology.port_rate_bps
    whole = (bit_s % rate_bps == 0) & (bit_s // rate_bps < 2**31) & (parameters.ns3 is None)
    whole[changing_ports(topology, parameters.link_changes)] = False  # their rate is looked up
    values = {
        "delay_ps": topology.port_delay_ps[kept], "ps_per_byte": np.where(whole, bit_s // rate_bps, 0)[kept],
        "ecn_min_bytes": ecn_bytes(topology, parameters, 0)[kept],
        **dict.fromkeys(("link_head", "link_tail", "ack_head", "ack_tail", "data_head", "data_tail"), -1),
    }  # fmt: skip
    for name, value in values.items():
        ports[name][kept] = value
    return ports


def make_port_info(
    topology: Topology, parameters: NetworkParameters, here: np.ndarray, kept: np.ndarray
) -> np.ndarray:  # fmt: skip
    """The less used facts of every port. here: bool[n_node], the nodes of this rank. kept: `ports_kept`."""
    info = zeros_for(len(kept), topology.n_port, PORT_INFO)
    marking, given = parameters.law.ecn_at_100g or (0, 0, 0.0), parameters.ecn_max_probability
    probability = np.broadcast_to(marking[2] if given is None else given, topology.n_port)
    values = {
        "rate_bps": topology.port_rate_bps[kept], "ecn_max_bytes": ecn_bytes(topology, parameters, 1)[kept],
        "ecn_max_probability": probability[kept], "is_ns3": parameters.ns3 is not None,
        "receiver": topology.port_dst[kept], "is_here": here[topology.port_dst[kept]], "wait_next": NOT_CHAINED,
    }  # fmt: skip
    for name, value in values.items():
        info[name][kept] = value
    return info


def make_nodes(topology: Topology, plan: WorkloadPlan, safe_ps: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """NODE records, the NIC ports of all hosts in order, and how many mask words there are."""
    nodes = aligned_zeros(topology.n_node, NODE)
    nodes["first_in"], nodes["end_in"] = topology.in_start[:-1], topology.in_start[1:]
    words = n_word(np.diff(topology.in_start))
    nodes["first_mask"] = np.cumsum(words) - words
    nodes["safe_ps"], nodes["wake_ps"], nodes["wait_head"] = safe_ps, NEVER, -1
    nodes["is_switch"] = topology.is_switch
    ids = np.arange(topology.n_node)
    out_port = np.flatnonzero(~topology.is_switch[topology.port_src])
    out_port = out_port[np.argsort(topology.port_src[out_port], kind="stable")]
    for first, end, owner in (
        ("first_out", "end_out", topology.port_src[out_port]),
        ("first_stream", "end_stream", topology.host[plan.streams["gpu"]]),
    ):
        nodes[first], nodes[end] = np.searchsorted(owner, ids), np.searchsorted(owner, ids, side="right")
    return nodes, out_port.astype(np.int32), int(words.sum())


def ecn_bytes(topology: Topology, parameters: NetworkParameters, which: int) -> np.ndarray:
    """A marking threshold per port, int64[n_port]: as given, else the law's at a port's rate. which: 0 min, 1 max."""
    given = (parameters.ecn_min_bytes, parameters.ecn_max_bytes)[which]
    if given is not None:
        return np.minimum(given, NO_MARKING)
    if parameters.law.ecn_at_100g is None:
        return np.full(topology.n_port, NO_MARKING, np.int64)
    at_100g = parameters.law.ecn_at_100g[which]
    rates, i_rate = topology.rates
    scaled = [min(at_100g * rate // 10**11, NO_MARKING) for rate in rates.tolist()]
    return np.array(scaled, np.int64)[i_rate]


def smallest_packet_bytes(parameters: NetworkParameters) -> int:
    """Bytes on the wire of the smallest packet there can be."""
    smallest = min(parameters.ack_bytes, parameters.header_bytes + 1)
    buffer = parameters.buffer
    return smallest if buffer is None or not buffer.pfc else min(smallest, buffer.pfc_bytes)


def has_pfc(parameters: NetworkParameters) -> bool:
    """Whether switches send PFC frames."""
    return parameters.buffer is not None and parameters.buffer.pfc


def is_managed(parameters: NetworkParameters) -> bool:
    """Whether the run needs `managed_switch`; without it, `switch` does the same in less time."""
    lossy = parameters.loss_probability is not None and bool((parameters.loss_probability > 0).any())
    moves = parameters.routing or parameters.link_changes
    is_pint = "pint" in parameters.law.needs
    return bool(parameters.buffer or parameters.ns3 or lossy or is_pint or moves or parameters.n_queue > 2)


def safe_times(
    topology: Topology, lp_of_node: np.ndarray, used: np.ndarray, parameters: NetworkParameters
) -> np.ndarray:
    """How long after the rank's least event nothing from a node's own LP can reach it; int64[n_node], NEVER if never.

    A used link needs its delay and the transmission of the smallest packet. used: `used_ports`.
    """
    inside = used & (lp_of_node[topology.port_src] == lp_of_node[topology.port_dst])
    safe_ps = np.full(topology.n_node, NEVER, np.int64)
    small, is_ns3 = smallest_packet_bytes(parameters), parameters.ns3 is not None
    rates, i_rate = topology.rates[0], topology.rates[1][inside]
    times = np.array([transmission_ps(small, rate, is_ns3) for rate in rates.tolist()], np.int64)
    np.minimum.at(safe_ps, topology.port_dst[inside], topology.port_delay_ps[inside] + times[i_rate])
    return safe_ps


def make_fabric(
    topology: Topology,
    pairs: QueuePairs,
    plan: WorkloadPlan,
    lp_of_node: np.ndarray,
    here: np.ndarray,
    parameters: NetworkParameters,
) -> Fabric:
    """Ports, routes and pools of one rank. here: bool[n_node], the nodes of this rank."""
    degree = np.diff(topology.in_start)
    used = used_ports(topology, pairs.path_port[pairs.path_port >= 0], parameters)
    used &= parameters.has_packets  # else nothing crosses links but ends of messages, which rounds know beforehand
    safe_ps = safe_times(topology, lp_of_node, used, parameters)
    if len(plan.group_time_ps):
        members = topology.host[plan.streams["gpu"][plan.group_stream]]
        np.minimum.at(safe_ps, members, np.repeat(plan.group_time_ps, np.diff(plan.group_start)))
    nodes, _, n_mask = make_nodes(topology, plan, safe_ps)
    if not parameters.has_packets:
        nodes["end_out"] = nodes["first_out"]  # no NIC starts a packet, so that nobody has to look whether one does
    if parameters.loss_probability is not None:
        nodes["is_lossy"][topology.port_dst[parameters.loss_probability > 0]] = 1
    constants = make_constants(plan, parameters, int(np.diff(pairs.path_start).max(initial=1)) - 1)
    constants[SLOT_PS] = min(NEVER, int(safe_ps.min()))
    constants[LINK_BITS] = max(1, int(degree.max()).bit_length())
    n_leaf, kept = 1 << int(constants[LINK_BITS]), ports_kept(topology, parameters, here)
    fabric = Fabric(
        ports=make_ports(topology, parameters, kept),
        port_info=make_port_info(topology, parameters, here, kept),
        nodes=nodes,
        packets=np.zeros(0, PACKET),
        packet_words=np.zeros((0, 4), np.int64),
        label=np.zeros(0, np.int64),
        extra=np.zeros((0, int(constants[N_EXTRA])), np.int64),
        pint=np.array([parameters.law_values.get("log_base", 1.05)], np.float64),
        dropped=zeros_for(0, 2 * len(pairs.pair_of_row), np.int64).reshape(-1, 2),
        port_back=topology.port_peer.astype(np.int32),
        path_port=pairs.path_port,
        mask=np.zeros(n_mask + 1, np.int64),
        node_time=make_time_index(topology.n_node),
        departed=np.zeros(topology.n_port, np.int32),
        found=np.zeros((3, topology.n_node), np.int64),
        link_slots=aligned_zeros(n_leaf, LINK_SLOT),
        link_keys=np.zeros(2 * n_leaf + 2, np.int64),
        lp_of_node=lp_of_node.astype(np.int32),
        stop_ps=np.full(int(lp_of_node.max()) + 1, NEVER, np.int64),
        stopped_node=np.zeros(topology.n_node, np.int32),
        stopped_ps=np.full(topology.n_node, NEVER, np.int64),
        n_step=np.zeros(topology.n_node, np.int64),
        counters=np.zeros(N_COUNTER, np.int64),
        constants=constants,
    )
    fabric.counters[FREE_PACKET] = -1
    return grow_packets(fabric, FIRST_PACKETS)


def grow_packets(fabric: Fabric, n_packet: int) -> Fabric:
    """The same fabric with a pool of n_packet packets, the new ones free."""
    n_old, counters = len(fabric.packets), fabric.counters
    packets = aligned_zeros(n_packet, PACKET)
    packets[:n_old] = fabric.packets
    packets["next"][n_old:] = np.arange(n_old + 1, n_packet + 1)
    packets["next"][n_packet - 1] = counters[FREE_PACKET]
    counters[FREE_PACKET] = n_old
    counters[N_FREE_PACKET] += n_packet - n_old
    label = np.zeros(n_packet, np.int64)
    label[:n_old] = fabric.label
    words = packets.view(np.ndarray).view(np.int64).reshape(-1, 4)
    extra = np.zeros((n_packet, fabric.extra.shape[1]), np.int64)
    extra[:n_old] = fabric.extra
    return fabric._replace(packets=packets, packet_words=words, label=label, extra=extra)


def grow_messages(nic: Nic, counters: np.ndarray, n_message: int) -> Nic:
    """The same NIC state with a pool of n_message messages, the new ones free."""
    n_old = len(nic.messages)
    messages = np.zeros(n_message, MESSAGE)
    messages[:n_old] = nic.messages
    messages["next"][n_old:] = np.arange(n_old + 1, n_message + 1)
    messages["next"][n_message - 1] = counters[FREE_MESSAGE]
    counters[FREE_MESSAGE] = n_old
    counters[N_FREE_MESSAGE] += n_message - n_old
    posted = nic.posted if len(nic.posted) == 1 else np.zeros((2 * n_message, N_POSTED_COLUMN), np.int64)
    posted[: min(len(nic.posted), len(posted))] = nic.posted
    return nic._replace(messages=messages, posted=posted)
