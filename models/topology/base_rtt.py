"""Round-trip times and bandwidth-delay products of idle paths: what windows are derived from.

One data packet forth and one ACK back, serialised at every hop. `max_base_rtt` goes over all pairs of hosts without
listing them: hosts that hang on the same switches by like links are one class, and one table per class will do.
"""

from functools import lru_cache

import numpy as np

from models.topology.closed_form import tx_ps
from models.topology.distance import Distances, distances, group_in, hops_over
from models.topology.graph import Topology
from models.topology.paths import Paths
from pdes.engine.jit import kernel
from pdes.errors import ConfigError
from pdes.units import BITS_PER_BYTE, MAX_PACKET_BYTES, PS_PER_S


@lru_cache(maxsize=4)
def max_base_rtt(topology: Topology, data_bytes: int, ack_bytes: int) -> tuple[int, int]:
    """(largest round-trip time in ps, largest bandwidth-delay product in bytes) over all ordered pairs of hosts.

    data_bytes, ack_bytes: wire sizes, 1..MAX_PACKET_BYTES. A pair's path is its first shortest path (the first
    candidate at every hop), its ACK takes the same links back; bdp = ceil(rtt * least rate forth / 8e12). The two
    maxima may come from different pairs (as in ns-3's third.cc, MODEL.md section 4). Pairs without a path do not
    count; (0, 0) if no pair has one.
    """
    table = distances(topology)
    forth_ps, back_ps = _hop_times(topology, data_bytes, ack_bytes)
    cost_ps = forth_ps + back_ps[topology.port_peer]
    rate_bps, i_rate = topology.rates
    best_ps = np.full(len(rate_bps), -1, np.int64)
    graph = (topology.port_src, topology.port_dst, topology.port_peer, topology.is_switch)
    direct_pairs(graph, cost_ps, i_rate, best_ps)
    class_pairs(graph, table, _classes(topology, table, i_rate), cost_ps, i_rate, best_ps)
    found = [(rtt, rate) for rtt, rate in zip(best_ps.tolist(), rate_bps.tolist(), strict=True) if rtt >= 0]
    if not found:
        return 0, 0
    return max(rtt for rtt, _ in found), max(_bdp_bytes(rtt, rate) for rtt, rate in found)


