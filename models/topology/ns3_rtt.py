"""Base round-trip times and bandwidth-delay products by ns-3's rule (MODEL.md section 4, CORRECTIONS.md fact 7).

rtt = 2 x delays + one payload's transmission per hop, without headers and without the ACK's, in whole ns; along the
first next hop of every switch, which need not be a flow's own path. The physical ones are in `base_rtt.py`.
"""

from typing import TypeVar

import numpy as np

from models.topology.distance import distances
from models.topology.graph import Topology
from models.topology.routing import NextHops
from pdes.engine.jit import kernel
from pdes.errors import ConfigError
from pdes.units import BITS_PER_BYTE, NS_PER_S, PS_PER_NS

MASK_32 = 2**32 - 1
Bytes = TypeVar("Bytes", int, np.ndarray)


class Ns3Rtt:
    """The round trips of a topology. next_hops: ns-3's own tables; without: neighbours in descending order."""

    def __init__(self, topology: Topology, payload_bytes: int, next_hops: NextHops | None = None) -> None:
        self._topology = topology
        self._first = _first_ports(topology, next_hops or {})
        delay_ns = topology.port_delay_ps // PS_PER_NS
        bits_ns = payload_bytes * BITS_PER_BYTE * NS_PER_S
        tx_ns = np.array([bits_ns // rate for rate in topology.port_rate_bps.tolist()], np.int64)
        self._cost_ns = 2 * delay_ns + tx_ns

    def largest(self) -> tuple[int, int]:
        """(largest round trip in ns, largest product in bytes) over all pairs of hosts, maybe of different pairs."""
        host = self._topology.host
        best_ns, best_bytes, known = 0, 0, set()
        for dst in host.tolist():
            rtt_ns, rate_bps = self._towards(dst)
            is_there = rtt_ns[host] > 0
            kinds = np.unique(np.stack([rtt_ns[host][is_there], rate_bps[host][is_there]], axis=1), axis=0)
            known.update(map(tuple, kinds.tolist()))
        for rtt_ns, rate_bps in known:
            best_ns, best_bytes = max(best_ns, rtt_ns), max(best_bytes, _bdp_bytes(rtt_ns, rate_bps))
        return best_ns, best_bytes

    def of_pairs(self, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(round trip in ns, product in bytes) of each pair of hosts, int64[n_pair]. src, dst: node ids."""
        rtt_ns, bdp_bytes = np.zeros(len(src), np.int64), np.zeros(len(src), np.int64)
        for node in np.unique(dst).tolist():
            to_ns, least_bps = self._towards(node)
            for i in np.flatnonzero(dst == node).tolist():
                rtt_ns[i] = to_ns[src[i]]
                bdp_bytes[i] = _bdp_bytes(int(rtt_ns[i]), int(least_bps[src[i]]))
        return rtt_ns, bdp_bytes

    def _towards(self, dst: int) -> tuple[np.ndarray, np.ndarray]:
        """(round trip in ns, least rate) of every node towards a host, int64[n_node]; (0, 0) where no path goes."""
        t = self._topology
        rtt_ns, rate_bps = np.zeros(t.n_node, np.int64), np.zeros(t.n_node, np.int64)
        ports = (t.port_src, t.port_dst, t.in_start, t.is_switch)
        to_host(ports, self._first, self._cost_ns, t.port_rate_bps, dst, rtt_ns, rate_bps)
        return rtt_ns, rate_bps


def ns3_window_bytes(bdp_bytes: Bytes) -> Bytes:
    """A window as ns-3 keeps it: 32 bits."""
    return bdp_bytes & MASK_32


def _bdp_bytes(rtt_ns: int, rate_bps: int) -> int:
    """Python ints: the product passes 2^63."""
    return rtt_ns * rate_bps // NS_PER_S // BITS_PER_BYTE


def _first_ports(topology: Topology, next_hops: NextHops) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(int64 keys switch * n_node + dst ascending, their first ports, the rank of each port among its sender's)."""
    port_of: dict[tuple[int, int], int] = {}
    for port in range(topology.n_port - 1, -1, -1):
        port_of[int(topology.port_src[port]), int(topology.port_dst[port])] = port
    keys, ports = [], []
    for (switch, dst), hops in sorted(next_hops.items()):
        if (switch, hops[0]) not in port_of:
            accepted = "Accepted are neighbours that a link joins to this node"
            raise ConfigError(f"next hops of node {switch} towards node {dst}", f"node {hops[0]}", accepted)
        keys.append(switch * topology.n_node + dst)
        ports.append(port_of[switch, hops[0]])
    rank = np.empty(topology.n_port, np.int64)
    rank[distances(topology).out_port] = np.arange(topology.n_port)
    return np.array(keys, np.int64), np.array(ports, np.int64), rank


@kernel
def to_host(ports, first, cost_ns, rate_bps, dst, rtt_ns, least_bps):
    """Fold the first shortest path of every node to `dst`, a host, into rtt_ns and least_bps, both 0 on entry.

    Breadth first from the host, over switches alone: a node's port is chosen when all nodes nearer to the host are
    done, among those that lead to one: the one in the table of first ports, else the first by rank.
    """
    port_src, port_dst, in_start, is_switch = ports
    key, key_port, rank = first
    n_node = len(is_switch)
    hops, chosen = np.full(n_node, -1, np.int64), np.full(n_node, -1, np.int64)
    queue = np.empty(n_node, np.int64)
    queue[0], hops[dst], n_queued, i_queue = dst, 0, 1, 0
    while i_queue < n_queued:
        node = queue[i_queue]
        i_queue += 1
        if node != dst:
            i_key = np.searchsorted(key, node * n_node + dst)
            if i_key < len(key) and key[i_key] == node * n_node + dst:
                chosen[node] = key_port[i_key]
            port = chosen[node]
            near = port_dst[port]
            rtt_ns[node] = rtt_ns[near] + cost_ns[port]
            least_bps[node] = rate_bps[port] if near == dst else min(least_bps[near], rate_bps[port])
            if not is_switch[node]:
                continue
        for port in range(in_start[node], in_start[node + 1]):
            src = port_src[port]
            if hops[src] < 0:
                hops[src] = hops[node] + 1
                queue[n_queued] = src
                n_queued += 1
            if hops[src] == hops[node] + 1 and (chosen[src] < 0 or rank[port] < rank[chosen[src]]):
                chosen[src] = port
