"""Tiny configs, drawn by number, run on two engines whose results must be the same bytes.

As a program (`python tiny_runs.py DEVICE FIRST END`): under Numba's CUDA simulator, in a process of its own.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pdes
from models.network.windows import make
from models.network.windows.make import FIRST_PLACES

LAWS = ("dctcp", "dcqcn", "hpcc", "fixed-window", "none")
FILES = ("flows.parquet", "ports.parquet", "result.json")
TOPOLOGIES: tuple[dict[str, Any], ...] = (
    {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 2},
    {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 4},
    {"kind": "leaf-spine", "leaves": 3, "spines": 1, "hosts_per_leaf": 2},
    {"kind": "fat-tree", "k": 4},
)
HOSTS = (4, 4, 6, 16)


def tiny_config(number: int, folder: Path, laws: tuple[str, ...] = LAWS, most_bytes: int = 60_000) -> pdes.Config:
    """A config of a few hosts and flows, with marks by queues of a few packets; its flows lie in folder."""
    rng = np.random.default_rng(number)
    i = int(rng.integers(len(TOPOLOGIES)))
    topology = dict(TOPOLOGIES[i])
    for end in ("link",) if topology["kind"] == "fat-tree" else ("host", "spine"):
        topology[f"{end}_rate"] = str(rng.choice(["25Gbps", "100Gbps", "97Gbps"]))  # 97: no whole ps per byte
        topology[f"{end}_delay"] = str(rng.choice(["200ns", "1us", "7us"]))
    lines, n_flow = ["src,dst,size_bytes,start_ps"], int(rng.integers(1, 10))
    for _ in range(n_flow):
        src, dst = rng.choice(HOSTS[i], 2, replace=False)
        if rng.random() < 0.5:  # several to one
            src, dst = (src, 0) if src else (1, 0)
        lines.append(f"{src},{dst},{rng.integers(1, most_bytes)},{rng.integers(4) * 2_000_000}")
    path = folder / f"flows-{number}.csv"
    path.write_text("\n".join(lines) + "\n")
    network: dict[str, Any] = {
        "congestion_control": laws[number % len(laws)],
        "payload": str(rng.choice(["1000B", "1460B", "999B"])),
        **({"ecn": True, "ecn_kmin": "1kB", "ecn_kmax": "5kB", "ecn_pmax": 0.3} if number % len(laws) < 2 else {}),
    }
    work = {"kind": "flows", "file": str(path), "queue_pairs": str(rng.choice(["per-flow", "per-pair"]))}
    simulation = {"seed": int(rng.integers(1, 1000))}
    return pdes.make_config(topology=topology, network=network, workload=work, simulation=simulation)


def differing(config: pdes.Config, folder: Path, device: Any) -> list[str]:
    """Which of a run's files differ between the usual engine and a device's."""
    found = [pdes.simulate(config, folder / name, device=name).directory for name in ("cpu", device)]
    return [name for name in FILES if (found[0] / name).read_bytes() != (found[1] / name).read_bytes()]


def main(device: str, first: int, end: int, most_bytes: int) -> None:
    """Compare configs of these numbers; print what differs and what was marked."""
    n_marked = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, end):
            if device == "cuda":
                from models.network.windows import cuda

                cuda.FEWEST_BLOCKS = number % 2 or 2  # 2: all blocks share the nodes
                cuda.FIRST_ROOM = (1,)
                make.FIRST_PLACES = 1 if number % 4 < 2 else FIRST_PLACES  # then it grows, again and again
            config = tiny_config(number, Path(folder), most_bytes=most_bytes)
            if names := differing(config, Path(folder), device):
                print(f"config {number}: {', '.join(names)}")
            n_marked += sum(pdes.Result(Path(folder) / "cpu").flows.column("ecn_marks").to_pylist())
    print(f"{end - first} configs compared, {n_marked} packets marked")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
