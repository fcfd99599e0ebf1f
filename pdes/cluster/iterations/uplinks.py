"""Links above a rack that are down in a case: which ones, and a config in which traffic goes around them.

A rack's switches lose a link each before one of them loses a second, and each keeps its last one. Routes are those
without these links from the run's begin on: what is lost until switches know of a link that fails is left out.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from models.topology.graph import Topology


def without_uplinks(
    tables: dict[str, Any], folder: str, gpus_per_rack: int, lost: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """The tables of a config with so many uplinks of racks down, (rack, how many) each."""
    if not lost:
        return tables
    from pdes.config.values import make_config
    from pdes.scenario.topology import build_topology

    topology = build_topology(make_config(tables, folder=folder))
    events = [
        {"time": "0s", "link": link, "state": "down"}
        for rack, n in lost
        for link, _ in zip(_uplinks(topology, rack * gpus_per_rack, gpus_per_rack), range(n), strict=False)
    ]
    network = tables.get("network", {})
    routing = network.get("routing", {}) | {"convergence": "0s"}
    events = [*network.get("link_event", []), *events]
    return tables | {"network": network | {"routing": routing, "link_event": events}}


def _uplinks(topology: "Topology", first: int, n_gpu: int) -> Iterator[list[str]]:
    """Names of both ends of a rack's uplinks, in the order in which they are lost."""
    src, dst = topology.port_src, topology.port_dst
    in_fabric = topology.is_switch & (topology.server < 0)
    reached = np.zeros(topology.n_node, bool)
    reached[topology.host[first : first + n_gpu]] = True
    for _ in range(2):  # a NIC that GPUs share, or an NVSwitch, is a node between
        into = dst[reached[src] & ~in_fabric[src]]
        reached[into] = True
    switches = np.flatnonzero(reached & in_fabric)
    up = {int(switch): dst[(src == switch) & in_fabric[dst]].tolist() for switch in switches}
    for k in range(max((len(ends) for ends in up.values()), default=0)):
        for switch, ends in up.items():
            if k < len(ends) - 1:
                yield [topology.node_name[switch], topology.node_name[ends[k]]]
