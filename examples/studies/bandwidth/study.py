"""Iteration time of a recommendation model and two LLaMA 2s by the rate of NICs and fabric, 100 to 1,000 Gbps.

python examples/studies/bandwidth/study.py [--quick] [--out FOLDER] [--publish]
"""

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, label_panel, legend_below, study

SMALL = (
    *("preset=llama2-7b", "global_batch=128", "zero=3", "sequence_parallel=false", "overlap_tensor=false"),
    *("parallel.tp=1", "parallel.dp=128"),
)
JOBS = {
    "DLRM": ("config.toml", ()),
    "DLRM, 4 x batch": ("config.toml", ("workload.file=dlrm-8192.txt",)),
    "LLaMA 7B": ("llama.toml", tuple(f"workload.{override}" for override in SMALL)),
    "LLaMA 70B": ("llama.toml", ()),
}
RATES = (100, 200, 400, 600, 800, 1000)
FASTEST = 4000  # Gbps, close to the most that a host's link may have: stands for a network that takes no time
ARCADIA = 1.56  # "up to a 56 % speedup" from 100 to 1,000 Gbps
Times = dict[tuple[str, int], float]
"""(job, Gbps) -> seconds of an iteration."""


def exposed_by_law(speedup: float, rate: int) -> float:
    """Which part of T = c + n / rate is n / rate, where T falls by this speedup from 100 to 1,000 Gbps."""
    waiting = (speedup - 1) / (1 - speedup / 10) * 100 / rate  # over c
    return waiting / (1 + waiting)


def exposed(times: Times, job: str, rate: int) -> float:
    """Which part of an iteration is gone with the fastest network."""
    return 1 - times[job, FASTEST] / times[job, rate]


def make_rows(times: Times, rates: Sequence[int]) -> list[Row]:
    """A row for each rate."""
    rows = []
    for rate in [*rates, FASTEST]:
        rows.append({
            "Gbps": rate,
            **{f"{job}, ms": f"{times[job, rate] * 1e3:.1f}" for job in JOBS},
            **{f"{job}, exposed": f"{exposed(times, job, rate):.0%}" for job in JOBS},
            "a job 56 % faster, exposed": f"{exposed_by_law(ARCADIA, rate):.0%}",
        })  # fmt: skip
    return rows


def draw(asked: Study, times: Times, rates: Sequence[int]) -> None:
    """Speed over that at the first rate, and what is exposed."""

    def paint(axes: Any) -> None:
        for job in JOBS:
            axes[0].plot(rates, [times[job, rates[0]] / times[job, rate] for rate in rates], marker="o", label=job)
            axes[1].plot(rates, [100 * exposed(times, job, rate) for rate in rates], marker="o", label=job)
        law = [exposed_by_law(ARCADIA, rate) for rate in rates]
        best = [(1 - share) / (1 - law[0]) for share in law]
        axes[0].plot(rates, best, "k:", label="a job that is 56 % faster at 1,000")
        axes[1].plot(rates, [100 * share for share in law], "k:")
        label_panel(axes[0], "Speed", "Gbps of NICs and fabric", f"times that at {rates[0]} Gbps")
        label_panel(axes[1], "Exposed communication", "Gbps of NICs and fabric", "% of the iteration")
        legend_below(axes[0])

    asked.draw("speed", 2, paint)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("bandwidth", __doc__, arguments)
    rates = (100, 1000) if asked.is_quick else RATES
    small = ("workload.layers=2",) if asked.is_quick else ()
    times: Times = {}
    for (job, (file, overrides)), rate in product(JOBS.items(), [*rates, FASTEST]):
        links = [f"topology.{links}_rate={rate}Gbps" for links in ("nic", "spine")]
        fewer = small if file == "llama.toml" else ()
        result: pdes.Result = asked.simulate(f"{job}-{rate}", *links, *overrides, *fewer, file=file)
        times[job, rate] = result.iteration_seconds[0]
    rows = make_rows(times, rates)
    asked.tell(rows)
    draw(asked, times, rates)
    return rows


if __name__ == "__main__":
    main()
