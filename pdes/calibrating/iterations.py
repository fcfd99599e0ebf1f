"""Measured iteration times: of which config each one is, and what the closed form makes of it."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from models.compute.devices import Device
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.compiler.job import Job
from pdes.calibrating.device import BOUNDS, device_of, with_fit
from pdes.calibrating.fit import Problem
from pdes.calibrating.rows import read_lines, timed
from pdes.config import Config, config_from_dict
from pdes.config.keys import all_keys
from pdes.config.overrides import put
from pdes.config.toml_file import read_value
from pdes.errors import ConfigError, suggestion
from pdes.scenario.placing import cluster_of, exchanges_on, placing_of, shared_out
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

SPREAD = {"gamma": 0.5, "ps": 1.0, "frac": 1.0}
KNOWN_SPREAD = 0.05  # of what kernels have said
TIMES = [*timed("iteration"), *timed("time")]
NOT_KEYS = {"id", "source", "notes", "comment", *TIMES}
WANTED = (
    "a CSV file with a column iteration_s (or iteration_ms, ..), and for what differs from the config a column for "
    "each key, such as workload.parallel.tp, or tp; optionally id and source"
)


class MeasuredRun(NamedTuple):
    """One line. where: file and line. group: its source. values: key of the config -> value."""

    where: str
    group: str
    values: dict[str, Any]
    time_ps: float


def read_iterations(path: Path) -> list[MeasuredRun]:
    """Raises ConfigError with file and line."""
    lines = read_lines(path, {}, WANTED)
    columns = dict.fromkeys(name for line in lines for name in line.cells)
    keys = {name: _key_of(path, name) for name in columns if name not in NOT_KEYS}
    found = []
    for line in lines:
        time_ps = line.time_ps(TIMES)
        if time_ps is None:
            raise ConfigError(line.where, "no iteration_s", f"Accepted: {WANTED}")
        values = {keys[name]: read_value(cell, line.where) for name, cell in line.cells.items() if name in keys}
        found.append(MeasuredRun(line.where, line.cells.get("source", ""), values, time_ps))
    return found


def _key_of(path: Path, column: str) -> str:
    """The key that a column is of: by its whole name, or its last part where only one key has it."""
    names = dict.fromkeys(key.name for key in all_keys() if not key.is_table and key.path[0] in Config.model_fields)
    if column in names or "." in column:
        return column  # the config's own check says what is wrong
    found = [name for name in names if name.rsplit(".", 1)[-1] == column]
    usual = [name for name in found if name.startswith(("workload.parallel.", "topology."))] or found
    if len(usual) == 1:
        return usual[0]
    what = f"is the name of several keys: {', '.join(usual[:4])}" if usual else "is no key of a config"
    meant = suggestion(column, [name.rsplit(".", 1)[-1] for name in names])
    raise ConfigError(f"{path}: line 1: {column}", what, f"Accepted: a key such as workload.parallel.tp{meant}")


def config_with(base: dict[str, Any], source: Path, run: MeasuredRun, more: Mapping[str, Any]) -> Config:
    """The config of a run. ConfigError names the line."""
    data = copy.deepcopy(base)
    for name, value in {**run.values, **more}.items():
        put(data, tuple(name.split(".")), value, run.where)
    try:
        return config_from_dict(data, source)
    except ConfigError as error:
        raise ConfigError(f"{run.where}: {error.where}", error.found, error.accepted) from None


class Case(NamedTuple):
    """A run whose times follow from constants of the GPU type."""

    job: Job
    exchanges: Exchanges


class IterationModel:
    """Measured runs by the closed form."""

    def __init__(self, configs: Sequence[Config], runs: Sequence[MeasuredRun], say: Any) -> None:
        self.device: Device = device_of(configs[0])
        self.runs, self.cases = list(runs), []
        for i, (config, run) in enumerate(zip(configs, runs, strict=True), 1):
            say(f"reading configs, {i} of {len(runs)}")
            if device_of(config) != self.device:
                raise ConfigError(run.where, "is of another GPU type", f"Accepted: runs of {self.device.name} alone")
            self.cases.append(case_of(config, run.where))

    def problem(self, known: Mapping[str, float]) -> Problem:
        """known: constants that kernels have given; they hardly move."""
        precisions = {case.job.layout.precision for case in self.cases}
        names = ["gemm_gamma", "attention_gamma", "memory_gamma", "launch_ps", "dispatch_ps", "overlap_loss_frac"]
        if "fp8" in precisions:
            names.insert(1, "fp8_gamma")
        start = np.array([float(known.get(name, getattr(self.device.fit, name))) for name in names])
        low, high = np.array([BOUNDS[name] for name in names]).T
        spread = [KNOWN_SPREAD if name in known else SPREAD[name.split("_")[-1]] for name in names]
        groups = [run.group for run in self.runs]
        weight = np.array([groups.count(group) ** -0.5 if len(set(groups)) > 1 else 1.0 for group in groups])
        measured = np.array([run.time_ps for run in self.runs])
        return Problem(
            tuple(names), np.clip(start, low, high), low, high, np.array(spread), measured, groups,
            lambda constants, rows: self.times_ps(dict(zip(names, constants.tolist(), strict=True)), rows), weight,
        )  # fmt: skip

    def times_ps(self, constants: Mapping[str, float], rows: np.ndarray) -> np.ndarray:
        """Predicted times of some runs."""
        own, times = with_fit(self.device, constants), []
        for i in rows.tolist():
            case = self.cases[i]
            devices = tuple(own if device.name == own.name else device for device in case.job.devices)
            times.append(float(iteration_ps(replace(case.job, devices=devices), case.exchanges, {})))
        return np.array(times)


def case_of(config: Config, where: str) -> Case:
    """What the closed form needs of a config. ConfigError names the line."""
    try:
        topology = build_topology(config)
        job, cluster = checked_job(config, topology), cluster_of(config, topology)
        placing = placing_of(config, job, cluster)
        exchanges = exchanges_on(cluster, job, placing.gpu_of_rank)
        return Case(shared_out(job, exchanges), exchanges)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.where}", error.found, error.accepted) from None
