"""The graph every model runs on: nodes, and ports (one per direction of a link).

It says what exists and how fast it is. It is not routing (`routing.py`), not a cut into logical processes
(`partition`) and holds no state of a simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pdes.errors import ConfigError

Link = tuple[int, int, int, int]
"""One link, both directions: (node, node, rate_bps, delay_ps)."""
Cable = tuple[int, int]
"""What links of a kind are made of: (rate_bps, delay_ps)."""


class LinkKind(NamedTuple):
    """What the links of one tier have in common."""

    rate_bps: int
    delay_ps: int

    def between(self, node: int, other: int) -> Link:
        """A link of this kind."""
        return node, other, self.rate_bps, self.delay_ps


@dataclass(frozen=True, eq=False)
class Topology:
    """Nodes and ports of a network. Ports are sorted by (dst, src, order of the links in the input).

    Two topologies are equal only if they are the same object. Arrays are not to be written after the build.
    """

    name: str
    """What it is, for people: "fat-tree k=8, 128 hosts"."""
    node_name: tuple[str, ...]
    """n_node names, unique: "gpu3", "rail2", "edge1"."""
    is_switch: np.ndarray
    """bool[n_node]; hosts never forward."""
    server: np.ndarray
    """int64[n_node]; server of a GPU, an NVSwitch or a NIC that GPUs share, -1 for switches of the fabric; a host alone
    is its own server."""
    host: np.ndarray
    """int64[n_host]; node ids of the hosts, ascending. "GPU g" of a workload is node host[g]."""
    port_src: np.ndarray
    """int64[n_port]; the node that sends."""
    port_dst: np.ndarray
    """int64[n_port]; the node that receives."""
    port_rate_bps: np.ndarray
    """int64[n_port]; > 0."""
    port_delay_ps: np.ndarray
    """int64[n_port]; propagation, >= 0."""
    port_peer: np.ndarray
    """int64[n_port]; the opposite direction of the same link."""
    port_loss: np.ndarray
    """float64[n_port]; the probability that a packet sent by the port is lost at random on its way, 0 by default."""

    @property
    def n_node(self) -> int:
        """Hosts and switches."""
        return len(self.node_name)

    @property
    def n_host(self) -> int:
        """Nodes that send and receive, and never forward."""
        return len(self.host)

    @property
    def n_port(self) -> int:
        """Directions of links: twice the links."""
        return len(self.port_src)

    @cached_property
    def in_start(self) -> np.ndarray:
        """int64[n_node + 1]; the ports towards node v are in_start[v] .. in_start[v + 1] - 1."""
        return np.searchsorted(self.port_dst, np.arange(self.n_node + 1)).astype(np.int64)

    @cached_property
    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64[], the rates that ports have, ascending; int64[n_port], which of them each port has)."""
        rate_bps, i_rate = np.unique(self.port_rate_bps, return_inverse=True)
        return rate_bps, i_rate.reshape(-1)

    @cached_property
    def nic_rate_bps(self) -> np.ndarray:
        """int64[n_host]; a host's slowest ports together: its NIC, even if it has faster links in its server. 0: none.

        Of a NIC that GPUs share, each has its part.
        """
        most = np.iinfo(np.int64).max
        slowest = np.full(self.n_node, most)
        np.minimum.at(slowest, self.port_src, self.port_rate_bps)
        n_slowest = np.bincount(self.port_src[self.port_rate_bps == slowest[self.port_src]], minlength=self.n_node)
        slowest = np.where(slowest < most, slowest * n_slowest, most)
        is_nic = self.is_switch & (self.server >= 0) & ~self._is_closed
        if is_nic.any():
            up, out = np.zeros(self.n_node, np.int64), self.server[self.port_src] != self.server[self.port_dst]
            np.add.at(up, self.port_src[out], self.port_rate_bps[out])
            down = is_nic[self.port_dst] & ~self.is_switch[self.port_src]
            n_below = np.bincount(self.port_dst[down], minlength=self.n_node)
            part = up[self.port_dst[down]] // n_below[self.port_dst[down]]
            np.minimum.at(slowest, self.port_src[down], part)
        return np.where(slowest < most, slowest, 0)[self.host]

    @cached_property
    def is_inside(self) -> np.ndarray:
        """bool[n_port]; from a GPU to an NVSwitch. Of ways that are as long as each other, these are taken."""
        return self._is_closed[self.port_dst] & ~self.is_switch[self.port_src]

    @cached_property
    def _is_closed(self) -> np.ndarray:
        """bool[n_node]; switches of a server that lead nowhere else."""
        src, dst, is_closed = self.port_src, self.port_dst, self.is_switch & (self.server >= 0)
        is_closed[src[self.server[src] != self.server[dst]]] = False
        while (more := is_closed[src] & self.is_switch[dst] & ~is_closed[dst]).any():
            is_closed[src[more]] = False
        return is_closed

    def in_ports(self, node: int) -> range:
        """Ids of the ports that send to `node`, ascending."""
        return range(int(self.in_start[node]), int(self.in_start[node + 1]))


