"""Many small experiments: through one compiled loop, by calls of `simulate`, in processes of their own.

    python bench/experiments.py [--experiments 512] [--quick]

Networks of 128 hosts (a fat-tree, k = 8, 100 Gbps) with short random messages of 10 kB, each with a seed, a load and
thresholds of its own. Each way is run twice in turn, the better time counts. 32 of the experiments are compared with
runs by themselves, as bytes of the tables' files.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pdes
from cases import print_last
from pdes.config.load import config_from_dict
from pdes.sweeps.load import sweep_of
from pdes.sweeps.run import run_sweep
from pdes.workers import at_a_time

LOADS = (0.1, 0.2, 0.3, 0.4)


def tables(folder: Path, i: int, n_flow: int) -> dict[str, Any]:
    """The config of experiment i. folder: has the sizes of the messages."""
    return {
        "simulation": {"seed": 1 + i},
        "topology": {"kind": "fat-tree", "k": 8, "link_rate": "100Gbps", "host_rate": "100Gbps"},
        "network": {"congestion_control": "dctcp", "ecn_kmin": f"{20 + i % 5 * 10}KB", "ecn_kmax": "200KB"},
        "workload": {
            "kind": "poisson", "load": LOADS[i % len(LOADS)], "flows": n_flow, "sizes": str(folder / "short.txt"),
        },
    }  # fmt: skip


def in_one_loop(configs: list[dict[str, Any]]) -> tuple[float, list[Any]]:
    """Seconds each, and the results, whose flows have been asked for."""
    began_s = time.perf_counter()
    found = pdes.simulate_many(configs)
    for each in found:
        assert each.flows.num_rows
    return (time.perf_counter() - began_s) / len(configs), found


def one_by_one(configs: list[dict[str, Any]], folder: Path) -> float:
    """Seconds each, by `simulate` in this process."""
    began_s = time.perf_counter()
    for i, config in enumerate(configs):
        assert pdes.simulate(config, folder / str(i)).flows.num_rows
    return (time.perf_counter() - began_s) / len(configs)


def as_programs(configs: list[dict[str, Any]], folder: Path) -> float:
    """Seconds each, a process for each."""
    began_s = time.perf_counter()
    for i, config in enumerate(configs):
        path = folder / f"program{i}.toml"
        path.write_text("\n".join(f"{name} = {_inline(value)}" for name, value in config.items()))
        subprocess.run([sys.executable, "-m", "pdes", path, "--out", folder / f"p{i}", "--quiet"], check=True)
    return (time.perf_counter() - began_s) / len(configs)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


def as_sweep(folder: Path, n: int, n_flow: int, processes: int, name: str) -> float:
    """Seconds each, as a sweep over four loads with its store and metrics."""
    axes = {"workload.load": list(LOADS)}
    sweep = sweep_of(tables(folder, 0, n_flow), folder / "base.toml", axes, folder / name, {"seeds": n // len(LOADS)})
    with at_a_time(processes) as run_all:
        list(run_all(_start, list(range(processes))))  # imports and kernels are not counted
        began_s = time.perf_counter()
        found = run_sweep(sweep, run_all)
        assert all(row.status == "done" for row in found.rows)
        return (time.perf_counter() - began_s) / len(found.rows)


def _start(_: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "short.txt").write_text("10000 0\n10000 100\n")
        pdes.simulate_many([tables(Path(name), 0, 8)])
        time.sleep(1)  # so that each process gets one


def same_bytes(configs: list[dict[str, Any]], found: list[Any], folder: Path) -> int:
    """How many experiments' tables, written, are the same bytes as those of a run by itself."""
    n_same = 0
    for i, (config, each) in enumerate(zip(configs, found, strict=True)):
        alone = pdes.simulate(config_from_dict(config), folder / f"alone{i}")
        each.write_tables(folder / f"own{i}")
        files = [folder / f"own{i}" / f"{name}.parquet" for name in alone.tables]
        n_same += all(file.read_bytes() == (folder / f"alone{i}" / file.name).read_bytes() for file in files)
    return n_same


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--experiments", type=int, default=512)
    parser.add_argument("--flows", default="128,512,2048")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    n, facts = 32 if arguments.quick else arguments.experiments, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "short.txt").write_text("10000 0\n10000 100\n")
        for n_flow in map(int, arguments.flows.split(",")[: 1 if arguments.quick else None]):
            configs = [tables(folder, i, n_flow) for i in range(n)]
            in_one_loop(configs[:4])
            rounds = []
            for k in range(2):
                loop_s, found = in_one_loop(configs)
                times = {
                    "one loop": loop_s,
                    "simulate, one by one": one_by_one(configs[:32], folder / f"{n_flow} {k}"),
                    "sweep, one process": as_sweep(folder, n, n_flow, 1, f"a{n_flow}{k}"),
                    "sweep, two processes": as_sweep(folder, n, n_flow, 2, f"b{n_flow}{k}"),
                }
                rounds.append(times)
            best = {way: min(times[way] for times in rounds) for way in rounds[0]}
            best["programs of their own"] = as_programs(configs[:5], folder)
            hops = sum(each.facts["packet_hops"] for each in found)
            loop_ns = sum(each.run["loop_seconds"] for each in found) / hops * 1e9
            print(f"{n} experiments of 128 hosts, {n_flow} messages, {hops // n:,} packet-hops each:")
            for way, each_s in best.items():
                ratio = best["simulate, one by one"] / each_s
                print(f"  {way:<24} {1e3 * each_s:8.2f} ms each, {1 / each_s:8.1f}/s, {ratio:6.2f} times `simulate`")
            n_same = same_bytes(configs[:32], found[:32], folder / f"bytes{n_flow}")
            print(f"  in the loop {loop_ns:.1f} ns a packet-hop; tables of {n_same} of 32 are the same bytes as alone")
            facts[n_flow] = best | {"ns_per_hop": loop_ns, "same_bytes": n_same}
    print_last(facts)


if __name__ == "__main__":
    main()
