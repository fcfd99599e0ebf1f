"""Whose a row of the network's state is: for every table the node that alone writes it, whatever rank that node is on.

That is what makes a checkpoint (`saved_state`) independent of the number of ranks. A record that two nodes write, such
as a port's, is cut into the fields of each.
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.state.pair_records import QUEUE_PAIR, RECEIVER
from models.network.state.records import IS_FLOW_MODE, MARKER_COLUMN, N_QUEUE
from models.topology.graph import Topology
from models.workload.trace.graph import COMPUTE, RECEIVE
from pdes.engine.bits import n_set_word

SENDS = ("free_at_ps", "tx_bytes", "queued_bytes", "max_queued_bytes")  # of PORT, the sending node's
CONSTANT_OF_PORT = ("delay_ps", "ps_per_byte", "ecn_min_bytes")
CHAINS_OF_PORT = ("link_head", "link_tail", "ack_head", "ack_tail", "data_head", "data_tail")
MANAGED = ("waiting", "paused")  # in the place of the last two of these at a managed switch
INFO = ("rate_bps", "busy_ps", "ecn_marks", "ecn_draws", "wait_next")
CONSTANT_OF_INFO = ("ecn_max_bytes", "ecn_max_probability", "receiver", "is_here", "is_ns3")
CONSTANT_OF_PAIR = (
    "port", "data_path", "law_row", "queue", "line_rate_bps", "max_window_bytes", "timer_leaf", "node",
)  # fmt: skip
MESSAGES = ("first_message", "sending_message", "last_message")
RANGES_OF_SENDER, RANGES_OF_RECEIVER = ("sacked_range",), ("held_range", "early_end")
CONSTANT_OF_RECEIVER = ("ack_path", "waiting_stream")
_OTHERS = (*CONSTANT_OF_PAIR, *MESSAGES, *RANGES_OF_SENDER)
SENDER = tuple(name for name in QUEUE_PAIR.names or () if name not in _OTHERS)
_OTHERS_OF_RECEIVER = (*CONSTANT_OF_RECEIVER, *RANGES_OF_RECEIVER)
RECEIVES = tuple(name for name in RECEIVER.names or () if name not in _OTHERS_OF_RECEIVER)
NODE_FIELDS = ("wake_ps", "next_change", "wait_head")
NIC_PORT_FIELDS = ("next_start_ps", "last_served", "paused", "paused_since_ps", "paused_ps")
QUEUE_FIELDS = ("queued_bytes", "deficit_bytes")
INLET_FIELDS = ("loss_probability", "n_loss_draw", "n_route_draw", "up_since_ps")


class Owned(NamedTuple):
    """A table, or a field of one. owner: node of each row, -1: nobody's, it never changes."""

    name: str
    rows: np.ndarray  # written when a checkpoint is read
    owner: np.ndarray


class Owners(NamedTuple):
    """Nodes of rows that several tables have. int64 arrays."""

    sends: np.ndarray  # of a port
    receives: np.ndarray
    pair_sends: np.ndarray  # of a queue pair
    pair_receives: np.ndarray
    receivers: np.ndarray  # of a row of `Nic.receivers`
    queue: np.ndarray  # of a port's queue

    @classmethod
    def of(cls, topology: Topology, state: NetworkState) -> "Owners":
        """Those of a network."""
        facts, receivers = state.nic.facts, np.zeros(len(state.nic.facts), np.int64)
        receivers[state.nic.receiver_row] = facts["receiver"]
        n_queue = len(state.buffers.queues) // topology.n_port if len(state.buffers.queues) > 1 else 0
        return cls(
            topology.port_src.astype(np.int64),
            topology.port_dst.astype(np.int64),
            facts["node"].astype(np.int64),
            facts["receiver"].astype(np.int64),
            receivers,
            np.repeat(topology.port_src, n_queue).astype(np.int64),
        )


def is_at_managed_switch(topology: Topology, state: NetworkState) -> np.ndarray:
    """bool[n_port]: ports with queues of their own in the place of chains."""
    return topology.is_switch[topology.port_src] & (len(state.buffers.queues) > 1)


def owned_tables(topology: Topology, state: NetworkState, owners: Owners) -> list[Owned]:
    """All that one node alone writes, except chains of packets, messages and ranges (`saved_chains`)."""
    return [
        *_of_fabric(topology, state, owners),
        *_of_nic(topology, state, owners),
        *_of_buffers(topology, state, owners),
        *_of_work(state, owners),
    ]


def _fields(name: str, table: np.ndarray, fields: tuple[str, ...], owner: np.ndarray) -> list[Owned]:
    return [Owned(f"{name}.{field}", table[field], owner) for field in fields]


def _of_fabric(topology: Topology, state: NetworkState, owners: Owners) -> list[Owned]:
    fabric, node = state.fabric, np.arange(topology.n_node)
    words = np.diff(np.append(fabric.nodes["first_mask"], len(fabric.mask) - 1))  # the last one is spare
    size = len(fabric.node_time) // 2
    return [
        *_fields("ports", fabric.ports, SENDS, owners.sends),
        *_fields("port_info", fabric.port_info, INFO, owners.sends),
        *_fields("nodes", fabric.nodes, NODE_FIELDS, node),
        Owned("mask", fabric.mask[:-1], np.repeat(node, words)),
        Owned("next_event", fabric.node_time[size : size + topology.n_node], node),
    ]


