"""The forms of [topology], chosen by `kind`. Keys only: the builders are models of their own."""

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from pdes.config.fields import Count, PositiveDuration, Rate, Table, quantity, same_as

Oversubscription = Annotated[float, Field(ge=1, le=1000)]


def exact(number: float) -> Fraction:
    """The decimal that the user wrote: 1.1 is 11/10, not the nearest binary fraction."""
    return Fraction(str(number))


class FatTreeConfig(Table):
    """kind = "fat-tree": k pods of k/2 edge and k/2 aggregation switches; host links may differ from the others."""

    kind: Literal["fat-tree"]
    k: int = Field(ge=2, le=512)
    link_rate_bps: Rate = quantity("100Gbps", "link_rate")
    link_delay_ps: PositiveDuration = quantity("1us", "link_delay")
    host_rate_bps: Rate = same_as("link_rate_bps", "host_rate")
    host_delay_ps: PositiveDuration = same_as("link_delay_ps", "host_delay")
    oversubscription: Oversubscription = 1.0

    @property
    def n_host(self) -> int:
        """Hosts; meaningful once hosts per edge switch is known to be whole."""
        return int(Fraction(self.k // 2) * exact(self.oversubscription)) * self.k // 2 * self.k


class ThreeTierConfig(Table):
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

    @property
    def n_host(self) -> int:
        return self.pods * self.edges_per_pod * self.hosts_per_edge

    @property
    def n_fabric_link(self) -> int:
        """Links between switches."""
        return self.pods * (self.edges_per_pod * self.aggregations_per_pod + self.cores)


class LeafSpineConfig(Table):
    """kind = "leaf-spine": every leaf has one link to every spine."""

    kind: Literal["leaf-spine"]
    leaves: Count
    spines: Count
    hosts_per_leaf: Count
    host_rate_bps: Rate = quantity("100Gbps", "host_rate")
    spine_rate_bps: Rate = quantity("100Gbps", "spine_rate")
    host_delay_ps: PositiveDuration = quantity("1us", "host_delay")
    spine_delay_ps: PositiveDuration = quantity("1us", "spine_delay")

    @property
    def n_host(self) -> int:
        return self.leaves * self.hosts_per_leaf


class RoftConfig(Table):
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
    nvlink: Literal["none", "packets"] = "none"
    nvlink_rate_bps: Rate = quantity("3.6Tbps", "nvlink_rate")
    nvlink_delay_ps: PositiveDuration = quantity("25ns", "nvlink_delay")

    @property
    def n_host(self) -> int:
        return self.gpus

    @property
    def n_spine_link(self) -> int:
        """Links between rail switches and spines, or a little more; for bounds."""
        n_server = -(-self.gpus // self.gpus_per_server)
        n_unit = -(-n_server // self.servers_per_rail_switch)
        per_switch = min(n_server, self.servers_per_rail_switch) * self.nic_rate_bps // self.spine_rate_bps + 1
        return n_unit * self.gpus_per_server * per_switch


class TopologyFileConfig(Table):
    """kind = "file": an ns-3/HPCC topology file; its name is relative to the config's folder."""

    kind: Literal["file"]
    file: str = Field(min_length=1)
    gpus_per_server: Count = 1

    @property
    def n_host(self) -> None:
        """Not known before the file is read."""
        return None


TopologyConfig = FatTreeConfig | ThreeTierConfig | LeafSpineConfig | RoftConfig | TopologyFileConfig
TOPOLOGY_KINDS: dict[str, type[Table]] = {
    "fat-tree": FatTreeConfig,
    "three-tier": ThreeTierConfig,
    "leaf-spine": LeafSpineConfig,
    "roft": RoftConfig,
    "file": TopologyFileConfig,
}
