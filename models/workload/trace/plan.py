"""From a checked trace to a plan: a graph per GPU, and a stream for each of its communicators.

Rank r runs on host r. Messages of one source, destination and tag share a queue pair; receives take them in the order
in which they begin. A receive from any rank or with any tag takes what comes first of all that fits (`checks`
refuses what would depend on more). Collectives of a communicator run in the order of the trace. Task rows are nodes:
the id is the place in the trace, rank after rank; the stream's name is the node's.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from models.workload.graph import GRAPH_NODE, NODE_WAITS, GraphPlan
from models.workload.operations import Operation
from models.workload.plan import SLOT_NODE, PlanBuilder, WorkloadPlan
from models.workload.program import OP_BEGIN_NODE, OP_END_NODE, OP_GRAPH
from models.workload.trace.checks import count_kinds
from models.workload.trace.collectives import CollectiveRules, Communicator
from models.workload.trace.graph import ANY, COLLECTIVE, COMPUTE, KIND_NAMES, NOTHING, RECEIVE, SEND, TraceGraph
from models.workload.trace.order import successors
from pdes.errors import ConfigError

GRAPH_STREAM, MESSAGE_TAG = "graph", "message"
MAX_NODES = 2**31 - 1


def plan_trace(graph: TraceGraph, order: np.ndarray, n_host: int, rules: CollectiveRules | None = None) -> WorkloadPlan:
    """The plan of a trace that `checks.checked` has passed. order: of its nodes, from there."""
    if graph.n_rank > n_host:
        raise ConfigError(graph.name, f"{graph.n_rank} ranks", f"at most {n_host}, the topology's hosts")
    if max(graph.n_node, len(graph.dep)) > MAX_NODES:
        raise ConfigError(graph.name, f"{graph.n_node} nodes, {len(graph.dep)} dependencies", f"at most {MAX_NODES}")
    builder = PlanBuilder(Path(graph.name).name, n_host)
    rank = np.repeat(np.arange(graph.n_rank), np.diff(graph.rank_start))
    pair_of_send, keys = _send_pairs(graph, rank, builder)
    n_send = np.bincount(rank[graph.kind == SEND], minlength=graph.n_rank)
    for r in np.unique(rank).tolist():
        builder.stream(r, GRAPH_STREAM, [Operation(OP_GRAPH, n_step=int(n_send[r]), tag=MESSAGE_TAG)], [])
    _add_communicators(graph, order, rank, builder, rules or CollectiveRules())
    plan = builder.finish(_facts(graph))
    channel_of_key, channel_of_wild, n_channel = _channels(graph, rank, keys)
    agenda_stream = np.flatnonzero(plan.streams["name"] == plan.stream_names.index(GRAPH_STREAM))
    nodes = _nodes(graph, rank, plan, pair_of_send, keys, channel_of_key, channel_of_wild, agenda_stream)
    pair_stream, pair_bytes = plan.pair_stream.copy(), plan.pair_bytes.copy()
    pair_channel = np.full(len(plan.pair_src), -1, np.int64)
    stream_of_rank = np.full(n_host, -1, np.int64)
    stream_of_rank[plan.streams["gpu"][agenda_stream]] = agenda_stream
    n_key = len(keys)
    pair_channel[:n_key] = channel_of_key
    pair_stream[:n_key] = stream_of_rank[plan.pair_dst[:n_key]]
    np.add.at(pair_bytes, pair_of_send[graph.kind == SEND], graph.size_bytes[graph.kind == SEND])
    graph_plan = GraphPlan(
        nodes=nodes,
        successors=successors(graph)[1],
        agenda_stream=agenda_stream,
        n_lane=int(nodes["place"][graph.kind == COMPUTE].max(initial=-1)) + 1,
        n_channel=n_channel,
        pair_channel=pair_channel,
        heap_size=_heap_sizes(graph, nodes, len(agenda_stream)),
        waits_for_ack=np.full(len(plan.pair_src), graph.waits_for_ack),
        node_id=graph.node_id,
        peer=graph.peer,
        tag=graph.tag,
    )
    return replace(
        plan, pair_stream=pair_stream, pair_bytes=pair_bytes, graph=graph_plan, kinds=KIND_NAMES,
        stream_names=graph.names, tasks_per_iteration=graph.n_node,
        streams=_renamed(plan.streams), facts=plan.facts | {"payload_bytes": int(pair_bytes.sum())},
    )  # fmt: skip


def _renamed(streams: np.ndarray) -> np.ndarray:
    """Streams whose names are no longer looked up: rows carry those of nodes."""
    streams = streams.copy()
    streams["name"] = 0
    return streams


def _facts(graph: TraceGraph) -> dict[str, object]:
    facts: dict[str, object] = {"ranks": graph.n_rank, "nodes": graph.n_node, "nodes_by_kind": count_kinds(graph)}
    facts |= {"communicators": len(graph.communicators), **graph.facts}
    return facts | ({"left_out": graph.left_out} if graph.left_out else {})


def _send_pairs(
    graph: TraceGraph, rank: np.ndarray, builder: PlanBuilder
) -> tuple[np.ndarray, dict[tuple[int, int, int], int]]:
    """(queue pair of every send, else -1; queue pair of every source, destination and tag). They come first."""
    sends = np.flatnonzero(graph.kind == SEND)
    columns = np.stack([rank[sends], graph.peer[sends].astype(np.int64), graph.tag[sends]], axis=1).reshape(-1, 3)
    unique, place = np.unique(columns, axis=0, return_inverse=True)
    keys = {(s, d, t): builder.pair(s, d) for s, d, t in unique.tolist()}
    pair = np.full(graph.n_node, -1, np.int64)
    pair[sends] = place.reshape(-1)
    return pair, keys


def _channels(
    graph: TraceGraph, rank: np.ndarray, keys: dict[tuple[int, int, int], int]
) -> tuple[np.ndarray, dict[tuple[int, int, int], int], int]:
    """(channel of every key, of every wildcard by (peer, rank, tag), how many): wildcards join what they fit."""
    parent = list(range(len(keys)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    receives = graph.kind == RECEIVE
    wild = np.flatnonzero(receives & ((graph.peer == ANY) | (graph.tag == ANY)))
    patterns = {(int(graph.peer[n]), int(rank[n]), int(graph.tag[n])): -1 for n in wild.tolist()}
    for peer, to, tag in patterns:
        fits = [number for (s, d, t), number in keys.items() if d == to and peer in (ANY, s) and tag in (ANY, t)]
        for number in fits[1:]:
            parent[root(number)] = root(fits[0])
        patterns[peer, to, tag] = fits[0]
    roots = np.array([root(k) for k in range(len(keys))], np.int64)
    _, channel = np.unique(roots, return_inverse=True)
    channel = channel.reshape(-1)
    wildcards = {pattern: int(channel[number]) for pattern, number in patterns.items()}
    return channel, wildcards, int(channel.max(initial=-1)) + 1


def _nodes(
    graph: TraceGraph,
    rank: np.ndarray,
    plan: WorkloadPlan,
    pair_of_send: np.ndarray,
    keys: dict[tuple[int, int, int], int],
    channel_of_key: np.ndarray,
    channel_of_wild: dict[tuple[int, int, int], int],
    agenda_stream: np.ndarray,
) -> np.ndarray:
    """GRAPH_NODE rows."""
    nodes = np.zeros(graph.n_node, GRAPH_NODE)
    kind = graph.kind
    nodes["kind"], nodes["state"], nodes["next"] = kind, NODE_WAITS, -1
    nodes["n_unmet"] = np.diff(graph.dep_start)
    start, _ = successors(graph)
    nodes["first_successor"], nodes["end_successor"] = start[:-1], start[1:]
    agenda = np.full(graph.n_rank, -1, np.int64)
    agenda[plan.streams["gpu"][agenda_stream]] = np.arange(len(agenda_stream))
    nodes["agenda"] = agenda[rank]
    nodes["size_bytes"], nodes["time_ps"], nodes["label"] = graph.size_bytes, graph.duration_ps, graph.label
    nodes["place"], nodes["flow"] = -1, -1
    computes = np.flatnonzero(kind == COMPUTE)
    _, lane = np.unique(np.stack([rank[computes], graph.lane[computes]], axis=1), axis=0, return_inverse=True)
    nodes["place"][computes] = lane.reshape(-1)
    sends = np.flatnonzero(kind == SEND)
    nodes["place"][sends] = pair_of_send[sends]
    first = np.searchsorted(rank[sends], rank[sends])  # sends stand rank after rank
    nodes["flow"][sends] = np.arange(len(sends)) - first
    nodes["tag"][sends] = plan.tags.index(MESSAGE_TAG) if len(sends) else 0
    for node in np.flatnonzero(kind == RECEIVE).tolist():
        key = int(graph.peer[node]), int(rank[node]), int(graph.tag[node])
        wild = channel_of_wild.get(key)
        nodes["place"][node] = channel_of_key[keys[key]] if wild is None else wild
    runs_collectives = np.setdiff1d(np.arange(len(plan.streams)), agenda_stream)
    by_slot = runs_collectives[np.argsort(plan.streams["first_slot"][runs_collectives], kind="stable")]
    is_node = np.flatnonzero(plan.slot_kind == SLOT_NODE)
    owner = np.searchsorted(plan.streams["first_slot"][by_slot], is_node, side="right") - 1
    nodes["place"][plan.slots[is_node]] = by_slot[owner]
    return nodes


def _heap_sizes(graph: TraceGraph, nodes: np.ndarray, n_agenda: int) -> np.ndarray:
    """Most timed nodes of each GPU at once: one per lane, and all that take time without one."""
    computes = graph.kind == COMPUTE
    lanes = np.unique(np.stack([nodes["agenda"][computes], nodes["place"][computes]], axis=1), axis=0).reshape(-1, 2)
    delays = nodes["agenda"][(graph.kind == NOTHING) & (graph.duration_ps > 0)]
    return np.bincount(lanes[:, 0], minlength=n_agenda) + np.bincount(delays, minlength=n_agenda) + 1


def _add_communicators(
    graph: TraceGraph, order: np.ndarray, rank: np.ndarray, builder: PlanBuilder, rules: CollectiveRules
) -> None:
    """A stream for every member of every communicator that has anything to do."""
    mine = order[graph.kind[order] == COLLECTIVE]
    sequences: dict[tuple[int, int], list[int]] = {}
    for node, number, r in zip(mine.tolist(), graph.communicator[mine].tolist(), rank[mine].tolist(), strict=True):
        sequences.setdefault((number, r), []).append(node)
    for number, ranks in enumerate(graph.communicators):
        if len(ranks) == 1 or (number, ranks[0]) not in sequences:
            continue
        name = graph.communicator_names[number]
        communicator = Communicator(builder, name, ranks, rules)
        programs: list[list[list[Operation]]] = []
        for member, r in enumerate(ranks):
            programs.append([
                communicator.operations(member, int(graph.operation[node]), int(graph.size_bytes[node]),
                                        int(graph.root[node]))
                for node in sequences[number, r]
            ])  # fmt: skip
        for member, r in enumerate(ranks):
            slots, program = communicator.slots[member], []
            for k, operations in enumerate(programs[member]):
                slot = len(slots) + k
                program += [Operation(OP_BEGIN_NODE, slot), *operations, Operation(OP_END_NODE, slot)]
            builder.stream(r, name, program, slots + [(SLOT_NODE, node) for node in sequences[number, r]])
