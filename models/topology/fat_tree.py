"""The k-ary fat-tree of three tiers (Al-Fares 2008): edge and aggregation switches in k pods, and core switches.

Wired as the reference case h_ft8_perm of ns-3: the same node ids, so the same ECMP hashes and paths.
"""

from fractions import Fraction

from models.topology.graph import LinkKind, Topology
from models.topology.three_tier import three_tier
from pdes.errors import ConfigError


def fat_tree(
    k: int,
    host_rate_bps: int,
    fabric_rate_bps: int,
    host_delay_ps: int,
    fabric_delay_ps: int,
    oversubscription: float = 1.0,
) -> Topology:
    """Build a fat-tree of k pods with k/2 edge and k/2 aggregation switches each, and k*k/4 core switches.

    Hosts per edge switch = k/2 * oversubscription. Host x hangs on edge x // hosts_per_edge; aggregation j of each
    pod connects to cores j*k/2 .. j*k/2 + k/2 - 1. Ids: hosts, edges pod by pod, aggregations pod by pod, cores.
    Raises ConfigError for an odd k or an oversubscription that gives no whole number of hosts.
    """
    if k < 2 or k % 2:
        raise ConfigError("topology.k", f"{k} pods", "An even number from 2 on is accepted")
    half = k // 2
    hosts_per_edge = _hosts_per_edge(half, oversubscription)
    name = f"fat-tree k={k}, {k * half * hosts_per_edge} hosts"
    name += f", {oversubscription:g}:1" if hosts_per_edge != half else ""
    sizes = (k, half, half, half * half, hosts_per_edge)
    host_link, fabric_link = LinkKind(host_rate_bps, host_delay_ps), LinkKind(fabric_rate_bps, fabric_delay_ps)
    return three_tier(*sizes, host_link, fabric_link, name)


def _hosts_per_edge(half: int, oversubscription: float) -> int:
    hosts = half * Fraction(str(oversubscription)).limit_denominator(10**6)
    if oversubscription < 1 or hosts.denominator != 1:
        accepted = f"From 1 on, and {half} times it is to be a whole number of hosts per edge switch"
        raise ConfigError("topology.oversubscription", f"{oversubscription:g}", accepted)
    return int(hosts)
