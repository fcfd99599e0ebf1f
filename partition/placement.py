"""Place logical processes on ranks, so that ranks have like work and few messages cross.

A placement changes the speed of a run and never its result. The same arguments give the same placement.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

Method = Literal["metis", "block", "round-robin", "dealt"]
METHODS: tuple[Method, ...] = ("metis", "block", "round-robin", "dealt")
MAX_TOTAL_WEIGHT = 2**30  # METIS adds weights up in 32-bit integers
METIS_SEED = 1
METIS_CUTS = 20  # tries; on the k=8 permutation the cut falls from 13.8 to 12.3 % of the packet-hops
METIS_IMBALANCE = 10  # per mille over the mean that a rank may have
MAX_BISECTED_RANKS = 8  # recursive bisection cuts less than k-way for few parts (METIS manual, section 4.1)
BALANCE_TOLERANCE = 1.03  # heaviest rank over mean up to which METIS's own answer stands
SAME_CUT = 1.02  # a cut that is larger by less is as good

LpEdges = tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray, Sequence[float] | np.ndarray]
"""(a, b, weight): pairs of LPs and their expected messages per simulated second. A pair may stand in both
directions and several times; weights add up."""

Graph = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Symmetric CSR: int64[n_lp + 1] starts, int64 neighbours, float64 weights."""


def place(lp_load: np.ndarray, lp_edges: LpEdges, n_rank: int, method: Method = "metis") -> np.ndarray:
    """Rank of every LP, int64[n_lp]. No rank stays empty if there are LPs enough.

    lp_load: [n_lp] expected packet-hops, >= 0. method: "metis" (multilevel k-way, balances load and cuts few
    messages), "block" (runs of equally many LPs), "round-robin", "dealt" (round-robin, hosts with their switch). With
    n_rank >= n_lp, LP i goes to rank i and the other ranks have none. Raises ValueError for an unknown method or fewer
    than one rank.

    Of a run that is fast-forwarded ever other parts are simulated, a stage of a pipeline or a rail at a time, which
    METIS keeps together: then one rank works at a time. Dealt, each rank has its part of all that is alike.
    """
    if method not in METHODS:
        raise ValueError(f"placement {method!r} is unknown; accepted are {', '.join(METHODS)}")
    if n_rank < 1:
        raise ValueError(f"{n_rank} ranks cannot hold anything; at least 1 is needed")
    n_lp = len(lp_load)
    lp = np.arange(n_lp, dtype=np.int64)
    if n_rank >= n_lp:
        return lp
    if n_rank == 1:
        return np.zeros(n_lp, np.int64)
    if method == "round-robin":
        return lp % n_rank
    if method == "block":
        return lp * n_rank // n_lp
    if method == "dealt":
        group = _hung_together(_adjacency(n_lp, lp_edges))
        return (group if group.max() + 1 >= n_rank else lp) % n_rank
    load = np.asarray(lp_load, dtype=np.float64)
    if 0 < np.count_nonzero(load) <= n_rank:
        return _each_alone(load, n_rank)
    graph = _adjacency(n_lp, lp_edges)
    whole = _by_metis(load, graph, n_rank)
    into = _hung_together(graph)
    n_group = int(into.max()) + 1
    if not n_rank < n_group < n_lp:
        return whole
    lp_a = np.repeat(lp, np.diff(graph[0]))
    groups = _adjacency(n_group, (into[lp_a], into[graph[1]], graph[2]))
    grouped = _by_metis(np.bincount(into, weights=load), groups, n_rank)[into]
    is_even = balance(load, grouped, n_rank) <= max(1 + METIS_IMBALANCE / 1000, balance(load, whole, n_rank))
    return grouped if is_even and _cut(graph, grouped) <= SAME_CUT * _cut(graph, whole) else whole


def balance(lp_load: np.ndarray, rank_of_lp: np.ndarray, n_rank: int) -> float:
    """Load of the heaviest rank over the mean of all n_rank ranks; 1.0 is perfect, also without any load."""
    load = np.bincount(rank_of_lp, weights=lp_load, minlength=n_rank)
    total = load.sum()
    return float(load.max() * n_rank / total) if total > 0 else 1.0


def _each_alone(load: np.ndarray, n_rank: int) -> np.ndarray:
    """Every LP with load on a rank of its own; those without fill the other ranks and then go round."""
    rank = np.empty(len(load), np.int64)
    busy, idle = np.flatnonzero(load), np.flatnonzero(load == 0)
    rank[busy] = np.arange(len(busy))
    rank[idle] = (len(busy) + np.arange(len(idle))) % n_rank
    return rank


def _by_metis(load: np.ndarray, graph: Graph, n_rank: int) -> np.ndarray:
    """METIS's answer without its flaws: no rank is empty or has far more than the others if LPs allow it."""
    return _even_out(load, graph, _fill_empty(load, _metis(load, graph, n_rank), n_rank), n_rank)


def _hung_together(graph: Graph) -> np.ndarray:
    """Group of every LP, int64[n_lp]: those with one neighbour are with it, as hosts with their switch.

    METIS cuts less where there is less to place: on 2 ranks 1.0 instead of 2.3 % of the packet-hops of an all-reduce
    over 32,768 GPUs. And hosts whose records lie together stay together, so that ranks share fewer pages.
    """
    start, near, _ = graph
    lp = np.arange(len(start) - 1)
    hangs = np.diff(start) == 1
    into = lp.copy()
    into[hangs] = near[start[:-1][hangs]]
    are_alone = hangs & hangs[into]  # two that have each other alone
    into[are_alone] = np.minimum(lp, into)[are_alone]
    return np.unique(into, return_inverse=True)[1].reshape(-1)


