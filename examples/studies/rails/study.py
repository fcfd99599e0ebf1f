"""A mixture of experts on rails and on a fat-tree of as many switches: its all-to-all, directly and by PXN; the job.

python examples/studies/rails/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, study

HERE = Path(__file__).parent
FABRICS = {"rails": "config.toml", "rails, two units": "config.toml", "fat-tree": "fat-tree.toml"}
ALGORITHMS = ("direct", "pxn")
OVERSUBSCRIPTIONS = (1, 4)
SEEDS = 3  # of the hash
ON_WIRE = (4096 + 48) / 4096  # bytes sent for one of payload
LINE_MS = 56 / 64 * 64 * 2**20 * ON_WIRE * 8 / 400e9 * 1e3  # what a NIC sends to other servers, at its rate
ACK = 60 / 4096
JOBS = [
    ("rails", "pxn", 1),
    ("rails", "pxn", 4),
    ("fat-tree", "pxn", 1),
    ("fat-tree", "direct", 1),
    ("fat-tree", "direct", 4),
]
PARTS = {"computing": "compute_ps", "EP": "ep_ps", "DP": "dp_ps"}


def tables_of(fabric: str, file: str, oversubscription: int) -> dict[str, Any]:
    """A config's tables, on this fabric with so many spines."""
    tables = tomllib.loads((HERE / file).read_text())
    if fabric == "fat-tree":
        tables["topology"]["file"] = str(HERE / f"fat-tree-{8 // oversubscription}-spines.txt")
    else:
        tables["topology"] |= {"oversubscription": float(oversubscription)}
        tables["topology"] |= {"servers_per_rail_switch": 4 if fabric == "rails, two units" else 8}
    return tables


def exchange(asked: Study, fabric: str, algorithm: str, oversubscription: int, seed: int) -> pdes.Result:
    """The all-to-all alone."""
    tables = tables_of(fabric, FABRICS[fabric], oversubscription)
    tables["workload"]["collective"][0]["algorithm"] = algorithm
    tables["network"]["ecmp_seed"] = seed
    label = f"{fabric.replace(', ', '-').replace(' ', '-')}-{algorithm}-{oversubscription}-{seed}"
    return pdes.simulate(pdes.make_config(tables), asked.out / label)


def train(asked: Study, fabric: str, algorithm: str, oversubscription: int) -> pdes.Result:
    """An iteration of the job."""
    file = "job-fat-tree.toml" if fabric == "fat-tree" else "job.toml"
    tables = tables_of(fabric, file, oversubscription)
    tables["workload"]["nccl"]["all-to-all"]["algorithm"] = algorithm
    return pdes.simulate(pdes.make_config(tables), asked.out / f"job-{fabric}-{algorithm}-{oversubscription}")


def duration_ms(result: pdes.Result) -> float:
    """Until the last message was there."""
    return max(result.flows.column("delivered_ps").to_pylist()) / 1e9


def upwards(result: pdes.Result) -> list[dict[str, Any]]:
    """Rows of the ports between switches. The file's fat-tree has switches 64 to 71 for leaves, then spines."""
    return [row for row in result.ports.to_pylist() if "gpu" not in row["node"] + row["peer"]]


def row_of(fabric: str, algorithm: str, oversubscription: int, results: Sequence[pdes.Result]) -> Row:
    """Means over the seeds."""
    sent = [[row["tx_bytes"] for row in upwards(result)] for result in results]
    queue = max(row["max_queue_bytes"] for result in results for row in result.ports.to_pylist())
    payload = sum(results[0].flows.column("size_bytes").to_pylist())
    is_used = mean(map(mean, sent)) > 0.01 * payload / len(sent[0])
    return {
        "fabric": fabric,
        "oversubscription": oversubscription,
        "all-to-all": algorithm,
        "ms": f"{mean(map(duration_ms, results)):.2f}",
        "over line rate": f"{mean(map(duration_ms, results)) / LINE_MS:.2f}",
        "messages": results[0].summary["flows"],
        "through spines": f"{mean(map(sum, sent)) / 2 / payload / (ON_WIRE + ACK):.0%}",
        "busiest / mean spine link": f"{mean(max(one) / mean(one) for one in sent):.2f}" if is_used else "-",
        "longest queue, MB": f"{queue / 1e6:.1f}",
    }


def spent_ms(result: pdes.Result) -> dict[str, float]:
    """What the job's iteration is spent on, mean of all GPUs."""
    table = result.table("breakdown")
    return {part: mean(table.column(column).to_pylist()) / 1e9 for part, column in PARTS.items()}


def draw(asked: Study, rows: Sequence[Row], jobs: dict[tuple[str, str, int], pdes.Result]) -> None:
    """The all-to-all on each fabric; the job's iteration by what it is spent on."""

    def paint(axes: Any) -> None:
        cases = list(dict.fromkeys((row["fabric"], row["oversubscription"]) for row in rows))
        for i, algorithm in enumerate(ALGORITHMS):
            values = [float(row["ms"]) for row in rows if row["all-to-all"] == algorithm]
            bars = axes[0].bar(np.arange(len(cases)) + 0.4 * (i - 0.5), values, width=0.38, label=algorithm)
            axes[0].bar_label(bars, fmt="%.1f", fontsize=7)
        axes[0].axhline(LINE_MS, linestyle="--", color="C5", label="line rate")
        names = [f"{fabric.replace(', ', ',' + chr(10))}\n{oversubscription}:1" for fabric, oversubscription in cases]
        axes[0].set_xticks(range(len(cases)), names, fontsize=7)
        axes[0].legend()
        label_panel(axes[0], "All-to-all of 64 MiB", "", "ms")
        below = np.zeros(len(jobs))
        names = [f"{fabric}\n{algorithm}\n{oversubscription}:1" for fabric, algorithm, oversubscription in jobs]
        for i, part in enumerate(PARTS):
            here = np.array([spent_ms(result)[part] for result in jobs.values()])
            axes[1].bar(names, here, bottom=below, label=part, color=f"C{i + 2}")
            below += here
        axes[1].tick_params(axis="x", labelsize=7)
        axes[1].legend()
        label_panel(axes[1], "The job: computing, and what is exposed", "", "ms")
        for axis in axes:
            axis.grid(axis="x", visible=False)

    asked.draw("time", 2, paint)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table of the all-to-alls."""
    asked = study("rails", __doc__, arguments)
    fabrics = ("rails", "fat-tree") if asked.is_quick else tuple(FABRICS)
    oversubscriptions, seeds = ((1,), 1) if asked.is_quick else (OVERSUBSCRIPTIONS, SEEDS)
    rows = []
    for fabric, oversubscription, algorithm in product(fabrics, oversubscriptions, ALGORITHMS):
        results = [exchange(asked, fabric, algorithm, oversubscription, seed) for seed in range(seeds)]
        rows.append(row_of(fabric, algorithm, oversubscription, results))
    jobs = {} if asked.is_quick else {case: train(asked, *case) for case in JOBS}
    asked.tell(rows)
    for case, result in jobs.items():
        parts = ", ".join(f"{part} {spent:.1f}" for part, spent in spent_ms(result).items())
        print(f"{case[0]}, {case[1]}, {case[2]}:1: iteration {result.iteration_seconds[0] * 1e3:.1f} ms, of it {parts}")
    if jobs:
        draw(asked, rows, jobs)
    return rows


if __name__ == "__main__":
    main()
