"""Whether a trace can run: matching sends and receives, collectives that all members of a communicator have alike."""

from dataclasses import replace

import numpy as np

from models.workload.trace.graph import (
    ANY,
    COLLECTIVE,
    COLLECTIVES,
    KIND_NAMES,
    NOTHING,
    RECEIVE,
    SEND,
    Leniency,
    TraceGraph,
)
from models.workload.trace.order import ordered
from pdes.errors import ConfigError

MAX_BYTES = 2**50
MAX_PS = 2**61


def checked(graph: TraceGraph, leniency: Leniency) -> tuple[TraceGraph, np.ndarray]:
    """The graph, without what tolerance leaves out, and an order of its nodes; ConfigError names file, rank and node.

    Left out are sends and receives that have no other end; they become nodes that take no time.
    """
    if graph.n_node == 0:
        raise ConfigError(f"{graph.name}, end of file", "no node", "a trace with at least one node")
    _check_values(graph)
    graph = _without_unmatched(graph, leniency)
    graph, order = ordered(graph, leniency)
    _check_communicators(graph, order)
    return replace(graph, warnings=leniency.warnings(), left_out=leniency.counts()), order


def _first(graph: TraceGraph, is_bad: np.ndarray, found: str, accepted: str) -> None:
    """Raise ConfigError for the first bad node. found: with {size}, {peer}, {time} in it."""
    for node in np.flatnonzero(is_bad)[:1].tolist():
        values = {"size": graph.size_bytes[node], "peer": graph.peer[node], "time": graph.duration_ps[node]}
        kind = KIND_NAMES[graph.kind[node]]
        raise ConfigError(graph.where(node), f"a {kind} {found.format(**values)}", accepted)


def _check_values(graph: TraceGraph) -> None:
    kind, n_rank = graph.kind, graph.n_rank
    is_message, is_collective = (kind == SEND) | (kind == RECEIVE), kind == COLLECTIVE
    rank = np.repeat(np.arange(n_rank), np.diff(graph.rank_start))
    bad_size = is_message & ((graph.size_bytes < 1) | (graph.size_bytes > MAX_BYTES))
    bad_size |= is_collective & ((graph.size_bytes < 0) | (graph.size_bytes > MAX_BYTES))
    _first(graph, bad_size, "of {size} bytes", f"at least 1, at most {MAX_BYTES}")
    is_far = is_message & ((graph.peer >= n_rank) | (graph.peer < ANY))
    _first(graph, is_far, "with rank {peer}", f"ranks 0..{n_rank - 1}, as many as the trace has")
    _first(graph, (kind == SEND) & (graph.peer == ANY), "to no rank", "one rank")
    _first(graph, is_message & (graph.peer == rank), "with its own rank", "another rank")
    _first(graph, (graph.duration_ps < 0) | (graph.duration_ps > MAX_PS), "of {time} ps", f"0 to {MAX_PS} ps")
    for node in np.flatnonzero(is_collective & (graph.communicator < 0))[:1].tolist():
        raise ConfigError(graph.where(node), "a collective without a communicator", "one that is listed")
    for number, ranks in enumerate(graph.communicators):
        name = f"{graph.name}, communicator {graph.communicator_names[number]}"
        outside = [r for r in ranks if not 0 <= r < n_rank]
        if outside:
            raise ConfigError(name, f"rank {outside[0]}", f"ranks 0..{n_rank - 1}, as many as the trace has")
        if len(set(ranks)) < len(ranks) or not ranks:
            raise ConfigError(name, f"ranks {list(ranks)[:8]}", "each rank once, at least one")


def _without_unmatched(graph: TraceGraph, leniency: Leniency) -> TraceGraph:
    """Compare what is sent with what is received, by (source, destination, tag); wildcards take what is left over."""
    rank = np.repeat(np.arange(graph.n_rank), np.diff(graph.rank_start))
    sends, receives = np.flatnonzero(graph.kind == SEND), np.flatnonzero(graph.kind == RECEIVE)
    left: dict[tuple[int, int, int], list[int]] = {}
    for node in sends.tolist():
        left.setdefault((int(rank[node]), int(graph.peer[node]), int(graph.tag[node])), []).append(node)
    is_wild = (graph.peer[receives] == ANY) | (graph.tag[receives] == ANY)
    dropped: list[int] = []
    taken: dict[tuple[int, int, int], int] = {}
    for node in receives[~is_wild].tolist():
        key = (int(graph.peer[node]), int(rank[node]), int(graph.tag[node]))
        place = taken.get(key, 0)
        if place >= len(left.get(key, ())):
            found = f"a receive of {graph.size_bytes[node]} bytes from rank {key[0]}, tag {key[2]}, that nobody sends"
            leniency.fault("receives without a send", graph.where(node), found, "as many sends as receives")
            dropped.append(node)
            continue
        taken[key] = place + 1
        _compare_sizes(graph, left[key][place], node, leniency)
    spare = {key: nodes[taken.get(key, 0) :] for key, nodes in left.items()}
    _match_wild(graph, rank, receives[is_wild], spare, taken, leniency, dropped)
    for nodes in spare.values():
        for node in nodes:
            found = f"a send of {graph.size_bytes[node]} bytes to rank {graph.peer[node]}, tag {graph.tag[node]}"
            leniency.fault(
                "sends without a receive", graph.where(node), f"{found}, that nobody receives", "a receive for each"
            )
            dropped.append(node)
    if not dropped:
        return graph
    kind = graph.kind.copy()
    kind[dropped] = NOTHING
    return replace(graph, kind=kind)


