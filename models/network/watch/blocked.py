"""Who waits for whom when nothing is left to happen, and whether they wait for each other in a circle."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.topology.graph import Topology
from models.workload.graph import NODE_BEGUN
from models.workload.plan import WorkloadPlan
from models.workload.program import (
    OP_END_NODE,
    WAITING_DONE,
    WAITING_GATE,
    WAITING_GRAPH,
    WAITING_GROUP,
    WAITING_NODE,
    WAITING_TIME,
)
from models.workload.trace.graph import COLLECTIVE, KIND_NAMES, RECEIVE

PER_GPU = 3  # nodes of a trace that are named per GPU


class Blocked(NamedTuple):
    """Something that waits: where, what it says to people, and for whom. Nodes of the topology."""

    node: int
    text: str
    waits_for: int  # -1: for nobody else


def explain_blocked(
    state: NetworkState, topology: Topology, plan: WorkloadPlan, rank: int, rank_of_node: np.ndarray
) -> list[Blocked]:
    """Everything of this rank that is not done at the end of a run: streams, or nodes of a trace that have begun."""
    found, streams = [], state.work.streams
    of_graphs = [] if plan.graph is None else np.unique(streams["job"][plan.graph.agenda_stream])
    is_open = (streams["waiting_for"] != WAITING_DONE) & (rank_of_node[streams["node"]] == rank)
    for i in np.flatnonzero(is_open).tolist():
        if int(streams[i].waiting_for) == WAITING_GRAPH:
            found += _nodes(state, topology, plan, i)
        elif int(streams[i].job) not in of_graphs:  # those of a trace's communicators say it by their nodes
            found.append(_stream(state, topology, plan, i))
    return sorted(found, key=lambda blocked: blocked.node)


def _stream(state: NetworkState, topology: Topology, plan: WorkloadPlan, i_stream: int) -> Blocked:
    stream = state.work.streams[i_stream]
    name, waits_for = topology.node_name[int(stream.node)], -1
    what = {
        WAITING_TIME: "for a time that did not come",
        WAITING_GROUP: "for the other members of its group",
        WAITING_GATE: "for another stream of this GPU",
    }.get(int(stream.waiting_for))
    if what is None:
        waits_for = _sender(state, topology, int(stream.waiting_for))
        what = f"for a message from {topology.node_name[waits_for]}"
    step = int(stream.operation) - int(stream.first_operation)
    text = f"{name} stream {plan.stream_names[int(stream.name)]!r} waits {what} (operation {step})"
    return Blocked(int(stream.node), text, waits_for)


def _sender(state: NetworkState, topology: Topology, pair: int) -> int:
    return int(topology.port_src[state.nic.facts["port"][pair]])


def _nodes(state: NetworkState, topology: Topology, plan: WorkloadPlan, i_stream: int) -> Iterator[Blocked]:
    """The first nodes of a GPU that have begun and not ended."""
    graph, trace, gpu = state.work.graph, plan.graph, int(state.work.streams[i_stream].node)
    assert trace is not None
    agenda = int(state.work.streams[i_stream].step)
    for i in np.flatnonzero((graph.nodes["agenda"] == agenda) & (graph.nodes["state"] == NODE_BEGUN))[
        :PER_GPU
    ].tolist():
        node = graph.nodes[i]
        head = f"{topology.node_name[gpu]} node {trace.node_id[i]} ({plan.stream_names[int(node.label)] or 'unnamed'})"
        if node.kind == RECEIVE:
            peer = int(trace.peer[i])
            who = "any rank" if peer < 0 else topology.node_name[int(topology.host[peer])]
            text = f"{head} waits for a message of {node.size_bytes} bytes from {who}, tag {trace.tag[i]}"
            yield Blocked(gpu, text, -1 if peer < 0 else int(topology.host[peer]))
        elif node.kind == COLLECTIVE:
            yield _collective(state, topology, plan, i, head, gpu)
        else:
            yield Blocked(gpu, f"{head}, a {KIND_NAMES[int(node.kind)]}, waits for its end", -1)


def _collective(
    state: NetworkState, topology: Topology, plan: WorkloadPlan, i_node: int, head: str, gpu: int
) -> Blocked:
    """A collective that has been asked for: it waits for its turn, or for a message of another member."""
    trace, stream = plan.graph, state.work.streams[int(state.work.graph.nodes[i_node].place)]
    assert trace is not None
    k = int(stream.operation)
    while int(plan.operations["kind"][k]) != OP_END_NODE:
        k += 1
    current = int(plan.slots[int(stream.first_slot) + int(plan.operations["slot"][k])])
    if current != i_node or int(stream.waiting_for) == WAITING_NODE:
        return Blocked(gpu, f"{head} waits for node {trace.node_id[current]}, a collective before it", -1)
    sender = _sender(state, topology, int(stream.waiting_for)) if int(stream.waiting_for) >= 0 else -1
    who = f"a message from {topology.node_name[sender]}" if sender >= 0 else "its end"
    return Blocked(gpu, f"{head}, a collective, waits for {who}", sender)


def find_circle(blocked: Iterable[Blocked]) -> list[int]:
    """Nodes of the topology that wait for each other in a circle, from the least on; [] if there is none."""
    waits_for: dict[int, list[int]] = {}
    for item in blocked:
        if item.waits_for >= 0:
            waits_for.setdefault(item.node, []).append(item.waits_for)
    done: set[int] = set()
    for start in sorted(waits_for):
        path, on_path = [(start, iter(waits_for[start]))], {start}
        while path:
            node, others = path[-1]
            other = next((o for o in others if o not in done), None)
            if other is None:
                done.add(node)
                on_path.discard(node)
                path.pop()
            elif other in on_path:
                nodes = [n for n, _ in path]
                circle = nodes[nodes.index(other) :]
                return circle[circle.index(min(circle)) :] + circle[: circle.index(min(circle))]
            else:
                path.append((other, iter(waits_for.get(other, ()))))
                on_path.add(other)
    return []
