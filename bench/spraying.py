"""Flow level where packets of a flow go different ways: how far off it is, and how full fabrics slow messages down.

    python bench/spraying.py [--laws dctcp,hpcc,...] [--policies spray,adaptive] [--tolerance X]
    python bench/spraying.py --loads

The first runs two training jobs of LLaMA 3 8B on 64 GPUs, eight leaves and eight spines at 100 Gbps, in full and in
mode "auto". It prints for each law and policy how far the iteration is off, and which part of it was simulated.

The second sends messages of 8 MB from 1, 2, 4, 6, 7 and 8 hosts of each leaf to the next leaf's, each alone at its
NICs. It prints how much longer they take than on an idle network.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from cases import print_last, write_flows
from pdes.convert.toml_text import Tables, toml_text
from runs import simulate

LEAVES = HOSTS = 8
FABRIC: dict[str, Any] = {
    "kind": "leaf-spine", "leaves": LEAVES, "spines": 8, "hosts_per_leaf": HOSTS, "host_rate": "100Gbps",
    "spine_rate": "100Gbps", "gpus_per_server": 8, "nvlink": "none",
}  # fmt: skip
JOBS = {"tp8 dp8": (8, 1, 8, 2), "tp4 pp4 dp4": (4, 4, 4, 4)}  # (tp, pp, dp, layers)
MB, MS, US = 10**6, 10**9, 10**6
N_MESSAGE = 3  # of each host


def config(path: Path, workload: Tables, policy: str, law: str, tolerance: float) -> Path:
    """A config on the fabric."""
    tables: Tables = {
        "topology": FABRIC, "network": {"congestion_control": law, "payload": "4096B"},
        "network.transport": {"recovery": "selective-repeat"}, "network.routing": {"policy": policy}, **workload,
        "wormhole": {"mode": "auto", "tolerance": tolerance},
    }  # fmt: skip
    path.write_text(toml_text("Packets that go different ways", tables))
    return path


def job(sizes: tuple[int, int, int, int]) -> Tables:
    """Tables of a training job."""
    tp, pp, dp, layers = sizes
    workload = {
        "kind": "training", "preset": "llama3-8b", "layers": layers, "microbatch": 1, "global_batch": 32, "zero": 1,
    }  # fmt: skip
    return {
        "workload": workload, "workload.parallel": {"tp": tp, "pp": pp, "dp": dp}, "workload.compute": {"gpu": "h100"},
        "workload.memory": {"check": "off"},
    }  # fmt: skip


def compare(folder: Path, policy: str, law: str, tolerance: float) -> dict[str, Any]:
    """By job: how far its iteration is off, and which part of its packet-hops was simulated; both printed."""
    found = {}
    for name, sizes in JOBS.items():
        path = config(folder / "job.toml", job(sizes), policy, law, tolerance)
        auto, full = (simulate(path, [f"wormhole.mode={mode}", "output.tasks=false"], folder / mode) for mode in
                      ("auto", "off"))  # fmt: skip
        time = [sum(run.result["iteration_time_ps"]) for run in (auto, full)]
        hops = [run.result["packet_hops"] for run in (auto, full)]
        off, simulated = time[0] / time[1] - 1, hops[0] / hops[1]
        print(f"{law:9} {policy:9} {name:12} {100 * off:+6.2f} %, {100 * simulated:5.1f} % simulated", flush=True)
        found[f"{law}, {policy}, {name}"] = {"off": off, "simulated": simulated}
    return found


def slowdown(folder: Path, policy: str, law: str, n_sender: int) -> tuple[float, float]:
    """(mean, standard deviation) of how many times longer messages take than on an idle network."""
    rows = [
        (leaf * HOSTS + i, (leaf + 1) % LEAVES * HOSTS + i, 8 * MB, 2 * k * MS + i * US)
        for leaf in range(LEAVES) for i in range(n_sender) for k in range(N_MESSAGE)
    ]  # fmt: skip
    write_flows(folder / "flows.csv", *(list(column) for column in zip(*rows, strict=True)))
    path = config(folder / "flows.toml", {"workload": {"kind": "flows", "file": "flows.csv"}}, policy, law, 0.01)
    table = simulate(path, ["wormhole.mode=off"], folder / "flows").columns("flows", ["fct_ps", "ideal_fct_ps"])
    times = table["fct_ps"] / table["ideal_fct_ps"]
    return float(times.mean()), float(times.std())


def main() -> None:
    """Run, print a line for each and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="dctcp,hpcc,dcqcn,timely,swift")
    parser.add_argument("--policies", default="spray,adaptive")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--loads", action="store_true")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for law in args.laws.split(","):
            for policy in args.policies.split(","):
                if not args.loads:
                    found |= compare(Path(name), policy, law, args.tolerance)
                    continue
                by_load = [slowdown(Path(name), policy, law, n) for n in (1, 2, 4, 6, 7, 8)]
                text = ", ".join(f"{100 * (mean - 1):.1f} +- {100 * std:.1f} %" for mean, std in by_load)
                print(f"{law:9} {policy:9} {text}", flush=True)
                found[f"{law}, {policy}"] = by_load
    print_last(found)


if __name__ == "__main__":
    main()
