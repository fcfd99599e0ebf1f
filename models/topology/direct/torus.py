"""The torus: routers on a grid of any number of dimensions, each with a link to its next neighbour in either direction.

Hosts never forward, so a node is a router with its hosts. In a dimension of two routers one link joins them, in one of
a single router there is none. Routing is by fewest links: of several shortest ways a hash takes one at every hop.
Deviation: interconnects of this shape have virtual channels, which keep their rings free of deadlock; here a ring of
four or more routers may deadlock under PFC, whatever the order of dimensions.
"""

from collections.abc import Sequence
from itertools import product

from models.topology.attach import Switches
from models.topology.graph import Link, LinkKind
from pdes.errors import ConfigError


def torus_switches(dims: Sequence[int], hosts_per_router: int, link: LinkKind) -> Switches:
    """Build it without hosts. Router of coordinates (x, y, z): x + dims[0] * (y + dims[1] * z).

    Raises ConfigError for no dimension or an empty one.
    """
    if not dims or min(dims) < 1:
        raise ConfigError("topology.dims", f"{list(dims)}", "Whole numbers from 1 on are accepted")
    stride = [1]
    for size in dims:
        stride.append(stride[-1] * size)
    links: list[Link] = []
    for backwards in product(*(range(size) for size in reversed(dims))):
        place = backwards[::-1]
        router = sum(x * step for x, step in zip(place, stride, strict=False))
        for x, size, step in zip(place, dims, stride, strict=False):
            if size > 2 or (size == 2 and x == 0):
                links.append(link.between(router, router + ((x + 1) % size - x) * step))
    places = [place // hosts_per_router for place in range(stride[-1] * hosts_per_router)]
    title = f"torus {' x '.join(map(str, dims))}, {{hosts}}"
    return Switches(title, [f"router{x}" for x in range(stride[-1])], links, places)
