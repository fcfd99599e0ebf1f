"""Fit the constants of each GPU type to measured iterations, and say how far all rows are from the fit.

    python bench/fit_devices.py --rows training_iterations.csv vtrain_multi_node.csv vtrain_single_node.csv \
        simumax_b200_8gpu.csv bench/published_rows.csv [--kernels a100_pcie.json b200_bf16_ceperm.json] \
        [--leave-one-out] [--write]

Least squares in the logarithm of predicted over measured time, of the rows of two thirds (a hash of a row's id chooses
the third that is held out), with errors above 10 % counted by their size and not its square, and each set of rows
weighted with the square root of its size, as rows of a set are alike. Usual values count as one more measurement of
each constant, with the spread below, which decides what the rows of a type do not. One GPU type after the other.
The prediction is `fit_closed_form`'s, not a
simulation. --kernels: files of SimuMax with measured kernels. What they say is not fitted to iterations: attention of
the A100, whose rows all compute it step by step (its products are of a PCIe card with less power), and products in bf16
and attention of the B200. --write: models/compute/fits.json.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import fields, replace
from math import exp, log, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fit_closed_form import predict_s
from fit_rows import Case, read_rows, recompute_text
from models.compute.devices import DEVICES, FITS, Device, Fit
from pdes.calibrating.fit import ROW_ERROR, Problem
from pdes.calibrating.fit import fit as fit_problem

NAMES = tuple(field.name for field in fields(Fit) if field.name != "rows")
USUAL = {name: getattr(Fit(), name) for name in NAMES}
BOUNDS = {
    "gemm_gamma": (1.05, 3.0),
    "fp8_gamma": (1.05, 4.0),
    "attention_gamma": (1.05, 6.0),
    "memory_gamma": (1.05, 4.0),
    "launch_ps": (500_000, 40_000_000),
    "dispatch_ps": (1_000_000, 200_000_000),
    "overlap_loss_frac": (0.02, 0.9),
}
SPREAD = {
    "gamma": 0.2,
    "ps": 1.0,
    "frac": 1.0,
}  # of the logarithm of a constant among GPU types: 20 %, or a factor of e
FITTED = {  # what the rows of a type depend on
    "a100-80g": ("gemm_gamma", "memory_gamma", "launch_ps", "dispatch_ps"),
    "h100": ("gemm_gamma", "fp8_gamma", "attention_gamma", "memory_gamma", "launch_ps", "overlap_loss_frac"),
    "h100-500w": ("gemm_gamma", "fp8_gamma", "attention_gamma", "memory_gamma", "launch_ps", "overlap_loss_frac"),
    "b200": ("gemm_gamma", "fp8_gamma", "attention_gamma", "memory_gamma", "launch_ps", "overlap_loss_frac"),
}

OF_KERNELS = {"a100": ("a100-80g", ("attention_gamma",)), "b200": ("b200", ("gemm_gamma", "attention_gamma"))}
"""By the name that a file of measured kernels begins with: the GPU type, and what is taken from it."""


def with_constants(device: Device, constants: dict[str, float]) -> Device:
    """The device with these constants; times as whole picoseconds."""
    typed = {name: int(value) if name.endswith("_ps") else round(value, 4) for name, value in constants.items()}
    return replace(device, fit=Fit(**{**USUAL, **typed}))


def fit(
    cases: list[Case], device: Device, names: tuple[str, ...], row_error: float = ROW_ERROR,
    given: dict[str, float] | None = None,
) -> dict[str, float]:  # fmt: skip
    """The constants by `pdes.calibrating.fit`, from the usual values, and without the penalty for a wrong order.

    row_error: what is to be expected of a row; the smaller, the less the usual values count. given: constants that are
    known; what is neither fitted nor given has its usual value.
    """
    groups = [case.group for case in cases]

    def predict_ps(point: np.ndarray, rows: np.ndarray) -> np.ndarray:
        fitted = with_constants(device, (given or {}) | dict(zip(names, point.tolist(), strict=True)))
        return np.array([predict_s(cases[i], fitted)[0] for i in rows.tolist()])

    low, high = np.array([BOUNDS[name] for name in names], float).T
    problem = Problem(
        names, np.array([float(USUAL[name]) for name in names]), low, high,
        np.array([SPREAD[name.split("_")[-1]] for name in names]), np.array([case.measured_s for case in cases]),
        groups, predict_ps, np.array([groups.count(group) ** -0.5 for group in groups]), row_error,
    )  # fmt: skip
    found = fit_problem(problem, np.arange(len(cases)))
    return dict(zip(names, found.tolist(), strict=True))


def of_kernels(path: Path, device: Device) -> tuple[dict[str, float], list[str]]:
    """Constants of measured kernels (the median of what each says, with usual other constants), and which these were.

    Efficiencies of attention count all scores, of which the mask hides half.
    """
    operators, names = json.loads(path.read_text())["accelerator"]["op"], OF_KERNELS[path.stem[:4]][1]
    usual, peak = Fit(), device.peak("bf16")
    gammas: dict[str, list[float]] = {name: [] for name in names}
    counts: dict[str, int] = defaultdict(int)

    def add(name: str, key: str, kind: str, flops: float, counted: float, moved_bytes: float) -> None:
        rest_s = usual.memory_gamma * moved_bytes / device.hbm_bytes_per_s + usual.launch_ps * 1e-12
        efficiency = operators[kind]["accurate_efficient_factor"][key]
        gammas[name].append((counted / peak / efficiency - rest_s) / (flops / peak))
        counts[kind] += 1

    def sizes(key: str) -> dict[str, int]:
        return {k: int(v) for k, v in (pair.split("=") for pair in key.split(", ")) if v.isdigit()}

    for kind, products in (("sdp_fwd", 1.0), ("sdp_bwd", 2.5)):
        for key in operators[kind]["accurate_efficient_factor"]:
            size = sizes(key)
            tokens, heads, kv_heads = size["batch"] * size["seq_len"], size["head_num"], size["kv_head_num"]
            widths = size["qk_head_dim"] + size["v_head_dim"]
            whole = products * 2 * tokens * size["seq_len"] * heads * widths
            moved_bytes = (3 if products > 1 else 1) * 2 * tokens * widths * (heads + kv_heads)
            add("attention_gamma", key, kind, whole / 2, whole, moved_bytes)
    for key in operators["matmul"]["accurate_efficient_factor"] if "gemm_gamma" in names else ():
        b, m, n, k = (sizes(key)[name] for name in "bmnk")
        result_bytes = (4 if "out_dtype=fp32" in key else 2) * (2 if "accumulate=True" in key else 1)
        moved_bytes = b * (2 * m * k + 2 * k * n + result_bytes * m * n)
        add("gemm_gamma", key, "matmul", 2 * b * m * n * k, 2 * b * m * n * k, moved_bytes)
    ids = [f"{path.stem}:{kind}:{n} kernels" for kind, n in counts.items()]
    return {name: median(found) for name, found in gammas.items()}, ids


def constants_of(
    rows: list[Case], device: Device, kernels: dict[str, tuple[dict[str, float], list[str]]]
) -> tuple[dict[str, float], list[str]]:
    """A type's constants: of its kernels where these say them, the rest fitted to rows; and the ids of both."""
    given, ids = kernels.get(device.name, ({}, []))
    names = tuple(name for name in FITTED[device.name] if name not in given)
    found = fit(rows, with_constants(device, given), names, given=given)
    return given | found, [case.id for case in rows] + ids


