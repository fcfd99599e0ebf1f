"""Fit the constants of each GPU type to measured iterations, and say how far all rows are from the fit.

    python bench/fit_devices.py --rows training_iterations.csv vtrain_multi_node.csv vtrain_single_node.csv \
        simumax_b200_8gpu.csv [--kernels a100_pcie.json] [--write]

Least squares in the logarithm of predicted over measured time, of the rows of two thirds (a hash of a row's id chooses
the third that is held out), with errors above 10 % counted by their size and not its square, each set of rows weighted
with the square root of its size, and a pull towards ordinary values that decides only what the rows do not. One GPU type
after the other. Constants that no row of a type depends on are not fitted. The prediction is `fit_closed_form`'s, not a
simulation. --kernels: a file of SimuMax with measured attention kernels, for the attention constant of the A100, whose
rows all compute attention step by step. --write: models/compute/fits.json.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import fields, replace
from math import exp, log, sqrt
from pathlib import Path

from fit_closed_form import predict_s
from fit_rows import Case, read_rows

from models.compute.devices import DEVICES, FITS, MAX_FITTED, Device, Fit

NAMES = tuple(field.name for field in fields(Fit) if field.name != "rows")
USUAL = {name: getattr(Fit(), name) for name in NAMES}
BOUNDS = {
    "gemm_gamma": (1.0, 3.0),
    "fp8_gamma": (1.0, 4.0),
    "attention_gamma": (1.0, 6.0),
    "memory_gamma": (1.0, 4.0),
    "launch_ps": (500_000, 40_000_000),
    "dispatch_ps": (1_000_000, 200_000_000),
    "overlap_loss_frac": (0.02, 0.9),
}
LINEAR_FROM, PULL, FINEST = 0.1, 5e-5, 0.01
FITTED = {  # what the rows of a type depend on
    "a100-80g": ("gemm_gamma", "memory_gamma", "launch_ps", "dispatch_ps"),
    "h100": ("gemm_gamma", "fp8_gamma", "attention_gamma", "memory_gamma", "launch_ps", "overlap_loss_frac"),
    "h100-500w": ("gemm_gamma", "fp8_gamma", "attention_gamma", "memory_gamma", "launch_ps", "overlap_loss_frac"),
    "b200": ("gemm_gamma", "attention_gamma", "memory_gamma", "launch_ps", "dispatch_ps", "overlap_loss_frac"),
}


def with_constants(device: Device, constants: dict[str, float]) -> Device:
    """The device with these constants; times as whole picoseconds."""
    typed = {name: int(value) if name.endswith("_ps") else round(value, 4) for name, value in constants.items()}
    return replace(device, fit=Fit(**{**USUAL, **typed}))


def misfit(cases: list[Case], device: Device, constants: dict[str, float]) -> float:
    """Weighted mean of the errors, and the pull."""
    sizes: dict[str, int] = defaultdict(int)
    for case in cases:
        sizes[case.group] += 1
    fitted, total, weights = with_constants(device, constants), 0.0, 0.0
    for case in cases:
        error = log(predict_s(case, fitted)[0] / case.measured_s)
        weight = 1 / sqrt(sizes[case.group])
        total += weight * 2 * LINEAR_FROM**2 * (sqrt(1 + (error / LINEAR_FROM) ** 2) - 1)
        weights += weight
    pull = sum(log(value / USUAL[name]) ** 2 for name, value in constants.items())
    return total / weights + PULL * pull


def fit(cases: list[Case], device: Device, names: tuple[str, ...]) -> dict[str, float]:
    """Pattern search: one constant after the other, in ever smaller factors."""
    constants: dict[str, float] = {name: USUAL[name] for name in names}
    steps = dict.fromkeys(names, 0.25)
    least = misfit(cases, device, constants)
    while max(steps.values()) > FINEST:
        for name in names:
            for factor in (1 + steps[name], 1 / (1 + steps[name])):
                low, high = BOUNDS[name]
                moved = {**constants, name: min(max(constants[name] * factor, low), high)}
                found = misfit(cases, device, moved)
                if found < least - 1e-9:
                    least, constants = found, moved
                    break
            else:
                steps[name] /= 2
    return constants


def attention_of_kernels(path: Path) -> tuple[float, list[str]]:
    """gamma from measured attention kernels: their efficiency counts all scores, of which the mask hides half."""
    operators = json.loads(path.read_text())["accelerator"]["op"]
    logs, ids = [], []
    for name in ("sdp_fwd", "sdp_bwd"):
        for key, efficiency in operators[name]["accurate_efficient_factor"].items():
            logs.append(log(2 / efficiency))
            ids.append(f"{path.stem}:{name}:{key.replace(' ', '')}")
    return exp(sum(logs) / len(logs)), ids


def report(cases: list[Case], devices: dict[str, Device]) -> None:
    """Errors per set: all rows, those fitted to, those held out."""
    errors: dict[tuple[str, str], list[tuple[bool, float, float, float]]] = defaultdict(list)
    for case in cases:
        predicted_s, _ = predict_s(case, devices[case.device])
        entry = case.held_out, predicted_s / case.measured_s - 1, predicted_s, case.measured_s
        errors[case.device, case.group].append(entry)
        errors[case.device, "all"].append(entry)
        errors["all", "all"].append(entry)
        errors["all", "all without vtrain_single_node"] += [entry] * (case.group != "vtrain_single_node")
    print(f"{'GPU':<10} {'set':<32} {'rows':>5} {'MAPE':>7} {'fitted':>7} {'held out':>9} {'bias':>7} {'worst':>7}")
    for (device, group), entries in sorted(errors.items()):
        found = [e for _, e, *_ in entries]
        parts = [[abs(e) for out, e, *_ in entries if out is side] for side in (False, True)]
        means = [f"{100 * sum(p) / len(p):.1f} %" if p else "-" for p in ([abs(e) for e in found], *parts)]
        bias, worst = 100 * sum(found) / len(found), 100 * max(found, key=abs)
        print(f"{device:<10} {group:<32} {len(found):>5} {means[0]:>7} {means[1]:>7} {means[2]:>9} {bias:>+6.1f}% {worst:>+6.1f}%")


def report_ranks(cases: list[Case], devices: dict[str, Device]) -> None:
    """Spearman's rank correlation inside each model of vTrain."""
    models: dict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    for case in cases:
        if case.group.startswith("vtrain"):
            pair = case.measured_s, predict_s(case, devices[case.device])[0]
            models[case.group, case.shape.layers, case.shape.hidden].append(pair)
    print(f"\n{'set':<20} {'layers':>6} {'hidden':>6} {'rows':>5} {'rank correlation':>17}")
    for (group, layers, hidden), pairs in sorted(models.items()):
        measured, predicted = zip(*pairs, strict=True)
        print(f"{group:<20} {layers:>6} {hidden:>6} {len(pairs):>5} {rank_correlation(measured, predicted):>17.3f}")


