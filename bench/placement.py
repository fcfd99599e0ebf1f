"""Optimised placements beside ranks in order and HeteroSim's equation 4, with packets (mode "exact").

    python bench/placement.py [--quick] [--layers 8]

Clusters are the levels H0 to H4 of HeteroSim's table 2, models those of its section 5.1, on 32 GPUs in several layouts,
with servers of the two kinds in turns and one kind behind the other. The paper does not say how its jobs were laid out
or which servers they had. A link-mix has NICs of 200 and 400 Gbps (RoCE beside InfiniBand) and NVLink of 300 and 450
GB/s. Times are of the second iteration. --quick: one model and one layout. --layers: of the models, to save time.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pdes
from models.topology.even_ways import EvenWays
from models.workload.placing.optimise import by_equation_4
from pdes.config.values import make_config
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

PER_SERVER = 8
MODELS: dict[str, dict[str, Any]] = {
    "GPT 13B": {"hidden": 5120, "heads": 40, "vocabulary": 50304, "sequence": 2048},
    "LLaMA 30B": {"hidden": 6656, "heads": 52, "vocabulary": 32000, "sequence": 2048, "ffn": 17920, "gated": True,
                  "norm": "rms", "tied_embeddings": False, "learned_positions": False, "biases": "none"},
}  # fmt: skip
LAYOUTS = ((8, 4, 1), (4, 8, 1), (4, 4, 2), (2, 4, 4), (4, 2, 4), (2, 8, 2))  # tp, pp, dp of 32 GPUs
QUICK = ((2, 4, 4),)


class Server(NamedTuple):
    """gpu: its type; nic: Gbps of a NIC; nvlink: Gbps of a GPU."""

    gpu: str
    nic: int = 200
    nvlink: int = 2400


A100, H100 = Server("a100-80g"), Server("h100", 400, 3600)
H100_ON_N3, H100_ON_A100_LINKS = Server("h100-n3"), Server("h100-n3", 200, 2400)
LEVELS: dict[str, tuple[Server, Server, int]] = {  # (one kind, the other, how many in four servers are of the other)
    "H0": (A100, A100, 2),
    "H1": (A100, H100_ON_A100_LINKS, 2),
    "H2": (H100_ON_N3, H100, 2),
    "H3": (A100, H100, 2),
    "H4": (A100, H100, 1),
}
DEVICES = {"h100-n3": {"like": "h100", "nvlink": "300GBps"}}


def servers_of(level: str, n_server: int, order: str) -> list[Server]:
    """order: "in turns", or "sorted"."""
    one, other, n_of_four = LEVELS[level]
    found = [other if i % 4 in ((1, 3) if n_of_four == 2 else (2,)) else one for i in range(n_server)]
    return sorted(found, key=lambda server: server == other) if order == "sorted" else found


def topology_text(servers: list[Server]) -> str:
    """In SimAI's format: GPUs, an NVSwitch per server, a switch per rail, and no spine, as one switch has all NICs."""
    n_server, n_gpu = len(servers), len(servers) * PER_SERVER
    nvswitches = range(n_gpu, n_gpu + n_server)
    rails = range(n_gpu + n_server, n_gpu + n_server + PER_SERVER)
    spine = rails[-1] + 1
    links = [f"{rail} {spine} 1600Gbps 0.0015ms 0" for rail in rails]
    for i, server in enumerate(servers):
        for rail in range(PER_SERVER):
            gpu = i * PER_SERVER + rail
            links.append(f"{gpu} {nvswitches[i]} {server.nvlink}Gbps 0.000025ms 0")
            links.append(f"{gpu} {rails[rail]} {server.nic}Gbps 0.0005ms 0")
    switches = [*nvswitches, *rails, spine]
    header = f"{spine + 1} {PER_SERVER} {n_server} {PER_SERVER + 1} {len(links)} H100"
    return "\n".join([header, " ".join(map(str, switches)), *links]) + "\n"


