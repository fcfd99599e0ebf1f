"""The k-ary fat-tree of three tiers (Al-Fares 2008): edge and aggregation switches in k pods, and core switches.

Wired as the reference case h_ft8_perm of ns-3: the same node ids, so the same ECMP hashes and paths.
"""

from fractions import Fraction

from models.topology.attach import Switches, hosts
from models.topology.graph import Link, LinkKind, Topology
from models.topology.three_tier import three_tier_switches
from pdes.errors import ConfigError


def fat_tree(
    k: int,
    host_rate_bps: int,
    fabric_rate_bps: int,
    host_delay_ps: int,
    fabric_delay_ps: int,
    oversubscription: float = 1.0,
) -> Topology:
    """Build a fat-tree of k pods with k/2 edge and k/2 aggregation switches each, and k*k/4 core switches, with hosts.

    Hosts per edge switch = k/2 * oversubscription. Host x hangs on edge x // hosts_per_edge; aggregation j of each
    pod connects to cores j*k/2 .. j*k/2 + k/2 - 1. Ids: hosts, edges pod by pod, aggregations pod by pod, cores.
    Raises ConfigError for an odd k or an oversubscription that gives no whole number of hosts.
    """
    fabric = fat_tree_switches(k, LinkKind(fabric_rate_bps, fabric_delay_ps), oversubscription)
    return hosts(fabric, LinkKind(host_rate_bps, host_delay_ps))


def fat_tree_switches(k: int, link: LinkKind, oversubscription: float = 1.0) -> Switches:
    """The same without hosts."""
    if k < 2 or k % 2:
        raise ConfigError("topology.k", f"{k} pods", "An even number from 2 on is accepted")
    half = k // 2
    hosts_per_edge = _hosts_per_edge(half, oversubscription)
    title = f"fat-tree k={k}, {{hosts}}" + (f", {oversubscription:g}:1" if hosts_per_edge != half else "")
    return three_tier_switches(k, half, half, half * half, hosts_per_edge, link, title)


def folded_clos(n_nic: int, nics_per_edge: int, n_up: int, link: LinkKind) -> Switches:
    """As much of a fat-tree as so many NICs need: edge switches with n_up uplinks each, pods of n_up of them.

    A pod has n_up aggregation switches, each with a link to every edge switch of its pod and, if there are several
    pods, to the n_up cores of its plane. A single edge switch stands alone. Switches as in `three_tier`.
    """
    n_edge = -(-n_nic // nics_per_edge)
    n_pod = -(-n_edge // n_up)
    n_agg = n_pod * n_up if n_edge > 1 else 0
    n_core = n_up * n_up if n_pod > 1 else 0
    agg_0, core_0 = n_edge, n_edge + n_agg
    links: list[Link] = [
        link.between(edge, agg_0 + edge // n_up * n_up + j)
        for edge in range(n_edge)
        for j in range(n_up if n_agg else 0)
    ]
    planes = n_up if n_core else 0
    links += [link.between(agg_0 + agg, core_0 + agg % n_up * n_up + i) for agg in range(n_agg) for i in range(planes)]
    names = [f"edge{x}" for x in range(n_edge)] + [f"agg{x}" for x in range(n_agg)]
    names += [f"core{x}" for x in range(n_core)]
    places = [place // nics_per_edge for place in range(n_edge * nics_per_edge)]
    return Switches(f"fat-tree, {{hosts}}, {len(names)} switches", names, links, places)


def _hosts_per_edge(half: int, oversubscription: float) -> int:
    hosts = half * Fraction(str(oversubscription)).limit_denominator(10**6)
    if oversubscription < 1 or hosts.denominator != 1:
        accepted = f"From 1 on, and {half} times it is to be a whole number of hosts per edge switch"
        raise ConfigError("topology.oversubscription", f"{oversubscription:g}", accepted)
    return int(hosts)
