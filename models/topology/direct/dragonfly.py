"""The dragonfly (Kim et al. 2008): groups of routers that are all joined, and links from every group to every other.

The paper's ways are in `ways`. Deviation: as routers have no virtual channels, PFC may deadlock.

Link c of group i to the group d + 1 places on is at port c * (groups - 1) + d of group i, ports router by router.
"""

from models.topology.attach import Switches
from models.topology.graph import Link, LinkKind
from pdes.errors import ConfigError


def dragonfly_switches(
    n_group: int, routers_per_group: int, hosts_per_router: int, global_links: int, local: LinkKind, far: LinkKind
) -> Switches:
    """Build it without hosts. global_links: of each router; two groups share routers_per_group * global_links / others.

    Switches: routers, group by group. Raises ConfigError for links that two groups cannot share evenly.
    """
    n_port = routers_per_group * global_links
    if n_group > 1 and (n_port < n_group - 1 or n_port % (n_group - 1)):
        found = f"{n_port} global links of a group for {n_group - 1} other groups"
        raise ConfigError("topology.global_links", found, "As many to each other group is accepted")
    links: list[Link] = []
    for group in range(n_group):
        first = group * routers_per_group
        links += [
            local.between(first + a, first + b)
            for a in range(routers_per_group)
            for b in range(a + 1, routers_per_group)
        ]
    for group in range(n_group):
        for port in range(n_port if n_group > 1 else 0):
            cable, d = divmod(port, n_group - 1)
            other = (group + d + 1) % n_group
            if other < group:
                continue
            there = cable * (n_group - 1) + n_group - 2 - d
            ends = group * routers_per_group + port // global_links, other * routers_per_group + there // global_links
            links.append(far.between(*ends))
    n_router = n_group * routers_per_group
    title = f"dragonfly of {n_group} groups of {routers_per_group} routers, {{hosts}}"
    places = [place // hosts_per_router for place in range(n_router * hosts_per_router)]
    return Switches(title, [f"router{x}" for x in range(n_router)], links, places)
