"""An incast under four congestion controls and under none: completion times, the queue over time, pauses, bystanders.

python examples/studies/incast/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, study

CONTROLS = {
    **{name: (f"network.congestion_control={name}",) for name in ("hpcc", "swift", "dctcp", "dcqcn")},
    "dcqcn, window": ("network.congestion_control=dcqcn", "network.window=max-bdp"),
    "none": ("network.congestion_control=none",),
    "dctcp, no incast": ("network.congestion_control=dctcp", "workload.file=bystanders.csv"),
}
SEEDS = 5  # of the hash by which flows choose their spines


def port_before_receiver(result: pdes.Result) -> dict[str, Any]:
    """The row of the port that all of the incast goes through."""
    return next(row for row in result.ports.to_pylist() if (row["node"], row["peer"]) == ("leaf0", "host0"))


def queue_over_time(result: pdes.Result) -> tuple[np.ndarray, np.ndarray]:
    """(ms, kB) before the receiver, at every instant at which any port was sampled; a port without a row is idle."""
    samples = result.table("samples_ports")
    time_ps, port_id, queue = (samples.column(name).to_numpy() for name in ("time_ps", "port_id", "queue_bytes"))
    instants = np.unique(time_ps)
    is_ours = port_id == port_before_receiver(result)["port_id"]
    kilobytes = np.zeros(len(instants))
    kilobytes[np.searchsorted(instants, time_ps[is_ours])] = queue[is_ours] / 1e3
    return instants / 1e9, kilobytes


def row_of(control: str, results: Sequence[pdes.Result]) -> Row:
    """Of all seeds of a control: what comes of the incast, and of those that send elsewhere."""
    flows = [row for result in results for row in result.flows.to_pylist()]
    ports = [row for result in results for row in result.ports.to_pylist()]
    ends = [max(row["fct_ps"] for row in result.flows.to_pylist()) for result in results]
    slowdowns = [row["fct_ps"] / row["ideal_fct_ps"] for row in flows if row["tag"] == "bystander"]
    queue = np.concatenate([queue_over_time(result)[1] for result in results])
    at_nics = sum(row["paused_ps"] for row in ports if row["node"].startswith("host"))
    return {
        "control": control,
        "last flow, ms": f"{mean(ends) / 1e9:.2f}",
        "queue, median kB": f"{np.median(queue):.0f}",
        "queue, most kB": f"{max(port_before_receiver(result)['max_queue_bytes'] for result in results) / 1e3:.0f}",
        "pauses per run": f"{sum(row['pause_frames'] for row in ports) / len(results):.0f}",
        "NICs paused per run, ms": f"{at_nics / len(results) / 1e9:.2f}",
        "bystanders' slowdown, median": f"{median(slowdowns):.1f}",
        "worst": f"{max(slowdowns):.1f}",
    }


def draw(asked: Study, results: dict[str, list[pdes.Result]], rows: Sequence[Row]) -> None:
    """The queue before the receiver; pauses and bystanders."""

    last_ms = 1.05 * max(float(row["last flow, ms"]) for row in rows)

    def queues(axes: Any) -> None:
        for control, runs in results.items():
            if control == "dctcp, no incast":
                continue  # its port is idle
            time_ms, kilobytes = queue_over_time(runs[0])
            for axis, end_ms, step in zip(axes, (1.0, last_ms), (1, 4), strict=True):
                until = np.searchsorted(time_ms, end_ms)
                axis.plot(time_ms[:until:step], kilobytes[:until:step], label=control, linewidth=1.0)
        label_panel(axes[0], "Queue before the receiver, first ms", "ms", "kB")
        label_panel(axes[1], "the whole incast", "ms", "")
        legend_below(axes[0])

    def bars(axes: Any) -> None:
        names = [row["control"].replace(", ", ",\n") for row in rows]
        for axis, key, title in (
            (axes[0], "pauses per run", "PFC pauses"),
            (axes[1], "bystanders' slowdown, median", "Slowdown of the bystanders, median"),
        ):
            values = [float(row[key]) for row in rows]
            axis.bar_label(axis.bar(names, values, color=[f"C{i}" for i in range(len(names))]), fmt="%g", fontsize=8)
            axis.grid(axis="x", visible=False)
            label_panel(axis, title, "", "")

    asked.draw("queue", 2, queues)
    asked.draw("bystanders", 2, bars, height=2.6)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("incast", __doc__, arguments)
    controls, seeds = (("hpcc", "none"), 1) if asked.is_quick else (tuple(CONTROLS), SEEDS)
    results = {}
    for i, control in enumerate(controls):
        every = [(f"{i}-{seed}", f"network.ecmp_seed={seed}") for seed in range(seeds)]
        results[control] = [asked.simulate(label, seeded, *CONTROLS[control]) for label, seeded in every]
    rows = [row_of(control, runs) for control, runs in results.items()]
    asked.tell(rows)
    draw(asked, results, rows)
    return rows


if __name__ == "__main__":
    main()
