"""The fabric of a pool, as far as a case needs it: so many racks, each with its servers, below switches of a kind.

A rack is what hangs on one switch of each rail, or on one edge switch or leaf with all of its NICs. Of fabrics with
pods, a rack's number says its pod: `racks_per_pod` numbers belong to each, whether a case uses them all or not.
"""

from typing import Any

from pydantic import ValidationError

from pdes.config.faults import faults_of
from pdes.config.tables.topology import GpuFatTreeConfig, topology_table
from pdes.errors import ConfigError
from pdes.units import shown

RAILS, FLAT, PODS = ("roft", "dual-plane"), ("leaf-spine", "fat-tree"), ("three-tier",)
KINDS = (*RAILS, *FLAT, *PODS)
FROM_POOLS = {
    **dict.fromkeys((*RAILS, *FLAT), ("gpus", "gpus_per_server", "servers_per_rail_switch", "server")),
    "three-tier": ("pods", "hosts_per_edge", "gpus_per_server", "server"),
}
OTHER_FORM = ("k", "leaves", "spines", "hosts_per_leaf")
"""Of fat-tree and leaf-spine: keys that give a fabric of one size, where a case has as many racks as its jobs use."""


def kind_of(rails: dict[str, Any]) -> str:
    """Of [cluster.runs.fabric]; rail-optimised if it does not say."""
    return str(rails.get("kind", "roft"))


def check_fabric(rails: dict[str, Any]) -> None:
    """ConfigError with the key, if a pool cannot have such a fabric."""
    kind = kind_of(rails)
    if kind not in KINDS:
        accepted = f"Accepted: {', '.join(map(shown, KINDS))}, which grow by racks of servers"
        raise ConfigError("[cluster.runs.fabric] kind", f"found {shown(rails['kind'])}", accepted)
    for key in rails:
        where = f"[cluster.runs.fabric] {key}"
        if key in FROM_POOLS[kind]:
            raise ConfigError(where, "follows from the pools", f"Accepted: other keys of {kind}")
        if kind in FLAT and key in OTHER_FORM:
            accepted = f"Accepted: keys of {kind} with gpus, such as nic_rate and oversubscription"
            raise ConfigError(where, "follows from how many racks a case has", accepted)


def topology_of(rails: dict[str, Any], gpus_per_server: int, servers_per_rack: int, n_rack: int) -> dict[str, Any]:
    """[topology] of so many racks, numbered from 0; whole pods of a three-tier fabric."""
    kind = kind_of(rails)
    nics = rails.get("nics_per_server", gpus_per_server)
    places = servers_per_rack * nics if isinstance(nics, int) else servers_per_rack  # what is wrong is said elsewhere
    own: dict[str, Any] = {"kind": kind, "gpus_per_server": gpus_per_server}
    if kind in PODS:
        n_pod = -(-n_rack // max(racks_per_pod(rails, gpus_per_server, servers_per_rack), 1))
        return rails | own | {"pods": n_pod, "hosts_per_edge": places}
    per_switch = places if kind in FLAT else servers_per_rack
    n_gpu = n_rack * servers_per_rack * gpus_per_server
    return rails | own | {"gpus": n_gpu, "servers_per_rail_switch": per_switch}


def racks_per_pod(rails: dict[str, Any], gpus_per_server: int, servers_per_rack: int) -> int:
    """0: there are no pods. ConfigError: a key of the fabric is wrong."""
    kind = kind_of(rails)
    if kind in PODS:
        edges = rails.get("edges_per_pod")
        return edges if type(edges) is int and edges > 0 else 0
    if kind != "fat-tree":
        return 0
    from models.topology.rail_optimised import uplinks  # with the compiler, which most cluster runs do not load

    content = topology_of(rails, gpus_per_server, servers_per_rack, 1)
    table = topology_table(content)
    assert table is not None
    try:
        t = table.model_validate(content)
    except ValidationError as error:
        (fault, *_) = faults_of(error, table, "topology")
        key = ".".join(map(str, fault.path[1:]))
        raise ConfigError(f"[cluster.runs.fabric] {key}", fault.found, fault.accepted) from error
    assert isinstance(t, GpuFatTreeConfig)
    return uplinks(t.servers_per_rail_switch * t.nic_rate_bps, t.oversubscription, t.spine_rate_bps)
