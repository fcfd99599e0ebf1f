"""The leaf-spine fabric: every leaf switch has one link to every spine switch."""

from models.topology.graph import Link, Topology, make_topology
from pdes.errors import ConfigError


def leaf_spine(
    n_leaf: int,
    n_spine: int,
    hosts_per_leaf: int,
    host_rate_bps: int,
    spine_rate_bps: int,
    host_delay_ps: int,
    spine_delay_ps: int,
) -> Topology:
    """Build a leaf-spine fabric; host x hangs on leaf x // hosts_per_leaf. Ids: hosts, leaves, spines.

    One leaf may stand without spines. Raises ConfigError for counts that give no connected network.
    """
    for key, count, least in (
        ("leaves", n_leaf, 1),
        ("spines", n_spine, 1 if n_leaf > 1 else 0),
        ("hosts_per_leaf", hosts_per_leaf, 1),
    ):
        if count < least:
            raise ConfigError(f"topology.{key}", f"{count}", f"A whole number from {least} on is accepted")
    n_host = n_leaf * hosts_per_leaf
    leaf_0, spine_0 = n_host, n_host + n_leaf
    links: list[Link] = [(x, leaf_0 + x // hosts_per_leaf, host_rate_bps, host_delay_ps) for x in range(n_host)]
    links += [
        (leaf_0 + leaf, spine_0 + spine, spine_rate_bps, spine_delay_ps)
        for leaf in range(n_leaf)
        for spine in range(n_spine)
    ]
    node_name = [f"host{x}" for x in range(n_host)] + [f"leaf{x}" for x in range(n_leaf)]
    node_name += [f"spine{x}" for x in range(n_spine)]
    n_switch = n_leaf + n_spine
    server = [*range(n_host), *[-1] * n_switch]
    name = f"leaf-spine {n_leaf} x {n_spine}, {n_host} hosts"
    return make_topology(name, node_name, [False] * n_host + [True] * n_switch, server, links)
