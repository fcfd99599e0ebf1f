"""Fewer spines, slower spines and more queue pairs against the iteration time of a dense job and a mixture of experts.

python examples/studies/oversubscription/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, study

JOBS = {
    "dense": ("dense.toml", ()),
    "MoE": ("config.toml", ()),
    "MoE below one rail switch": ("config.toml", ("topology.servers_per_rail_switch=8",)),
}
FABRICS = [*((rate, oversubscription, 1) for rate in (400, 100) for oversubscription in (1, 2, 4)), (100, 1, 16)]
PARTS = {"computing": "compute_ps", "TP": "tp_ps", "EP": "ep_ps", "DP": "dp_ps"}
Fabric = tuple[int, int, int]
"""Gbps of a spine link, oversubscription, queue pairs per message."""
Runs = dict[tuple[str, Fabric], pdes.Result]
"""(job, fabric) -> run."""


def milliseconds(result: pdes.Result) -> float:
    """Of the iteration."""
    return result.iteration_seconds[0] * 1e3


def exposed_ms(result: pdes.Result) -> dict[str, float]:
    """What the iteration is spent on, mean of all GPUs."""
    table = result.table("breakdown")
    return {part: sum(table.column(column).to_pylist()) / table.num_rows / 1e9 for part, column in PARTS.items()}


def spine_links(result: pdes.Result) -> list[dict[str, Any]]:
    """Rows of the ports from rail switches to spines."""
    return [
        row for row in result.ports.to_pylist() if row["node"].startswith("rail") and row["peer"].startswith("spine")
    ]


def make_rows(runs: Runs, fabrics: Sequence[Fabric]) -> list[Row]:
    """A row for each fabric."""
    rows = []
    for fabric in fabrics:
        rate, oversubscription, queue_pairs = fabric
        moe = runs["MoE", fabric]
        links = spine_links(moe)
        sent = [row["tx_bytes"] for row in links]
        rows.append({
            "spine links, Gbps": rate,
            "oversubscription": oversubscription,
            "queue pairs": queue_pairs,
            "spines": len({row["peer"] for row in links}),
            **{f"{job}, ms": f"{milliseconds(runs[job, fabric]):.1f}" for job in JOBS},
            "MoE's exposed EP, ms": f"{exposed_ms(moe)['EP']:.1f}",
            "exposed DP, ms": f"{exposed_ms(moe)['DP']:.1f}",
            "busiest / mean spine link": f"{max(sent) / np.mean(sent):.2f}",
        })  # fmt: skip
    return rows


def draw(asked: Study, runs: Runs, fabrics: Sequence[Fabric]) -> None:
    """Iteration time of the jobs, and what that of two of them is made of."""
    names = [f"{rate} Gbps,\n{over}:1" + (f",\n{n} QPs" if n > 1 else "") for rate, over, n in fabrics]

    def times(axis: Any) -> None:
        for i, job in enumerate(JOBS):
            values = [milliseconds(runs[job, fabric]) for fabric in fabrics]
            bars = axis.bar(np.arange(len(names)) + 0.28 * (i - 1), values, width=0.26, label=job)
            axis.bar_label(bars, fmt="%.0f", fontsize=7)
        axis.set_xticks(range(len(names)), names)
        axis.grid(axis="x", visible=False)
        label_panel(axis, "Iteration time by rate of spine links and oversubscription", "", "ms")
        legend_below(axis)

    def parts(axes: Any) -> None:
        for axis, job in zip(axes, ("dense", "MoE"), strict=True):
            below = np.zeros(len(names))
            for part in PARTS:
                here = np.array([exposed_ms(runs[job, fabric])[part] for fabric in fabrics])
                axis.bar(range(len(names)), here, bottom=below, label=part)
                below += here
            axis.set_xticks(range(len(names)), [name.replace(" Gbps", "") for name in names])
            axis.grid(axis="x", visible=False)
            label_panel(axis, f"{job}: computing, and what is exposed", "Gbps, oversubscription", "ms")
        legend_below(axes[0])

    asked.draw("time", 1, times, height=3.2)
    asked.draw("parts", 2, parts)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("oversubscription", __doc__, arguments)
    fabrics = [(400, 1, 1), (400, 4, 1)] if asked.is_quick else FABRICS
    small = ("workload.sequence=256", "workload.layers=1") if asked.is_quick else ()
    runs: Runs = {}
    for job, (file, overrides) in JOBS.items():
        for fabric in fabrics:
            keys = ("topology.spine_rate", "topology.oversubscription", "network.routing.queue_pairs_per_flow")
            chosen = [f"{key}={value}" for key, value in zip(keys, (f"{fabric[0]}Gbps", *fabric[1:]), strict=True)]
            label = "-".join(map(str, (job.replace(" ", "-"), *fabric)))
            runs[job, fabric] = asked.simulate(label, *chosen, *overrides, *small, file=file)
    rows = make_rows(runs, fabrics)
    asked.tell(rows)
    draw(asked, runs, fabrics)
    return rows


if __name__ == "__main__":
    main()