def percent(errors: list[float]) -> str:
    """Mean of the sizes."""
    return f"{100 * sum(map(abs, errors)) / len(errors):.1f} %" if errors else "-"


def report(cases: list[Case], devices: dict[str, Device]) -> None:
    """Errors per set: all rows, those fitted to, those held out."""
    errors: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
    for case in cases:
        entry = case.held_out, predict_s(case, devices[case.device])[0] / case.measured_s - 1
        for key in ((case.device, case.group), (case.device, "all"), ("all", "all")):
            errors[key].append(entry)
        if case.group != "vtrain_single_node":
            errors["all", "all without vtrain_single_node"].append(entry)
    print(f"{'GPU':<10} {'set':<32} {'rows':>5} {'MAPE':>7} {'fitted':>7} {'held out':>9} {'bias':>7} {'worst':>7}")
    for (device, group), entries in sorted(errors.items()):
        found = [error for _, error in entries]
        fitted, held_out = ([error for out, error in entries if out is side] for side in (False, True))
        columns = f"{len(found):>5} {percent(found):>7} {percent(fitted):>7} {percent(held_out):>9}"
        bias, worst = sum(found) / len(found), max(found, key=abs)
        print(f"{device:<10} {group:<32} {columns} {100 * bias:>+6.1f}% {100 * worst:>+6.1f}%")


