"""Whether the delays of links add up, along a path and back, to a time that 64 bits hold."""

import numpy as np

from models.topology.distance import distances
from models.topology.graph import Topology
from models.topology.paths import Paths
from pdes.errors import ConfigError
from pdes.units import exact_duration, format_duration

MAX_ROUND_TRIP_PS = 2**60
"""13 days: an eighth of what a time holds, as a message begins late and takes several round trips."""
MOST_NAMED = 3


def check_delays(topology: Topology, paths: Paths, where: str) -> None:
    """Raise ConfigError if links as slow as the slowest ones could make a longer round trip than that.

    where: what has the delays, for the message, which names the slowest links. Python's integers: sums pass 64 bits.
    """
    if 2 * topology.n_port * int(topology.port_delay_ps.max(initial=0)) <= MAX_ROUND_TRIP_PS:
        return  # nor could a path over all of them
    n_hop = 1 + int(distances(topology).hops.max(initial=0))
    n_hop = max(n_hop, int(np.diff(paths.start).max(initial=0)))
    slowest = np.argsort(-topology.port_delay_ps, kind="stable")
    slowest = slowest[topology.port_src[slowest] < topology.port_dst[slowest]][:n_hop]
    delay_ps = topology.port_delay_ps[slowest].tolist()
    if 2 * sum(delay_ps) <= MAX_ROUND_TRIP_PS:
        return
    named = [
        f"{_link(topology, port)} with {exact_duration(delay)}"
        for port, delay in zip(slowest.tolist(), delay_ps, strict=True)
    ]
    found = f"on a path of {len(slowest)} links delays may add up to {sum(delay_ps)} ps; the longest: "
    accepted = f"Accepted: at most {format_duration(MAX_ROUND_TRIP_PS // 2)} in one direction"
    raise ConfigError(where, found + ", ".join(named[:MOST_NAMED]), accepted)


def _link(topology: Topology, port: int) -> str:
    ends = int(topology.port_src[port]), int(topology.port_dst[port])
    return f"{topology.node_name[ends[0]]} - {topology.node_name[ends[1]]} (node {ends[0]} to node {ends[1]})"
