"""All that one `pdes-sim calibrate` does: read what was measured, fit, and say what came of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdes.calibrating.alignment import Aligned, align, check_gpus
from pdes.calibrating.collectives import Shape, collective_problem, read_collectives, table_of
from pdes.calibrating.device import constants_table, device_of
from pdes.calibrating.fit import Fitted, calibrate
from pdes.calibrating.iterations import IterationModel, config_with, read_iterations
from pdes.calibrating.kernels import as_constants, beside_problem, kernel_problem
from pdes.calibrating.keys import FreeKey
from pdes.calibrating.runs import Simulated, read_flows
from pdes.config import Config, load_config
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.scenario.topology import build_topology

Say = Callable[[str], None]


class Asked(NamedTuple):
    """What is measured: files; keys: free ones of the config, for flows and iterations; lambdas: of equation 3."""

    kernels: Path | None
    collectives: list[Path]
    iterations: Path | None
    flows: Path | None
    keys: list[FreeKey]
    lambdas: tuple[float, ...]
    aligns: bool


class Found(NamedTuple):
    """Of one kind of measurements. tables: of a config, by name. notes: more lines for people."""

    what: str
    files: list[str]
    fitted: Fitted
    tables: dict[str, Any]
    notes: list[str] = []
    aligned: Aligned | None = None


def run(path: str | Path, asked: Asked, say: Say) -> list[Found]:
    """Fit to each kind of measurements; what kernels say of constants stands for iterations. Raises ConfigError."""
    config, found = load_config(path), list[Found]()
    known: dict[str, float] = {}
    if asked.kernels is not None:
        found.append(_kernels(config, asked.kernels, asked.lambdas, say))
        known = dict(as_constants(found[-1].fitted.problem, found[-1].fitted.constants))
        found += _beside(config, asked.kernels, asked.lambdas, say)
    if asked.collectives:
        found.append(_collectives(config, asked.collectives, asked.lambdas, say))
    if asked.iterations is not None:
        found.append(_iterations(config, asked, known, say))
    if asked.flows is not None:
        if not asked.keys:
            raise ConfigError(
                "--flows", "without --key", "Accepted: a --key or more, such as topology.host_delay=500ns..5us"
            )
        simulated = Simulated(*_base(path), asked.keys, say)
        fitted = calibrate(simulated.of_flows(read_flows(asked.flows)), asked.lambdas)
        found.append(Found("flows", [asked.flows.name], fitted, _key_tables(simulated, fitted)))
    return found


def _base(path: str | Path) -> tuple[dict[str, Any], Path]:
    return read_toml(Path(path))[0], Path(path)


def _kernels(config: Config, path: Path, lambdas: Sequence[float], say: Say) -> Found:
    fitted = calibrate(kernel_problem(config, path), lambdas, say)
    return Found("kernels", [path.name], fitted, _constants(config, as_constants(fitted.problem, fitted.constants)))


def _beside(config: Config, path: Path, lambdas: Sequence[float], say: Say) -> list[Found]:
    """What kernels lose beside exchanges, if the file says so."""
    problem = beside_problem(config, path)
    if problem is None:
        return []
    fitted = calibrate(problem, lambdas, say)
    tables = _constants(config, as_constants(problem, fitted.constants))
    return [Found("kernels beside exchanges", [path.name], fitted, tables)]


def _constants(config: Config, constants: Any) -> dict[str, Any]:
    name = device_of(config).name
    table: dict[str, Any] = {f"workload.devices.{quoted(name)}.constants": constants_table(constants)}
    devices = getattr(config.workload, "devices", {})
    if name in devices and devices[name].like is not None:  # what is measured of the type itself has no bound
        table = {f"workload.devices.{quoted(name)}": {"margin": 0}} | table
    return table


def quoted(name: str) -> str:
    """As a part of a TOML key."""
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else f'"{name}"'


def _collectives(config: Config, paths: list[Path], lambdas: Sequence[float], say: Say) -> Found:
    read = read_collectives(paths)
    problem, shape = collective_problem(config, read.rows)
    fitted = calibrate(problem, lambdas, say)
    own: Shape = shape.best(np.arange(len(read.rows)))
    head, regimes = table_of(own.calibration(fitted.constants))
    name = f"workload.devices.{quoted(device_of(config).name)}.nccl"
    notes = [f"{read.n_between} measurements of several servers are left out"] if read.n_between else []
    return Found(
        "collectives", [path.name for path in paths], fitted, {name: head, f"{name}.regimes": regimes}, notes
    )  # fmt: skip


def _iterations(config: Config, asked: Asked, known: dict[str, float], say: Say) -> Found:
    assert asked.iterations is not None
    path, runs = asked.iterations, read_iterations(asked.iterations)
    base, source = _base(config.source)
    configs = [config_with(base, source, one, {}) for one in runs]
    gpus = [build_topology(one).n_host for one in configs] if asked.aligns else []
    if asked.aligns:
        check_gpus(gpus)
    if asked.keys:
        simulated = Simulated(base, source, asked.keys, say)
        fitted = calibrate(simulated.of_iterations(runs), asked.lambdas)
        tables = _key_tables(simulated, fitted)
    else:
        model = IterationModel(configs, runs, say)
        fitted = calibrate(model.problem(known), asked.lambdas, say)
        tables = _constants(config, as_constants(fitted.problem, fitted.constants))
    return Found("iterations", [path.name], fitted, tables, [], _aligned(fitted, gpus) if asked.aligns else None)


def _aligned(fitted: Fitted, gpus: list[int]) -> Aligned:
    measured = fitted.problem.measured
    return align(fitted.problem, measured * (1 + fitted.chosen.held_out), measured * (1 + fitted.after), gpus)


def _key_tables(simulated: Simulated, fitted: Fitted) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for key, number in zip(simulated.keys, fitted.constants.tolist(), strict=True):
        tables.setdefault(".".join(key.path[:-1]), {})[key.path[-1]] = key.value(number)
    return tables


def said(found: Found) -> list[str]:
    """Lines for people."""
    fitted, problem = found.fitted, found.fitted.problem
    lines = [f"{found.what}: {len(problem.measured)} measurements of {', '.join(found.files)}"]
    folds = len(set(problem.group)) if len(set(problem.group)) > 1 else 0
    how = f"each source by a fit to the {folds - 1} others" if folds else "each part by a fit to the others"
    lines.append(f"  mean error before {percent(fitted.before)}, fitted {percent(fitted.after)}")
    lines.append(f"  held out {percent(fitted.chosen.held_out)}, at most {worst(fitted.chosen.held_out)}: {how}")
    if folds:
        lines += [
            f"    {group}: {percent(fitted.chosen.held_out[[own == group for own in problem.group]])}"
            for group in sorted(set(problem.group))
        ]
    if len(fitted.tried) > 1:
        lines.append("  lambda   held out   pairs in order")
        for one in fitted.tried:
            mark = "  chosen" if one is fitted.chosen else ""
            lines.append(f"  {one.weight:<6g}   {percent(one.held_out):<8}   {100 * one.order:.1f} %{mark}")
    if found.aligned is not None:
        own = found.aligned
        lines.append(
            f"  aligned by the number of GPUs: held out {100 * own.after:.2g} %, without {100 * own.before:.2g} %"
        )
        if own.after >= own.before:
            lines.append("  warning: aligned, what is held out is no better; leave --align out")
    return lines + [f"  {note}" for note in found.notes]


def percent(errors: np.ndarray) -> str:
    """Mean of the sizes."""
    return f"{100 * float(np.abs(errors).mean()):.2g} %"


def worst(errors: np.ndarray) -> str:
    """The largest."""
    return f"{100 * float(np.abs(errors).max()):.2g} %"


def facts(found: Found) -> dict[str, Any]:
    """A row of [[calibration.source]]."""
    fitted = found.fitted
    return {
        "measured": found.what,
        "files": found.files,
        "rows": len(fitted.problem.measured),
        "error_before": _share(fitted.before),
        "error_fitted": _share(fitted.after),
        "error_held_out": _share(fitted.chosen.held_out),
        "lambda": fitted.chosen.weight,
        "pairs_in_order": float(f"{fitted.chosen.order:.4g}"),
    }


def _share(errors: np.ndarray) -> float:
    return float(f"{np.abs(errors).mean():.3g}")
