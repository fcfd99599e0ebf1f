"""The drawing of a fabric: every node has a place of its own, tier over tier, with its pod."""

from pathlib import Path

import numpy as np
import pytest

from models.topology import fat_tree, leaf_spine, make_topology, rail_optimised, three_tier
from models.topology.attach import Server, attach, hosts
from models.topology.direct.dragonfly import dragonfly_switches
from models.topology.direct.torus import torus_switches
from models.topology.fat_tree import fat_tree_switches
from models.topology.graph import LinkKind, Topology
from models.topology.leaf_spine import leaf_spine_switches
from models.topology.rail_optimised import planes_of, rail_switches
from pdes.results.report.fabric import draw
from pdes.results.report.ports import read_ports
from reference.result_folders import make_folder

RATE, DELAY = 10**11, 10**6
LINK = LinkKind(RATE, DELAY)
ROFT = {"kind": "roft", "gpus_per_server": 8, "servers_per_rail_switch": 4}


def roft(n_gpu: int, per_unit: int = 4, nvlink: bool = False) -> Topology:
    return rail_optimised(n_gpu, 8, per_unit, LINK, LINK, nvlink=LinkKind(RATE, 0) if nvlink else None)


PAIRS = [Server(2, 2, LINK, LINK)] * 4


def mixed_rails() -> Topology:
    servers = [Server(4, 4, LINK, LINK)] * 2 + [Server(4, 2, LINK)] * 2
    return attach(rail_switches(servers, 2, LINK, 1.0), servers)


FABRICS = {
    "roft": (roft(96), ROFT, 2, 3),
    "roft-nvlink": (roft(96, nvlink=True), ROFT, 2, 3),
    "roft-large": (roft(16384, 32), ROFT | {"servers_per_rail_switch": 32}, 2, 64),
    "fat-tree": (fat_tree(4, RATE, RATE, DELAY, DELAY), {"kind": "fat-tree"}, 3, 4),
    "three-tier": (three_tier(5, 4, 4, 16, 16, LINK, LINK), {}, 3, 5),
    "leaf-spine": (leaf_spine(4, 2, 40, RATE, RATE, DELAY, DELAY), {"kind": "leaf-spine"}, 2, 4),
    "one-leaf": (leaf_spine(1, 0, 3, RATE, RATE, DELAY, DELAY), {"kind": "leaf-spine"}, 1, 1),
    "servers": (attach(leaf_spine_switches(4, 2, 32, LINK), [Server(8, 8, LINK, LINK)] * 16), {}, 2, 4),
    "split-servers": (attach(leaf_spine_switches(4, 2, 2, LINK), [Server(8, 4, LINK, LINK)] * 2), {}, 2, 2),
    "shared-nics": (attach(fat_tree_switches(4, LINK), [Server(4, 2, LINK)] * 8), {}, 3, 4),
    "rails-of-two-kinds": (mixed_rails(), {"kind": "roft", "server": [{}]}, 2, 3),
    "dragonfly": (
        hosts(dragonfly_switches(9, 4, 2, 2, LINK, LINK), LINK),
        {"kind": "dragonfly", "routers_per_group": 4},
        1,
        9,
    ),
    "torus": (
        attach(torus_switches((4, 4, 4), 1, LINK), [Server(4, 4, LINK, LINK)] * 16),
        {"kind": "torus", "dims": [4, 4, 4]},
        1,
        16,
    ),
    "large-torus": (hosts(torus_switches((16, 16, 8), 1, LINK), LINK), {"kind": "torus", "dims": [16, 16, 8]}, 1, 128),
    "planes": (attach(planes_of(rail_switches(PAIRS, 2, LINK, 1.0), 2), PAIRS), {"kind": "dual-plane"}, 2, 2),
    "two-hosts": (make_topology("x", ["host0", "host1"], [False] * 2, [0, 1], [(0, 1, RATE, DELAY)]), {}, 0, 1),
}


@pytest.mark.parametrize("name", FABRICS)
def test_every_node_has_a_place_of_its_own_below_its_tier(tmp_path: Path, name: str) -> None:
    topology, keys, top, n_pod = FABRICS[name]
    ports = read_ports(make_folder(tmp_path, topology) / "ports.parquet")
    assert ports.nodes == topology.node_name  # in order of id, which slow flows and timelines rely on
    fabric = draw(ports, keys)
    assert (fabric.top, fabric.n_pod) == (top, n_pod)
    places = set(zip(fabric.row.tolist(), fabric.column.tolist(), strict=True))
    assert len(places) == topology.n_node and min(fabric.row) == 0 and min(fabric.column) >= 0
    for pod in range(-1, n_pod):
        for tier in range(top):
            upper, lower = (fabric.row[(fabric.tier == t) & np.isin(fabric.pod, [pod, -1])] for t in (tier + 1, tier))
            assert not len(upper) or not len(lower) or upper.max() < lower.min()
    assert fabric.shape[1] <= 300


def test_units_of_a_rail_optimised_fat_tree_are_its_pods(tmp_path: Path) -> None:
    """12 servers, 4 to a unit: rail switch u * 8 + r has GPU r of the servers of unit u, all drawn as one pod."""
    topology, keys, _, _ = FABRICS["roft-nvlink"]
    fabric = draw(read_ports(make_folder(tmp_path, topology) / "ports.parquet"), keys)
    for node, name in enumerate(topology.node_name):
        number = int("".join(filter(str.isdigit, name)))
        of = {"gpu": number // 32, "nvswitch": number // 4, "rail": number // 8, "spine": -1}
        assert fabric.pod[node] == of[name.rstrip("0123456789")], name
    gpus = np.arange(96)  # a server is a column, a rail a row
    assert len(set(fabric.column[gpus].tolist())) == 12 and len(set(fabric.row[gpus].tolist())) == 8
    assert (fabric.row[gpus] - fabric.row[0] == gpus % 8).all()