def _cut(graph: Graph, rank_of_lp: np.ndarray) -> float:
    """Weight of messages between ranks, in both directions."""
    start, near, weight = graph
    rank = np.repeat(rank_of_lp, np.diff(start))
    return float(weight[rank != rank_of_lp[near]].sum())


def _metis(load: np.ndarray, graph: Graph, n_rank: int) -> np.ndarray:
    try:
        import pymetis
    except ImportError as error:
        raise ImportError('placement "metis" needs pymetis: pip install pymetis, or use "block"') from error
    start, near, weight = graph
    with _silent():
        _, rank = pymetis.part_graph(
            n_rank,
            pymetis.CSRAdjacency(start.tolist(), near.tolist()),
            vweights=_int_weights(load).tolist(),
            eweights=_int_weights(weight).tolist(),
            options=pymetis.Options(seed=METIS_SEED, ncuts=METIS_CUTS, ufactor=METIS_IMBALANCE),
            recursive=n_rank <= MAX_BISECTED_RANKS,
        )
    return np.array(rank, dtype=np.int64)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what C code prints off standard output: METIS writes a line for each part that it cannot fill, and we do."""
    flush = ctypes.CDLL(None).fflush
    flush(None)
    try:
        kept = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _adjacency(n_lp: int, lp_edges: LpEdges) -> Graph:
    """Symmetric CSR (start, neighbour, weight) without loops; parallel edges are added up."""
    end_a, end_b = (np.asarray(end, dtype=np.int64) for end in lp_edges[:2])
    weight = np.asarray(lp_edges[2], dtype=np.float64)
    apart = end_a != end_b
    end_a, end_b, weight = end_a[apart], end_b[apart], weight[apart]
    key, i_key = np.unique(
        np.concatenate([end_a * n_lp + end_b, end_b * n_lp + end_a]), return_inverse=True
    )  # ascending by first end, so it is the CSR order
    total = np.bincount(i_key.reshape(-1), weights=np.concatenate([weight, weight]), minlength=len(key))
    start = np.searchsorted(key, np.arange(n_lp + 1) * n_lp)
    return start, key % n_lp, total


def _int_weights(weight: np.ndarray) -> np.ndarray:
    """Weights as integers >= 1 whose sum METIS can hold, in proportion."""
    scale = min(1.0, (MAX_TOTAL_WEIGHT - len(weight)) / max(float(weight.sum()), 1.0))
    return 1 + np.floor(weight * scale).astype(np.int64)


def _fill_empty(load: np.ndarray, rank_of_lp: np.ndarray, n_rank: int) -> np.ndarray:
    """Give each rank that METIS left empty the heaviest LP of the heaviest rank that can spare one."""
    rank_of_lp = rank_of_lp.copy()
    for rank in range(n_rank):
        n_held = np.bincount(rank_of_lp, minlength=n_rank)
        if n_held[rank]:
            continue
        rank_load = np.where(n_held > 1, np.bincount(rank_of_lp, weights=load, minlength=n_rank), -1.0)
        held = np.flatnonzero(rank_of_lp == int(np.argmax(rank_load)))
        rank_of_lp[held[np.argmax(load[held])]] = rank
    return rank_of_lp


def _even_out(load: np.ndarray, graph: Graph, rank_of_lp: np.ndarray, n_rank: int) -> np.ndarray:
    """Move LPs from the heaviest to the lightest rank while that lowers the pair's maximum.

    METIS overshoots by tens of percent when a few LPs are heavy, and a round is as long as its heaviest rank. Each
    move takes the LP that evens the pair best, among equals the one that costs the cut least, then the least id.
    """
    rank_of_lp, rank_load = rank_of_lp.copy(), np.bincount(rank_of_lp, weights=load, minlength=n_rank)
    for _ in range(len(load)):
        heavy, light = int(np.argmax(rank_load)), int(np.argmin(rank_load))
        held = np.flatnonzero((rank_of_lp == heavy) & (load > 0))
        after = np.maximum(rank_load[heavy] - load[held], rank_load[light] + load[held])
        is_even = rank_load[heavy] <= BALANCE_TOLERANCE * rank_load.mean()
        if is_even or not len(held) or after.min() >= rank_load[heavy]:
            break
        best = held[after == after.min()]
        moved = min(best.tolist(), key=lambda lp: (_cut_change(graph, rank_of_lp, lp, light), lp))
        rank_of_lp[moved] = light
        rank_load = np.bincount(rank_of_lp, weights=load, minlength=n_rank)
    return rank_of_lp


def _cut_change(graph: Graph, rank_of_lp: np.ndarray, lp: int, to: int) -> float:
    """Weight of messages between ranks that a move of one LP adds (negative: saves)."""
    start, near, weight = graph
    row = slice(start[lp], start[lp + 1])
    rank = rank_of_lp[near[row]]
    return float(weight[row][rank == rank_of_lp[lp]].sum() - weight[row][rank == to].sum())
