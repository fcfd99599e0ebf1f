"""The fabric of three tiers: pods of edge and aggregation switches, and core switches in planes above them.

`fat_tree` is the special case whose sizes all follow from k. With 5 pods of 4 edge and 4 aggregation switches, 16 cores
and 16 hosts per edge switch it is the fabric of HPCC's evaluation (Li et al. 2019, section 5.1), node by node as in the
HPCC repository's fat.txt.
"""

from models.topology.attach import Switches, hosts
from models.topology.graph import Link, LinkKind, Topology
from pdes.errors import ConfigError


def three_tier(
    n_pod: int,
    edges_per_pod: int,
    aggregations_per_pod: int,
    n_core: int,
    hosts_per_edge: int,
    host_link: LinkKind,
    fabric_link: LinkKind,
) -> Topology:
    """Build the fabric with hosts. Ids: hosts, edges pod by pod, aggregations pod by pod, cores.

    Host x hangs on edge x // hosts_per_edge. Raises ConfigError for counts that do not fit.
    """
    sizes = (n_pod, edges_per_pod, aggregations_per_pod, n_core, hosts_per_edge)
    return hosts(three_tier_switches(*sizes, fabric_link), host_link)


def three_tier_switches(
    n_pod: int,
    edges_per_pod: int,
    aggregations_per_pod: int,
    n_core: int,
    hosts_per_edge: int,
    link: LinkKind,
    title: str = "",
) -> Switches:
    """The same without hosts: every edge switch joins all aggregations of its pod, aggregation j of each pod plane j.

    The planes share the cores evenly, in order. Switches: edges pod by pod, aggregations pod by pod, cores.
    """
    _check_counts(n_pod, edges_per_pod, aggregations_per_pod, n_core, hosts_per_edge)
    n_edge, n_agg = n_pod * edges_per_pod, n_pod * aggregations_per_pod
    cores_per_plane = n_core // aggregations_per_pod
    agg_0, core_0 = n_edge, n_edge + n_agg
    links: list[Link] = [
        link.between(edge, agg_0 + edge // edges_per_pod * aggregations_per_pod + j)
        for edge in range(n_edge)
        for j in range(aggregations_per_pod)
    ]
    links += [
        link.between(agg_0 + agg, core_0 + agg % aggregations_per_pod * cores_per_plane + i)
        for agg in range(n_agg)
        for i in range(cores_per_plane)
    ]
    names = [f"edge{x}" for x in range(n_edge)] + [f"agg{x}" for x in range(n_agg)]
    names += [f"core{x}" for x in range(n_core)]
    title = title or f"three-tier, {{hosts}}, {len(names)} switches"
    return Switches(title, names, links, [place // hosts_per_edge for place in range(n_edge * hosts_per_edge)])


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
