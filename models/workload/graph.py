"""A trace's graph as the engine holds it: nodes that count what they still wait for, and lists of nodes per GPU.

Every node is in at most one list at a time: of its GPU's nodes that are released, of a lane's that wait for it to be
free, of a channel's receives that wait for a message, of a queue pair's sends that wait for their acknowledgement. A
list is chained through `next`. Timed nodes are in a heap per GPU. Not here: what happens to them
(`models.network.streams.graph_stream`).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pdes.engine.jit import record

GRAPH_NODE = record(
    [
        ("kind", np.int32),  # of trace.graph
        ("state", np.int32),
        ("n_unmet", np.int32),  # nodes that it still waits for
        ("next", np.int32),
        ("first_successor", np.int32),
        ("end_successor", np.int32),
        ("agenda", np.int32),
        ("place", np.int32),  # lane, queue pair of a send, channel of a receive, or stream of a collective; -1: none
        ("size_bytes", np.int64),
        ("time_ps", np.int64),
        ("begun_ps", np.int64),
        ("flow", np.int64),  # of a send, relative to its stream's first
        ("label", np.int32),
        ("tag", np.int32),
    ]
)
NODE_WAITS, NODE_RELEASED, NODE_BEGUN, NODE_READY, NODE_DONE = range(5)  # READY: what it waited for has come
SENT_UNHEEDED = -2  # in `Graph.sent`, as the last: sends of this queue pair are complete when posted

LANE = record([("first", np.int32), ("last", np.int32), ("running", np.int32), ("spare", np.int32)])
CHANNEL = record([("first", np.int32), ("last", np.int32), ("n_arrived", np.int32), ("spare", np.int32)])
AGENDA = record(
    [
        ("stream", np.int32),
        ("n_left", np.int32),  # nodes of the GPU that are not complete
        ("first", np.int32),  # nodes that are released, in the order of their release
        ("last", np.int32),
        ("first_heap", np.int64),
        ("n_heap", np.int64),
    ]
)


class Graph(NamedTuple):
    """State of all graphs of a run; empty arrays without a trace."""

    nodes: np.ndarray  # GRAPH_NODE[n_node]
    successors: np.ndarray  # int32[]
    agendas: np.ndarray  # AGENDA[n_gpu with nodes]
    lanes: np.ndarray  # LANE[n_lane]
    channels: np.ndarray  # CHANNEL[n_channel]
    pair_channel: np.ndarray  # int32[n_pair]  channel that a queue pair's messages come to, by row of queue pairs
    sent: np.ndarray  # int32[n_pair, 2]  first and last send that is not acknowledged; no rows: nobody waits for that
    heap_ps: np.ndarray  # int64[]
    heap_node: np.ndarray  # int32[]


@dataclass(frozen=True)
class GraphPlan:
    """A graph as a plan has it, before anything has run; queue pairs by the plan's numbers."""

    nodes: np.ndarray
    successors: np.ndarray
    agenda_stream: np.ndarray  # int64[n_agenda]
    n_lane: int
    n_channel: int
    pair_channel: np.ndarray  # int64[n_pair], -1: none
    heap_size: np.ndarray  # int64[n_agenda]  most timed nodes at once
    waits_for_ack: np.ndarray  # bool[n_pair]  sends are complete when all of them is acknowledged, else when posted
    node_id: np.ndarray  # int64[n_node]  in the trace's file, for messages
    peer: np.ndarray  # int32[n_node]
    tag: np.ndarray  # int64[n_node]

    def in_whole(self, unit_ps: int) -> "GraphPlan":
        """The same graph with all times cut off to whole units."""
        nodes = self.nodes.copy()
        nodes["time_ps"] -= nodes["time_ps"] % unit_ps
        return replace(self, nodes=nodes)


def make_graph(plan: GraphPlan | None, row_of_pair: np.ndarray) -> Graph:
    """State of a plan's graph: nodes that wait for nothing are released, in order."""
    if plan is None:
        return Graph(
            nodes=np.zeros(0, GRAPH_NODE),
            successors=np.zeros(0, np.int32),
            agendas=np.zeros(0, AGENDA),
            lanes=np.zeros(0, LANE),
            channels=np.zeros(0, CHANNEL),
            pair_channel=np.zeros(0, np.int32),
            sent=np.zeros((0, 2), np.int32),
            heap_ps=np.zeros(0, np.int64),
            heap_node=np.zeros(0, np.int32),
        )
    nodes, n_pair = plan.nodes.copy(), len(row_of_pair)
    is_send = nodes["flow"] >= 0
    nodes["place"][is_send] = row_of_pair[nodes["place"][is_send]]
    pair_channel = np.full(n_pair, -1, np.int32)
    pair_channel[row_of_pair] = plan.pair_channel
    lanes, channels = np.zeros(plan.n_lane, LANE), np.zeros(plan.n_channel, CHANNEL)
    for table in (lanes, channels):
        table["first"] = table["last"] = -1
    lanes["running"] = -1
    agendas = np.zeros(len(plan.agenda_stream), AGENDA)
    agendas["stream"], agendas["first"], agendas["last"] = plan.agenda_stream, -1, -1
    agendas["n_left"] = np.bincount(nodes["agenda"], minlength=len(agendas))
    agendas["first_heap"] = np.cumsum(plan.heap_size) - plan.heap_size
    nodes["next"] = -1
    begins = np.flatnonzero(nodes["n_unmet"] == 0)
    begins = begins[np.argsort(nodes["agenda"][begins], kind="stable")]
    nodes["state"][begins] = NODE_RELEASED
    owner = nodes["agenda"][begins]
    same = owner[1:] == owner[:-1]
    nodes["next"][begins[:-1][same]] = begins[1:][same]
    agendas["first"][owner[::-1]] = begins[::-1]
    agendas["last"][owner] = begins
    sent = np.full((n_pair if plan.waits_for_ack.any() else 0, 2), -1, np.int32)
    if len(sent):
        sent[row_of_pair, 1] = np.where(plan.waits_for_ack, -1, SENT_UNHEEDED)
    n_heap = int(plan.heap_size.sum())
    return Graph(
        nodes, plan.successors.astype(np.int32), agendas, lanes, channels, pair_channel, sent,
        np.zeros(n_heap, np.int64), np.zeros(n_heap, np.int32),
    )  # fmt: skip
