"""Predicted against measured iteration times: every row is a run of `pdes-sim` on a config as a user would write it.

Rows: --rows FILE.csv, with the columns of published measurements (training_iterations.csv), of vTrain's two files or
SimuMax's. The constants of the GPU types were fitted to two thirds of such rows (`bench/fit_devices.py`,
models/compute/fits.json); the others are told apart here. A row is read by its columns. What it leaves open
(microbatch, chunks per stage, recomputation, what is split) takes the value with the least time by a closed form that
fits the memory: --each says which. Configs and results stay in --out; a row that has a result there is not run again,
unless the code has changed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from measured_config import Settled, case_config, settled
from rich.console import Console
from rich.table import Table

from fit_devices import layouts_right, rank_correlation
from fit_rows import Case, NotCoveredError, read_rows
from models.workload.compiler.job import Job
from pdes.simulation.versions import program
from plots import find_pyplot
from runs import simulate

QUICK_ROWS = 12


def predict(case: Case, out: Path, has_fluid: bool, limit_s: float | None = None) -> tuple[float, float]:
    """Predicted iteration time and wall time of the run, in seconds. TimeoutExpired if that is above limit_s."""
    name = "".join(c if c.isalnum() or c in "-._" else "_" for c in case.id)
    config, folder = out / f"{name}.toml", out / name
    text, kept = case_config(case, has_fluid), folder / "kept.json"
    facts = {"config": text, "code": program()}
    if kept.is_file():
        known = json.loads(kept.read_text())
        if {key: known[key] for key in facts} == facts:
            return known["seconds"], known["wall_seconds"]
    config.write_text(text)
    begin_s = time.perf_counter()
    done = simulate(config, (), folder, limit_s=limit_s)
    wall_s = time.perf_counter() - begin_s
    seconds = done.result["iteration_time_ps"][-1] / 1e12
    kept.write_text(json.dumps({**facts, "seconds": seconds, "wall_seconds": wall_s}))
    return seconds, wall_s


def n_message(case: Case) -> int:
    """About how many messages a run has: what it costs. Gradients beside the backward pass go in many buckets."""
    layout = case.layout
    n_layer = -(-case.shape.layers // layout.pp)
    own = case.shape.parameters() // (layout.tp * layout.pp)
    n_bucket = min(n_layer, -(-own // Job.bucket_parameters)) if case.overlaps_dp else 1
    per_gpu = 2 * layout.dp * n_bucket
    per_gpu += 2 * layout.vpp * (layout.pp > 1) * case.batch // (layout.dp * layout.microbatch)
    return layout.n_gpu * per_gpu


def cost(case: Case) -> tuple[int, int]:
    """To sort by. Rings that cross rails meet in the spines, where next to nothing is steady: their packets count."""
    layout = case.layout
    crosses = case.cross_rail_rings and 1 < layout.tp < 8 and layout.dp * layout.tp > 8
    return crosses * layout.n_gpu * case.shape.parameters() // layout.pp, n_message(case)


def report(cases: list[Case], predicted_s: list[float], console: Console) -> dict[str, dict[str, float]]:
    """Errors by set, software and GPU type, on the terminal and returned."""
    table = Table(box=None, title="Predicted against measured iteration time", title_justify="left")
    for heading in ("set", "rows", "MAPE", "fitted", "held out", "bias", "worst"):
        table.add_column(heading, justify="left" if heading == "set" else "right")
    error = np.array([p / c.measured_s - 1 for c, p in zip(cases, predicted_s, strict=True)])
    held = np.array([c.held_out for c in cases])
    found = {}
    groups = sorted({c.group for c in cases})
    devices = sorted({c.device for c in cases})
    chosen = {"all": np.ones(len(cases), bool)}
    chosen |= {g: np.array([c.group == g for c in cases]) for g in groups}
    kinds = sorted({(c.software, c.device) for c in cases if c.software})
    chosen |= {" on ".join(k): np.array([(c.software, c.device) == k for c in cases]) for k in kinds}
    chosen |= {f"GPU {d}": np.array([c.device == d for c in cases]) for d in devices}
    for name, mask in chosen.items():
        parts = [100 * float(np.abs(error[mask & m]).mean()) if (mask & m).any() else float("nan")
                 for m in (np.ones_like(mask), ~held, held)]  # fmt: skip
        worst = error[mask][np.abs(error[mask]).argmax()]
        table.add_row(
            name, str(mask.sum()), *(f"{p:.1f} %" for p in parts), f"{100 * error[mask].mean():+.1f} %",
            f"{100 * worst:+.1f} %",
        )  # fmt: skip
        found[name] = {"rows": int(mask.sum()), "mape": parts[0]}
    console.print(table)
    return found


def correlations(cases: list[Case], predicted_s: list[float], console: Console) -> dict[str, float]:
    """Rank correlation inside each model of vTrain's files: is the layout that people would pick the one we pick?"""
    models: dict[str, list[int]] = {}
    measured_s = [case.measured_s for case in cases]
    for i, case in enumerate(cases):
        if case.group.startswith("vtrain"):
            models.setdefault(f"{case.group} {case.shape.layers}x{case.shape.hidden}", []).append(i)
    found = {}
    for name, rows in sorted(models.items()):
        if len(rows) > 2:
            own_s, measured_own_s = ([at[i] for i in rows] for at in (predicted_s, measured_s))
            found[name] = rank_correlation(tuple(own_s), tuple(measured_own_s))
            right_s = layouts_right([cases[i] for i in rows], own_s)
            console.print(
                f"{name}: rank correlation {found[name]:.3f} over {len(rows)} rows; "
                f"{rank_correlation(tuple(right_s), tuple(measured_own_s)):.3f} were layouts right on average"
            )
    return found