def path_base_rtt(topology: Topology, paths: Paths, data_bytes: int, ack_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """(rtt_ps int64[n_pair], bdp_bytes int64[n_pair]) of each pair of `paths` on its own data path and ACK path.

    The window of a queue pair under `window = "pair-bdp"`. Same formulas and bounds as `max_base_rtt`.
    """
    if len(paths.start) == 1:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    forth_ps, back_ps = _hop_times(topology, data_bytes, ack_bytes)
    row = paths.start[:-1]
    rtt_ps = np.add.reduceat(forth_ps[paths.port], row)[0::2] + np.add.reduceat(back_ps[paths.port], row)[1::2]
    rate_bps, i_rate = topology.rates
    i_least = np.minimum.reduceat(i_rate[paths.port], row)[0::2]
    times_ps, i_time = np.unique(rtt_ps, return_inverse=True)
    kinds, i_kind = np.unique(i_time.reshape(-1) * len(rate_bps) + i_least, return_inverse=True)
    known = [(int(times_ps[kind // len(rate_bps)]), int(rate_bps[kind % len(rate_bps)])) for kind in kinds.tolist()]
    return rtt_ps, np.array([_bdp_bytes(rtt, rate) for rtt, rate in known], np.int64)[i_kind.reshape(-1)]


def _bdp_bytes(rtt_ps: int, rate_bps: int) -> int:
    """Bytes that a link sends in a time, rounded up. Python ints: the product passes 2^63."""
    return -(-rtt_ps * rate_bps // (BITS_PER_BYTE * PS_PER_S))


def _hop_times(topology: Topology, data_bytes: int, ack_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Serialisation plus delay of a data packet and of an ACK at each port, int64[n_port]."""
    for what, size_bytes in (("data packet", data_bytes), ("ACK", ack_bytes)):
        if not 1 <= size_bytes <= MAX_PACKET_BYTES:
            raise ConfigError("network", f"a {what} of {size_bytes} B", f"1..{MAX_PACKET_BYTES} B is accepted")
    rate_bps, i_rate = topology.rates
    data_ps = np.array([tx_ps(data_bytes, rate) for rate in rate_bps.tolist()], np.int64)
    ack_ps = np.array([tx_ps(ack_bytes, rate) for rate in rate_bps.tolist()], np.int64)
    return data_ps[i_rate] + topology.port_delay_ps, ack_ps[i_rate] + topology.port_delay_ps


def _classes(
    topology: Topology, table: Distances, i_rate: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Classes of hosts that no path inside one component of switches can tell apart.

    Returns (component int64[n_class], CSR of the first member's ports into the component in order of choice, CSR of
    the members).
    """
    peer = topology.port_peer
    key = np.stack(
        [table.component[topology.port_dst], topology.port_dst, i_rate, i_rate[peer],
         topology.port_delay_ps, topology.port_delay_ps[peer]], axis=1,
    ).tolist()  # fmt: skip
    members: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    first_ports: list[list[int]] = []
    for host in topology.host.tolist():
        by_component: dict[int, list[int]] = {}
        for port in table.out_port[table.out_start[host] : table.out_start[host + 1]].tolist():
            if key[port][0] >= 0:
                by_component.setdefault(key[port][0], []).append(port)
        for ports in by_component.values():
            kind = tuple(tuple(key[port]) for port in ports)
            if kind not in members:
                members[kind] = []
                first_ports.append(ports)
            members[kind].append(host)
    component = np.array([kind[0][0] for kind in members], np.int64)
    return component, *_csr(first_ports), *_csr(list(members.values()))


def _csr(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return start, np.array([value for row in rows for value in row], np.int64)


@kernel
def direct_pairs(graph, cost_ps, i_rate, best_ps):
    """Fold links that join two hosts into best_ps (int64[n_rate]: the largest round trip by least rate)."""
    port_src, port_dst, _, is_switch = graph
    for port in range(len(port_src)):
        src, dst = port_src[port], port_dst[port]
        is_parallel = port > 0 and port_src[port - 1] == src and port_dst[port - 1] == dst
        if not (is_switch[src] or is_switch[dst] or is_parallel):
            best_ps[i_rate[port]] = max(best_ps[i_rate[port]], cost_ps[port])


@kernel
def class_pairs(graph, table, classes, cost_ps, i_rate, best_ps):
    """Fold every pair of classes of the same component into best_ps, if some pair of their hosts goes that way.

    i_rate: rank of each port's rate, so the least rate of a path is the least i_rate.
    """
    port_dst = graph[1]
    component, port_start, class_port, _, _ = classes
    rest_ps, rest_rate = np.empty(len(table.local), np.int64), np.empty(len(table.local), np.int64)
    for to in range(len(component)):
        base = to_class(graph, table, classes, to, cost_ps, i_rate, rest_ps, rest_rate)
        for frm in range(len(component)):
            if component[frm] != component[to]:
                continue
            first = -1
            for i_port in range(port_start[frm], port_start[frm + 1]):
                port = class_port[i_port]
                i_hops = base + table.local[port_dst[port]]
                if first < 0 or table.hops[i_hops] < table.hops[base + table.local[port_dst[first]]]:
                    first = port
            near = table.local[port_dst[first]]
            rtt_ps, least = cost_ps[first] + rest_ps[near], min(i_rate[first], rest_rate[near])
            if rtt_ps > best_ps[least] and goes_this_way(port_dst, table, classes, frm, to):
                best_ps[least] = rtt_ps


@kernel
def to_class(graph, table, classes, to, cost_ps, i_rate, rest_ps, rest_rate):
    """Round trip and least rate from each switch of a class's component to the class, on first shortest paths.

    rest_ps, rest_rate: written at `table.local`. Returns the offset of the class's distances in `table.hops`.
    """
    _, port_dst, port_peer, _ = graph
    component, port_start, class_port, member_start, member = classes
    low, high = table.component_start[component[to]], table.component_start[component[to] + 1]
    dst = member[member_start[to]]
    group = group_in(dst, component[to], table.attach_start, table.attach_group, table.group_component)
    base = table.hops_start[group]
    for i_port in range(port_start[to + 1] - 1, port_start[to] - 1, -1):  # backwards: the first parallel link stays
        port = port_peer[class_port[i_port]]
        near = table.local[port_dst[class_port[i_port]]]
        rest_ps[near], rest_rate[near] = cost_ps[port], i_rate[port]
    farthest = table.hops[base : base + high - low].max()
    for n_link in range(2, farthest + 1):  # a few levels: cheaper to compile than a sort
        for row in range(high - low):
            if table.hops[base + row] != n_link:
                continue
            node = table.component_node[low + row]
            for i_out in range(table.out_start[node], table.out_start[node + 1]):
                port = table.out_port[i_out]
                near = table.local[port_dst[port]]
                if near >= 0 and table.hops[base + near] == n_link - 1:
                    rest_ps[row] = cost_ps[port] + rest_ps[near]
                    rest_rate[row] = min(i_rate[port], rest_rate[near])
                    break
    return base


@kernel
def goes_this_way(port_dst, table, classes, frm, to):
    """Is there a pair of two hosts, one of each class, whose first shortest path uses the classes' component?"""
    component, _, _, member_start, member = classes
    for i_src in range(member_start[frm], member_start[frm + 1]):
        src = member[i_src]
        for i_dst in range(member_start[to], member_start[to + 1]):
            dst = member[i_dst]
            if src == dst:
                continue
            best, first = -1, -1
            for i_out in range(table.out_start[src], table.out_start[src + 1]):
                n_link, _ = hops_over(table.out_port[i_out], dst, port_dst, table)
                if n_link > 0 and (best < 0 or n_link < best):
                    best, first = n_link, table.out_port[i_out]
            if table.component[port_dst[first]] == component[frm]:
                return True
    return False
