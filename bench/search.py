"""Search beside running every candidate with packets.

    python bench/search.py [--case gpt,oversubscribed,...] [--quick]

For each space: how many candidates may be run, how many of them a search ran with packets, how many times fewer that
is, and how much more the candidate that it names costs than the best of all; then how far the closed form, over all
of the space, and flow mode, where the search has used it, are off. --quick: a small part of each space.
"""

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.searching.climb import PACKETS, spearman
from pdes.searching.load import search_of
from pdes.searching.run import Runner, run_search, screened
from pdes.sweeps.store import Store
from pdes.workers import here

GPT: dict[str, Any] = {
    "simulation": {"iterations": 2},
    "topology": {"kind": "roft", "gpus": 16, "gpus_per_server": 8, "nic_rate": "100Gbps", "nvlink": "packets"},
    "network": {"congestion_control": "dctcp", "payload": "4096B"},
    "workload": {
        "kind": "training", "global_batch": 32, "sequence_parallel": True,
        "model": {"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 8192, "sequence": 1024},
        "parallel": {"tp": 1, "dp": 16, "pp": 1}, "compute": {"gpu": "h100"},
    },
    "wormhole": {"mode": "off"},
}  # fmt: skip


class Space(NamedTuple):
    """changes: of GPT, by key."""

    layout: dict[str, Any]
    changes: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    more: dict[str, Any] = {}


PLAIN = {"tp": "auto", "pp": "auto", "vpp": "auto", "microbatch": "auto", "zero": [0, 1]}
PRICE = {
    "gpu": 30_000, "server": 60_000, "switch": 5_000, "nic_per_gbps": 4, "switch_per_gbps": 10, "link_per_gbps": 5,
}  # fmt: skip
SPACES = {
    "gpt": Space(PLAIN),
    "oversubscribed": Space(PLAIN, {
        "topology.gpus_per_server": 4, "topology.servers_per_rail_switch": 2, "topology.oversubscription": 2.0,
    }),
    "moe": Space(PLAIN | {"ep": "auto", "zero": [1]}, {
        "workload.model": {
            "layers": 4, "hidden": 512, "heads": 8, "vocabulary": 8192, "sequence": 1024, "experts": 8, "top_k": 2,
            "ffn": 1024,
        },
    }),
    "long": Space(PLAIN | {"cp": "auto", "zero": [1]}, {"workload.model.sequence": 4096, "workload.global_batch": 16}),
    "memory": Space(PLAIN | {"recompute": "auto", "zero": "auto"}, {"workload.memory": {"size": "3.2GB"}}),
    "dcqcn": Space({"pp": "auto", "vpp": "auto", "microbatch": "auto", "zero": "auto", "recompute": "auto"}, {
        "topology": {"kind": "leaf-spine", "leaves": 4, "spines": 2, "hosts_per_leaf": 4},
        "network.congestion_control": "dcqcn",
    }),
    "fabric": Space({"tp": "auto", "pp": "auto", "microbatch": "auto"}, {"workload.zero": 1}, {
        "topology.nic_rate": ["50Gbps", "100Gbps", "200Gbps"], "topology.gpus_per_server": [4, 8],
    }, {"objective": "price", "price": PRICE}),
    "placement": Space(PLAIN | {"placement": "auto"}, {
        "topology.gpus": 12, "topology.gpus_per_server": 4, "workload.global_batch": 24,
        "workload.model.layers": 12, "topology.nvlink": "none",
    }),
}  # fmt: skip


def base_of(space: Space) -> dict[str, Any]:
    """Tables of a space's config."""
    base = copy.deepcopy(GPT)
    for key, value in space.changes.items():
        *tables, name = key.split(".")
        place = base
        for table in tables:
            place = place[table]
        place[name] = value
    return base


def measured(name: str, is_quick: bool, folder: Path) -> dict[str, Any]:
    """A row: the search first, then every candidate with packets."""
    space = SPACES[name]
    layout = space.layout | ({"microbatch": [2], "vpp": [1]} if is_quick else {})
    asked = search_of(base_of(space), Path("gpt.toml"), layout, space.axes, folder / name, space.more)
    began_s = time.perf_counter()
    found = run_search(asked, here)
    search_s = time.perf_counter() - began_s
    rows, n_packet = screened(asked), len(found.runs["packets"])
    there = [i for i, row in enumerate(rows) if not row.kind]
    began_s = time.perf_counter()
    with Store(asked.directory) as store:
        cost = np.array(Runner(asked, rows, store, here, None, False).run_at(PACKETS, there))
    all_s = time.perf_counter() - began_s
    best = float(np.nanmin(cost))
    own = float(found.climbed.packets[found.climbed.best])
    flow = found.climbed.flow[there]
    tried = np.isfinite(flow)
    closed = np.array([rows[i].weight * rows[i].closed_s for i in there])
    return {
        "candidates": len(rows), "may be run": len(there), "flow runs": int(tried.sum()), "packet runs": n_packet,
        "times fewer": len(there) / n_packet, "loss": own / best - 1, "gap": found.gap,
        "search": search_s, "all": all_s, "rank correlation": spearman(closed, cost),
        "packets over closed form": (float(np.nanmin(cost / closed)), float(np.nanmax(cost / closed))),
        "packets over flow mode": (float(np.nanmin((cost / flow)[tried])), float(np.nanmax((cost / flow)[tried]))),
        "best": found.label(found.climbed.best), "failed": int((~np.isfinite(cost)).sum()),
    }  # fmt: skip


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default=",".join(SPACES), help="of: %(default)s")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    print("| space | candidates | may be run | flow runs | packet runs | times fewer | loss | gap | search | all |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    said = []
    with tempfile.TemporaryDirectory() as folder:  # kernels are compiled
        measured("fabric", True, Path(folder))
    for name in arguments.case.split(","):
        with tempfile.TemporaryDirectory() as folder:
            row = measured(name, arguments.quick, Path(folder))
        print(
            f"| {name} | {row['candidates']} | {row['may be run']} | {row['flow runs']} | {row['packet runs']} | "
            f"{row['times fewer']:.0f} | {100 * row['loss']:.2f} % | {100 * row['gap']:.2f} % | "
            f"{row['search']:.1f} s | {row['all']:.1f} s |", flush=True,
        )  # fmt: skip
        said.append(
            f"| {name} | {row['rank correlation']:.3f} | {_ends(row['packets over closed form'])} | "
            f"{_ends(row['packets over flow mode'])} | {row['best']} | {row['failed']} |"
        )
    print(
        "\n| space | rank correlation of the closed form | packets over it | packets over flow mode | best | failed |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(said))


def _ends(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}"


if __name__ == "__main__":
    main()
