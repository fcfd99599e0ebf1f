"""Hop distances from every switch to every host, in little memory: the basis of shortest-path routing.

Hosts never forward, so what matters is the graph of the switches alone. Its connected components are searched apart
(an NVSwitch that no other switch can reach is one of its own), and hosts that hang on the same switches of a component
share one table, their *group*. One breadth-first search per group; no table per host.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from models.topology.graph import Topology
from pdes.engine.jit import kernel


class Distances(NamedTuple):
    """Distance tables of one topology; constant. Made by `distances`."""

    out_start: np.ndarray  # int64[n_node + 1]
    out_port: np.ndarray  # int64[n_port]  ports that leave a node, by descending neighbour, then ascending port;
    # of a GPU those to its NVSwitches first
    is_inside: np.ndarray  # bool[n_port]  `Topology.is_inside`
    component: np.ndarray  # int64[n_node]  component of a switch, -1 for hosts
    local: np.ndarray  # int64[n_node]  row of a switch within its component, -1 for hosts
    component_start: np.ndarray  # int64[n_component + 1]
    component_node: np.ndarray  # int64[n_switch]  switches of each component, ascending
    attach_start: np.ndarray  # int64[n_node + 1]  a host's groups, one per component it hangs on, ascending
    attach_group: np.ndarray  # int64[...]
    group_component: np.ndarray  # int64[n_group]
    hops_start: np.ndarray  # int64[n_group + 1]
    hops: np.ndarray  # int16[...]  links from each switch of the group's component to a host of the group, >= 1


@lru_cache(maxsize=4)
def distances(topology: Topology) -> Distances:
    """Distance tables of a topology (which hashes by identity); the last few are kept."""
    out_start, out_port = _out_ports(topology)
    component = np.full(topology.n_node, -1, np.int64)
    n_component = int(label_components(topology.is_switch, out_start, out_port, topology.port_dst, component))
    switch = np.flatnonzero(component >= 0)
    component_node = switch[np.argsort(component[switch], kind="stable")]
    component_start = np.searchsorted(component[component_node], np.arange(n_component + 1)).astype(np.int64)
    local = np.full(topology.n_node, -1, np.int64)
    local[component_node] = np.arange(len(switch)) - component_start[component[component_node]]
    attach_start, attach_group, root_start, root = _groups(topology, out_start, out_port, component)
    group_component = component[root[root_start[:-1]]].astype(np.int64)
    size = component_start[group_component + 1] - component_start[group_component]
    hops_start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    hops = np.full(int(hops_start[-1]), -1, np.int16)
    search_groups((out_start, out_port, topology.port_dst), local, root_start, root, hops_start, hops)
    return Distances(
        out_start, out_port, topology.is_inside, component, local, component_start, component_node,
        attach_start, attach_group, group_component, hops_start, hops,
    )  # fmt: skip


def _out_ports(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """Ports by sender: int64[n_node + 1] starts, and port ids by (inside, descending neighbour, ascending port)."""
    order = np.lexsort((np.arange(topology.n_port), -topology.port_dst, ~topology.is_inside, topology.port_src))
    start = np.searchsorted(topology.port_src[order], np.arange(topology.n_node + 1))
    return start.astype(np.int64), order.astype(np.int64)


def _groups(
    topology: Topology, out_start: np.ndarray, out_port: np.ndarray, component: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Group hosts by the switches of one component that they hang on.

    Returns CSR arrays: the groups of each node (only hosts have some), and the switches (roots) of each group.
    """
    group_of: dict[tuple[int, ...], int] = {}
    attach: list[int] = []
    attach_start = np.zeros(topology.n_node + 1, np.int64)
    neighbour = topology.port_dst[out_port].tolist()
    start, label = out_start.tolist(), component.tolist()
    for host in topology.host.tolist():
        roots: dict[int, list[int]] = {}
        for node in dict.fromkeys(neighbour[start[host] : start[host + 1]]):
            if label[node] >= 0:
                roots.setdefault(label[node], []).append(node)
        for i_component in sorted(roots):
            attach.append(group_of.setdefault(tuple(roots[i_component]), len(group_of)))
        attach_start[host + 1] = len(roots)
    root_start = np.concatenate([[0], np.cumsum([len(roots) for roots in group_of])]).astype(np.int64)
    root = np.array([node for roots in group_of for node in roots], dtype=np.int64)
    return np.cumsum(attach_start), np.array(attach, dtype=np.int64), root_start, root


@kernel
def label_components(is_switch, out_start, out_port, port_dst, component):
    """Number the components of the graph of switches by their least node; returns how many there are.

    component: int64[n_node], all -1, written for switches.
    """
    n_component = 0
    queue = np.empty(len(component), np.int64)
    for first in range(len(component)):
        if not is_switch[first] or component[first] >= 0:
            continue
        component[first] = n_component
        queue[0], n_queued, i_queue = first, 1, 0
        while i_queue < n_queued:
            node = queue[i_queue]
            i_queue += 1
            for i_out in range(out_start[node], out_start[node + 1]):
                near = port_dst[out_port[i_out]]
                if is_switch[near] and component[near] < 0:
                    component[near] = n_component
                    queue[n_queued] = near
                    n_queued += 1
        n_component += 1
    return n_component


@kernel
def search_groups(graph, local, root_start, root, hops_start, hops):
    """Breadth-first search from each group's hosts, whose switches are at distance 1.

    graph: (out_start, out_port, port_dst). hops: int16[hops_start[-1]], all -1, written.
    """
    out_start, out_port, port_dst = graph
    queue = np.empty(len(local), np.int64)
    for group in range(len(root_start) - 1):
        base = hops_start[group]
        n_queued, i_queue = 0, 0
        for i_root in range(root_start[group], root_start[group + 1]):
            queue[n_queued] = root[i_root]
            hops[base + local[root[i_root]]] = 1
            n_queued += 1
        while i_queue < n_queued:
            node = queue[i_queue]
            i_queue += 1
            next_hops = hops[base + local[node]] + 1
            for i_out in range(out_start[node], out_start[node + 1]):
                near = port_dst[out_port[i_out]]
                if local[near] >= 0 and hops[base + local[near]] < 0:
                    hops[base + local[near]] = next_hops
                    queue[n_queued] = near
                    n_queued += 1


@kernel
def group_in(dst, component, attach_start, attach_group, group_component):
    """The group of host `dst` in a component of switches, -1 if it does not hang on it."""
    for i_attach in range(attach_start[dst], attach_start[dst + 1]):
        if group_component[attach_group[i_attach]] == component:
            return attach_group[i_attach]
    return -1


@kernel
def hops_over(port, dst, port_dst, table):
    """(links from the start of `port` to host `dst` over that port, group searched); (-1, -1): no way.

    The group is -1 for a port that ends at `dst` itself. table: `Distances`.
    """
    near = port_dst[port]
    if near == dst:
        return 1, -1
    component = table.component[near]
    if component < 0:
        return -1, -1
    group = group_in(dst, component, table.attach_start, table.attach_group, table.group_component)
    if group < 0:
        return -1, -1
    return 1 + table.hops[table.hops_start[group] + table.local[near]], group
