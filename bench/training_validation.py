"""Predicted against measured iteration times: every row is a run of `pdes-sim` on a config as a user would write it.

Rows: --rows FILE.csv, with the columns of published measurements (training_iterations.csv) or of vTrain's two files.
The constants of the GPU types were fitted to two thirds of such rows (`bench/fit_devices.py`,
models/compute/fits.json); the others are told apart here. What a source leaves open (a blank microbatch, chunks per
stage) takes the value with the least predicted time that fits the memory. Configs and results stay in --out; a row that
has a result there is not run again, unless the code has changed.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fit_devices import layouts_right, rank_correlation
from fit_rows import Case, read_rows
from models.workload.compiler.job import Job
from pdes.convert.toml_text import toml_text
from pdes.engine.jit import source_digest
from runs import simulate

GIGA = 10**9
QUICK_ROWS = 12


def case_config(case: Case, lanes: bool = True) -> str:
    """The config of a measured run; lanes: messages that have their ways to themselves are not simulated each time."""
    layout, shape = case.layout, case.shape
    n_gpu, dp = layout.n_gpu, layout.dp
    rate = f"{max(case.nic_bps, 100 * GIGA) // GIGA}Gbps"
    workload: dict[str, object] = {
        "kind": "training", "global_batch": case.batch,
        "microbatch": "auto" if case.open_microbatch else layout.microbatch,
        "sequence_parallel": layout.sequence_parallel,
        "recompute": "auto" if case.open_recompute else layout.recompute,
        "precision": layout.precision, "zero": layout.zero, "overlap_gradients": case.overlaps_dp,
        "overlap_parameters": case.overlaps_dp, "overlap_tensor": layout.tp_overlap,
        "overlap_tensor_gradients": layout.tp_gradient_overlap, "balanced_context": layout.cp_balanced,
        "flash_attention": layout.flash_attention, "causal": "half" if layout.causal_half else "full",
        "cross_rail_rings": case.cross_rail_rings,
    }  # fmt: skip
    model: dict[str, object] = {
        "layers": shape.layers, "hidden": shape.hidden, "heads": shape.heads, "ffn": shape.d_ffn,
        "kv_heads": shape.n_kv, "head_dim": shape.d_head, "vocabulary": shape.vocabulary, "sequence": shape.sequence,
        "gated": shape.gated, "norm": shape.norm, "tied_embeddings": shape.tied_embeddings,
        "learned_positions": shape.learned_positions, "biases": shape.biases, "dropout": shape.dropout,
    }  # fmt: skip
    parallel = {
        "tp": layout.tp, "dp": dp, "pp": layout.pp, "cp": layout.cp, "ep": layout.ep,
        "vpp": "auto" if case.open_vpp else layout.vpp,
    }  # fmt: skip
    topology = {
        "kind": "roft", "gpus": n_gpu, "gpus_per_server": min(8, n_gpu), "nic_rate": rate, "spine_rate": rate,
        "nvlink": "packets", "servers_per_rail_switch": max(1, n_gpu // 8),
    }  # fmt: skip
    tables = {
        "topology": topology,
        "network": {"congestion_control": "dctcp", "payload": "4096B"},
        "workload": workload,
        "workload.model": model,
        "workload.parallel": parallel,
        "workload.compute": {"gpu": case.device},
        "workload.memory": {"check": "warn"},
        "wormhole": {"mode": "full", **({"memo_tolerance": 0.02, "lanes": True} if lanes else {})},
        "output": {"tasks": False, "flows": False},
    }
    return toml_text(case.id, tables)


def predict(case: Case, out: Path, lanes: bool, limit_s: float | None = None) -> tuple[float, float]:
    """Predicted iteration time and wall time of the run, in seconds. TimeoutExpired if that is above limit_s."""
    name = "".join(c if c.isalnum() or c in "-._" else "_" for c in case.id)
    config, folder = out / f"{name}.toml", out / name
    text, kept = case_config(case, lanes), folder / "kept.json"
    facts = {"config": text, "code": source_digest()}
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
    """Errors by set, on the terminal and returned."""
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


def plot(cases: list[Case], predicted_s: list[float], path: Path) -> None:
    """Predicted over measured, by set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

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
    parser.add_argument("--no-lanes", dest="lanes", action="store_false", help="every message packet by packet")
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
    arguments.out.mkdir(parents=True, exist_ok=True)
    cases.sort(key=lambda c: (cost(c), c.id))
    limit_s = None if arguments.row_minutes is None else 60 * arguments.row_minutes
    ran, predicted_s, wall_s, begin_s = [], [], 0.0, time.monotonic()
    for i, case in enumerate(cases):
        if time.monotonic() - begin_s > 60 * arguments.minutes:
            left_out += [(c.id, "not run in the minutes given") for c in cases[i:]]
            break
        try:
            seconds, wall = predict(case, arguments.out, arguments.lanes, limit_s)
        except subprocess.TimeoutExpired:
            left_out.append((case.id, f"given up after {arguments.row_minutes:g} minutes"))
            continue
        ran.append(case)
        predicted_s.append(seconds)
        wall_s += wall
        if arguments.each:
            off = 100 * (seconds / case.measured_s - 1)
            console.print(f"{case.id}: {case.measured_s:.4g} s, predicted {seconds:.4g} s, {off:+.1f} %, {wall:.1f} s")
        elif sys.stderr.isatty():
            print(f"\r{i + 1} of {len(cases)}", end="", file=sys.stderr)
    cases = ran
    for row, why in left_out:
        console.print(f"not covered: {row}: {why}", highlight=False)
    if not cases:
        console.print("no row has run")
        return
    by_set = report(cases, predicted_s, console)
    ranks = correlations(cases, predicted_s, console)
    plot(cases, predicted_s, arguments.out / "predicted.png")
    console.print(f"{len(cases)} runs in {wall_s:.0f} s; plot in {arguments.out / 'predicted.png'}")
    print(json.dumps({"rows": len(cases), "not_covered": len(left_out), "mape": by_set["all"]["mape"], "by_set": by_set,
                      "rank_correlation": ranks, "wall_seconds": wall_s}))  # fmt: skip


if __name__ == "__main__":
    main()
