"""What [topology] must satisfy beyond one value, as far as nothing has to be built for it."""

from collections.abc import Iterator

from pdes.config.tables.fields import Fault, Table
from pdes.config.tables.servers import ServersTable, server_faults
from pdes.config.tables.topology import FatTreeConfig, LeafSpineConfig, RoftConfig, ThreeTierConfig, exact

MAX_HOSTS, MAX_SPINE_LINKS = 2**20, 2**23  # far above any cluster; guards against a slip that would fill the memory


def topology_faults(topology: Table | None) -> Iterator[Fault]:
    """Of a table that is valid by itself."""
    own = list(_size_faults(topology))
    yield from own
    if isinstance(topology, ServersTable):
        yield from server_faults(topology, None if own else getattr(topology, "n_place", None))


def _size_faults(topology: Table | None) -> Iterator[Fault]:
    n_host = getattr(topology, "n_host", None)
    if n_host is not None and n_host > MAX_HOSTS:
        key = "gpus" if isinstance(topology, RoftConfig) else "leaves"
        key = {FatTreeConfig: "k", ThreeTierConfig: "pods"}.get(type(topology), key)
        yield Fault(("topology", key), f"makes {n_host:,} hosts", f"Accepted: at most {MAX_HOSTS:,} hosts")
    if isinstance(topology, RoftConfig) and topology.n_spine_link > MAX_SPINE_LINKS:
        which = "rail switches and spines" if topology.kind == "roft" else "switches"
        found = f"makes {topology.n_spine_link:,} links between {which}"
        yield Fault(("topology", "spine_rate"), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if isinstance(topology, LeafSpineConfig) and topology.leaves * topology.spines > MAX_SPINE_LINKS:
        found = f"makes {topology.leaves * topology.spines:,} links between leaves and spines"
        yield Fault(("topology", "spines"), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if isinstance(topology, ThreeTierConfig):
        yield from _three_tier_faults(topology)
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


def _three_tier_faults(topology: ThreeTierConfig) -> Iterator[Fault]:
    if topology.n_fabric_link > MAX_SPINE_LINKS:
        found = f"makes {topology.n_fabric_link:,} links between switches"
        yield Fault(("topology", "pods"), found, f"Accepted: at most {MAX_SPINE_LINKS:,} such links")
    if topology.cores % topology.aggregations_per_pod:
        accepted = f"Accepted: a multiple of aggregations_per_pod = {topology.aggregations_per_pod}"
        yield Fault(("topology", "cores"), f"found {topology.cores}", accepted)
