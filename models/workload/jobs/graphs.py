"""Graphs of traces that several jobs have, as one: what a graph has of everything comes behind what others before have.

Rows of tasks are nodes, so a node's kind is its task's: the joined plan's kinds begin with those of nodes.
"""

from collections.abc import Sequence

import numpy as np

from models.workload.graph import GraphPlan
from models.workload.jobs.placed import PlacedJob
from models.workload.trace.graph import COLLECTIVE, COMPUTE, RECEIVE


def first_nodes(jobs: Sequence[PlacedJob]) -> list[int]:
    """Nodes of the graphs of all jobs before each."""
    counts = [0 if job.plan.graph is None else len(job.plan.graph.nodes) for job in jobs]
    return [int(n) for n in np.cumsum([0, *counts[:-1]])]


def join_graphs(
    jobs: Sequence[PlacedJob], rank_of: np.ndarray, names: Sequence[np.ndarray], tags: Sequence[np.ndarray]
) -> GraphPlan | None:
    """The graph of all jobs that have one; None: nobody has.

    rank_of: int64[n_stream], place among all of each job's streams one by one. names, tags: of each job, what its own
    numbers of stream names and tags are among all, int64[].
    """
    if all(job.plan.graph is None for job in jobs):
        return None
    first_stream, first_pair = (
        np.cumsum([0, *(len(getattr(job.plan, name)) for job in jobs)]) for name in ("streams", "pair_src")
    )
    graphs: list[GraphPlan] = []
    n_node = n_successor = n_agenda = n_lane = n_channel = 0
    n_pair = int(first_pair[-1])
    pair_channel, waits_for_ack = np.full(n_pair, -1, np.int64), np.zeros(n_pair, bool)
    for i, job in enumerate(jobs):
        own = job.plan.graph
        if own is None:
            continue
        nodes, stream_of = own.nodes.copy(), rank_of[first_stream[i] : first_stream[i + 1]]
        kind, place = nodes["kind"], nodes["place"].astype(np.int64)
        is_placed, is_send = place >= 0, nodes["flow"] >= 0
        place[is_send] += first_pair[i]
        place[is_placed & (kind == COMPUTE)] += n_lane
        place[is_placed & (kind == RECEIVE)] += n_channel
        in_stream = is_placed & (kind == COLLECTIVE)
        place[in_stream] = stream_of[place[in_stream]]
        nodes["place"] = place
        nodes["first_successor"] += n_successor
        nodes["end_successor"] += n_successor
        nodes["agenda"] += n_agenda
        nodes["label"] = names[i][nodes["label"]]
        nodes["tag"] = np.where(is_send, tags[i][nodes["tag"]], 0)
        rows = slice(first_pair[i], first_pair[i + 1])
        pair_channel[rows] = np.where(own.pair_channel >= 0, own.pair_channel + n_channel, -1)
        waits_for_ack[rows] = own.waits_for_ack
        graphs.append(
            GraphPlan(
                nodes=nodes,
                successors=own.successors + n_node,
                agenda_stream=stream_of[own.agenda_stream],
                n_lane=own.n_lane,
                n_channel=own.n_channel,
                pair_channel=own.pair_channel,
                heap_size=own.heap_size,
                waits_for_ack=own.waits_for_ack,
                node_id=own.node_id,
                peer=np.where(own.peer >= 0, job.hosts[np.maximum(own.peer, 0)], own.peer).astype(np.int32),
                tag=own.tag,
            )
        )
        n_node, n_successor = n_node + len(nodes), n_successor + len(own.successors)
        n_agenda, n_lane, n_channel = n_agenda + len(own.agenda_stream), n_lane + own.n_lane, n_channel + own.n_channel
    columns = {
        name: np.concatenate([getattr(graph, name) for graph in graphs])
        for name in ("nodes", "successors", "agenda_stream", "heap_size", "node_id", "peer", "tag")
    }
    return GraphPlan(
        **columns, n_lane=n_lane, n_channel=n_channel, pair_channel=pair_channel, waits_for_ack=waits_for_ack
    )