def _compare_sizes(graph: TraceGraph, send: int, receive: int, leniency: Leniency) -> None:
    if graph.size_bytes[receive] != graph.size_bytes[send]:
        leniency.note("receives of another size than the send, which counts", graph.where(receive))


def _match_wild(
    graph: TraceGraph, rank: np.ndarray, wild: np.ndarray, spare: dict, taken: dict, leniency: Leniency, dropped: list
) -> None:
    """Let wildcards take sends that no other receive of their rank names.

    Where both could take the same send, it would depend on who comes first; that is not modelled, and refused.
    """
    to: dict[int, list[tuple[int, int, int]]] = {}
    for key in spare if len(wild) else ():
        to.setdefault(key[1], []).append(key)
    for node in wild.tolist():
        peer, tag = int(graph.peer[node]), int(graph.tag[node])
        fits = [key for key in to.get(int(rank[node]), ()) if peer in (ANY, key[0]) and tag in (ANY, key[2])]
        for key in fits:
            if taken.get(key, 0):
                found = f"a wildcard, and other receives name rank {key[0]} and tag {key[2]}, which it could take too"
                raise ConfigError(graph.where(node), found, "wildcards only for sends that no receive names")
        source = next((key for key in fits if spare[key]), None)
        if source is None:
            found = "a receive from any rank or tag, and no send is left for it"
            leniency.fault("receives without a send", graph.where(node), found, "as many sends as receives")
            dropped.append(node)
        else:
            spare[source].pop(0)


def _check_communicators(graph: TraceGraph, order: np.ndarray) -> None:
    """Every member has the same collectives of a communicator, in the same order."""
    mine = order[graph.kind[order] == COLLECTIVE]
    rank = np.searchsorted(graph.rank_start, mine, side="right") - 1
    by_group = np.lexsort((np.arange(len(mine)), rank, graph.communicator[mine]))
    mine, rank = mine[by_group], rank[by_group]
    group = graph.communicator[mine]
    for number in np.unique(group).tolist():
        begin, end = np.searchsorted(group, [number, number + 1])
        members = graph.communicators[number]
        sequences = {r: mine[begin:end][rank[begin:end] == r] for r in np.unique(rank[begin:end]).tolist()}
        name = graph.communicator_names[number]
        for r, nodes in sequences.items():
            if r not in members:
                found = f"a collective of communicator {name}, to which rank {r} does not belong"
                raise ConfigError(graph.where(int(nodes[0])), found, f"ranks {list(members)[:8]}")
        first = sequences.get(members[0], mine[:0])
        for r in members[1:]:
            _compare(graph, name, members[0], first, r, sequences.get(r, mine[:0]))


def _compare(graph: TraceGraph, name: str, rank_a: int, a: np.ndarray, rank_b: int, b: np.ndarray) -> None:
    n_both = min(len(a), len(b))
    x, y = a[:n_both], b[:n_both]
    differ = (graph.operation[x] != graph.operation[y]) | (graph.size_bytes[x] != graph.size_bytes[y])
    differ |= graph.root[x] != graph.root[y]
    for k in np.flatnonzero(differ)[:1].tolist():
        found = f"{_said(graph, int(y[k]))} as collective {k + 1} of communicator {name}"
        found += f", and rank {rank_a} has {_said(graph, int(x[k]))} there (node {graph.node_id[x[k]]})"
        raise ConfigError(graph.where(int(y[k])), found, "the same collectives in the same order on every member")
    if len(a) != len(b):
        longer, node = (rank_a, a[n_both]) if len(a) > len(b) else (rank_b, b[n_both])
        shorter = rank_b if longer == rank_a else rank_a
        found = f"{_said(graph, int(node))} as collective {n_both + 1} of communicator {name}"
        found += f", and rank {shorter} has only {n_both}"
        raise ConfigError(graph.where(int(node)), found, "the same collectives in the same order on every member")


def _said(graph: TraceGraph, node: int) -> str:
    return f"{COLLECTIVES[graph.operation[node]]} of {graph.size_bytes[node]} bytes"


def count_kinds(graph: TraceGraph) -> dict[str, int]:
    """Nodes of each kind, for the summary."""
    counts = np.bincount(graph.kind, minlength=NOTHING + 1)
    return {name: int(n) for name, n in zip(KIND_NAMES, counts.tolist(), strict=True) if n}
