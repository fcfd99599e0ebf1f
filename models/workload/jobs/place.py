"""Which of a cluster's free GPUs a job gets, when jobs are placed once, before anything runs.

All policies hand out servers one by one, each whole as far as the job needs it, so tensor parallelism stays inside one.
"""

from collections.abc import Sequence

import numpy as np

from models.topology.graph import Topology
from pdes.random_plain import PURPOSE_PLACEMENT, random_bits_plain

POLICIES = ("packed", "rack", "spread", "random")


def rack_of_host(topology: Topology) -> np.ndarray:
    """int64[n_host]: the first switch of the fabric that a host or its NIC is linked to, -1 without one."""
    is_fabric = topology.is_switch & (topology.server < 0)
    src, dst = topology.port_src, topology.port_dst
    first = np.full(topology.n_node, -1, np.int64)
    for up in (np.flatnonzero(is_fabric[dst]), np.flatnonzero(topology.is_switch[dst] & ~is_fabric[dst])):
        found = np.where(is_fabric[dst[up]], dst[up], first[dst[up]])
        new = (first[src[up]] < 0) & (found >= 0)
        first[src[up][new][::-1]] = found[new][::-1]
    return first[topology.host]


def choose_gpus(topology: Topology, free: Sequence[int], n: int, policy: str, seed: int) -> np.ndarray:
    """n of the free host numbers, int64[n], in the order of the job's ranks.

    "packed": servers in order. "rack": as few racks as possible, the fullest that has what is left, else all of the
    emptiest. "spread": one server of each rack, then the next of each. "random": by draws of `seed`.
    """
    assert policy in POLICIES and n <= len(free)
    server, rack = topology.server[topology.host], rack_of_host(topology)
    servers: dict[int, list[int]] = {}
    for gpu in sorted(free):
        servers.setdefault(int(server[gpu]), []).append(gpu)
    order = list(servers)
    if policy == "random":
        order.sort(key=lambda one: random_bits_plain(seed, one, PURPOSE_PLACEMENT, 0))
    elif policy != "packed":
        racks: dict[int, list[int]] = {}
        for one in order:
            racks.setdefault(int(rack[servers[one][0]]), []).append(one)
        if policy == "rack":
            n_free = {name: sum(len(servers[one]) for one in own) for name, own in racks.items()}
            order = [one for name in _fewest(n_free, n) for one in racks[name]]
        else:
            place = {one: i for own in racks.values() for i, one in enumerate(own)}
            order.sort(key=place.__getitem__)
    return np.array([gpu for one in order for gpu in servers[one]][:n], np.int64)


def _fewest(n_free: dict[int, int], n: int) -> list[int]:
    """Racks that have n free GPUs together, as few as can be; of equals the first."""
    left, chosen = dict(n_free), list[int]()
    while n > 0:
        fitting = [rack for rack, free in left.items() if free >= n]
        rack = min(fitting, key=left.__getitem__) if fitting else max(left, key=left.__getitem__)
        chosen.append(rack)
        n -= left.pop(rack)
    return chosen
