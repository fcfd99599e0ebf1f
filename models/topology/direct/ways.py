"""Ways through a dragonfly: minimal, Valiant's, or UGAL's choice between the two (Kim et al. 2008, section 4).

Ways of fewest links, as other fabrics have them, may take two or three global links where that is as few hops as, or
fewer than, a local, a global and a local one. A minimal way has one: of the links that join the two groups those with
the fewest local hops before and behind are candidates, and the hash of `ecmp` picks one.

Valiant's way leads to a group that is neither's, drawn by the hash, and from there, minimally, on. UGAL compares a
minimal way with one of Valiant's when a packet is sent, by the lengths of queues times hops. Deviation: here all ways
are fixed, one for each queue pair, so the length of a queue is what queue pairs before this one bring to the port, as
time at its rate; the longest on the way counts.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from models.topology.ecmp import ecmp_index
from models.topology.graph import Topology
from models.topology.paths import Paths

Rule = Literal["minimal", "valiant", "ugal"]
SALT = 0x56414C  # of the draw of a group
Header = tuple[int, int, int, int]


class Pairs(NamedTuple):
    """Queue pairs. header: int64[n_pair, 4], (src, dst, sport, dport). size_bytes: int64[n_pair], all they send."""

    header: np.ndarray
    size_bytes: np.ndarray


class _Links:
    """Of routers: their groups, and the links between and in these."""

    def __init__(self, topology: Topology, routers_per_group: int, seed: int) -> None:
        self.src, self.dst, self.seed = topology.port_src, topology.port_dst, seed
        is_router = topology.is_switch & (topology.server < 0)
        self.group = np.where(is_router, (np.cumsum(is_router) - 1) // routers_per_group, -1)
        self.n_group = int(self.group.max(initial=-1)) + 1
        of_src, of_dst = self.group[self.src], self.group[self.dst]
        self.is_far = (of_src >= 0) & (of_dst >= 0) & (of_src != of_dst)
        self.between: dict[tuple[int, int], list[int]] = {}
        for port in np.flatnonzero(self.is_far).tolist():
            self.between.setdefault((int(of_src[port]), int(of_dst[port])), []).append(port)
        near = np.flatnonzero((of_src >= 0) & (of_src == of_dst))
        ends = zip(self.src[near].tolist(), self.dst[near].tolist(), strict=True)
        self.local = dict(zip(ends, near.tolist(), strict=True))

    def way(self, begin: int, end: int, header: Header, over: int = -1) -> list[int]:
        """Ports from router to router of another group. over: a group on the way, -1: none."""
        groups, here, found = [g for g in (over, int(self.group[end])) if g >= 0], begin, list[int]()
        for i, group in enumerate(groups):
            is_last = i == len(groups) - 1
            candidates = self.between[int(self.group[here]), group]
            n_local = [(int(self.src[port]) != here) + (is_last and int(self.dst[port]) != end) for port in candidates]
            nearest = [port for port, n in zip(candidates, n_local, strict=True) if n == min(n_local)]
            far = nearest[int(ecmp_index(*header, here ^ self.seed, len(nearest)))]
            found += [*self._beside(here, int(self.src[far])), far]
            here = int(self.dst[far])
        return [*found, *self._beside(here, end)]

    def _beside(self, begin: int, end: int) -> list[int]:
        """The local link, if one is needed."""
        return [self.local[begin, end]] if begin != end else []

    def drawn(self, begin: int, end: int, header: Header) -> int:
        """A group that is neither's."""
        taken = sorted((int(self.group[begin]), int(self.group[end])))
        found = int(ecmp_index(*header, SALT ^ self.seed, self.n_group - 2))
        for group in taken:
            found += found >= group
        return found


def dragonfly_paths(
    topology: Topology, paths: Paths, routers_per_group: int, pairs: Pairs, seed: int, rule: Rule
) -> Paths:
    """Paths of fewest links, with others by a rule where they lead to another group."""
    links = _Links(topology, routers_per_group, seed)
    before = np.concatenate([[0], np.cumsum(links.is_far[paths.port])])
    n_far = before[paths.start[1:]] - before[paths.start[:-1]]
    detours = rule != "minimal" and links.n_group > 2
    changed = np.flatnonzero(n_far > (0 if detours else 1)).tolist()
    if not changed:
        return paths
    rows = [paths.row(i) for i in range(len(paths.start) - 1)]
    loads = _Loads(topology, detours and rule == "ugal")
    for i_row in changed:
        row, i, is_back = rows[i_row], i_row // 2, i_row % 2
        inner = np.flatnonzero((links.group[links.src[row]] >= 0) & (links.group[links.dst[row]] >= 0))
        begin, end = int(links.src[row[inner[0]]]), int(links.dst[row[inner[-1]]])
        a, b, sport, dport = pairs.header[i].tolist()
        header = (b, a, dport, sport) if is_back else (a, b, sport, dport)
        ways = [list(map(int, row[inner]))] if n_far[i_row] == 1 else [links.way(begin, end, header)]
        if detours:
            ways.append(links.way(begin, end, header, links.drawn(begin, end, header)))
        way = loads.chosen(ways, 0 if is_back else int(pairs.size_bytes[i]))
        rows[i_row] = np.concatenate([row[: inner[0]], np.array(way, np.int32), row[inner[-1] + 1 :]])
    start = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return Paths(start, np.concatenate(rows).astype(np.int32))


class _Loads:
    """What queue pairs bring to ports, as time; for UGAL."""

    def __init__(self, topology: Topology, compares: bool) -> None:
        self._compares, self._rate_bps = compares, topology.port_rate_bps
        self._size_bytes = np.zeros(len(topology.port_rate_bps), np.int64)

    def chosen(self, ways: Sequence[list[int]], size_bytes: int) -> list[int]:
        """The last way; with UGAL the first, minimal one unless its longest queue, times its hops, is longer."""
        best = ways[-1]
        if self._compares:
            costs = [len(way) * float((self._size_bytes[way] / self._rate_bps[way]).max()) for way in ways]
            best = ways[int(np.argmin(costs))]
            self._size_bytes[best] += size_bytes
        return best
