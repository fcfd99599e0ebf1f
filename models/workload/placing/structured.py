"""Placements that keep together what communicates: the ranks of a block of GPUs, and the order of the blocks.

A block is a server; where servers have one GPU each, the GPUs of an edge switch. Tensor-parallel groups are on GPUs in
a row. The rest of a block is shared out among replicas, context parallelism and stages in all ways that come out even,
and blocks are taken in one of several orders (HeteroSim, section 4.2: domain first, GPUs of a kind in a stage).
"""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

from models.topology.graph import Topology
from models.workload.compiler.job import Job

AXES = (1, 2, 3)  # of ranks as [stage, replica, context, tensor]: all but tensor, which is innermost


class Block(NamedTuple):
    """GPUs near each other. time: how long the slowest of them computes; rate_bps: of the slowest NIC."""

    gpus: tuple[int, ...]
    time: float
    rate_bps: int


def blocks_of(job: Job, topology: Topology) -> list[Block]:
    """All GPUs of a cluster, in their order."""
    places = topology.server[topology.host].tolist()
    is_nic = topology.is_switch[topology.port_dst] & (topology.server[topology.port_dst] < 0)
    switch = np.full(topology.n_node, -1, np.int64)
    switch[topology.port_src[is_nic][::-1]] = topology.port_dst[is_nic][::-1]  # the first of a host's
    rates = np.zeros(topology.n_node, np.int64)
    np.add.at(rates, topology.port_src[is_nic], topology.port_rate_bps[is_nic])
    if len(set(places)) == len(places):
        places = [int(switch[node]) for node in topology.host]
    members: dict[int, list[int]] = {}
    for gpu, place in enumerate(places):
        members.setdefault(place, []).append(gpu)
    times, nodes = gpu_times(job, len(places)), topology.host.tolist()
    return [
        Block(tuple(own), max(times[gpu] for gpu in own), min(int(rates[nodes[gpu]]) for gpu in own))
        for own in members.values()
    ]


def gpu_times(job: Job, n_gpu: int) -> list[float]:
    """How long each GPU computes, next to the others."""
    return [job.slowness.get(gpu, 1.0) / job.device(gpu).peak(job.layout.precision) for gpu in range(n_gpu)]


def orders_of(blocks: list[Block]) -> list[list[Block]]:
    """As they are, then by what they can do, either way; blocks that can do the same stay in their order."""
    keys = [lambda b: b.time, lambda b: -b.time, lambda b: -b.rate_bps, lambda b: b.rate_bps]
    found = [blocks]
    for key in keys:
        order = sorted(blocks, key=key)
        if order not in found:
            found.append(order)
    return found


def structured(job: Job, topology: Topology) -> Iterator[np.ndarray]:
    """Placements, GPU of every rank; the more usual ones come first."""
    layout, blocks = job.layout, blocks_of(job, topology)
    sizes = layout.pp, layout.dp, layout.cp
    n_group = len(blocks[0].gpus) // layout.tp if {len(b.gpus) % layout.tp for b in blocks} == {0} else 1
    if len({len(b.gpus) for b in blocks}) > 1:
        n_group = 1
    ranks = np.arange(layout.n_gpu).reshape(*sizes, layout.tp)
    ways = [order for share in _shares(sizes, n_group) for order in _rank_orders(ranks, share)]
    orders = [np.array([gpu for block in order for gpu in block.gpus]) for order in orders_of(blocks)]
    for way in ways:
        for gpus in orders:
            placed = np.empty(layout.n_gpu, np.int64)
            placed[way] = gpus
            yield placed


def _shares(sizes: tuple[int, int, int], n_group: int) -> list[tuple[int, int, int]]:
    """How many stages, replicas and parts of a sequence share a block of so many tensor groups."""
    pp, dp, cp = sizes
    found = [
        (p, n_group // (p * c), c)
        for c in range(1, cp + 1) if cp % c == 0 and n_group % c == 0
        for p in range(1, pp + 1) if pp % p == 0 and n_group % (p * c) == 0
        if n_group // (p * c) <= dp and dp % (n_group // (p * c)) == 0
    ]  # fmt: skip
    return found or [(1, 1, 1)]


def _rank_orders(ranks: np.ndarray, share: tuple[int, int, int]) -> Iterator[np.ndarray]:
    """Ranks in the order of the blocks' GPUs, with the rest of the stages, replicas and parts in any order outside."""
    pp, dp, cp, tp = ranks.shape
    p, d, c = share
    split = ranks.reshape(pp // p, p, dp // d, d, cp // c, c, tp)
    seen: list[tuple[int, ...]] = []
    for outer in permutations((0, 2, 4)):
        kept = tuple(axis for axis in outer if split.shape[axis] > 1)
        if kept not in seen:
            seen.append(kept)
            yield split.transpose(*outer, 1, 3, 5, 6).ravel()
