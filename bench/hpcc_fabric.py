"""HPCC's evaluation fabric (Li et al. 2019, section 5.3, Figure 11): slowdown by message size, per congestion control.

    python bench/hpcc_fabric.py [--quick] [--controls hpcc,dcqcn] [--sizes web-search,fb-hadoop] [--out FOLDER]

320 hosts at 100 Gbps, 56 switches (16 core, 20 aggregation, 20 edge) at 400 Gbps, 1 us links, 32 MB of buffer
and PFC as in the authors' code; Poisson arrivals at 50 % load; with --incast at 30 % and incasts of 60 x 500 kB, 2 %.
Slowdown is fct / ideal_fct of the results, each with its own headers (HPCC has 42 bytes more). Sizes are grouped by
tenths of the messages, as on the paper's axis. Every run is that of `pdes-sim`, results included; --out gets a figure
for each distribution, and without it nothing is kept. The verdicts are what the authors say of these figures (section
5.3, and hpcc-group.github.io/results.html): short messages gain at the tail, long ones pay a little, nobody pauses.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from cases import print_last
from pdes.config import config_from_dict
from pdes.simulation import simulate
from plots import draw

FABRIC = {
    "kind": "three-tier", "pods": 5, "edges_per_pod": 4, "aggregations_per_pod": 4, "cores": 16, "hosts_per_edge": 16,
    "host_rate": "100Gbps", "link_rate": "400Gbps",
}  # fmt: skip
TRANSPORT = {"timeout": "64ms"}  # the authors' code has none, and pauses of more than 1 ms do happen
INCAST = {"fan_in": 60, "size": "500kB", "load": 0.02}
PERCENTILES = (50, 95, 99)
SHORT_BYTES = 200_000
N_GROUP = 10


def run(arguments: argparse.Namespace, sizes: str, control: str) -> dict[str, Any]:
    """Figures of one run: groups of messages by size, queues, pauses, speed."""
    workload = {"kind": "poisson", "sizes": sizes, "load": arguments.load, "duration": arguments.duration}
    if arguments.incast:
        workload["incast"] = INCAST
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "simulation": {"seed": arguments.seed},
            "topology": FABRIC,
            "network": {
                "congestion_control": control, "constants": arguments.constants,
                "buffer": {"size": "32MB", "alpha": arguments.alpha}, "transport": TRANSPORT,
            },
            "workload": workload,
            "output": {"dir": f"{folder}/results"},
        }  # fmt: skip
        simulate(config_from_dict(tables, Path(folder) / "bench.toml"))
        flows, ports = (pq.read_table(f"{folder}/results/{name}.parquet") for name in ("flows", "ports"))
        facts = json.loads(Path(f"{folder}/results/run.json").read_text())
        result = json.loads(Path(f"{folder}/results/result.json").read_text())
    assert result["flows_finished"] == result["flows"]
    return _figures(flows, ports) | {
        "flows": result["flows"],
        "packet_hops": result["packet_hops"],
        "simulated_ms": result["simulated_time_ps"] / 1e9,
        "loop_seconds": facts["loop_seconds"],
        "packet_hops_per_second": facts["packet_hops_per_second"],
    }


def _figures(flows: Any, ports: Any) -> dict[str, Any]:
    columns = {name: flows[name].to_numpy() for name in ("size_bytes", "fct_ps", "ideal_fct_ps")}
    slowdown = columns["fct_ps"] / columns["ideal_fct_ps"]
    tags = np.array(flows["tag"].to_pylist())
    is_background = tags != "incast"
    assert slowdown.min() >= 1, "faster than an idle network"
    order = np.lexsort((slowdown[is_background], columns["size_bytes"][is_background]))
    size_bytes, slowdown_of = columns["size_bytes"][is_background][order], slowdown[is_background][order]
    groups = np.array_split(np.arange(len(order)), N_GROUP)
    n_switch_port = [name.startswith("host") for name in ports["node"].to_pylist()]
    queue_bytes = np.where(n_switch_port, 0, ports["max_queue_bytes"].to_numpy())
    worst = int(np.argmax(queue_bytes))
    return {
        "up_to_bytes": [int(size_bytes[group[-1]]) for group in groups],
        "slowdown": {str(p): [float(np.percentile(slowdown_of[group], p)) for group in groups] for p in PERCENTILES},
        "all": {str(p): float(np.percentile(slowdown_of, p)) for p in PERCENTILES},
        "incast_mean": float(slowdown[~is_background].mean()) if not is_background.all() else None,
        "max_queue_bytes": int(queue_bytes[worst]),
        "max_queue_port": f"{ports['node'][worst].as_py()} -> {ports['peer'][worst].as_py()}",
        "p99_queue_bytes": int(np.percentile(queue_bytes[queue_bytes > 0], 99)) if queue_bytes.any() else 0,
        "paused_ports": int((ports["paused_ps"].to_numpy() > 0).sum()),
        "paused_ms": float(ports["paused_ps"].to_numpy().sum() / 1e9),
        "drops": int(ports["drops"].to_numpy().sum()),
        "retransmitted_bytes": int(flows["retransmitted_bytes"].to_numpy().sum()),
    }


def short(size_bytes: int) -> str:
    """A size as an axis names it: 324, 7.0k, 1.2M."""
    for unit, factor in (("M", 10**6), ("k", 10**3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g}{unit}"
    return f"{size_bytes}"


def show(sizes: str, found: dict[str, dict[str, Any]]) -> None:
    """The table of one distribution."""
    controls = list(found)
    first = found[controls[0]]
    print(f"\n{sizes}: {first['flows']:,} messages; slowdown at the median, 95th and 99th percentile")
    print(f"{'up to bytes':>12} " + " ".join(f"{control:>26}" for control in controls))
    for i in [*range(N_GROUP), None]:
        name = "all" if i is None else short(first["up_to_bytes"][i])
        cells = []
        for control in controls:
            row = found[control]["all" if i is None else "slowdown"]
            cells.append(" ".join(f"{row[str(p)] if i is None else row[str(p)][i]:>8.2f}" for p in PERCENTILES))
        print(f"{name:>12} " + " ".join(f"{cell:>26}" for cell in cells))
    for control, f in found.items():
        incast = "" if f["incast_mean"] is None else f", slowdown of the incasts {f['incast_mean']:.1f} on average"
        print(
            f"{control}: largest queue {f['max_queue_bytes'] / 1e6:.2f} MB ({f['max_queue_port']}), 99 % of the ports "
            f"below {f['p99_queue_bytes'] / 1e6:.2f} MB; {f['paused_ports']:,} ports were paused, for "
            f"{f['paused_ms']:.3f} ms in all; {f['drops']} drops{incast}; {f['packet_hops'] / 1e6:.0f} M packet-hops "
            f"in {f['loop_seconds']:.1f} s"
        )


def verdicts(sizes: str, found: dict[str, dict[str, Any]]) -> dict[str, bool]:
    """What section 5.3 claims of HPCC against DCQCN."""
    if not {"hpcc", "dcqcn"} <= set(found):
        return {}
    hpcc, dcqcn = found["hpcc"], found["dcqcn"]
    n_short = sum(size <= SHORT_BYTES for size in hpcc["up_to_bytes"])
    short_ones = [dcqcn["slowdown"]["99"][i] / hpcc["slowdown"]["99"][i] for i in range(n_short)]
    claims = {
        f"{sizes}: HPCC's messages up to 200 kB have the lower 99th percentile, every tenth of them": min(short_ones)
        > 1,
        f"{sizes}: HPCC's largest queue is below DCQCN's": hpcc["max_queue_bytes"] < dcqcn["max_queue_bytes"],
        f"{sizes}: HPCC causes no pause": hpcc["paused_ports"] == 0,
    }
    if dcqcn["incast_mean"] is not None:
        claims[f"{sizes}: DCQCN causes pauses"] = dcqcn["paused_ports"] > 0
    else:
        claims[f"{sizes}: long messages pay for it (a tenth beyond 200 kB has the higher median)"] = any(
            hpcc["slowdown"]["50"][i] > dcqcn["slowdown"]["50"][i] for i in range(n_short, N_GROUP)
        )
    for claim, holds in claims.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
    print(f"99th percentile up to 200 kB, DCQCN / HPCC: {min(short_ones):.1f} to {max(short_ones):.1f}")
    return claims


def plot(folder: Path, sizes: str, found: dict[str, dict[str, Any]], load: str) -> None:
    """One figure, a panel for each percentile."""
    first = next(iter(found.values()))
    at = range(N_GROUP)
    panels = {
        f"{p}th percentile" if p != 50 else "median": {
            control: (at, f["slowdown"][str(p)]) for control, f in found.items()
        }
        for p in PERCENTILES
    }
    ticks = [short(size) for size in first["up_to_bytes"]]
    title = f"{sizes}, {load}: slowdown on HPCC's fabric"
    draw(folder / f"hpcc_fabric_{sizes}.png", title, panels, "message size, tenths", "fct / ideal fct", ticks, True)


def share(text: str) -> float | str:
    """A number or "auto"."""
    return text if text == "auto" else float(text)


def main() -> None:
    """Run all; print tables, verdicts and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 ms of arrivals, web search only")
    parser.add_argument("--controls", default="hpcc,dcqcn", help="comma separated (default hpcc,dcqcn)")
    parser.add_argument("--sizes", help="comma separated, or files (default web-search,fb-hadoop)")
    parser.add_argument("--load", type=float, help="of the hosts' links (default 0.5, with --incast 0.3)")
    parser.add_argument("--duration", help="in which messages arrive (default 10ms)")
    parser.add_argument("--incast", action="store_true", help="add incasts of 60 x 500 kB, 2 %% of the load")
    parser.add_argument("--constants", default="run.py", help='named set: "run.py" (default), "paper"')
    parser.add_argument("--alpha", default="auto", type=share, help="of the free buffer that PFC leaves a queue")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for the figures (default: none are drawn)")
    arguments = parser.parse_args()
    arguments.load = arguments.load or (0.3 if arguments.incast else 0.5)
    arguments.duration = arguments.duration or ("1ms" if arguments.quick else "10ms")
    sizes_list = (arguments.sizes or ("web-search" if arguments.quick else "web-search,fb-hadoop")).split(",")
    load = f"{arguments.load:.0%} load" + (" and incasts" if arguments.incast else "")
    print(f"320 hosts, 56 switches, {load}, {arguments.duration} of arrivals")
    figures: dict[str, Any] = {}
    claims: dict[str, bool] = {}
    for sizes in sizes_list:
        found = {control: run(arguments, sizes, control) for control in arguments.controls.split(",")}
        name = Path(sizes).stem
        show(name, found)
        claims |= verdicts(name, found)
        if arguments.out:
            plot(arguments.out, name, found, load)
        figures[name] = found
    print_last({"runs": figures, "claims": claims, "hosts": 320, "load": arguments.load})


if __name__ == "__main__":
    main()