def _of_nic(topology: Topology, state: NetworkState, owners: Owners) -> list[Owned]:
    nic, sends = state.nic, owners.pair_sends
    at_host = np.where(topology.is_switch[topology.port_src], -1, owners.sends)
    n_pair = np.bincount(nic.facts["port"], minlength=topology.n_port)
    n_ready = [max(1, n_set_word(int(n))) for n in n_pair]
    nodes, timer = state.fabric.nodes, np.full(len(nic.timers), -1, np.int64)
    n_timer = 2 * nodes["n_timer"].astype(np.int64)
    if n_timer.any():
        timer = np.repeat(np.arange(topology.n_node), n_timer)
    found = [
        *_fields("queue_pairs", nic.queue_pairs, SENDER, sends),
        *_fields("receivers", nic.receivers, RECEIVES, owners.receivers),
        *_fields("nic_ports", nic.nic_ports, NIC_PORT_FIELDS, at_host),
        Owned("ready", nic.ready[:-1], np.repeat(owners.sends, n_ready)),
        Owned("timers", nic.timers, timer),
        Owned("control", nic.control, sends),
        Owned("acked_ps", nic.acked_ps, sends),
        Owned("ended", nic.ended, sends),
        Owned("delivered_ps", nic.delivered_ps, owners.receivers),
    ]
    if state.fabric.constants[MARKER_COLUMN] >= 0 and not state.fabric.constants[IS_FLOW_MODE]:
        found.append(Owned("fluid", nic.fluid, sends))
    if len(nic.ns3_ports) == topology.n_port:
        found += [Owned("ns3_ports", nic.ns3_ports, owners.sends), Owned("ns3_listed", nic.ns3_listed, sends)]
    return found


def _of_buffers(topology: Topology, state: NetworkState, owners: Owners) -> list[Owned]:
    buffers, flowlets = state.buffers, state.routing.flowlets
    found = [
        Owned("egress", buffers.egress, owners.sends),
        *_fields("inlets", buffers.inlets, INLET_FIELDS, owners.receives),
        Owned("switches", buffers.switches, np.arange(topology.n_node)),
        Owned("utilisation", buffers.utilisation, owners.sends),
    ]
    if len(owners.queue):
        at_switch = np.where(is_at_managed_switch(topology, state), owners.sends, -1)
        found += _fields("managed", buffers.managed, MANAGED, at_switch)
        found += _fields("queues", buffers.queues, QUEUE_FIELDS, owners.queue)
        n_queue = int(state.fabric.constants[N_QUEUE])
        found.append(Owned("ingress", buffers.ingress, np.repeat(owners.receives, n_queue)))
    if len(flowlets) == topology.n_node:
        found.append(Owned("flowlets", flowlets, np.arange(topology.n_node)))
    return found


def _of_work(state: NetworkState, owners: Owners) -> list[Owned]:
    work = state.work
    node = work.streams["node"].astype(np.int64)
    spent = np.full(len(work.spent), -1, np.int64)
    is_main = work.streams["spent_row"] >= 0
    spent[work.streams["spent_row"][is_main]] = node[is_main]
    return [
        Owned("streams", work.streams, node),
        Owned("loops", work.loops, node),
        Owned("passes", work.passes, node),
        Owned("members", work.members, node[work.group_stream]),
        Owned("gates", work.gates, node[work.gates["stream"]]),
        Owned("spent", work.spent, spent),
        Owned("passed", work.passed, spent),
        *_of_graph(state, owners, node),
    ]


def _of_graph(state: NetworkState, owners: Owners, node_of_stream: np.ndarray) -> list[Owned]:
    """Of a trace: a lane is the GPU's whose nodes run on it, a channel the GPU's that its messages reach."""
    graph = state.work.graph
    of_agenda = node_of_stream[graph.agendas["stream"]]
    of_node = of_agenda[graph.nodes["agenda"]]
    lanes, channels = np.full(len(graph.lanes), -1, np.int64), np.full(len(graph.channels), -1, np.int64)
    on_lane = (graph.nodes["kind"] == COMPUTE) & (graph.nodes["place"] >= 0)
    lanes[graph.nodes["place"][on_lane]] = of_node[on_lane]
    receives = (graph.nodes["kind"] == RECEIVE) & (graph.nodes["place"] >= 0)
    channels[graph.nodes["place"][receives]] = of_node[receives]
    reaches = graph.pair_channel >= 0
    channels[graph.pair_channel[reaches]] = owners.pair_receives[reaches]
    n_heap = np.diff(np.append(graph.agendas["first_heap"], len(graph.heap_ps)))
    heap = np.repeat(of_agenda, n_heap)
    found = [
        Owned("graph.nodes", graph.nodes, of_node),
        Owned("graph.agendas", graph.agendas, of_agenda),
        Owned("graph.lanes", graph.lanes, lanes),
        Owned("graph.channels", graph.channels, channels),
        Owned("graph.heap_ps", graph.heap_ps, heap),
        Owned("graph.heap_node", graph.heap_node, heap),
    ]
    return found + ([Owned("graph.sent", graph.sent, owners.pair_sends)] if len(graph.sent) else [])
