"""LLaMA 3 70B on 64 H100s: every TP, PP and DP, with activations kept, else recomputed, else refused.

python examples/studies/layouts/study.py [--quick] [--out FOLDER] [--publish]
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pdes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gallery import Row, Study, legend_below, study

GPUS = 64
PARTS = ("computing", "TP and CP", "DP", "PP and bubble")


class Layout(NamedTuple):
    """How the job lies on the GPUs."""

    tp: int
    pp: int
    dp: int
    vpp: int = 1
    cp: int = 1

    @property
    def name(self) -> str:
        """As TP8-PP2-DP4."""
        extra = (f"-CP{self.cp}" if self.cp > 1 else "") + (f"-VPP{self.vpp}" if self.vpp > 1 else "")
        return f"TP{self.tp}-PP{self.pp}-DP{self.dp}{extra}"

    def overrides(self) -> list[str]:
        """Of the config."""
        return [f"workload.parallel.{key}={value}" for key, value in self._asdict().items()]


PLAIN = [Layout(tp, pp, GPUS // tp // pp) for tp in (8, 4, 2, 1) for pp in (1, 2, 4, 8, 16) if tp * pp <= GPUS]
INTERLEAVED = [Layout(8, 2, 4, 5), Layout(8, 4, 2, 5), Layout(4, 8, 2, 5), Layout(4, 4, 2, 5, cp=2)]


def attempt(asked: Study, layout: Layout, overrides: Sequence[str]) -> tuple[Row, pdes.Result | None]:
    """A row of the table, and results: activations kept, else recomputed, else no results."""
    row: Row = {"layout": layout.name, "kept": "", "recomputed": ""}
    result = None
    for kind, recompute in (("kept", "none"), ("recomputed", "full")):
        try:
            all_overrides = [*layout.overrides(), f"workload.recompute={recompute}", *overrides]
            result = asked.simulate(f"{layout.name}-{recompute}", *all_overrides)
            row[kind] = "fits"
            break
        except pdes.ConfigError as error:
            row[kind] = refusal(error)
    if result is None:
        return {**row, "s": "-", "MFU": "-", **dict.fromkeys(PARTS, "-")}, None
    seconds, facts = result.iteration_seconds[0], result.summary["workload"]
    mfu = facts["model_flops_per_iteration"] / facts["peak_flops_per_s"] / seconds
    shares = {part: f"{share:.1%}" for part, share in breakdown(result).items()}
    return {**row, "s": f"{seconds:.2f}", "MFU": f"{mfu:.1%}", **shares}, result


def refusal(error: pdes.ConfigError) -> str:
    """Why a layout does not fit: memory it needs, and its largest part; any other error goes on."""
    need = re.search(r"need ([\d.]+) GiB", str(error))
    if need is None:
        raise error
    parts = re.findall(r"^(\w+) +([\d.]+) GiB$", str(error), re.MULTILINE)
    size, part = max((float(size), part) for part, size in parts if part != "total")
    return f"{need[1]} GiB, {part} {size:.0f}"


def breakdown(result: pdes.Result) -> dict[str, float]:
    """Shares of the iteration, mean of all GPUs; what is neither of the first three is the pipeline's."""
    table = result.table("breakdown")
    whole_ps = result.iteration_seconds[0] * 1e12 * table.num_rows
    columns = (("compute_ps", "optimizer_ps"), ("tp_ps", "cp_ps"), ("dp_ps",))
    shares = [sum(sum(table.column(name).to_pylist()) for name in names) / whole_ps for names in columns]
    return dict(zip(PARTS, (*shares, 1 - sum(shares)), strict=True))


def draw(asked: Study, rows: Sequence[Row], results: Sequence[pdes.Result | None]) -> None:
    """Seconds of each layout that runs, by what they are spent on, fastest on top."""
    ran = [(row, result) for row, result in zip(rows, results, strict=True) if result is not None]
    ran.sort(key=lambda pair: -float(pair[0]["s"]))
    names = [row["layout"] + (", recomputed" if row["recomputed"] == "fits" else "") for row, _ in ran]

    def paint(axis: Any) -> None:
        left = np.zeros(len(ran))
        for i, part in enumerate(PARTS):
            here = np.array([breakdown(result)[part] * float(row["s"]) for row, result in ran])
            axis.barh(names, here, left=left, label=part, color=f"C{i}")
            left += here
        axis.grid(axis="y", visible=False)
        axis.set_title("An iteration of the layouts that fit, mean of 64 GPUs")
        axis.set_xlabel("s")
        legend_below(axis)

    asked.draw("time", 1, paint, height=1.2 + 0.24 * len(ran))


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the sweep, tell and draw it; the table."""
    asked = study("layouts", __doc__, arguments)
    plain = [Layout(4, 8, 2), Layout(8, 1, 8), Layout(1, 1, 64)] if asked.is_quick else PLAIN
    overrides = ["workload.global_batch=64"] if asked.is_quick else []
    found = [attempt(asked, layout, overrides) for layout in plain]
    if not asked.is_quick:
        found += [attempt(asked, layout, overrides) for layout in INTERLEAVED]
    rows, results = [row for row, _ in found], [result for _, result in found]
    asked.tell(rows)
    draw(asked, rows, results)
    return rows


if __name__ == "__main__":
    main()