def tables_of(servers: list[Server], model: str, layers: int, layout: tuple[int, int, int], file: Path) -> Any:
    """A config's tables."""
    file.write_text(topology_text(servers), encoding="utf-8")
    tp, pp, dp = layout
    return {
        "simulation": {"iterations": 2}, "topology": {"kind": "file", "file": str(file)},
        "network": {"congestion_control": "dctcp", "payload": "4096B"},
        "workload": {
            "kind": "training", "model": MODELS[model] | {"layers": layers}, "microbatches": 2 * pp, "zero": 1,
            "sequence_parallel": True, "parallel": {"tp": tp, "pp": pp, "dp": dp}, "devices": DEVICES,
            "compute": {"gpu": servers[0].gpu},
            "gpus": [{"servers": [i], "gpu": server.gpu} for i, server in enumerate(servers)],
        },
        "wormhole": {"mode": "exact"}, "output": {"tasks": False, "flows": False},
    }  # fmt: skip


def time_ms(tables: Any, placement: Any, folder: Path) -> tuple[float, str]:
    """The second iteration's time, and what the run says of its placement."""
    own = tables | {"workload": tables["workload"] | {"placement": placement}}
    summary = pdes.simulate(own, folder / "out").summary
    return summary["iteration_time_ps"][-1] / 1e9, summary["workload"].get("placement", "")


def equation_4(tables: Any) -> list[int]:
    """Its placement."""
    config = make_config(tables)
    topology = build_topology(config)
    ways = EvenWays(topology, 4096)
    server = ways.topology.server[topology.host]
    return by_equation_4(checked_job(config, topology), server, config.simulation.seed).tolist()


def cases(is_quick: bool) -> Iterator[tuple[str, str, str, tuple[int, int, int]]]:
    """(level, order of the servers, model, layout)"""
    for model in list(MODELS)[: 1 if is_quick else None]:
        for level in LEVELS:
            for order in ("in turns", "sorted")[: 1 if level == "H0" else None]:
                for layout in QUICK if is_quick else LAYOUTS:
                    if MODELS[model]["heads"] % layout[0] == 0:
                        yield level, order, model, layout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--layers", type=int, default=16, help="default: %(default)s")
    arguments = parser.parse_args()
    print("| model | mix | servers | TP, PP, DP | in order, ms | optimised, ms | gain | equation 4, ms | by | run |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}  # (less than in order, equation 4's more)
    for level, order, model, layout in cases(arguments.quick):
        tp, pp, dp = layout
        servers = servers_of(level, tp * pp * dp // PER_SERVER, order)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tables = tables_of(servers, model, arguments.layers, layout, folder / "topology.txt")
            began_s = time.perf_counter()
            in_order, _ = time_ms(tables, "in-order", folder)
            optimised, said = time_ms(tables, "optimised", folder)
            paper, _ = time_ms(tables, equation_4(tables), folder)
        less, more = 1 - optimised / in_order, paper / in_order - 1
        rows.setdefault((level, order), []).append((less, more))
        by = "flow mode" if "flow mode" in said else "closed form"
        print(
            f"| {model} | {level} | {order} | {tp}, {pp}, {dp} | {in_order:.1f} | {optimised:.1f} | "
            f"{100 * less:.1f} % | {paper:.1f} | {by} | {time.perf_counter() - began_s:.1f} s |",
            flush=True,
        )
    print_ends(rows)


def print_ends(rows: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    """By mix and order of the servers: least, mean and most."""
    print("\n| mix | servers | layouts | optimised: less than in order | equation 4: more than in order |")
    print("| --- | --- | --- | --- | --- |")
    for (level, order), own in rows.items():
        ends = [
            f"{100 * min(column):.1f} to {100 * max(column):.1f} %, mean {100 * sum(column) / len(column):.1f} %"
            for column in zip(*own, strict=True)
        ]
        print(f"| {level} | {order} | {len(own)} | {ends[0]} | {ends[1]} |")
    every = [row for own in rows.values() for row in own]
    n_slower = sum(more > 0.001 for _, more in every)
    print(f"\nOf {len(every)}, equation 4's placement was slower than ranks in order in {n_slower}.")


if __name__ == "__main__":
    main()
