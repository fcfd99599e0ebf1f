"""Switch buffers from 1.5 to 32 MB: an all-to-all inside pods, an all-reduce across them, PFC.

python examples/studies/buffers/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, study

BUFFERS_MB = (1.5, 2, 4, 8, 16, 32)
CONTROLS = ("none", "dcqcn", "dctcp")
COLLECTIVES = {"all-to-all": "config.toml", "all-reduce": "all-reduce.toml"}
SEEDS = 2  # of the hash by which flows choose their ways
TIERS = {"NIC": "host edge", "edge, upwards": "edge aggregation", "aggregation, upwards": "aggregation core"}
TIERS |= {"core": "core aggregation", "aggregation, down": "aggregation edge"}
Runs = dict[tuple[str, str, float], list[pdes.Result]]
"""(collective, control, MB) -> a run for each seed."""


def duration_ms(result: pdes.Result) -> float:
    """Until the last flow has ended."""
    return max(result.flows.column("finish_ps").to_pylist()) / 1e9


def mean_ms(runs: Runs, collective: str, control: str, buffer_mb: float) -> float:
    """Over the seeds."""
    return mean(duration_ms(result) for result in runs[collective, control, buffer_mb])


def paused_ms(results: Sequence[pdes.Result]) -> dict[str, float]:
    """By where packets were held up: time of all ports of a tier together, mean over runs."""
    found = dict.fromkeys(TIERS.values(), 0.0)
    for result in results:
        for row in result.ports.to_pylist():
            ends = (row[end].rstrip("0123456789").replace("agg", "aggregation") for end in ("node", "peer"))
            where = " ".join(ends)
            found[where] = found.get(where, 0.0) + row["paused_ps"] / 1e9 / len(results)
    return {name: found[where] for name, where in TIERS.items()}


def first_pause_us(result: pdes.Result) -> float | None:
    """When a port was first seen paused, to the sample interval."""
    samples = result.table("samples_ports")
    times_ps = samples.column("time_ps").to_numpy()[samples.column("paused").to_numpy() > 0]
    return times_ps.min() / 1e6 if len(times_ps) else None


def arriving(result: pdes.Result) -> tuple[np.ndarray, np.ndarray]:
    """(us, Gbps) into all 64 GPUs that exchange, mean of a GPU, in windows of 20 us."""
    rows = result.ports.to_pylist()
    hosts = [row["port_id"] for row in rows if row["peer"].startswith("host") and row["tx_bytes"] > 1e6]
    samples = result.table("samples_ports")
    time_ps, port_id, sent = (samples.column(name).to_numpy() for name in ("time_ps", "port_id", "tx_bytes"))
    edges_ps = np.arange(0, duration_ms(result) * 1e9 + 20e6, 20e6)
    total = np.zeros(len(edges_ps))
    for port in hosts:
        is_port = port_id == port
        total += np.interp(edges_ps, time_ps[is_port], sent[is_port], left=0)
    return edges_ps[1:] / 1e6, np.diff(total) * 8 / np.diff(edges_ps) * 1e3 / len(hosts)


def make_rows(runs: Runs, buffers: Sequence[float]) -> list[Row]:
    """A row for each collective and buffer."""
    rows = []
    for collective in COLLECTIVES:
        for buffer_mb in buffers:
            alone = runs[collective, "none", buffer_mb]
            pauses = paused_ms(alone)
            first_us = first_pause_us(alone[0])
            rows.append({
                "collective": collective,
                "buffer, MB": buffer_mb,
                **{f"{control}, ms": f"{mean_ms(runs, collective, control, buffer_mb):.3f}" for control in CONTROLS},
                "pauses": f"{mean(result.summary['network']['pause_frames'] for result in alone):.0f}",
                "of the time paused, at NICs": f"{pauses['NIC'] / max(sum(pauses.values()), 1e-9):.0%}",
                "first pause, us": "none" if first_us is None else f"{first_us:.0f}",
            })  # fmt: skip
    return rows


def draw(asked: Study, runs: Runs, buffers: Sequence[float]) -> None:
    """Time by buffer; where it was paused; what arrives over time."""
    names = [f"{buffer_mb:g}" for buffer_mb in buffers]

    def durations(axes: Any) -> None:
        for axis, collective in zip(axes, COLLECTIVES, strict=True):
            for control in CONTROLS:
                axis.plot(names, [mean_ms(runs, collective, control, b) for b in buffers], marker="o", label=control)
            label_panel(axis, f"{collective}, ms", "buffer of a switch, MB", "")
        legend_below(axes[0])

    def pauses(axes: Any) -> None:
        for axis, collective in zip(axes, COLLECTIVES, strict=True):
            found = [paused_ms(runs[collective, "none", b]) for b in buffers]
            below = np.zeros(len(buffers))
            for tier in TIERS:
                here = np.array([row[tier] for row in found])
                axis.bar(names, here, bottom=below, label=tier)
                below += here
            axis.grid(axis="x", visible=False)
            label_panel(axis, f"Paused in the {collective}, no control", "buffer of a switch, MB", "ms, of all ports")
        legend_below(axes[0])

    def arrivals(axis: Any) -> None:
        for buffer_mb in (b for b in buffers if b in (2, 8, 32)):
            axis.plot(*arriving(runs["all-to-all", "none", buffer_mb][0]), label=f"{buffer_mb:g} MB")
        label_panel(axis, "What arrives at a GPU in the all-to-all, no control", "us", "Gbps")
        legend_below(axis)

    asked.draw("time", 2, durations)
    asked.draw("pauses", 2, pauses)
    asked.draw("arrivals", 1, arrivals, height=2.8)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("buffers", __doc__, arguments)
    buffers, seeds = ((2, 32), 1) if asked.is_quick else (BUFFERS_MB, SEEDS)
    runs: Runs = {}
    for collective, control, buffer_mb in product(COLLECTIVES, CONTROLS, buffers):
        overrides = (f"network.congestion_control={control}", f"network.buffer.size={buffer_mb}MB")
        label, file = f"{collective}-{control}-{buffer_mb}", COLLECTIVES[collective]
        runs[collective, control, buffer_mb] = [
            asked.simulate(f"{label}-{seed}", f"network.ecmp_seed={seed}", *overrides, file=file)
            for seed in range(seeds)
        ]
    rows = make_rows(runs, buffers)
    asked.tell(rows)
    draw(asked, runs, buffers)
    return rows


if __name__ == "__main__":
    main()
