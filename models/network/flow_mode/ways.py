"""The ports of messages' ways in flow mode, and which part of a message goes over each.

A queue pair's data and its acknowledgements go by fixed paths, or as switches choose: one way for each flow (ECMP, by
the hash that packets have, so that it is the same one), or evenly over all ways of equal length, where packets would be
sprayed or go to the shortest queue. Ways hold until routing answers a change of links: an epoch (`forwarding`).
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import QueuePairs
from models.network.state.switch_state import Routing
from models.network.switch.forwarding import way_at
from models.network.watch.ideal_routes import allowed
from models.topology.graph import Topology
from pdes.engine.jit import kernel

ALL = 1.0


class Shared(NamedTuple):
    """Ways by queue pair: places start[i] .. start[i + 1] - 1. None where no way leads to the other end."""

    start: np.ndarray  # int64[n_qp + 1]
    port: np.ndarray  # int32[n_place]
    usage: np.ndarray  # float32[n_place], the part of a message that goes over it


class Walk(NamedTuple):
    """Scratch of `_spread`."""

    part: np.ndarray  # float64[n_node], what comes to a node; zeros
    node: np.ndarray  # int64[2, n_node], nodes of a level and of the next
    port_part: np.ndarray  # float64[n_port]; zeros
    port: np.ndarray  # int64[n_port]


@kernel
def _spread(routing: Routing, links, first_port, i_route, epoch, w: Walk):
    """Fill w.port and w.port_part with the ports of a way; (how many, whether it leads to the host).

    links: (port_dst, is_switch). Ways of equal length meet at the same step, so that it goes level by level.
    """
    port_dst, is_switch = links
    n_port, n_node, has_end = 1, 1, False
    w.port[0], w.port_part[first_port] = first_port, ALL
    w.node[0, 0], w.part[port_dst[first_port]] = port_dst[first_port], ALL
    while n_node > 0:
        n_next = 0
        for i in range(n_node):
            node = w.node[0, i]
            part, w.part[node] = w.part[node], 0.0
            if not is_switch[node]:
                has_end = True
                continue
            low, high, is_direct = allowed(routing, i_route, node, epoch)
            for k in range(low, high):
                port = way_at(routing.way_port, k, is_direct)
                if w.port_part[port] == 0.0:
                    w.port[n_port] = port
                    n_port += 1
                w.port_part[port] += part / (high - low)
                other = port_dst[port]
                if w.part[other] == 0.0:
                    w.node[1, n_next] = other
                    n_next += 1
                w.part[other] += part / (high - low)
        w.node[0, :n_next] = w.node[1, :n_next]
        n_node = n_next
    return n_port, has_end


@kernel
def _ways(routing: Routing, links, paths, rows, epoch, w: Walk, out: Shared):
    """Write the ways of path rows from out.start[i] on, and where they end into out.start[i + 1]; out.port of no size:
    only that.

    paths: (path_port, path_start), see `QueuePairs`; a row whose second element is below -1 is routed, by route `row`.
    """
    (path_port, path_start), (start, port, usage) = paths, out
    for i in range(rows.size):
        row, at = rows[i], start[i]
        place = path_start[row]
        if path_port[place + 1] < -1:
            n, has_end = _spread(routing, links, np.int64(path_port[place]), row, epoch, w)
            for k in range(n):
                if port.size > 0 and has_end:
                    port[at + k], usage[at + k] = w.port[k], w.port_part[w.port[k]]
                w.port_part[w.port[k]] = 0.0
            at += n if has_end else 0
        else:
            while path_port[place] >= 0:
                if port.size > 0:
                    port[at], usage[at] = path_port[place], ALL
                at += 1
                place += 1
        start[i + 1] = at


def ways_of(topology: Topology, pairs: QueuePairs, routing: Routing, epoch: int, is_ack: int) -> Shared:
    """The ways of an epoch, of data (is_ack 0) or of acknowledgements (1), by queue pair."""
    n_pair, n_port, n_node = len(pairs.pair_of_row), topology.n_port, topology.n_node
    walk = Walk(np.zeros(n_node), np.zeros((2, n_node), np.int64), np.zeros(n_port), np.zeros(n_port, np.int64))
    start = np.zeros(n_pair + 1, np.int64)
    given = routing, (topology.port_dst, topology.is_switch), (pairs.path_port, pairs.path_start)
    rows = 2 * pairs.pair_of_row + is_ack
    _ways(*given, rows, epoch, walk, Shared(start, np.zeros(0, np.int32), np.zeros(0, np.float32)))
    found = Shared(start, np.zeros(int(start[-1]), np.int32), np.zeros(int(start[-1]), np.float32))
    _ways(*given, rows, epoch, walk, found)
    return found
