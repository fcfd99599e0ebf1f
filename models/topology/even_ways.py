"""What messages get of a network in which each goes evenly over all its shortest ways, all of them at once.

A fluid without time: no queues, no hashes. ECMP's collisions are what it leaves out, so it is a little fast where
several messages meet behind a switch. Hosts never forward, as in `routing`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from models.topology.graph import Topology
from pdes.units import BITS_PER_BYTE, PS_PER_S

FAR = np.iinfo(np.int32).max
Pair = tuple[int, int]
"""Two hosts, by number."""


class Way(NamedTuple):
    """For messages that go side by side: the rate of the slowest, and the longest time until its first bytes arrive.

    port: the one by which the first of them leaves its host; -1: there are none.
    """

    rate_bps: float
    latency_ps: int
    port: int


class EvenWays:
    """Of one topology. packet_bytes: of a full packet on the wire, which each port but one stores and forwards."""

    def __init__(self, topology: Topology, packet_bytes: int) -> None:
        self.topology, self.packet_bytes = topology, packet_bytes
        self._rates, self._delays = topology.port_rate_bps.tolist(), topology.port_delay_ps.tolist()
        self._to = topology.port_dst.tolist()
        self._is_switch = topology.is_switch.tolist()
        self._is_inside = topology.is_inside.tolist()
        self._out: list[list[int]] = [[] for _ in range(topology.n_node)]
        self._in: list[list[int]] = [[] for _ in range(topology.n_node)]
        for port, node in enumerate(topology.port_src.tolist()):
            self._out[node].append(port)
            self._in[self._to[port]].append(node)
        self._hops: dict[int, list[int]] = {}
        self._shares: dict[Pair, tuple[dict[int, float], int]] = {}

    def way(self, pairs: Iterable[Pair]) -> Way:
        """pairs: of hosts, one for each message; as often as there are messages between them. None: no network."""
        shares = [self._share(pair) for pair in pairs]
        load: dict[int, float] = {}
        for share, _ in shares:
            for port, part in share.items():
                load[port] = load.get(port, 0.0) + part
        rate = min((self._rates[port] / part for port, part in load.items()), default=float("inf"))
        port = next(iter(shares[0][0])) if shares else -1
        return Way(rate, max((latency for _, latency in shares), default=0), port)

    def _share(self, pair: Pair) -> tuple[dict[int, float], int]:
        """(part of a message on each port, latency of its longest way)."""
        if pair not in self._shares:
            src, dst = (int(self.topology.host[number]) for number in pair)
            self._shares[pair] = self._spread(src, dst)
        return self._shares[pair]

    def _spread(self, src: int, dst: int) -> tuple[dict[int, float], int]:
        hops = self._hops_to(dst)
        part: dict[int, float] = {}
        level: dict[int, tuple[float, int, int]] = {src: (1.0, 0, 0)}  # node: part, delays and slowest port so far
        latency = 0
        while level:
            following: dict[int, tuple[float, int, int]] = {}
            for node, (share, delay_ps, slowest_ps) in level.items():
                ports = [port for port in self._out[node] if hops[self._to[port]] == hops[node] - 1]
                ports = [port for port in ports if self._is_inside[port]] or ports
                for port in ports:
                    part[port] = part.get(port, 0.0) + share / len(ports)
                    packet_ps = self.packet_bytes * BITS_PER_BYTE * PS_PER_S // self._rates[port]
                    near = self._to[port]
                    had = following.get(near, (0.0, 0, 0))
                    own = max(had[1], delay_ps + self._delays[port] + packet_ps), max(had[2], slowest_ps, packet_ps)
                    following[near] = had[0] + share / len(ports), *own
            if dst in following:
                latency = following[dst][1] - following.pop(dst)[2]
            level = following
        return part, latency

    def _hops_to(self, dst: int) -> list[int]:
        """Links from each node to a host, over switches alone."""
        if dst not in self._hops:
            hops = [FAR] * self.topology.n_node
            hops[dst], level = 0, [dst]
            while level:
                following = []
                for node in level:
                    if node != dst and not self._is_switch[node]:
                        continue
                    for near in self._in[node]:
                        if hops[near] == FAR:
                            hops[near] = hops[node] + 1
                            following.append(near)
                level = following
            self._hops[dst] = hops
        return self._hops[dst]
