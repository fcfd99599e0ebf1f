"""An order of a trace's nodes in which each comes behind all that it waits for, as close to the file's as can be."""

import heapq
from dataclasses import replace

import numpy as np

from models.workload.trace.graph import Leniency, TraceGraph

SHOWN_OF_CIRCLE = 8


def successors(graph: TraceGraph) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the nodes that wait for each node, ascending: (start int64[n_node + 1], node int64[])."""
    owner = np.repeat(np.arange(graph.n_node), np.diff(graph.dep_start))
    order = np.argsort(graph.dep, kind="stable")
    counts = np.bincount(graph.dep, minlength=graph.n_node)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), owner[order]


def ordered(graph: TraceGraph, leniency: Leniency) -> tuple[TraceGraph, np.ndarray]:
    """The graph, and int64[n_node] all nodes, ranks in order, in each the first of the file that can be next.

    ConfigError names a circle; when tolerant, the first node of the file that is in it does not wait for the next.
    """
    owner = np.repeat(np.arange(graph.n_node), np.diff(graph.dep_start))
    if (graph.dep < owner).all():
        return graph, np.arange(graph.n_node)
    start, following = successors(graph)
    unmet = np.diff(graph.dep_start).tolist()
    begin, after = start.tolist(), following.tolist()
    ready = [node for node, count in enumerate(unmet) if count == 0]  # ascending, so it is a heap
    order: list[int] = []
    is_done, cut = np.zeros(graph.n_node, np.bool_), np.zeros(len(graph.dep), np.bool_)
    while len(order) < graph.n_node:
        if not ready:
            node, other = _cut_circle(graph, is_done, cut, leniency)
            unmet[node] -= 1
            after_of = range(begin[other], begin[other + 1])
            after[next(k for k in after_of if after[k] == node)] = -1
            if unmet[node] == 0:
                ready.append(node)
            continue
        node = heapq.heappop(ready)
        order.append(node)
        is_done[node] = True
        for k in range(begin[node], begin[node + 1]):
            if after[k] < 0:
                continue
            unmet[after[k]] -= 1
            if unmet[after[k]] == 0:
                heapq.heappush(ready, after[k])
    places = np.array(order, np.int64)
    places = places[np.argsort(np.searchsorted(graph.rank_start, places, side="right"), kind="stable")]
    if cut.any():
        counts = np.bincount(owner[~cut], minlength=graph.n_node)
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        graph = replace(graph, dep_start=start, dep=graph.dep[~cut])
    return graph, places


def _cut_circle(graph: TraceGraph, is_done: np.ndarray, cut: np.ndarray, leniency: Leniency) -> tuple[int, int]:
    """Find a circle among what is not done; mark the dependency of its first node in `cut`, and return its ends."""
    node, seen, edge = int(np.flatnonzero(~is_done)[0]), {}, {}
    while node not in seen:
        seen[node] = len(seen)
        span = np.arange(graph.dep_start[node], graph.dep_start[node + 1])
        edge[node] = int(span[~is_done[graph.dep[span]] & ~cut[span]][0])
        node = int(graph.dep[edge[node]])
    circle = list(seen)[seen[node] :]
    circle = circle[circle.index(min(circle)) :] + circle[: circle.index(min(circle))]
    ids = [str(graph.node_id[n]) for n in circle[:SHOWN_OF_CIRCLE]]
    text = " waits for ".join([*ids, *(["..."] if len(circle) > SHOWN_OF_CIRCLE else []), ids[0]])
    where, found = graph.where(circle[0]), f"is part of a circle: {text}"
    leniency.fault("circles of dependencies", where, found, "dependencies without a circle")
    cut[edge[circle[0]]] = True
    return circle[0], int(graph.dep[edge[circle[0]]])
