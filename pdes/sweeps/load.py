"""A sweep from its file, or from Python values, to the runs that it asks for; all that can be wrong is said here."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from pdes.config.faults import faults_of, report
from pdes.config.overrides import keys_of, override, put
from pdes.config.places import lines_of
from pdes.config.sweep import MOST_RUNS, SweepConfig, SweepFile
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.sweeps.design import Axis, Point, axes_of, points_of
from pdes.sweeps.expression import Expression
from pdes.sweeps.metrics import Metric, chosen, metrics_of
from pdes.units import shown

File = TypeVar("File", bound=BaseModel)
ACCEPTED = "Accepted: table.key of the config, such as network.congestion_control"


class Sweep(NamedTuple):
    """base: the config's tables, with `set`. source: its file. wanted: metrics by name, [] for what the runs have.

    known: all metrics that are measured. directory: where all of it goes. where: the sweep's own file.
    """

    config: SweepConfig
    base: dict[str, Any]
    source: Path
    axes: list[Axis]
    points: list[Point]
    seeds: list[int]
    known: list[Metric]
    wanted: list[Metric]
    directory: Path
    where: str

    @property
    def is_cluster(self) -> bool:
        """Jobs on a cluster, not packets."""
        return "cluster" in self.base

    @property
    def seed_keys(self) -> tuple[str, str]:
        """Where the seed is."""
        return ("cluster" if self.is_cluster else "simulation"), "seed"

    def tables(self, point: Point, seed: int) -> dict[str, Any]:
        """The config of one run. ConfigError: an axis has no place in it."""
        data = copy.deepcopy(self.base)
        for axis, value in zip(self.axes, point, strict=True):
            for key, own in axis.items(value):
                put(data, tuple(key.split(".")), copy.deepcopy(own), f"{self.where}: {key}")
        put(data, self.seed_keys, seed, f"{self.where}: seed")
        return data

    def overridden(self) -> set[tuple[str, ...]]:
        """Keys that the sweep sets."""
        return {tuple(key.split(".")) for axis in self.axes for key in axis.keys} | {self.seed_keys}


def load_sweep(path: str | Path, out: str | Path | None = None, overrides: list[str] | None = None) -> Sweep:
    """From a file. overrides: "sweep.seeds=5", as after --set. Raises ConfigError."""
    source = Path(path)
    data, text = read_toml(source)
    overridden = {override(data, word) for word in overrides or []}
    config = checked_file(SweepFile, data, source, overridden, lines_of(text)).sweep
    base_path = source.parent / config.config
    base, _ = read_toml(base_path)
    directory = Path(out or config.dir or Path("results") / source.stem)
    return make_sweep(config, base, base_path, directory, source)


def checked_file(
    kind: type[File], data: dict[str, Any], source: Path, overridden: set[tuple[str, ...]], lines: Any
) -> File:  # fmt: skip
    """A file of one table, or what stands for one. Raises ConfigError."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        faults = [fault._replace(path=fault.path[1:]) for fault in faults_of(error, kind, "")]
        raise report(source, faults, overridden, lines) from error


def sweep_of(
    base: Mapping[str, Any], source: Path, axes: Mapping[str, Any], out: str | Path, more: Mapping[str, Any]
) -> Sweep:  # fmt: skip
    """From Python values. axes: by key, or by several with a comma between, lists or tables as [[sweep.axis]].

    more: keys of [sweep].
    """
    where, data = Path("sweep"), {"sweep": {"config": str(source), "axis": rows_of(axes)} | dict(more)}
    config = checked_file(SweepFile, data, where, set(), {}).sweep
    return make_sweep(config, copy.deepcopy(dict(base)), source, Path(out), where)


def rows_of(axes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """[[sweep.axis]] tables of values by key, or by "key, key" of lists of values for both."""
    rows = []
    for key, values in axes.items():
        keys = [part.strip() for part in key.split(",")]
        own = dict(values) if isinstance(values, Mapping) else {"values": list(values)}
        if len(keys) > 1 and "values" in own:
            own["values"] = [list(value) for value in own["values"]]
        rows.append({"key": keys if len(keys) > 1 else keys[0]} | own)
    return rows


def make_sweep(config: SweepConfig, base: dict[str, Any], base_path: Path, directory: Path, source: Path) -> Sweep:
    """With its points. ConfigError: something is wrong."""
    where = str(source)
    for key, value in config.set.items():
        put(base, keys_of(key, f"{where}: [sweep] set", ACCEPTED), value, f"{where}: [sweep] set, {key}")
    axes = axes_of(config, where)
    for axis in axes:
        for key in axis.keys:
            keys_of(key, f"{where}: [[sweep.axis]]", ACCEPTED)
    expressions = [Expression(text, f"{where}: [sweep] where {i + 1}") for i, text in enumerate(config.where)]

    def accepts(point: Point) -> bool:
        values = {key: own for axis, value in zip(axes, point, strict=True) for key, own in axis.items(value)}
        return all(each.holds(lambda key: values[key] if key in values else _in(base, key)) for each in expressions)

    points = points_of(config, axes, accepts, where)
    known = metrics_of(config.metric, "cluster" in base, source.parent, where)
    wanted = chosen([*config.metrics, *([m.name for m in config.metric] if not config.metrics else [])], known, where)
    sweep = Sweep(config, base, base_path, axes, points, [], known, wanted, directory, where)
    seeds = config.seeds
    if isinstance(seeds, int):
        first = base.get(sweep.seed_keys[0], {}).get("seed", 1)
        if not isinstance(first, int):
            raise ConfigError(f"{base_path}: seed", f"found {shown(first)}", "a whole number")
        seeds = list(range(first, first + seeds))
    if len(points) * len(seeds) > MOST_RUNS:
        raise ConfigError(f"{where}: [sweep]", f"{len(points):,} points of {len(seeds):,} seeds", f"{MOST_RUNS:,} runs")
    return sweep._replace(seeds=list(dict.fromkeys(seeds)))


def _in(data: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(data, Mapping) or part not in data:
            raise KeyError(key)
        data = data[part]
    return data


def label(value: Any) -> str:
    """Of an axis, for people."""
    if isinstance(value, tuple):
        return "/".join(map(label, value))
    return value if isinstance(value, str) else json.dumps(value, default=str)
