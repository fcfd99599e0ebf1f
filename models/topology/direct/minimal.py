"""Minimal ways through a dragonfly: from group to group over one global link (Kim et al. 2008, section 4.1).

Routing by fewest links takes two or three global links where these are as few hops as, or fewer than, a local, a global
and a local one. Here such ways are replaced: of the links that join the two groups those with the fewest local hops
before and behind are candidates, and the hash of `ecmp` picks one. All other ways of fewest links are minimal already.
"""

import numpy as np

from models.topology.ecmp import ecmp_index
from models.topology.graph import Topology
from models.topology.paths import Paths


def minimal_paths(topology: Topology, paths: Paths, routers_per_group: int, ends: np.ndarray, ecmp_seed: int) -> Paths:
    """The same paths, but with one global link at most. ends: int64[n_pair, 4], (src, dst, sport, dport)."""
    group = _groups(topology, routers_per_group)
    src, dst = topology.port_src, topology.port_dst
    is_far = (group[src] >= 0) & (group[dst] >= 0) & (group[src] != group[dst])
    far_before = np.concatenate([[0], np.cumsum(is_far[paths.port])])
    n_far = far_before[paths.start[1:]] - far_before[paths.start[:-1]]
    if not (n_far > 1).any():
        return paths
    between: dict[tuple[int, int], list[int]] = {}
    for port in np.flatnonzero(is_far).tolist():
        between.setdefault((int(group[src[port]]), int(group[dst[port]])), []).append(port)
    near = np.flatnonzero((group[src] >= 0) & (group[src] == group[dst]))
    local = dict(zip(zip(src[near].tolist(), dst[near].tolist(), strict=True), near.tolist(), strict=True))
    rows = [paths.row(i) for i in range(len(paths.start) - 1)]
    for i_row in np.flatnonzero(n_far > 1).tolist():
        row = rows[i_row]
        inner = np.flatnonzero((group[src[row]] >= 0) & (group[dst[row]] >= 0))
        begin, end = int(src[row[inner[0]]]), int(dst[row[inner[-1]]])
        candidates = between[int(group[begin]), int(group[end])]
        n_local = [(int(src[port]) != begin) + (int(dst[port]) != end) for port in candidates]
        nearest = [port for port, n in zip(candidates, n_local, strict=True) if n == min(n_local)]
        a, b, sport, dport = ends[i_row // 2].tolist()
        header = (b, a, dport, sport) if i_row % 2 else (a, b, sport, dport)
        far = nearest[int(ecmp_index(*header, begin ^ ecmp_seed, len(nearest)))]
        before = [local[begin, int(src[far])]] if int(src[far]) != begin else []
        behind = [local[int(dst[far]), end]] if int(dst[far]) != end else []
        middle = np.array([*before, far, *behind], np.int32)
        rows[i_row] = np.concatenate([row[: inner[0]], middle, row[inner[-1] + 1 :]])
    start = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return Paths(start, np.concatenate(rows).astype(np.int32))


def _groups(topology: Topology, routers_per_group: int) -> np.ndarray:
    """int64[n_node]; of routers, -1 for all others."""
    is_router = topology.is_switch & (topology.server < 0)
    return np.where(is_router, (np.cumsum(is_router) - 1) // routers_per_group, -1)