def make_topology(
    name: str,
    node_name: Sequence[str],
    is_switch: Sequence[bool],
    server: Sequence[int],
    links: Sequence[Link],
    link_loss: Sequence[float] | None = None,
) -> Topology:
    """Sort the two ports of every link into the canonical order and check that the parts fit together.

    links: (node, node, rate_bps > 0, delay_ps >= 0); parallel links are allowed, a link of a node to itself is not.
    link_loss: for each link, the probability that a packet is lost at random, in either direction; None: 0.
    Raises ConfigError that names the link.
    """
    n_node = len(node_name)
    if not len(is_switch) == len(server) == n_node:
        raise ConfigError(f"topology {name}", f"{n_node} names, {len(is_switch)} kinds, {len(server)} servers of nodes")
    columns = np.array(links, dtype=np.int64).reshape(-1, 4)
    _check_links(name, n_node, columns)
    end_a, end_b, rate_bps, delay_ps = columns.T
    n_link = len(columns)
    src, dst = np.concatenate([end_a, end_b]), np.concatenate([end_b, end_a])
    link = np.tile(np.arange(n_link), 2)
    order = np.lexsort((link, src, dst))
    port_of = np.empty(2 * n_link, np.int64)
    port_of[order] = np.arange(2 * n_link)
    loss = np.zeros(n_link) if link_loss is None else np.array(link_loss, np.float64)
    if len(loss) != n_link or not ((loss >= 0) & (loss <= 1)).all():
        raise ConfigError(f"topology {name}", "loss that is not one probability per link", "Accepted: 0 to 1 each")
    is_switch_array = np.array(is_switch, dtype=np.bool_)
    return Topology(
        name=name,
        node_name=tuple(node_name),
        is_switch=is_switch_array,
        server=np.array(server, dtype=np.int64),
        host=np.flatnonzero(~is_switch_array).astype(np.int64),
        port_src=src[order],
        port_dst=dst[order],
        port_rate_bps=rate_bps[link[order]],
        port_delay_ps=delay_ps[link[order]],
        port_peer=port_of[(order + n_link) % max(2 * n_link, 1)],
        port_loss=loss[link[order]],
    )


def _check_links(name: str, n_node: int, columns: np.ndarray) -> None:
    """Refuse the first link that cannot be. columns: int64[n_link, 4]."""
    end_a, end_b, rate_bps, delay_ps = columns.T
    faults = (
        ((columns[:, :2] < 0).any(axis=1) | (columns[:, :2] >= n_node).any(axis=1), f"a node outside 0..{n_node - 1}"),
        (end_a == end_b, "the same node at both ends"),
        (rate_bps <= 0, "a rate that is not above 0 bit/s"),
        (delay_ps < 0, "a delay below 0 ps"),
    )
    for is_bad, what in faults:
        if is_bad.any():
            i_link = int(np.argmax(is_bad))
            raise ConfigError(f"topology {name}", f"link {i_link} {tuple(columns[i_link].tolist())} has {what}")
