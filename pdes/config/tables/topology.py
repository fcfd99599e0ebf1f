"""The forms of [topology], chosen by `kind`. Keys only: the builders are models of their own."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pdes.config.tables.fabrics import DragonflyConfig, TorusConfig
from pdes.config.tables.fields import Count, Meaning, PositiveDuration, Rate, Table, quantity, same_as
from pdes.config.tables.servers import NvLinkTable, ServersTable

Oversubscription = Annotated[float, Field(ge=1, le=1000)]


@lru_cache
def exact(number: float) -> Fraction:
    """The decimal that the user wrote: 1.1 is 11/10, not the nearest binary fraction."""
    return Fraction(str(number))


class FatTreeConfig(ServersTable):
    """kind = "fat-tree": k pods of k/2 edge and k/2 aggregation switches; host links may differ from the others."""

    kind: Literal["fat-tree"]
    k: int = Field(ge=2, le=512)
    link_rate_bps: Rate = quantity("100Gbps", "link_rate")
    link_delay_ps: PositiveDuration = quantity("1us", "link_delay")
    host_rate_bps: Rate = same_as("link_rate_bps", "host_rate")
    host_delay_ps: PositiveDuration = same_as("link_delay_ps", "host_delay")
    oversubscription: Oversubscription = 1.0
    MEANING: ClassVar[Meaning] = {
        "kind": "a fat-tree of three tiers whose sizes follow from k",
        "k": "ports of a switch: k pods of k/2 edge and k/2 aggregation switches; even",
        "link_rate_bps": "of links between switches",
        "link_delay_ps": "propagation delay of links between switches",
        "host_rate_bps": "of hosts' links",
        "host_delay_ps": "propagation delay of hosts' links",
        "oversubscription": "places for NICs at an edge switch over k/2",
    }

    @property
    def n_place(self) -> int:
        """Places for NICs; meaningful once hosts per edge switch is known to be whole."""
        return int(Fraction(self.k // 2) * exact(self.oversubscription)) * self.k // 2 * self.k

    @property
    def n_host(self) -> int:
        return self.gpus_on(self.n_place)


class ThreeTierConfig(ServersTable):
    """kind = "three-tier": pods of edge and aggregation switches below cores; host links may differ from the others."""

    kind: Literal["three-tier"]
    pods: Count
    edges_per_pod: Count
    aggregations_per_pod: Count
    cores: Count
    hosts_per_edge: Count
    link_rate_bps: Rate = quantity("100Gbps", "link_rate")
    link_delay_ps: PositiveDuration = quantity("1us", "link_delay")
    host_rate_bps: Rate = same_as("link_rate_bps", "host_rate")
    host_delay_ps: PositiveDuration = same_as("link_delay_ps", "host_delay")
    MEANING: ClassVar[Meaning] = {
        "kind": "pods of edge and aggregation switches below cores, all sizes given",
        "pods": "number of pods",
        "edges_per_pod": "edge switches in a pod",
        "aggregations_per_pod": "aggregation switches in a pod",
        "cores": "core switches: a multiple of aggregations_per_pod",
        "hosts_per_edge": "places for NICs at an edge switch",
        "link_rate_bps": "of links between switches",
        "link_delay_ps": "propagation delay of links between switches",
        "host_rate_bps": "of hosts' links",
        "host_delay_ps": "propagation delay of hosts' links",
    }

    @property
    def n_place(self) -> int:
        """Places for NICs."""
        return self.pods * self.edges_per_pod * self.hosts_per_edge

    @property
    def n_host(self) -> int:
        return self.gpus_on(self.n_place)

    @property
    def n_fabric_link(self) -> int:
        """Links between switches."""
        return self.pods * (self.edges_per_pod * self.aggregations_per_pod + self.cores)


class LeafSpineConfig(ServersTable):
    """kind = "leaf-spine": every leaf has one link to every spine."""

    kind: Literal["leaf-spine"]
    leaves: Count
    spines: Count
    hosts_per_leaf: Count
    host_rate_bps: Rate = quantity("100Gbps", "host_rate")
    spine_rate_bps: Rate = quantity("100Gbps", "spine_rate")
    host_delay_ps: PositiveDuration = quantity("1us", "host_delay")
    spine_delay_ps: PositiveDuration = quantity("1us", "spine_delay")
    MEANING: ClassVar[Meaning] = {
        "kind": "leaf switches that all have a link to every spine",
        "leaves": "leaf switches",
        "spines": "spine switches",
        "hosts_per_leaf": "places for NICs at a leaf",
        "host_rate_bps": "of hosts' links",
        "spine_rate_bps": "of links between leaves and spines",
        "host_delay_ps": "propagation delay of hosts' links",
        "spine_delay_ps": "propagation delay between leaves and spines",
    }

    @property
    def n_place(self) -> int:
        """Places for NICs."""
        return self.leaves * self.hosts_per_leaf

    @property
    def n_host(self) -> int:
        return self.gpus_on(self.n_place)


class RoftConfig(ServersTable):
    """kind = "roft": rail-optimised fat-tree; GPU r of every server hangs on a switch of rail r."""

    kind: Literal["roft"]
    gpus: Count
    gpus_per_server: Count = 8
    servers_per_rail_switch: Count = 32
    nic_rate_bps: Rate = quantity("100Gbps", "nic_rate")
    spine_rate_bps: Rate = same_as("nic_rate_bps", "spine_rate")
    nic_delay_ps: PositiveDuration = quantity("500ns", "nic_delay")
    spine_delay_ps: PositiveDuration = quantity("1.5us", "spine_delay")
    oversubscription: Oversubscription = 1.0
    MEANING: ClassVar[Meaning] = {
        "kind": "rail-optimised fat-tree: GPU r of every server hangs on a switch of rail r",
        "gpus": "of all servers together: a multiple of gpus_per_server",
        "gpus_per_server": "which is also the number of rails, unless nics_per_server is",
        "servers_per_rail_switch": "servers whose GPUs share rail switches; more servers have more of these",
        "nic_rate_bps": "of a GPU's NIC",
        "spine_rate_bps": "of links between rail switches and spines",
        "nic_delay_ps": "propagation delay from NIC to rail switch",
        "spine_delay_ps": "propagation delay from rail switch to spine",
        "oversubscription": "rate of a rail switch's NICs over that of its spine links",
    }

    @property
    def n_host(self) -> int:
        return self.gpus

    @property
    def n_nic(self) -> int:
        """Of all servers."""
        n_alike = self.gpus // self.gpus_per_server * self.nics_per_server
        return sum(one.n_server * one.n_nic for one in self.servers(n_alike))

    @property
    def n_spine_link(self) -> int:
        """Links between rail switches and spines, or a little more; for bounds."""
        rows = list(self.servers(self.n_nic))
        n_server, n_rail = sum(one.n_server for one in rows), max(one.n_nic for one in rows)
        n_unit = -(-n_server // self.servers_per_rail_switch)
        rate_bps = max(one.nic[0] or self.nic_rate_bps for one in rows)
        per_switch = min(n_server, self.servers_per_rail_switch) * rate_bps // self.spine_rate_bps + 1
        return n_unit * n_rail * per_switch


class GpuFatTreeConfig(RoftConfig):
    """kind = "fat-tree" with gpus: a table of kind "roft", cabled as a fat-tree of as large switches."""

    kind: Literal["fat-tree"]  # pyright: ignore[reportIncompatibleVariableOverride]
    MEANING: ClassVar[Meaning] = {
        "kind": "with gpus: the same servers on a fat-tree of as large switches",
        "gpus_per_server": "NICs of a server hang on one edge switch, as far as it has places",
        "servers_per_rail_switch": "NICs at an edge switch, as a rail switch has them",
        "nic_delay_ps": "propagation delay from NIC to edge switch",
        "spine_rate_bps": "of links between switches",
        "spine_delay_ps": "propagation delay between switches",
        "oversubscription": "rate of an edge switch's NICs over that of its links upwards",
    }

    @property
    def n_spine_link(self) -> int:
        """Links between switches, or a little more; for bounds."""
        n_edge = -(-self.n_nic // self.servers_per_rail_switch)
        per_switch = self.servers_per_rail_switch * self.nic_rate_bps // self.spine_rate_bps + 1
        return 2 * (n_edge + per_switch) * per_switch


class GpuLeafSpineConfig(RoftConfig):
    """kind = "leaf-spine" with gpus: a table of kind "roft", cabled as a leaf-spine of as large switches."""

    kind: Literal["leaf-spine"]  # pyright: ignore[reportIncompatibleVariableOverride]
    MEANING: ClassVar[Meaning] = {
        "kind": "with gpus: the same servers on a leaf-spine of as large switches",
        "gpus_per_server": "NICs of a server hang on one leaf, as far as it has places",
        "servers_per_rail_switch": "NICs at a leaf, as a rail switch has them",
        "nic_delay_ps": "propagation delay from NIC to leaf",
        "spine_rate_bps": "of links between leaves and spines",
        "spine_delay_ps": "propagation delay from leaf to spine",
        "oversubscription": "rate of a leaf's NICs over that of its spine links",
    }

    @property
    def n_spine_link(self) -> int:
        """Links between leaves and spines, or a little more; for bounds."""
        n_leaf = -(-self.n_nic // self.servers_per_rail_switch)
        return n_leaf * (self.servers_per_rail_switch * self.nic_rate_bps // self.spine_rate_bps + 1)


class DualPlaneConfig(RoftConfig):
    """kind = "dual-plane": a table of kind "roft" whose NICs have a port in each of several planes of rails."""

    kind: Literal["dual-plane"]  # pyright: ignore[reportIncompatibleVariableOverride]
    planes: Annotated[int, Field(ge=2, le=8)] = 2
    MEANING: ClassVar[Meaning] = {
        "kind": "rail-optimised fat-trees side by side, of which every NIC has a port in each",
        "planes": "such fat-trees: ports of a NIC",
        "nic_rate_bps": "of a GPU's NIC, all its ports together: a multiple of planes",
    }


class TopologyFileConfig(NvLinkTable):
    """kind = "file": an ns-3/HPCC topology file; its name is relative to the config's folder."""

    kind: Literal["file"]
    file: str = Field(min_length=1)
    MEANING: ClassVar[Meaning] = {
        "kind": "a topology from a file",
        "file": "an ns-3/HPCC topology.txt, relative to the config",
    }

    @property
    def n_host(self) -> None:
        """Not known before the file is read."""
        return None


GpusConfig = RoftConfig | GpuFatTreeConfig | GpuLeafSpineConfig | DualPlaneConfig
GridConfig = DragonflyConfig | TorusConfig
TopologyConfig = FatTreeConfig | ThreeTierConfig | LeafSpineConfig | GpusConfig | GridConfig | TopologyFileConfig
TOPOLOGY_KINDS: dict[str, type[Table]] = {
    "fat-tree": FatTreeConfig,
    "three-tier": ThreeTierConfig,
    "leaf-spine": LeafSpineConfig,
    "roft": RoftConfig,
    "dual-plane": DualPlaneConfig,
    "dragonfly": DragonflyConfig,
    "torus": TorusConfig,
    "file": TopologyFileConfig,
}
BY_GPUS: dict[str, type[Table]] = {"fat-tree": GpuFatTreeConfig, "leaf-spine": GpuLeafSpineConfig}
"""Of kinds whose sizes may also follow from the number of GPUs."""


def topology_table(content: Mapping[str, Any]) -> type[Table] | None:
    """The class that a table's kind has, None for an unknown one."""
    kind = str(content.get("kind"))
    return BY_GPUS[kind] if "gpus" in content and kind in BY_GPUS else TOPOLOGY_KINDS.get(kind)
