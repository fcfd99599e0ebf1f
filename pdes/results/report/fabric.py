"""Where each node of a fabric is drawn: GPUs below, in columns as their servers or switches have them, tier over tier.

Everything follows from who has a link with whom, and from the names that hosts have. Pods are what is left connected
when the top tier is taken away; those of a rail-optimised fat-tree are its units of servers, which share rail switches,
those of a dragonfly its groups and those of a torus its rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pdes.results.report.ports import Ports

MOST_COLUMNS = 272  # of a row of pods
MOST_STACKED = 16  # hosts of a switch above each other
HOSTS = ("gpu", "host")
NVSWITCH, NIC = "nvswitch", "nic"


@dataclass(frozen=True, eq=False)
class Fabric:
    """A place on a grid for every node. Row 0 is the top one."""

    tier: np.ndarray
    """int64[n_node]; 0 hosts, 1 the switches that they hang on, and up; -1 switches inside servers."""
    pod: np.ndarray
    """int64[n_node]; -1: the top tier, which belongs to all."""
    column: np.ndarray
    row: np.ndarray
    n_pod: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return int(self.row.max(initial=0)) + 1, int(self.column.max(initial=0)) + 1

    @property
    def top(self) -> int:
        """The highest tier."""
        return int(self.tier.max(initial=0))


def draw(ports: Ports, topology: Mapping[str, Any]) -> Fabric:
    """Places of the nodes. topology: the config's table, for the sizes of its pods."""
    kind = [name.rstrip("0123456789") for name in ports.nodes]
    is_host = np.array([name in HOSTS for name in kind], bool)
    nvswitch, nic = (np.array([name == one for name in kind], bool) for one in (NVSWITCH, NIC))
    in_server = nvswitch | nic
    tier = np.where(in_server, -1, _tiers(ports, is_host | nic, nvswitch))
    is_top = tier == tier.max(initial=0) if tier.max(initial=0) > 1 else np.zeros(len(tier), bool)
    pod = _components(ports, is_top)
    block = _blocks(ports, tier, is_host, nic)
    stacked = MOST_STACKED
    if topology.get("kind") == "roft" and not nic.any() and not topology.get("server"):
        per_server, per_unit = int(topology["gpus_per_server"]), int(topology["servers_per_rail_switch"])
        block, pod, stacked = _units(ports, tier, is_host, in_server, per_server, per_unit)
    elif each := _routers_of_pod(topology):
        pod = _of_blocks(np.where(tier == 1, np.cumsum(tier == 1) - 1, -1) // each, block, tier)
    pod[is_top] = -1
    deepest = min(stacked, _most_in_block(block, is_host))
    column, row = _places(_Stacks(tier, block, is_host, deepest, _rows_inside(block, is_host, tier, deepest)), pod)
    return Fabric(tier, pod, column, row, int(pod.max(initial=-1)) + 1)


def _routers_of_pod(topology: Mapping[str, Any]) -> int:
    """Routers that are drawn beside each other: a group of a dragonfly, a row of a torus; 0: it is neither."""
    if topology.get("kind") == "torus":
        return int(topology["dims"][0])
    return int(topology["routers_per_group"]) if topology.get("kind") == "dragonfly" else 0


def _of_blocks(pod: np.ndarray, block: np.ndarray, tier: np.ndarray) -> np.ndarray:
    """The pods of routers, and of what hangs on them."""
    return np.where(tier == 1, pod, np.where(block >= 0, pod[block], 0))


def _tiers(ports: Ports, is_end: np.ndarray, is_out: np.ndarray) -> np.ndarray:
    """Links to the nearest host or NIC, without some nodes; what none of these reaches is on the top tier."""
    tier = np.where(is_end, 0, np.iinfo(np.int64).max)
    counts = ~is_out[ports.node] & ~is_out[ports.peer]
    src, dst = ports.node[counts], ports.peer[counts]
    for level in range(1, len(tier) + 1):
        near = dst[(tier[src] == level - 1) & (tier[dst] > level)]
        if not len(near):
            break
        tier[near] = level
    known = tier[tier < np.iinfo(np.int64).max]
    return np.minimum(tier, known.max(initial=0))


def _components(ports: Ports, is_out: np.ndarray) -> np.ndarray:
    """Number of the connected component of every node without those that are out, in order of its first node."""
    label = np.arange(len(is_out))
    kept = ~is_out[ports.node] & ~is_out[ports.peer]
    src, dst = ports.node[kept], ports.peer[kept]
    while True:
        before = label.copy()
        np.minimum.at(label, dst, label[src])
        label = label[label]
        if (label == before).all():
            break
    _, number = np.unique(np.where(is_out, -1, label), return_inverse=True)
    return number - int(is_out.any())


def _blocks(ports: Ports, tier: np.ndarray, is_host: np.ndarray, nic: np.ndarray) -> np.ndarray:
    """For each host the first switch that it or its NIC hangs on, and for what is inside its server; else -1."""
    block = np.full(len(tier), len(tier))
    down = (is_host | nic)[ports.node] & (tier[ports.peer] >= 1)
    np.minimum.at(block, ports.node[down], ports.peer[down])
    up = is_host[ports.node] & nic[ports.peer]
    np.minimum.at(block, ports.node[up], block[ports.peer[up]])
    inside = is_host[ports.node] & (tier[ports.peer] < 0) & ~nic[ports.peer]
    np.minimum.at(block, ports.peer[inside], block[ports.node[inside]])
    return np.where(block < len(tier), block, -1)


def _units(
    ports: Ports, tier: np.ndarray, is_host: np.ndarray, in_server: np.ndarray, per_server: int, per_unit: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """(server of every host, unit of every node but the spines, GPUs above each other) of a rail-optimised fat-tree."""
    block, pod = np.full(len(tier), -1), np.full(len(tier), -1)
    number = np.arange(int(is_host.sum()))
    block[is_host], pod[is_host] = number // per_server, number // per_server // per_unit
    joins = is_host[ports.node] & ((tier[ports.peer] == 1) | in_server[ports.peer])
    pod[ports.peer[joins]] = pod[ports.node[joins]]
    server = np.full(len(tier), -1)
    server[ports.peer[joins]] = block[ports.node[joins]]
    block[in_server] = server[in_server]
    return block, pod, per_server


class _Stacks(NamedTuple):
    """What hosts of a pod hang on, and how many of them are drawn above each other at most."""

    tier: np.ndarray
    block: np.ndarray
    is_host: np.ndarray
    deepest: int
    n_inside: int
    """Rows of what is inside the servers."""


def _places(stacks: _Stacks, pod: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns and rows: pods side by side, and below each other where the page is full."""
    tier = stacks.tier
    column, row = np.zeros(len(tier), np.int64), np.zeros(len(tier), np.int64)
    top = np.flatnonzero(pod < 0)
    n_up = int(tier[pod >= 0].max(initial=0))  # tiers of switches inside a pod
    left, band, widest = 0, 0, 1
    height = 2 * n_up + stacks.deepest + stacks.n_inside + 1
    for one in range(int(pod.max(initial=-1)) + 1):
        nodes = np.flatnonzero(pod == one)
        width = _place_hosts(nodes, stacks, left, band + 2 * n_up, column, row)
        width = max(width, *(int((tier[nodes] == level).sum()) for level in range(n_up + 1) if level), 1)
        if left and left + width > MOST_COLUMNS:
            left, band = 0, band + height
            _place_hosts(nodes, stacks, left, band + 2 * n_up, column, row)
        _widen(nodes[tier[nodes] <= 0], left, width, column)
        for level in range(1, n_up + 1):
            own = nodes[tier[nodes] == level]
            column[own], row[own] = left + _spread(len(own), width), band + 2 * (n_up - level)
        left += width + 1
        widest = max(widest, left - 1)
    n_line = -(-len(top) // widest) if len(top) else 0
    for line in range(n_line):
        own = top[line * widest : (line + 1) * widest]
        column[own], row[own] = _spread(len(own), widest), line - n_line - 1
    return column, row - int(row.min(initial=row[0] if len(row) else 0))


def _most_in_block(block: np.ndarray, is_host: np.ndarray) -> int:
    own = block[is_host]
    return int(np.unique(own, return_counts=True)[1].max(initial=1)) if len(own) else 1


def _rows_inside(block: np.ndarray, is_host: np.ndarray, tier: np.ndarray, deepest: int) -> int:
    """Rows that what is inside servers takes below the hosts of its block."""
    n_host, n_inside = (np.bincount(block[which] + 1, minlength=len(block) + 1) for which in (is_host, tier == -1))
    return int((-(-n_inside // np.maximum(-(-n_host // deepest), 1))).max(initial=0))


def _place_hosts(
    nodes: np.ndarray, stacks: _Stacks, left: int, band: int, column: np.ndarray, row: np.ndarray
) -> int:  # fmt: skip
    """Hosts of a pod, block by block, and below them the switches inside their servers; the columns that they take."""
    first, deepest, block, is_host = left, stacks.deepest, stacks.block, stacks.is_host
    for number in dict.fromkeys(block[nodes[is_host[nodes]]].tolist()):
        own = nodes[(block[nodes] == number) & is_host[nodes]]
        place = np.arange(len(own))
        column[own], row[own] = left + place // deepest, band + place % deepest
        width = -(-len(own) // deepest)
        inside = nodes[(block[nodes] == number) & (stacks.tier[nodes] == -1)]
        place = np.arange(len(inside))
        column[inside], row[inside] = left + place % width, band + deepest + place // width
        left += width
    return left - first


def _widen(nodes: np.ndarray, left: int, width: int, column: np.ndarray) -> None:
    """Spread columns that begin at left over a width, where switches above take more room than what is below."""
    own = column[nodes] - left
    taken = int(own.max(initial=0)) + 1
    if taken < width:
        column[nodes] = left + _spread(taken, width)[own]


def _spread(n: int, width: int) -> np.ndarray:
    """n different columns of a width that has room for them, evenly."""
    return (np.arange(n) * width + width // 2) // max(n, 1) if n <= width else np.arange(n)
