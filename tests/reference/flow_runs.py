"""Runs of lists of flows, written, simulated and read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import pdes

MS = 10**9
LEAF_SPINE = {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4}
Flow = tuple[int, int, int, int]  # src, dst, bytes, ps


class Ran:
    """What a run has left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.result = json.loads((folder / "result.json").read_text())
        self.flows, self.ports = (
            {name: np.array(column) for name, column in pq.read_table(folder / f"{table}.parquet").to_pydict().items()}
            for table in ("flows", "ports")
        )


def config(folder: Path, flows: list[Flow], topology: dict, mode: str = "flow", **more: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    rows = [f"{src},{dst},{size},{start}" for src, dst, size, start in flows]
    (folder / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, ""]))
    network = {"congestion_control": "none"} | more.pop("network", {})
    wormhole = {"mode": mode} | ({"flow": {"efficiency": 1.0} | more.pop("flow", {})} if mode == "flow" else {})
    workload = {"kind": "flows", "file": str(folder / "flows.csv")}
    return {
        "topology": topology, "network": network, "workload": workload, "wormhole": wormhole,
        "output": {"dir": str(folder / mode)}, **more,
    }  # fmt: skip


def run(folder: Path, flows: list[Flow], topology: dict, mode: str = "flow", **more: Any) -> Ran:
    made = config(folder, flows, topology, mode, **more)
    pdes.simulate(made)
    return Ran(Path(made["output"]["dir"]))
