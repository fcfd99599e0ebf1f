"""The least that packets may take to a host where switches choose their ways, and which ports they cannot avoid.

A packet goes, at every switch, to any port that the routing policy may choose for it in any epoch that the flow saw: it
may have entered the network by one epoch's tables and left it by the next one's. There is no table of pairs: switches
between two hosts are explored for each flow. What was found is kept for the next flow as long as that goes to a host
that hangs on the same switches, in packets of the same size.
"""

from typing import NamedTuple

import numpy as np

from models.network.state.parameters import ECMP, WEIGHTED_ECMP
from models.network.state.switch_state import Routing
from models.network.switch.forwarding import find_ways, hash_way, way_at
from models.topology.graph import Topology
from pdes.engine.jit import kernel
from pdes.engine.time_index import NEVER

FULL, LAST = range(2)  # rows of what depends on a packet's size: all packets of a message but the last, and the last
STAMP, WALK = range(2)  # of `Search.marks`


class Search(NamedTuple):
    """Links of a topology, and what is known of ways over them. Written only here."""

    port_rate: np.ndarray  # int64[n_port]  place of a port's rate in rate_bps
    rate_bps: np.ndarray  # int64[n_rate]  the rates that there are
    port_rate_bps: np.ndarray  # int64[n_port]
    port_delay_ps: np.ndarray  # int64[n_port]
    port_src: np.ndarray  # int64[n_port]
    port_dst: np.ndarray  # int64[n_port]
    wire_ps: np.ndarray  # int64[2, n_rate]  what a packet takes at each rate
    rest_ps: np.ndarray  # int64[2, n_node]  from a switch to the host at the least, where `known` is marks[STAMP]
    is_forked: np.ndarray  # bool[n_node]  whether there is more than one way, likewise
    known: np.ndarray  # int64[n_node]
    walked: np.ndarray  # int64[n_node]  marks[WALK] where the last walk has come
    queue: np.ndarray  # int64[n_node]
    marks: np.ndarray  # int64[2]
    key: np.ndarray  # int64[4]  what is known is of this


def make_search(topology: Topology) -> Search:
    """Memory for searches; nothing is known yet."""
    t, n = topology, topology.n_node
    rate_bps, port_rate = np.unique(t.port_rate_bps, return_inverse=True)
    return Search(
        port_rate=port_rate.reshape(-1).astype(np.int64), rate_bps=rate_bps, port_rate_bps=t.port_rate_bps,
        port_delay_ps=t.port_delay_ps, port_src=t.port_src, port_dst=t.port_dst,
        wire_ps=np.zeros((2, len(rate_bps)), np.int64), rest_ps=np.zeros((2, n), np.int64),
        is_forked=np.zeros(n, np.bool_), known=np.zeros(n, np.int64), walked=np.zeros(n, np.int64),
        queue=np.zeros(n, np.int64), marks=np.zeros(2, np.int64), key=np.full(4, -1, np.int64),
    )  # fmt: skip


def kinds_of_hosts(topology: Topology, routing: Routing) -> np.ndarray:
    """int64[n_node]: hosts with the same number cannot be told apart by what a packet takes to them from a switch."""
    t, kinds, found = topology, {}, np.full(topology.n_node, -1, np.int64)
    links = np.stack([t.port_src, t.port_rate_bps, t.port_delay_ps], axis=1).tolist()
    for host in t.host.tolist():
        ports = [port for port in t.in_ports(host) if t.is_switch[t.port_src[port]]]
        key = tuple((*links[port], routing.is_up[:, port].tobytes()) for port in ports)
        found[host] = kinds.setdefault(key, len(kinds))
    return found


@kernel
def allowed(routing: Routing, i_route, node, epoch):
    """(first, end, is_direct): the ports that a packet may take from a switch, as `forwarding.find_ways` counts them.

    i_route: row of `routing.routes`, the odd ones are of ACKs.
    """
    route = routing.routes[i_route]
    low, high, is_direct = find_ways(routing, node, route.dst, routing.epoch_ps[epoch])
    if high - low > 1 and is_hashed(routing, i_route):
        low += hash_way(routing.settings, route, node, high - low)
        high = low + 1
    return low, high, is_direct


@kernel
def is_hashed(routing: Routing, i_route):
    """Whether all packets of a route take the same way while no link changes."""
    policy = routing.routes[i_route].policy
    return i_route % 2 == 1 or policy == ECMP or policy == WEIGHTED_ECMP


