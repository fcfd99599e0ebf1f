"""Switches in a ring, one host each, and flows that all go the same way around: the network that PFC can deadlock."""

import dataclasses

import numpy as np

from models.network.state.parameters import BufferParameters, NetworkParameters, TransportParameters
from models.topology.graph import Topology, make_topology
from models.topology.routing import Paths
from reference.network_case import Flow, NetworkCase, make_flow_case, make_parameters

GBPS, NS = 10**9, 1000
HEADROOM_BYTES = 30_000  # 2 x 1 us x 100 Gbps, 2 packets and a PFC frame


def ring(n_switch: int) -> Topology:
    """Hosts 0 .. n - 1, switches n .. 2n - 1; switch i is linked to host i and to the next switch."""
    n = n_switch
    pairs = [(i, n + i) for i in range(n)] + [(n + i, n + (i + 1) % n) for i in range(n)]
    names = [f"host{i}" for i in range(n)] + [f"s{i}" for i in range(n)]
    links = [(a, b, 100 * GBPS, 1000 * NS) for a, b in pairs]
    return make_topology("ring", names, [False] * n + [True] * n, [*range(n), *[-1] * n], links)


def clockwise(topology: Topology, src: np.ndarray, dst: np.ndarray) -> Paths:
    """Data goes up in switch numbers, ACKs come back the same way."""
    n = topology.n_host
    port = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(topology.port_src, topology.port_dst, strict=True))}
    rows = []
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        nodes = [a, *(n + (a + k) % n for k in range((b - a) % n + 1)), b]
        rows.append([port[hop] for hop in zip(nodes, nodes[1:], strict=False)])
        rows.append([port[hop] for hop in zip(nodes[::-1], nodes[-2::-1], strict=False)])
    start = np.cumsum([0] + [len(row) for row in rows]).astype(np.int64)
    return Paths(start, np.array([port for row in rows for port in row], np.int32))


def pausing_parameters(
    topology: Topology, pool_bytes: int, alpha: float = 0.125, timeout_ps: int = 10**9, **keys
) -> NetworkParameters:
    """PFC with pool_bytes of shared buffer in every switch, beyond reserves and headrooms."""
    degree = np.bincount(topology.port_dst, minlength=topology.n_node)
    into_switch = topology.is_switch[topology.port_dst]
    size_bytes = np.where(topology.is_switch, pool_bytes + degree * (HEADROOM_BYTES + 4096), 0)
    buffer = BufferParameters(
        size_bytes, np.full(topology.n_port, round(alpha * 1024)), np.where(into_switch, HEADROOM_BYTES, 0)
    )
    transport = TransportParameters(timeout_ps=timeout_ps)
    return make_parameters(topology, (2**30, 2**30), buffer=buffer, transport=transport, **keys)


def ring_case(n_switch: int, flows: list[Flow], pool_bytes: int, **keys) -> NetworkCase:
    """Flows clockwise around a ring, without any congestion control to speak of."""
    topology = ring(n_switch)
    case = make_flow_case(topology, flows, pausing_parameters(topology, pool_bytes, **keys), 2**20)
    src, dst = topology.host[case.plan.pair_src], topology.host[case.plan.pair_dst]
    return dataclasses.replace(case, paths=clockwise(topology, src, dst))
