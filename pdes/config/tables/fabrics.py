"""Forms of [topology] for fabrics that are no trees. Keys only: the builders are models of their own."""

from math import prod
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pdes.config.tables.fields import Count, Meaning, PositiveDuration, Rate, quantity, same_as
from pdes.config.tables.servers import ServersTable


class DragonflyConfig(ServersTable):
    """kind = "dragonfly": groups of routers that are all joined, with links from every group to every other."""

    kind: Literal["dragonfly"]
    groups: Count
    routers_per_group: Count
    hosts_per_router: Count
    global_links: Count
    routing: Literal["minimal", "valiant", "ugal", "shortest"] = "minimal"
    host_rate_bps: Rate = quantity("100Gbps", "host_rate")
    local_rate_bps: Rate = same_as("host_rate_bps", "local_rate")
    global_rate_bps: Rate = same_as("host_rate_bps", "global_rate")
    host_delay_ps: PositiveDuration = quantity("500ns", "host_delay")
    local_delay_ps: PositiveDuration = quantity("500ns", "local_delay")
    global_delay_ps: PositiveDuration = quantity("1.5us", "global_delay")
    MEANING: ClassVar[Meaning] = {
        "kind": "dragonfly: groups of routers that are all joined, with links from every group to every other",
        "groups": "number of groups",
        "routers_per_group": "each has a link to every other router of its group",
        "hosts_per_router": "places for NICs at a router",
        "global_links": "of a router, to routers of other groups; those of a group are as many to each other group",
        "routing": (
            "minimal: one global link at most; valiant: over a group that is drawn; ugal: of the two the one with less "
            "to carry; shortest: of all ways with the fewest links, as in other fabrics"
        ),
        "host_rate_bps": "of hosts' links",
        "local_rate_bps": "of links inside groups",
        "global_rate_bps": "of links between groups",
        "host_delay_ps": "propagation delay of hosts' links",
        "local_delay_ps": "propagation delay inside groups",
        "global_delay_ps": "propagation delay between groups",
    }

    @property
    def n_place(self) -> int:
        """Places for NICs."""
        return self.groups * self.routers_per_group * self.hosts_per_router

    @property
    def n_host(self) -> int:
        return self.gpus_on(self.n_place)

    @property
    def n_fabric_link(self) -> int:
        """Links between routers, or a little more; for bounds."""
        return self.groups * self.routers_per_group * (self.routers_per_group + self.global_links) // 2


class TorusConfig(ServersTable):
    """kind = "torus": a grid of routers, each with a link to the next one in every direction, round the edges."""

    kind: Literal["torus"]
    dims: Annotated[list[Count], Field(min_length=1, max_length=6)]
    hosts_per_router: Count = 1
    link_rate_bps: Rate = quantity("100Gbps", "link_rate")
    link_delay_ps: PositiveDuration = quantity("500ns", "link_delay")
    host_rate_bps: Rate = same_as("link_rate_bps", "host_rate")
    host_delay_ps: PositiveDuration = quantity("100ns", "host_delay")
    MEANING: ClassVar[Meaning] = {
        "kind": "torus: a grid of routers with links to the next one in every direction, round the edges",
        "dims": "routers in each dimension, such as [4, 4, 4]",
        "hosts_per_router": "places for NICs at a router",
        "link_rate_bps": "of links between routers",
        "link_delay_ps": "propagation delay of links between routers",
        "host_rate_bps": "of hosts' links",
        "host_delay_ps": "propagation delay of hosts' links",
    }

    @property
    def n_place(self) -> int:
        """Places for NICs."""
        return prod(self.dims) * self.hosts_per_router

    @property
    def n_host(self) -> int:
        return self.gpus_on(self.n_place)

    @property
    def n_fabric_link(self) -> int:
        """Links between routers, or a little more; for bounds."""
        return prod(self.dims) * len(self.dims)
