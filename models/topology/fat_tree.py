"""The k-ary fat-tree of three tiers (Al-Fares 2008): edge and aggregation switches in k pods, and core switches.

Wired as the reference case h_ft8_perm of ns-3: the same node ids, so the same ECMP hashes and paths.
"""

from fractions import Fraction

from models.topology.graph import Link, Topology, make_topology
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
    n_edge = k * half
    n_host = n_edge * hosts_per_edge
    agg_0, core_0 = n_host + n_edge, n_host + 2 * n_edge
    links: list[Link] = [(x, n_host + x // hosts_per_edge, host_rate_bps, host_delay_ps) for x in range(n_host)]
    links += [
        (n_host + edge, agg_0 + edge // half * half + j, fabric_rate_bps, fabric_delay_ps)
        for edge in range(n_edge)
        for j in range(half)
    ]
    links += [
        (agg_0 + agg, core_0 + agg % half * half + i, fabric_rate_bps, fabric_delay_ps)
        for agg in range(n_edge)
        for i in range(half)
    ]
    node_name = [f"host{x}" for x in range(n_host)] + [f"edge{x}" for x in range(n_edge)]
    node_name += [f"agg{x}" for x in range(n_edge)] + [f"core{x}" for x in range(half * half)]
    n_switch = len(node_name) - n_host
    server = [*range(n_host), *[-1] * n_switch]
    name = f"fat-tree k={k}, {n_host} hosts" + (f", {oversubscription:g}:1" if hosts_per_edge != half else "")
    return make_topology(name, node_name, [False] * n_host + [True] * n_switch, server, links)


def _hosts_per_edge(half: int, oversubscription: float) -> int:
    hosts = half * Fraction(str(oversubscription)).limit_denominator(10**6)
    if oversubscription < 1 or hosts.denominator != 1:
        accepted = f"From 1 on, and {half} times it is to be a whole number of hosts per edge switch"
        raise ConfigError("topology.oversubscription", f"{oversubscription:g}", accepted)
    return int(hosts)
