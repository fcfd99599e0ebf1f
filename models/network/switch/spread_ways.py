"""Ports that are as one where switches send each packet of a flow over another way.

A sprayed flow, or one whose packets go to the shortest queue, uses all ports of a stage evenly: those of its first
switch that lead on, then those of all switches that it may have come to, and so on. Where two flows have either all of
a stage in common or nothing of it, it is one port that is as fast as all of them. A stage that carries all that hosts
before it can send, or those behind it can take, is wide: no flow has to wait for it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import QueuePairs
from models.network.state.switch_state import FIRST_ROUTE, Routing
from models.network.switch.forwarding import way_at
from models.network.watch.ideal_routes import allowed, kinds_of_hosts
from models.topology.graph import Topology
from pdes.engine.jit import kernel
from pdes.skipping.components import root_of

ROUNDING = 1e-9


class Spread(NamedTuple):
    """Stages of a network. A port that is in none stands for itself alone."""

    first: np.ndarray  # int64[n_port], which stands for all ports of its stage
    n: np.ndarray  # int64[n_port], of how many: by such ports
    is_narrow: np.ndarray  # bool[n_port], whether flows may wait for it: by such ports

    def of_all(self, of_port: np.ndarray) -> np.ndarray:
        """What all ports of a stage have together, by the port that stands for them, of what each has."""
        return of_port * self.n

    def without_wide(self, ways: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The same ways, without wide stages. Ports of flow f: ways[1][ways[0][f] : ways[0][f + 1]]."""
        return self._some(ways, self.is_narrow)

    def only_wide(self, ways: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Of the same ways those ports alone."""
        return self._some(ways, ~self.is_narrow)

    def _some(self, ways: tuple[np.ndarray, np.ndarray], is_one: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (start, port_of), port = ways, self.first[ways[1]]
        is_kept = is_one[port]
        n_before = np.concatenate([[0], np.cumsum(is_kept)])
        return n_before[start].astype(start.dtype), port[is_kept].astype(port_of.dtype)

    def spread(self, of_first: np.ndarray) -> np.ndarray:
        """int64[n_port]: of what ports that stand for their stages have, int64[n_port], evenly by port."""
        share, rest = np.divmod(of_first, self.n)
        order = np.argsort(self.first, kind="stable")
        first = self.first[order]
        place = np.empty(len(order), np.int64)  # of each port in its stage
        place[order] = np.arange(len(order)) - np.searchsorted(first, first)
        return share[self.first] + (place < rest[self.first])


class _Walk(NamedTuple):
    """Scratch of `_go_through`."""

    part: np.ndarray  # float64[n_node], of a flow that comes to a node; zeros
    node: np.ndarray  # int64[2, n_node], those of a stage and of the next
    port: np.ndarray  # int64[n_port], of a stage


@kernel
def _go_through(routing: Routing, links, first_node, i_route, w: _Walk, group, n_of):
    """Join the ports of each stage of a route in `group` (see `root_of`). Where n_of has a size, it has how many ports
    stand together, by the one that stands for them: then this says whether each stage is all of these, evenly.

    links: (port_dst, is_switch). The links into the host are no stage: there is to be one.
    """
    port_dst, is_switch = links
    n_node, is_even = 1, True
    w.node[0, 0], w.part[first_node] = first_node, 1.0
    while n_node > 0:
        n_port, n_next, n_last = 0, 0, 0
        for i in range(n_node):
            node = w.node[0, i]
            part, w.part[node] = w.part[node], 0.0
            if not is_switch[node]:
                continue
            low, high, is_direct = allowed(routing, i_route, node, 0)
            n_last += (high - low) * is_direct
            is_even &= high > low
            for k in range(low, high):
                port = way_at(routing.way_port, k, is_direct)
                if is_direct:
                    continue
                w.port[n_port] = port
                n_port += 1
                is_even &= n_of.size == 0 or abs(part / (high - low) * n_of[root_of(group, port)] - 1.0) < ROUNDING
                other = port_dst[port]
                if w.part[other] == 0.0:
                    w.node[1, n_next] = other
                    n_next += 1
                w.part[other] += part / (high - low)
        is_even &= n_last <= 1 and (n_last == 0 or n_port == 0)
        for k in range(1, n_port):
            one, other = root_of(group, w.port[0]), root_of(group, w.port[k])
            group[max(one, other)] = min(one, other)
        is_even &= n_of.size == 0 or n_port == 0 or n_port == n_of[root_of(group, w.port[0])]
        w.node[0, :n_next] = w.node[1, :n_next]
        n_node = n_next
    return is_even


@kernel
def _go_through_all(routing: Routing, links, nodes, routes, w: _Walk, group, n_of):
    """The same of several routes, from switches on."""
    is_even = True
    for i in range(nodes.size):
        is_even &= _go_through(routing, links, nodes[i], routes[i], w, group, n_of)
    return is_even


def find_spread(topology: Topology, pairs: QueuePairs, resolved: QueuePairs, routing: Routing) -> Spread | None:
    """Stages of the ways of queue pairs' data, while no link changes; None where ways do not make stages, or where
    ports of one are not alike.

    resolved: the same queue pairs, each with one of its ways.
    """
    rows = np.flatnonzero(pairs.path_port[pairs.path_start[:-1:2] + 1] <= FIRST_ROUTE) * 2
    first_port = pairs.path_port[pairs.path_start[rows]].astype(np.int64)
    ends = np.stack([topology.port_dst[first_port], kinds_of_hosts(topology, routing)[routing.routes["dst"][rows]]])
    _, some = np.unique(ends, axis=1, return_index=True)
    group, links = np.arange(topology.n_port), (topology.port_dst, topology.is_switch)
    walk = _Walk(
        np.zeros(topology.n_node), np.zeros((2, topology.n_node), np.int64), np.zeros(topology.n_port, np.int64)
    )
    given = routing, links, ends[0, some], rows[some], walk, group
    _go_through_all(*given, np.zeros(0, np.int64))
    first = _roots(group)
    n_of = np.bincount(first, minlength=topology.n_port)
    is_alike = all((of[first] == of).all() for of in (topology.port_rate_bps, topology.port_delay_ps))
    if not _go_through_all(*given, n_of) or not is_alike or _is_used_otherwise(resolved, rows, n_of[first] > 1):
        return None
    is_narrow = _are_narrow(topology, resolved, rows, first, np.maximum(n_of, 1))
    return Spread(first, np.maximum(n_of, 1), is_narrow)


def _is_used_otherwise(resolved: QueuePairs, rows: np.ndarray, is_stage: np.ndarray) -> bool:
    """Whether data that keeps its way uses a port of a stage. rows: of the paths of data that is spread."""
    n_row = len(resolved.path_start) - 1
    is_other = np.arange(n_row) % 2 == 0
    is_other[rows] = False
    ports = resolved.path_port[np.repeat(is_other, np.diff(resolved.path_start))]
    return bool(is_stage[ports[ports >= 0]].any())


def _roots(group: np.ndarray) -> np.ndarray:
    """The port that stands for each; group[p] <= p."""
    while (group[group] != group).any():
        group = group[group]
    return group


def _are_narrow(
    topology: Topology, resolved: QueuePairs, rows: np.ndarray, first: np.ndarray, n: np.ndarray
) -> np.ndarray:  # fmt: skip
    """bool[n_port]: which stages may be full, by the ports that stand for them: those that carry less than hosts may
    send, and take. rows: of the paths of data that is spread."""
    start, end = resolved.path_start[rows], resolved.path_start[rows + 1] - 1
    n_mid = end - start - 2
    is_narrow, rate_bps = np.ones(topology.n_port, np.bool_), topology.port_rate_bps
    place = np.repeat(start + 1 - np.cumsum(n_mid) + n_mid, n_mid) + np.arange(int(n_mid.sum()))
    stage = first[resolved.path_port[place]]
    most_bps = np.full(topology.n_port, np.inf)
    for ends in (start, end - 1):
        found = np.unique(stage * topology.n_port + np.repeat(resolved.path_port[ends], n_mid))
        total = np.bincount(found // topology.n_port, rate_bps[found % topology.n_port], topology.n_port)
        most_bps = np.minimum(most_bps, total)
    stage = np.unique(stage)
    is_narrow[stage] = most_bps[stage] > rate_bps[stage] * n[stage] * (1 + ROUNDING)
    return is_narrow


def together(pairs: QueuePairs, spread: Spread) -> QueuePairs:
    """Queue pairs whose data goes by the ports that stand for stages."""
    path_port, n_row = pairs.path_port.copy(), len(pairs.path_start) - 1
    is_data = np.repeat(np.arange(n_row) % 2 == 0, np.diff(pairs.path_start)) & (path_port >= 0)
    path_port[is_data] = spread.first[path_port[is_data]]
    return replace(pairs, path_port=path_port)
