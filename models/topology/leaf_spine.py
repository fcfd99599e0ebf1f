"""The leaf-spine fabric: every leaf switch has one link to every spine switch."""

from models.topology.attach import Switches, hosts
from models.topology.graph import LinkKind, Topology
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
    """Build a leaf-spine fabric of hosts; host x hangs on leaf x // hosts_per_leaf. Ids: hosts, leaves, spines.

    One leaf may stand without spines. Raises ConfigError for counts that give no connected network.
    """
    fabric = leaf_spine_switches(n_leaf, n_spine, hosts_per_leaf, LinkKind(spine_rate_bps, spine_delay_ps))
    return hosts(fabric, LinkKind(host_rate_bps, host_delay_ps))


def leaf_spine_switches(n_leaf: int, n_spine: int, hosts_per_leaf: int, link: LinkKind) -> Switches:
    """The same without hosts. Switches: leaves, spines."""
    for key, count, least in (
        ("leaves", n_leaf, 1),
        ("spines", n_spine, 1 if n_leaf > 1 else 0),
        ("hosts_per_leaf", hosts_per_leaf, 1),
    ):
        if count < least:
            raise ConfigError(f"topology.{key}", f"{count}", f"A whole number from {least} on is accepted")
    links = [link.between(leaf, n_leaf + spine) for leaf in range(n_leaf) for spine in range(n_spine)]
    names = [f"leaf{x}" for x in range(n_leaf)] + [f"spine{x}" for x in range(n_spine)]
    places = [place // hosts_per_leaf for place in range(n_leaf * hosts_per_leaf)]
    return Switches(f"leaf-spine {n_leaf} x {n_spine}, {{hosts}}", names, links, places)
