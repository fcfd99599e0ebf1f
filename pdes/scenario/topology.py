"""The topology of a config: from [topology] to what the builders make of it."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from models.topology.attach import Server, Switches, attach, hosts
from models.topology.direct.dragonfly import dragonfly_switches
from models.topology.direct.torus import torus_switches
from models.topology.fat_tree import fat_tree_switches, folded_clos
from models.topology.graph import LinkKind, Topology
from models.topology.leaf_spine import leaf_spine_switches
from models.topology.ns3_file import read_ns3_topology
from models.topology.rail_optimised import planes_of, rail_switches, uplinks
from models.topology.three_tier import three_tier_switches
from pdes.config import Config
from pdes.config.tables.servers import ServersTable
from pdes.config.tables.topology import BY_GPUS, DualPlaneConfig, RoftConfig
from pdes.units import MAX_INT64, PS_PER_NS


def build_topology(config: Config) -> Topology:
    """The topology that [topology], [network.loss] and [network] switch_latency ask for.

    A switch's latency is part of the delay of the links into it. By ns-3's rules, all delays are whole ns.
    """
    topology, network = _topology(config), config.network
    loss = np.where(topology.port_loss > 0, topology.port_loss, network.loss.probability)
    delay_ps = topology.port_delay_ps
    if network.is_ns3:
        delay_ps = delay_ps // PS_PER_NS * PS_PER_NS
    latency_ps = np.where(topology.is_switch[topology.port_dst], network.switch_latency_ps, 0)
    delay_ps = np.minimum(delay_ps, MAX_INT64 - latency_ps) + latency_ps  # `check_delays` refuses what is cut off here
    return replace(topology, port_loss=loss, port_delay_ps=delay_ps)


def delays_from(config: Config) -> str:
    """What has the delays of the links, for a message: the file or the table."""
    file = getattr(config.topology, "file", None)
    return str(config.input_path(file)) if file else "[topology]"


def _topology(config: Config) -> Topology:
    t: Any = config.topology
    if t.kind == "file":
        nvlink = LinkKind(t.nvlink_rate_bps, t.nvlink_delay_ps) if t.nvlink == "packets" else None
        path = config.input_path(t.file)
        return read_ns3_topology(path, t.gpus_per_server, config.network.is_ns3, _warn, nvlink)
    if isinstance(t, RoftConfig):
        servers = servers_of(t, LinkKind(t.nic_rate_bps, t.nic_delay_ps), t.n_nic)
        if isinstance(t, DualPlaneConfig):
            servers = [one._replace(nic=one.nic._replace(rate_bps=one.nic.rate_bps // t.planes)) for one in servers]
        return attach(_sized_by_gpus(t, servers), servers)
    fabric, nic = BUILDERS[t.kind](t)
    return attach(fabric, servers_of(t, nic, fabric.n_place)) if t.has_servers else hosts(fabric, nic)


def servers_of(table: ServersTable, nic: LinkKind, n_nic: int) -> list[Server]:
    """Servers in order. nic: of those that have none of their own; n_nic: of servers that are alike."""
    pcie, found = LinkKind(table.pcie_rate_bps, table.pcie_delay_ps), []
    for one in table.servers(n_nic):
        own = LinkKind(one.nic[0] or nic.rate_bps, one.nic[1] or nic.delay_ps)
        nvlink = None if one.nvlink is None else LinkKind(*one.nvlink)
        found += [Server(one.n_gpu, one.n_nic, own, nvlink, pcie)] * one.n_server
    return found


def _sized_by_gpus(t: RoftConfig, servers: list[Server]) -> Switches:
    """Switches for so many servers, with as many ports each, whether they are cabled as rails or not."""
    link, each = LinkKind(t.spine_rate_bps, t.spine_delay_ps), t.servers_per_rail_switch
    if t.kind not in BY_GPUS:
        rails = rail_switches(servers, each, link, t.oversubscription)
        return planes_of(rails, t.planes) if isinstance(t, DualPlaneConfig) else rails
    rates = [server.nic.rate_bps for server in servers for _ in range(server.n_nic)]
    each = min(each, len(rates))
    down_bps = max(sum(rates[first : first + each]) for first in range(0, len(rates), each))
    n_up = uplinks(down_bps, t.oversubscription, link.rate_bps)
    if str(t.kind) == "fat-tree":
        return folded_clos(len(rates), each, n_up, link)
    n_leaf = -(-len(rates) // each)
    return leaf_spine_switches(n_leaf, n_up if n_leaf > 1 else 0, each, link)


def _fat_tree(t: Any) -> tuple[Switches, LinkKind]:
    link = LinkKind(t.link_rate_bps, t.link_delay_ps)
    return fat_tree_switches(t.k, link, t.oversubscription), LinkKind(t.host_rate_bps, t.host_delay_ps)


def _three_tier(t: Any) -> tuple[Switches, LinkKind]:
    sizes = (t.pods, t.edges_per_pod, t.aggregations_per_pod, t.cores, t.hosts_per_edge)
    fabric = three_tier_switches(*sizes, LinkKind(t.link_rate_bps, t.link_delay_ps))
    return fabric, LinkKind(t.host_rate_bps, t.host_delay_ps)


def _leaf_spine(t: Any) -> tuple[Switches, LinkKind]:
    fabric = leaf_spine_switches(t.leaves, t.spines, t.hosts_per_leaf, LinkKind(t.spine_rate_bps, t.spine_delay_ps))
    return fabric, LinkKind(t.host_rate_bps, t.host_delay_ps)


def _dragonfly(t: Any) -> tuple[Switches, LinkKind]:
    links = LinkKind(t.local_rate_bps, t.local_delay_ps), LinkKind(t.global_rate_bps, t.global_delay_ps)
    fabric = dragonfly_switches(t.groups, t.routers_per_group, t.hosts_per_router, t.global_links, *links)
    return fabric, LinkKind(t.host_rate_bps, t.host_delay_ps)


def _torus(t: Any) -> tuple[Switches, LinkKind]:
    fabric = torus_switches(t.dims, t.hosts_per_router, LinkKind(t.link_rate_bps, t.link_delay_ps))
    return fabric, LinkKind(t.host_rate_bps, t.host_delay_ps)


BUILDERS: dict[str, Callable[[Any], tuple[Switches, LinkKind]]] = {
    "fat-tree": _fat_tree,
    "three-tier": _three_tier,
    "leaf-spine": _leaf_spine,
    "dragonfly": _dragonfly,
    "torus": _torus,
}


def _warn(text: str) -> None:
    print(f"pdes-sim: warning: {text}", file=sys.stderr, flush=True)
