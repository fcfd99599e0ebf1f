"""Shortest paths by hop count, with ns-3's ECMP rule: the ports that each flow and its ACKs cross.

Candidates of a switch stand in descending neighbour id (parallel links: ascending port id), the hash of `ecmp.py`
picks one; ACKs hash their own header. A host with several ports takes one on a shortest path, by the same hash, but one
to an NVSwitch rather than one of as short a way through a leaf that two GPUs of a server share.
Paths are static: nothing here reacts to load or to a link that fails.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from models.topology.base_rtt import max_base_rtt, path_base_rtt
from models.topology.distance import Distances, distances, hops_over
from models.topology.ecmp import ecmp_index
from models.topology.graph import Topology
from models.topology.paths import Paths
from pdes.engine.jit import kernel
from pdes.errors import ConfigError

__all__ = ["NextHops", "Paths", "max_base_rtt", "path_base_rtt", "route_pairs"]

NextHops = Mapping[tuple[int, int], Sequence[int]]
"""{(switch, destination host): next hops in table order}, to be used in place of the rule's order."""


def route_pairs(
    topology: Topology,
    src: np.ndarray,
    dst: np.ndarray,
    sport: np.ndarray,
    dport: np.ndarray,
    ecmp_seed: int = 0,
    next_hops: NextHops | None = None,
) -> Paths:
    """Route every pair (src[i], dst[i]) of hosts, forth for data and back for ACKs.

    src, dst: int64[n_pair] node ids of hosts; sport, dport: int64[n_pair], the low 16 bits count.
    next_hops: table that replaces the rule's candidates where it has an entry; each is to lie on a shortest path.
    Raises ConfigError, naming both nodes, for a pair without a path, and for a table entry that leads astray.
    """
    table = distances(topology)
    _check_ends(topology, src, dst)
    ends = np.empty((2 * len(src), 4), np.int64)
    ends[0::2] = np.stack([src, dst, sport, dport], axis=1)
    ends[1::2] = ends[0::2][:, [1, 0, 3, 2]]
    first = np.empty(len(ends), np.int64)
    group = np.empty(len(ends), np.int64)
    start = np.zeros(len(ends) + 1, np.int64)
    i_fault = first_hops(topology.port_dst, table, ends, ecmp_seed, first, group, start[1:])
    if i_fault >= 0:
        raise _unreachable(topology, *ends[i_fault, :2].tolist())
    np.cumsum(start, out=start)
    port = np.empty(int(start[-1]), np.int32)
    order = np.argsort(group, kind="stable")
    given = _explicit_table(topology, table, next_hops or {})
    ports = (topology.port_src, topology.port_dst, topology.in_start)
    walk_routes(ports, table, given, ends, order, (first, group), (start, port), ecmp_seed)
    return Paths(start, port)


def _check_ends(topology: Topology, src: np.ndarray, dst: np.ndarray) -> None:
    """Refuse ends that are no hosts, and flows of a host to itself."""
    for end in (src, dst):
        outside = np.flatnonzero((end < 0) | (end >= topology.n_node))
        if len(outside):
            raise _bad_pair(topology, f"node {int(end[outside[0]])}", f"Nodes 0..{topology.n_node - 1} exist")
        switch = np.flatnonzero(topology.is_switch[end])
        if len(switch):
            node = int(end[switch[0]])
            raise _bad_pair(topology, f"{topology.node_name[node]} (node {node}) is a switch", "Flows join hosts")
    same = np.flatnonzero(src == dst)
    if len(same):
        node = int(src[same[0]])
        raise _bad_pair(topology, f"a flow from {topology.node_name[node]} to itself", "Flows join two hosts")


def _bad_pair(topology: Topology, found: str, accepted: str) -> ConfigError:
    return ConfigError(f"routing in {topology.name}", found, accepted)


def _unreachable(topology: Topology, src: int, dst: int) -> ConfigError:
    found = f"no path from {topology.node_name[src]} (node {src}) to {topology.node_name[dst]} (node {dst})"
    return _bad_pair(topology, found, "Hosts do not forward: switches and links are to join the two")