def leave_one_out(cases: list[Case], kernels: dict[str, tuple[dict[str, float], list[str]]]) -> None:
    """Every source as a fit to all others predicts it: constants from no row of it. One whose GPU type no other source
    has is left out, and named."""
    errors: dict[str, list[float]] = defaultdict(list)
    alone = []
    for name in FITTED:
        rows = [case for case in cases if case.device == name]
        for source in sorted({case.source for case in rows}):
            others = [case for case in rows if case.source != source]
            if not others:
                alone.append(f"{source} ({name})")
                continue
            fitted = with_constants(DEVICES[name], constants_of(others, DEVICES[name], kernels)[0])
            for case in (case for case in rows if case.source == source):
                error = predict_s(case, fitted)[0] / case.measured_s - 1
                is_fp8 = case.layout.precision == "fp8"
                keys = (f"{name:<10} {source}", "all", *(["all in fp8"] if is_fp8 else []))
                for key in (*keys, *([] if case.group == "vtrain_single_node" else ["all but vtrain_single_node"])):
                    errors[key].append(error)
    print(f"\n{'predicted without it':<44} {'rows':>5} {'MAPE':>7} {'bias':>7} {'worst':>7}")
    for key, found in sorted(errors.items(), key=lambda item: (item[0].startswith("all"), item[0])):
        bias, worst = 100 * sum(found) / len(found), 100 * max(found, key=abs)
        print(f"{key:<44} {len(found):>5} {percent(found):>7} {bias:>+6.1f}% {worst:>+6.1f}%")
    of_source = [errors[key] for key in errors if not key.startswith("all")]
    means = [100 * sum(map(abs, found)) / len(found) for found in of_source]
    print(f"{'mean of the sources':<44} {len(means):>5} {sum(means) / max(1, len(means)):>5.1f} %")
    if alone:
        print(f"the only source of their GPU type: {', '.join(alone)}")


def report_each(cases: list[Case], devices: dict[str, Device]) -> None:
    """Every row, with what was chosen where the source is silent."""
    for case in cases:
        predicted_s, layout = predict_s(case, devices[case.device])
        error = 100 * (predicted_s / case.measured_s - 1)
        chosen = f"microbatch {layout.microbatch}, {layout.vpp} chunks, {recompute_text(layout.recompute)}"
        print(f"{case.id:<68} {case.measured_s:>9.3f} s {predicted_s:>9.3f} s {error:>+6.1f} % {chosen}")


def report_ranks(cases: list[Case], devices: dict[str, Device]) -> None:
    """Spearman's rank correlation inside vTrain's models, and what it were if every layout were right on average."""
    models: dict[tuple[str, int, int], list[Case]] = defaultdict(list)
    for case in cases:
        if case.group.startswith("vtrain"):
            models[case.group, case.shape.layers, case.shape.hidden].append(case)
    print(f"\n{'set':<20} {'layers':>6} {'hidden':>6} {'rows':>5} {'rank correlation':>17} {'layouts right':>14}")
    for (group, layers, hidden), rows in sorted(models.items()):
        measured, predicted = [], []
        for case in rows:
            measured.append(case.measured_s)
            predicted.append(predict_s(case, devices[case.device])[0])
        found = (rank_correlation(tuple(p), tuple(measured)) for p in (predicted, layouts_right(rows, predicted)))
        print(f"{group:<20} {layers:>6} {hidden:>6} {len(rows):>5} {next(found):>17.3f} {next(found):>14.3f}")


