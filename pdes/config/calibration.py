"""[simulation] calibration: a file of values that stand wherever the config itself says nothing.

`pdes-sim calibrate` writes it, from measurements. It has tables as a config has them, [calibration] with where its
values come from, and perhaps [alignment] (see `Alignment`).
"""

import copy
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pdes.config.places import Path as KeyPath
from pdes.config.places import lines_of
from pdes.config.toml_file import read_toml
from pdes.errors import ConfigError
from pdes.units import shown

TABLES = ("topology", "network", "workload", "wormhole")  # whose values it may have
FACTS, ALIGNMENT = "calibration", "alignment"
KEY = ("simulation", "calibration")
COEFFICIENTS = ("gpus", "gpus_time", "log_gpus", "inverse_gpus", "time", "constant")


class Alignment(NamedTuple):
    """Arcadia (NSDI'26) section 7.1: a T = gpus N + gpus_time N t + log_gpus ln N + inverse_gpus / N + time t +
    constant, of N GPUs and the simulated seconds t of an iteration. It was fitted to between least and most GPUs."""

    coefficients: tuple[float, ...]
    least_gpus: int
    most_gpus: int

    def aligned_s(self, n_gpu: int, time_s: float) -> float | None:
        """What such an iteration takes in production; None: no measurement was of as many GPUs, or nonsense."""
        if not self.least_gpus <= n_gpu <= self.most_gpus:
            return None
        found = sum(c * x for c, x in zip(self.coefficients, terms(n_gpu, time_s), strict=True))
        return found if found > 0 else None


def terms(n_gpu: float, time_s: float) -> tuple[float, ...]:
    """What each of COEFFICIENTS is multiplied by."""
    return n_gpu, n_gpu * time_s, math.log(n_gpu), 1 / n_gpu, time_s, 1.0


@dataclass
class Calibrated:
    """A config with what its calibration adds. file: None: it names none."""

    data: dict[str, Any]
    file: Path | None = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    added: list[KeyPath] = field(default_factory=list)  # values of the file that stand
    kept: list[KeyPath] = field(default_factory=list)  # keys of which the config has another value
    alignment: Alignment | None = None

    def has(self, path: KeyPath) -> bool:
        """Whether a key, or a table that the config does not have, comes from the file."""
        found: Any = self.data
        for key in path:
            inside = isinstance(found, dict) and key in found
            found = found[key] if inside else None
        is_table = isinstance(found, dict) and not any(kept[: len(path)] == path for kept in self.kept)
        return any(path[: len(leaf)] == leaf or (is_table and leaf[: len(path)] == path) for leaf in self.added)


def with_calibration(data: dict[str, Any], source: Path) -> Calibrated:
    """The tables of a config, with the values of the file that they name. ConfigError: the file has what none may."""
    table = data.get(KEY[0])
    name = table.get(KEY[1]) if isinstance(table, dict) else None
    if not isinstance(name, str) or not name:
        return Calibrated(data)
    path = source.parent / name
    tables, text = read_toml(path)
    _check(path, tables)
    values = {key: value for key, value in tables.items() if key in TABLES}
    found = Calibrated(copy.copy(data), path, lines_of(text), alignment=_alignment(path, tables.get(ALIGNMENT)))
    if isinstance(rows := data.get("job"), list) and "workload" in values:
        own = values.pop("workload")
        found.data["job"] = [_row_with(row, i, own, found) for i, row in enumerate(rows)]
    for key, value in values.items():
        if isinstance(data.get(key, {}), dict):
            found.data[key] = _under(data.get(key, {}), value, (key,), found)
    return found


def _row_with(row: Any, i: int, own: dict[str, Any], found: Calibrated) -> Any:
    """A [[job]] with what the file says of workloads."""
    if not isinstance(row, dict) or not isinstance(row.get("workload"), dict):
        return row
    return row | {"workload": _under(row["workload"], own, ("job", i, "workload"), found)}


def _under(own: dict[str, Any], others: dict[str, Any], path: KeyPath, found: Calibrated) -> dict[str, Any]:
    """A table with what another one has and it does not."""
    merged = dict(own)
    for key, value in others.items():
        place = (*path, key)
        if key not in own:
            merged[key] = value
            found.added += _leaves(value, place)
        elif isinstance(own[key], dict) and isinstance(value, dict):
            merged[key] = _under(own[key], value, place, found)
        elif own[key] != value:
            found.kept.append(place)
    return merged


def _leaves(value: Any, path: KeyPath) -> list[KeyPath]:
    if not isinstance(value, dict) or not value:
        return [path]
    return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]


def _check(path: Path, tables: dict[str, Any]) -> None:
    accepted = f"Accepted: the tables {', '.join((*TABLES, FACTS, ALIGNMENT))}, as pdes-sim calibrate writes them"
    for name, table in tables.items():
        if name not in (*TABLES, FACTS, ALIGNMENT):
            hint = ". A file of calibrate --flow is for [wormhole.flow] calibration" if _is_of_flow_mode(table) else ""
            raise ConfigError(f"{path}: [{name}]", "unknown table", accepted + hint)
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name}", f"found {shown(table)}", accepted)


def _is_of_flow_mode(table: Any) -> bool:
    return isinstance(table, dict) and {"alone", "shared", "queue"} <= set(table)


def _alignment(path: Path, table: dict[str, Any] | None) -> Alignment | None:
    if table is None:
        return None
    names = (*COEFFICIENTS, "least_gpus", "most_gpus")
    for name in [*names, *table]:
        value = table.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name not in names or not is_number:
            found = "is missing" if name not in table else f"found {shown(value)}" if name in names else "unknown key"
            raise ConfigError(f"{path}: [{ALIGNMENT}] {name}", found, f"Accepted: numbers, for {', '.join(names)}")
    least, most = table["least_gpus"], table["most_gpus"]
    if not (isinstance(least, int) and isinstance(most, int) and 1 <= least <= most):
        raise ConfigError(f"{path}: [{ALIGNMENT}] least_gpus", f"found {least} to {most}", "Accepted: whole numbers")
    return Alignment(tuple(float(table[name]) for name in COEFFICIENTS), least, most)