def _explicit_table(
    topology: Topology, table: Distances, next_hops: NextHops
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(int64 keys switch * n_node + dst ascending, CSR starts, ports) of a table of next hops, each one checked."""
    links: dict[tuple[int, int], list[int]] = {}
    if next_hops:
        for port, ends in enumerate(zip(topology.port_src.tolist(), topology.port_dst.tolist(), strict=True)):
            links.setdefault(ends, []).append(port)
    start, ports = [0], []
    entries = sorted(next_hops.items())
    for (switch, dst), hops in entries:
        used: dict[int, int] = {}
        for near in hops:
            parallel = links.get((switch, near), [])
            _check_entry(topology, table, switch, dst, near, parallel)
            # A neighbour that a table names again means its next parallel link.
            ports.append(parallel[min(used.get(near, 0), len(parallel) - 1)])
            used[near] = used.get(near, 0) + 1
        start.append(len(ports))
    keys = np.array([switch * topology.n_node + dst for (switch, dst), _ in entries], np.int64)
    return keys, np.array(start, np.int64), np.array(ports, np.int64)


def _check_entry(topology: Topology, table: Distances, switch: int, dst: int, near: int, parallel: list[int]) -> None:
    """Refuse a next hop that is no neighbour or that does not lie on a shortest path."""
    where = f"next hops of node {switch} towards node {dst}"
    if not parallel:
        raise ConfigError(where, f"node {near}", "Accepted are neighbours that a link joins to this node")
    out = table.out_port[table.out_start[switch] : table.out_start[switch + 1]]
    n_links = {int(port): int(hops_over(port, dst, topology.port_dst, table)[0]) for port in out}
    best = min((hops for hops in n_links.values() if hops > 0), default=-1)
    if best < 0 or n_links[parallel[0]] != best:
        raise ConfigError(where, f"node {near}, which is not on a shortest path", "Paths are shortest paths")


@kernel
def first_hops(port_dst, table, ends, ecmp_seed, first, group, length):
    """Choose the port by which each route leaves its host, and find the route's length.

    ends: int64[n_row, 4] (src, dst, sport, dport). Written, int64[n_row]: first (a port), group (the distance table
    for the rest of the way, -1 if there is none), length (links). Returns the first row without a path, else -1.
    """
    for i_row in range(len(ends)):
        src, dst = ends[i_row, 0], ends[i_row, 1]
        n_way, is_inside = 0, False
        for i_out in range(table.out_start[src], table.out_start[src + 1]):
            n_link, i_group = hops_over(table.out_port[i_out], dst, port_dst, table)
            if n_link > 0 and (n_way == 0 or n_link < length[i_row]):
                first[i_row], group[i_row], length[i_row] = table.out_port[i_out], i_group, n_link
                n_way, is_inside = 1, table.is_inside[table.out_port[i_out]]
            elif n_way > 0 and n_link == length[i_row] and table.is_inside[table.out_port[i_out]] == is_inside:
                n_way += 1  # ports to NVSwitches come first
        if n_way == 0:
            return i_row
        if n_way == 1:
            continue
        i_way = ecmp_index(src, dst, ends[i_row, 2], ends[i_row, 3], src ^ ecmp_seed, n_way)
        for i_out in range(table.out_start[src], table.out_start[src + 1]):
            n_link, i_group = hops_over(table.out_port[i_out], dst, port_dst, table)
            if n_link == length[i_row] and table.is_inside[table.out_port[i_out]] == is_inside:
                if i_way == 0:
                    first[i_row], group[i_row] = table.out_port[i_out], i_group
                i_way -= 1
    return -1


@kernel
def list_candidates(port_dst, table, group, way_start, way_port):
    """For each switch of a group's component: the ports to a switch one link nearer to the group's hosts, in order.

    Written: way_start int64[>= switches + 1], way_port int64[n_port]; rows are `table.local`.
    """
    component, base = table.group_component[group], table.hops_start[group]
    n_way = 0
    for i_node in range(table.component_start[component], table.component_start[component + 1]):
        node = table.component_node[i_node]
        nearer = table.hops[base + table.local[node]] - 1
        way_start[table.local[node]] = n_way
        for i_out in range(table.out_start[node], table.out_start[node + 1]):
            near = table.local[port_dst[table.out_port[i_out]]]
            if near >= 0 and table.hops[base + near] == nearer:
                way_port[n_way] = table.out_port[i_out]
                n_way += 1
        way_start[table.local[node] + 1] = n_way


@kernel
def find_given(given_key, given_start, key):
    """Range (low, high) of a key's ports in the explicit table; (0, 0) if it has no such entry."""
    i_given = np.searchsorted(given_key, key)
    if i_given < len(given_key) and given_key[i_given] == key:
        return given_start[i_given], given_start[i_given + 1]
    return 0, 0


@kernel
def links_between(port_src, in_start, node, dst):
    """Range (low, high) of the ports from a switch to a host that hangs on it: they stand together."""
    low = in_start[dst]
    while port_src[low] != node:
        low += 1
    high = low + 1
    while high < in_start[dst + 1] and port_src[high] == node:
        high += 1
    return low, high


@kernel
def walk_routes(ports, table, given, ends, order, leaving, path, ecmp_seed):
    """Write the ports of every route. The lengths are known, so nothing can fail.

    ports: (port_src, port_dst, in_start). given: the explicit table. order: rows sorted by group, so that a group's
    candidates are listed once. leaving: (first, group) of `first_hops`. path: (start, port), port is written.
    """
    (port_src, port_dst, in_start), (first, group), (start, path_port) = ports, leaving, path
    given_key, given_start, given_port = given
    local = table.local
    way_start, way_port = np.zeros(len(local) + 1, np.int64), np.empty(len(port_src), np.int64)
    last_group = -1
    for i_row in order:
        src, dst, sport, dport = ends[i_row, 0], ends[i_row, 1], ends[i_row, 2], ends[i_row, 3]
        if group[i_row] != last_group:
            last_group = group[i_row]
            list_candidates(port_dst, table, last_group, way_start, way_port)
        port = first[i_row]
        path_port[start[i_row]] = port
        for i_hop in range(start[i_row] + 1, start[i_row + 1]):
            node = port_dst[port]
            low, high, is_given = 0, 0, False
            if len(given_key) > 0:
                low, high = find_given(given_key, given_start, node * len(local) + dst)
                is_given = high > low
            if not is_given and i_hop == start[i_row + 1] - 1:
                low, high = links_between(port_src, in_start, node, dst)
            elif not is_given:
                low, high = way_start[local[node]], way_start[local[node] + 1]
            if high - low > 1:
                low += ecmp_index(src, dst, sport, dport, node ^ ecmp_seed, high - low)
            if is_given:
                port = given_port[low]
            elif i_hop == start[i_row + 1] - 1:
                port = low
            else:
                port = way_port[low]
            path_port[i_hop] = port