def settle_all(cases: list[Case]) -> tuple[list[Settled], list[tuple[str, str]]]:
    """Cases with a value for all that is open, and those that no config can say, with the reason."""
    found, left_out = [], []
    for case in cases:
        try:
            found.append(settled(case))
        except NotCoveredError as reason:
            left_out.append((case.id, str(reason)))
    return found, left_out


def count_open(found: list[Settled]) -> dict[str, int]:
    """Rows that leave a column open, by column."""
    return dict(sorted(Counter(column for one in found for column, _ in one.taken).items()))


def plot(cases: list[Case], predicted_s: list[float], path: Path) -> str:
    """Draw predicted over measured, by set; where that is, for people."""
    plt = find_pyplot()
    if plt is None:
        return "no plot, as matplotlib is missing: the extra `plots`"
    figure, axes = plt.subplots(figsize=(7, 6))
    for group in sorted({c.group for c in cases}):
        points = [(c.measured_s, p) for c, p in zip(cases, predicted_s, strict=True) if c.group == group]
        axes.scatter(*zip(*points, strict=True), s=14, label=group)
    ends = [min(c.measured_s for c in cases), max(c.measured_s for c in cases)]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, [0.9 * e for e in ends], [1.1 * e for e in ends], color="black", alpha=0.08)
    axes.set(xscale="log", yscale="log", xlabel="measured iteration time, s", ylabel="predicted, s")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f"plot in {path}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, nargs="+", required=True, help="CSV files of measured iterations")
    parser.add_argument("--out", type=Path, default=Path("results/training-validation"), help="configs, results, plot")
    parser.add_argument("--only", default="", help="rows whose id contains this")
    parser.add_argument("--most-gpus", type=int, default=10**6, help="leave out larger rows, and say so")
    parser.add_argument("--minutes", type=float, default=10**6, help="begin no run after this time; small ones first")
    parser.add_argument("--row-minutes", type=float, help="give up rows that take longer, and say so")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows, spread over the files")
    parser.add_argument("--rings", choices=("rail", "cross"), help="cross_rail_rings of all rows, not of each set")
    parser.add_argument("--no-fluid", dest="has_fluid", action="store_false", help="every message packet by packet")
    parser.add_argument("--each", action="store_true", help="print every row")
    arguments = parser.parse_args()
    console, cases, left_out = Console(width=110), [], []
    for path in arguments.rows:
        found, missing = read_rows(path)
        cases += [replace(c, cross_rail_rings=arguments.rings == "cross") for c in found] if arguments.rings else found
        left_out += missing
    left_out += [(c.id, "larger than --most-gpus") for c in cases if c.layout.n_gpu > arguments.most_gpus]
    cases = [c for c in cases if arguments.only in c.id and c.layout.n_gpu <= arguments.most_gpus]
    if arguments.quick:
        cases = sorted(cases, key=lambda c: c.layout.n_gpu)[:: max(1, len(cases) // QUICK_ROWS)][:QUICK_ROWS]
        cases = [c for c in cases if c.layout.n_gpu <= 256]
    chosen, unsayable = settle_all(cases)
    left_out += unsayable
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen.sort(key=lambda one: (cost(one.case), one.case.id))
    limit_s = None if arguments.row_minutes is None else 60 * arguments.row_minutes
    ran, predicted_s, wall_s, begin_s = [], [], 0.0, time.monotonic()
    for i, one in enumerate(chosen):
        case = one.case
        if time.monotonic() - begin_s > 60 * arguments.minutes:
            left_out += [(later.case.id, "not run in the minutes given") for later in chosen[i:]]
            break
        try:
            seconds, wall = predict(case, arguments.out, arguments.has_fluid, limit_s)
        except subprocess.TimeoutExpired:
            left_out.append((case.id, f"given up after {arguments.row_minutes:g} minutes"))
            continue
        ran.append(one)
        predicted_s.append(seconds)
        wall_s += wall
        if arguments.each:
            off = 100 * (seconds / case.measured_s - 1)
            times = f"{case.measured_s:.4g} s, predicted {seconds:.4g} s, {off:+.1f} %, {wall:.1f} s"
            console.print(f"{case.id}: {times}{one.text()}", highlight=False, markup=False, soft_wrap=True)
        elif sys.stderr.isatty():
            print(f"\r{i + 1} of {len(chosen)}", end="", file=sys.stderr)
    cases = [one.case for one in ran]
    for row, why in left_out:
        console.print(f"not covered: {row}: {why}", highlight=False, markup=False, soft_wrap=True)
    if not cases:
        console.print("no row has run")
        return
    left_open = count_open(ran)
    if left_open:
        console.print(f"left open, rows: {', '.join(f'{name} {n}' for name, n in left_open.items())}", highlight=False)
    by_set = report(cases, predicted_s, console)
    ranks = correlations(cases, predicted_s, console)
    place = plot(cases, predicted_s, arguments.out / "predicted.png")
    console.print(f"{len(cases)} runs in {wall_s:.0f} s; {place}")
    print(json.dumps({"rows": len(cases), "not_covered": len(left_out), "mape": by_set["all"]["mape"], "by_set": by_set,
                      "left_open": left_open, "rank_correlation": ranks, "wall_seconds": wall_s}))  # fmt: skip


if __name__ == "__main__":
    main()