def layouts_right(cases: list[Case], predicted_s: list[float]) -> list[float]:
    """Predictions of one model's rows, each layout's (TP, DP, PP) times a factor that takes its mean error away.

    What is still wrong differs between the microbatches of one layout.
    """
    logs: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    keys = [(case.layout.tp, case.layout.dp, case.layout.pp) for case in cases]
    for key, case, predicted in zip(keys, cases, predicted_s, strict=True):
        logs[key].append(log(case.measured_s / predicted))
    return [p * exp(sum(logs[key]) / len(logs[key])) for key, p in zip(keys, predicted_s, strict=True)]


def ranks(values: tuple[float, ...]) -> list[float]:
    """Places, from 0; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values
    ]


def rank_correlation(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Spearman's."""
    x, y = ranks(one), ranks(other)
    mean = (len(x) - 1) / 2
    products = sum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    return products / sqrt(sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y))


def fit_all(
    cases: list[Case], only: str | None, kernels: dict[str, tuple[dict[str, float], list[str]]]
) -> dict[str, dict[str, Any]]:
    """Constants and row ids by GPU type, as in fits.json; of types without rows what is there."""
    entries = json.loads(FITS.read_text())
    for name in FITTED:
        rows = [case for case in cases if case.device == name and not case.held_out]
        if not rows or only not in (None, name):
            continue
        constants, ids = constants_of(rows, DEVICES[name], kernels)
        fitted = with_constants(DEVICES[name], constants).fit
        entries[name] = {"constants": {key: getattr(fitted, key) for key in constants}, "rows": ids}
        print(f"{name}: {len(rows)} rows, " + ", ".join(f"{k} {v:.4g}" for k, v in constants.items()), flush=True)
    return entries


def main() -> None:
    """Fit, report, and write if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, nargs="+", required=True, help="CSV files of measured iterations")
    parser.add_argument("--kernels", type=Path, nargs="+", default=[], help="measured kernels (SimuMax's JSON)")
    parser.add_argument("--only", help="one GPU type")
    parser.add_argument("--report", action="store_true", help="do not fit: the constants as they are")
    parser.add_argument("--each", action="store_true", help="every row but those of vtrain_single_node")
    parser.add_argument("--leave-one-out", action="store_true", help="each source by a fit to all others")
    parser.add_argument("--write", action="store_true", help="write models/compute/fits.json")
    options = parser.parse_args()
    cases: list[Case] = []
    for path in options.rows:
        found, left_out = read_rows(path)
        cases += [case for case in found if options.only in (None, case.device)]
        print(f"{path.name}: {len(found)} rows" + "".join(f"\n  not covered: {name}: {why}" for name, why in left_out))
    devices, kernels = dict(DEVICES), {}
    for path in options.kernels:
        name = OF_KERNELS.get(path.stem[:4], ("",))[0]
        if not name or name in kernels:
            parser.error(f"--kernels {path}: one file of each GPU type, whose name begins with {', '.join(OF_KERNELS)}")
        kernels[name] = of_kernels(path, DEVICES[name])
    if not options.report:
        entries = fit_all(cases, options.only, kernels)
        devices |= {name: with_constants(DEVICES[name], entry["constants"]) for name, entry in entries.items()}
        if options.write:
            FITS.write_text(json.dumps(entries, indent=1) + "\n")
    report(cases, devices)
    report_ranks(cases, devices)
    if options.leave_one_out:
        leave_one_out(cases, kernels)
    if options.each:
        report_each([case for case in cases if case.group != "vtrain_single_node"], devices)


if __name__ == "__main__":
    main()
