"""What [topology] must satisfy beyond one value, as far as nothing has to be built for it."""

from collections.abc import Iterator

from pdes.config.tables.fabrics import DragonflyConfig, TorusConfig
from pdes.config.tables.fields import Fault, Table
from pdes.config.tables.network import NetworkConfig
from pdes.config.tables.servers import ServersTable, server_faults
from pdes.config.tables.topology import (
    BY_GPUS,
    DualPlaneConfig,
    FatTreeConfig,
    LeafSpineConfig,
    RoftConfig,
    ThreeTierConfig,
    exact,
)

MAX_HOSTS, MAX_SPINE_LINKS = 2**20, 2**23  # far above any cluster; guards against a slip that would fill the memory


def topology_faults(topology: Table | None) -> Iterator[Fault]:
    """Of a table that is valid by itself."""
    own = list(_size_faults(topology))
    yield from own
    if isinstance(topology, ServersTable):
        yield from server_faults(topology, None if own else getattr(topology, "n_place", None))


def ways_faults(topology: Table | None, network: Table | None) -> Iterator[Fault]:
    """A dragonfly's ways, which are fixed, where switches choose the ways."""
    if isinstance(topology, DragonflyConfig) and topology.routing != "shortest" and isinstance(network, NetworkConfig):
        if network.routing.policy != "ecmp" or network.link_event:
            why = (
                "[[network.link_event]] are there"
                if network.link_event
                else "switches choose by [network.routing] policy"
            )
            yield Fault(("topology", "routing"), f'is "{topology.routing}", and {why}', 'Accepted: "shortest"')


def _size_faults(topology: Table | None) -> Iterator[Fault]:
    n_host = getattr(topology, "n_host", None)
    if n_host is not None and n_host > MAX_HOSTS:
        key = "gpus" if isinstance(topology, RoftConfig) else "leaves"
        keys = {FatTreeConfig: "k", ThreeTierConfig: "pods", DragonflyConfig: "groups", TorusConfig: "dims"}
        key = keys.get(type(topology), key)
        yield Fault(("topology", key), f"makes {n_host:,} hosts", f"Accepted: at most {MAX_HOSTS:,} hosts")
    if isinstance(topology, RoftConfig) and topology.n_spine_link > MAX_SPINE_LINKS:
        which = "switches" if topology.kind in BY_GPUS else "rail switches and spines"
        found = f"makes {topology.n_spine_link:,} links between {which}"
        yield Fault(("topology", "spine_rate"), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if isinstance(topology, LeafSpineConfig) and topology.leaves * topology.spines > MAX_SPINE_LINKS:
        found = f"makes {topology.leaves * topology.spines:,} links between leaves and spines"
        yield Fault(("topology", "spines"), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if isinstance(topology, ThreeTierConfig):
        yield from _three_tier_faults(topology)
    if isinstance(topology, DragonflyConfig | TorusConfig) and topology.n_fabric_link > MAX_SPINE_LINKS:
        key = "groups" if isinstance(topology, DragonflyConfig) else "dims"
        found = f"makes {topology.n_fabric_link:,} links between routers"
        yield Fault(("topology", key), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if isinstance(topology, DragonflyConfig) and topology.groups > 1:
        others, n_link = topology.groups - 1, topology.routers_per_group * topology.global_links
        if n_link % others:
            found = f"gives a group {n_link} links to {others} other groups"
            yield Fault(("topology", "global_links"), found, "Accepted: so that there are as many to each")
    if isinstance(topology, DualPlaneConfig):
        yield from _plane_faults(topology)
    if isinstance(topology, FatTreeConfig):
        if topology.k % 2:
            yield Fault(("topology", "k"), f"found {topology.k}", "Accepted: an even number")
        hosts_per_edge = exact(topology.oversubscription) * (topology.k // 2)
        if hosts_per_edge.denominator != 1:
            found = f"{topology.oversubscription:g} gives {float(hosts_per_edge):g} hosts per edge switch"
            yield Fault(("topology", "oversubscription"), found, "Accepted: a ratio whose k/2-fold is a whole number")
    if isinstance(topology, RoftConfig):
        n_gpu = topology.gpus_on(topology.n_nic)
        if topology.server and topology.gpus != n_gpu:
            yield Fault(("topology", "gpus"), f"found {topology.gpus}", f"Accepted: {n_gpu}, as in [[topology.server]]")
        elif not topology.server and topology.gpus % topology.gpus_per_server:
            accepted = f"Accepted: a multiple of gpus_per_server = {topology.gpus_per_server}"
            yield Fault(("topology", "gpus"), f"found {topology.gpus}", accepted)


def _plane_faults(topology: DualPlaneConfig) -> Iterator[Fault]:
    own = [(("topology", "server", i, "nic_rate"), row.nic_rate_bps or 0) for i, row in enumerate(topology.server)]
    for path, rate_bps in [(("topology", "nic_rate"), topology.nic_rate_bps), *own]:
        if rate_bps % topology.planes:
            found = f"found {rate_bps} bit/s for {topology.planes} planes"
            yield Fault(path, found, "Accepted: a multiple of planes, so that ports have whole rates")


def _three_tier_faults(topology: ThreeTierConfig) -> Iterator[Fault]:
    if topology.n_fabric_link > MAX_SPINE_LINKS:
        found = f"makes {topology.n_fabric_link:,} links between switches"
        yield Fault(("topology", "pods"), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if topology.cores % topology.aggregations_per_pod:
        accepted = f"Accepted: a multiple of aggregations_per_pod = {topology.aggregations_per_pod}"
        yield Fault(("topology", "cores"), f"found {topology.cores}", accepted)