@kernel
def explore(routing: Routing, links: Search, i_route, epochs, start):
    """Make known what packets of `links.wire_ps` take from switch `start`, and from all that lie behind, to the host.

    epochs: (first, last). Within one epoch a way has as few links as there can be: so switches are settled in the
    order of their distance. Ways that mix epochs may go in circles, and are gone through until nothing changes.
    """
    stamp, n_node = links.marks[STAMP], 0
    if links.known[start] != stamp:
        n_node = _come_to(links, start, 0)
    i_node = 0
    while i_node < n_node:
        node = links.queue[i_node]
        i_node += 1
        for epoch in range(epochs[0], epochs[1] + 1):
            low, high, is_direct = allowed(routing, i_route, node, epoch)
            for i in range(low, high):
                near = links.port_dst[way_at(routing.way_port, i, is_direct)]
                if not is_direct and links.known[near] != stamp:
                    n_node = _come_to(links, near, n_node)
    changes = n_node > 0
    while changes:
        changes = False
        for i_node in range(n_node - 1, -1, -1):
            changes |= _settle(routing, links, i_route, epochs, links.queue[i_node])
        changes &= epochs[1] > epochs[0]


@kernel
def _come_to(links: Search, node, n_node):
    links.known[node], links.queue[n_node] = links.marks[STAMP], node
    links.rest_ps[FULL, node] = links.rest_ps[LAST, node] = NEVER
    links.is_forked[node] = False
    return n_node + 1


@kernel
def _settle(routing: Routing, links: Search, i_route, epochs, node):
    """Take over what is known behind a switch; whether that changes anything."""
    only, changes = np.int64(-1), False
    for epoch in range(epochs[0], epochs[1] + 1):
        low, high, is_direct = allowed(routing, i_route, node, epoch)
        for i in range(low, high):
            port = way_at(routing.way_port, i, is_direct)
            near = links.port_dst[port]
            is_forked = (only >= 0 and port != only) or (not is_direct and links.is_forked[near])
            only = port
            changes |= is_forked and not links.is_forked[node]
            links.is_forked[node] |= is_forked
            for k in range(2):
                rest_ps = over_port(links, k, port, is_direct)
                changes |= rest_ps < links.rest_ps[k, node]
                links.rest_ps[k, node] = min(rest_ps, links.rest_ps[k, node])
    return changes


@kernel
def over_port(links: Search, k, port, is_direct):
    """From the begin of a packet's transmission on a port to its arrival at the host. is_direct: that is its end."""
    rest_ps = np.int64(0) if is_direct else links.rest_ps[k, links.port_dst[port]]
    if rest_ps == NEVER:
        return rest_ps
    return links.wire_ps[k, links.port_rate[port]] + links.port_delay_ps[port] + rest_ps


@kernel
def best_way(routing: Routing, links: Search, i_route, epochs, first_port):
    """int64[]: the ports of a way that is the best for the last packet, in order of travel. All of it is known."""
    way, n_way = np.empty(len(links.queue), np.int64), 1
    way[0], arrived = first_port, False
    while not arrived:
        node, least_ps = links.port_dst[way[n_way - 1]], NEVER
        for epoch in range(epochs[0], epochs[1] + 1):
            low, high, is_direct = allowed(routing, i_route, node, epoch)
            for i in range(low, high):
                port = way_at(routing.way_port, i, is_direct)
                rest_ps = over_port(links, LAST, port, is_direct)
                if rest_ps < least_ps:
                    least_ps, way[n_way], arrived = rest_ps, port, is_direct
        n_way += 1
    return way[:n_way].copy()


@kernel
def find_bridges(routing: Routing, links: Search, i_route, epochs, way):
    """int64[]: those ports of a way that no way goes without; the first is one, and the only one into the host."""
    is_bridge, dst = np.ones(len(way), np.bool_), routing.routes[i_route].dst
    has_one_end = routing.in_start[dst + 1] == routing.in_start[dst] + 1  # seen at once, where a walk would go all ways
    for i in range(1, len(way) - has_one_end):
        is_bridge[i] = not _goes_without(routing, links, i_route, epochs, way, i)
    return way[is_bridge]


@kernel
def _goes_without(routing: Routing, links: Search, i_route, epochs, way, i_avoided):
    """Whether some way has not a port: depth first, as nearly always the first one that is tried has not."""
    node = links.port_dst[way[0]]
    links.marks[WALK] += 1
    links.walked[node], links.queue[0], n_left = links.marks[WALK], node, 1
    while n_left > 0:
        n_left -= 1
        node = links.queue[n_left]
        for epoch in range(epochs[0], epochs[1] + 1):
            low, high, is_direct = allowed(routing, i_route, node, epoch)
            for i in range(low, high):
                port = way_at(routing.way_port, i, is_direct)
                near = links.port_dst[port]
                if port == way[i_avoided] or (not is_direct and links.walked[near] == links.marks[WALK]):
                    continue
                if is_direct:
                    return True
                links.walked[near] = links.marks[WALK]
                links.queue[n_left] = near
                n_left += 1
    return False
