"""The fabric of three tiers: pods of edge and aggregation switches, and core switches in planes above them.

`fat_tree` is the special case whose sizes all follow from k. With 5 pods of 4 edge and 4 aggregation switches, 16 cores
and 16 hosts per edge switch it is the fabric of HPCC's evaluation (Li et al. 2019, section 5.1), node by node as in the
HPCC repository's fat.txt.
"""

from models.topology.graph import Link, LinkKind, Topology, make_topology
from pdes.errors import ConfigError


def three_tier(
    n_pod: int,
    edges_per_pod: int,
    aggregations_per_pod: int,
    n_core: int,
    hosts_per_edge: int,
    host_link: LinkKind,
    fabric_link: LinkKind,
    name: str = "",
) -> Topology:
    """Build the fabric. Every edge switch joins all aggregations of its pod; aggregation j of each pod joins plane j.

    The planes share the cores evenly, in order. Host x hangs on edge x // hosts_per_edge. Ids: hosts, edges pod by pod,
    aggregations pod by pod, cores. Raises ConfigError for counts that do not fit.
    """
    _check_counts(n_pod, edges_per_pod, aggregations_per_pod, n_core, hosts_per_edge)
    n_edge, n_agg = n_pod * edges_per_pod, n_pod * aggregations_per_pod
    n_host, cores_per_plane = n_edge * hosts_per_edge, n_core // aggregations_per_pod
    edge_0, agg_0, core_0 = n_host, n_host + n_edge, n_host + n_edge + n_agg
    links: list[Link] = [
        (x, edge_0 + x // hosts_per_edge, host_link.rate_bps, host_link.delay_ps) for x in range(n_host)
    ]
    links += [
        (
            edge_0 + edge,
            agg_0 + edge // edges_per_pod * aggregations_per_pod + j,
            fabric_link.rate_bps,
            fabric_link.delay_ps,
        )
        for edge in range(n_edge)
        for j in range(aggregations_per_pod)
    ]
    links += [
        (
            agg_0 + agg,
            core_0 + agg % aggregations_per_pod * cores_per_plane + i,
            fabric_link.rate_bps,
            fabric_link.delay_ps,
        )
        for agg in range(n_agg)
        for i in range(cores_per_plane)
    ]
    node_name = [f"host{x}" for x in range(n_host)] + [f"edge{x}" for x in range(n_edge)]
    node_name += [f"agg{x}" for x in range(n_agg)] + [f"core{x}" for x in range(n_core)]
    n_switch = n_edge + n_agg + n_core
    server = [*range(n_host), *[-1] * n_switch]
    name = name or f"three-tier, {n_host} hosts, {n_switch} switches"
    return make_topology(name, node_name, [False] * n_host + [True] * n_switch, server, links)


def _check_counts(n_pod: int, edges_per_pod: int, aggregations_per_pod: int, n_core: int, hosts_per_edge: int) -> None:
    for key, count in (
        ("pods", n_pod),
        ("edges_per_pod", edges_per_pod),
        ("aggregations_per_pod", aggregations_per_pod),
        ("hosts_per_edge", hosts_per_edge),
    ):
        if count < 1:
            raise ConfigError(f"topology.{key}", f"{count}", "A whole number from 1 on is accepted")
    if n_core < aggregations_per_pod or n_core % aggregations_per_pod:
        accepted = f"A multiple of aggregations_per_pod = {aggregations_per_pod} is accepted"
        raise ConfigError("topology.cores", f"{n_core} core switches", accepted)