def ranks(values: tuple[float, ...]) -> list[float]:
    """Places, from 0; equal values share the mean of theirs."""
    return [sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values]


def rank_correlation(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Spearman's."""
    x, y = ranks(one), ranks(other)
    mean = (len(x) - 1) / 2
    products = sum((a - mean) * (b - mean) for a, b in zip(x, y, strict=True))
    return products / sqrt(sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y))


def main() -> None:
    """Fit, report, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, nargs="+", required=True, help="CSV files of measured iterations")
    parser.add_argument("--kernels", type=Path, help="measured attention kernels of an A100 (SimuMax's JSON)")
    parser.add_argument("--only", help="one GPU type")
    parser.add_argument("--report", action="store_true", help="do not fit: the constants as they are")
    parser.add_argument("--each", action="store_true", help="every row but those of vtrain_single_node")
    parser.add_argument("--write", action="store_true", help="write models/compute/fits.json")
    options = parser.parse_args()
    cases: list[Case] = []
    for path in options.rows:
        found, left_out = read_rows(path)
        cases += found
        print(f"{path.name}: {len(found)} rows" + "".join(f"\n  not covered: {name}: {why}" for name, why in left_out))
    devices, entries = dict(DEVICES), json.loads(FITS.read_text())
    for name, names in FITTED.items() if not options.report else ():
        assert len(names) <= MAX_FITTED
        rows = [case for case in cases if case.device == name and not case.held_out]
        if not rows or options.only not in (None, name):
            continue
        constants = fit(rows, DEVICES[name], names)
        ids = [case.id for case in rows]
        if name == "a100-80g" and options.kernels:
            constants["attention_gamma"], kernel_ids = attention_of_kernels(options.kernels)
            ids += kernel_ids
        devices[name] = with_constants(DEVICES[name], constants)
        entries[name] = {"constants": {key: getattr(devices[name].fit, key) for key in constants}, "rows": ids}
        print(f"{name}: {len(rows)} rows, " + ", ".join(f"{k} {v:.4g}" for k, v in constants.items()), flush=True)
    cases = [case for case in cases if options.only in (None, case.device)]
    report(cases, devices)
    report_ranks(cases, devices)
    if options.each:
        for case in cases:
            if case.group != "vtrain_single_node":
                predicted_s, layout = predict_s(case, devices[case.device])
                chosen = f"microbatch {layout.microbatch}, {layout.vpp} chunks, {layout.recompute}"
                print(f"{case.id:<64} {case.measured_s:>9.3f} s {predicted_s:>9.3f} s {100 * (predicted_s / case.measured_s - 1):>+6.1f} % {chosen}")
    if options.write:
        FITS.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
