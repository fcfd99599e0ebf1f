"""64 GPUs in eight servers on every kind of fabric: what it takes of switches and links, and what collectives take.

    python bench/fabrics.py [--size 1MB] [--out FOLDER]

Rails, trees and planes are one table but for `kind`. NICs have 400 Gbps, NVLink is simulated as packets. The last line
says how many ways of a dragonfly would go over several global links if only the number of links counted.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import pdes
from models.topology.attach import hosts
from models.topology.direct.dragonfly import dragonfly_switches
from models.topology.graph import LinkKind, Topology
from models.topology.routing import route_pairs
from pdes.config import config_from_dict
from pdes.scenario import build_topology

GPUS = {"gpus": 64, "servers_per_rail_switch": 8, "nic_rate": "400Gbps"}
ROUTERS = {"gpus_per_server": 8, "host_rate": "400Gbps", "host_delay": "500ns"}
FABRICS: dict[str, dict[str, Any]] = {
    "rails": {"kind": "roft"} | GPUS,
    "fat-tree": {"kind": "fat-tree"} | GPUS,
    "leaf-spine": {"kind": "leaf-spine"} | GPUS,
    "two planes": {"kind": "dual-plane"} | GPUS,
    "dragonfly": {"kind": "dragonfly", "groups": 8, "routers_per_group": 4, "hosts_per_router": 2, "global_links": 7,
                  "global_delay": "1.5us"} | ROUTERS,
    "torus 4 x 4 x 4": {"kind": "torus", "dims": [4, 4, 4], "link_rate": "400Gbps"} | ROUTERS,
}  # fmt: skip
OPERATIONS = ("all-to-all", "all-reduce")


def tables_of(fabric: dict[str, Any], operation: str, size: str) -> dict[str, Any]:
    """One collective of all GPUs, as packets."""
    one = {"name": "all", "operation": operation, "size": size}
    return {
        "topology": fabric | {"nvlink": "packets"},
        "network": {"payload": "4096B"},
        "workload": {"kind": "collectives", "collective": [one]},
    }


def longest_way(topology: Topology) -> int:
    """Links of the longest shortest way between two GPUs."""
    src, dst = np.array([(a, b) for a in topology.host for b in topology.host if a != b], np.int64).T.copy()
    return int(np.diff(route_pairs(topology, src, dst, src, dst).start).max())


def far_shares(topology: Topology, far_ps: int) -> np.ndarray:
    """The shares of ordered pairs of hosts whose way has 0, 1, .. links with a delay."""
    src, dst = np.array([(a, b) for a in topology.host for b in topology.host if a != b], np.int64).T.copy()
    number = np.arange(len(src), dtype=np.int64)
    paths = route_pairs(topology, src, dst, number, number)
    n_far = np.add.reduceat((topology.port_delay_ps == far_ps)[paths.port].astype(int), paths.start[:-1])
    return np.bincount(n_far) / len(n_far)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1MB", help="buffer of each GPU")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    out = arguments.out or Path(tempfile.mkdtemp(prefix="pdes-fabrics-"))
    table = Table(box=None, title=f"64 GPUs, {arguments.size} each", title_justify="left")
    headings = ("fabric", "switches", "links between", "longest way", *(f"{one}, us" for one in OPERATIONS))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "fabric" else "right")
    for name, fabric in FABRICS.items():
        topology = build_topology(config_from_dict(tables_of(fabric, OPERATIONS[0], arguments.size)))
        is_fabric = topology.is_switch & (topology.server < 0)
        n_link = int((is_fabric[topology.port_src] & is_fabric[topology.port_dst]).sum()) // 2
        times = []
        for operation in OPERATIONS:
            folder = out / f"{name.replace(' ', '-')}-{operation}"
            result = pdes.simulate(tables_of(fabric, operation, arguments.size), folder)
            times.append(f"{result.simulated_seconds * 1e6:.1f}")
        table.add_row(name, str(int(is_fabric.sum())), str(n_link), str(longest_way(topology)), *times)
    console = Console(markup=False, highlight=False, emoji=False, width=120)
    console.print(table)
    local, far = LinkKind(10**11, 500_000), LinkKind(10**11, 2_000_000)
    balanced = hosts(dragonfly_switches(9, 4, 2, 2, local, far), local)
    shares = ", ".join(f"{n}: {share:.1%}" for n, share in enumerate(far_shares(balanced, far.delay_ps)))
    console.print(f"\nGlobal links on ways of fewest links in the balanced dragonfly of 72 hosts: {shares}")


if __name__ == "__main__":
    main()
