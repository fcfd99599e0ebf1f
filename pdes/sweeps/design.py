"""The points of a sweep: all combinations of its axes, points that are drawn, or a Latin hypercube of them.

A Latin hypercube (McKay, Beckman and Conover, Technometrics 1979) has one point in each of n equally likely parts of
every axis. What a constraint refuses is left out there, and drawn again in a random design.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pdes.config.sweep import MOST_RUNS, AxisConfig, SweepConfig
from pdes.errors import ConfigError
from pdes.units import shown

_QUANTITY = re.compile(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z/]*)\s*")
MOST_DRAWS = 1000  # for each point that is wanted
Point = tuple[Any, ...]
"""A value for each axis; a tuple of values where an axis has several keys."""


class Axis(NamedTuple):
    """keys: of the config. at: the value at 0 <= u < 1, for points that are drawn."""

    name: str
    keys: tuple[str, ...]
    values: list[Any]
    at: Callable[[float], Any]

    def items(self, value: Any) -> Iterator[tuple[str, Any]]:
        """(key, value) of what it takes."""
        yield from zip(self.keys, value if len(self.keys) > 1 else (value,), strict=True)


def axes_of(config: SweepConfig, where: str) -> list[Axis]:
    """The axes. ConfigError: a range is none, or two axes have a key or a name in common."""
    axes = [_axis(axis, f"{where}: [[sweep.axis]] {i + 1}") for i, axis in enumerate(config.axis)]
    for what in ([name for axis in axes for name in axis.keys], [axis.name for axis in axes]):
        twice = sorted({name for name in what if what.count(name) > 1})
        if twice:
            found = f"two axes have {', '.join(twice)}"
            raise ConfigError(f"{where}: [[sweep.axis]]", found, "each key in one axis, and a name for each")
    return axes


def _axis(config: AxisConfig, where: str) -> Axis:
    keys = tuple(config.key) if isinstance(config.key, list) else (config.key,)
    name = config.name or ", ".join(key.rsplit(".", 1)[-1] for key in keys)
    if config.values is not None:
        values = [tuple(value) if len(keys) > 1 else value for value in config.values]
        return Axis(name, keys, values, lambda u: values[min(int(u * len(values)), len(values) - 1)])
    at = _range(config, where)
    n = config.count or 0
    steps = [at(k / (n - 1) if n > 1 else 0.0) for k in range(n)]
    return Axis(name, keys, list(dict.fromkeys(steps)), at)


def _range(config: AxisConfig, where: str) -> Callable[[float], Any]:
    (low, unit), (high, other) = (_parted(value, where) for value in (config.low, config.high))
    if unit != other:
        raise ConfigError(where, f"from {shown(config.low)} to {shown(config.high)}", "both in the same unit")
    if not low < high or (config.scale == "log" and low <= 0):
        accepted = 'a range upwards; with scale = "log" from above zero'
        raise ConfigError(where, f"from {shown(config.low)} to {shown(config.high)}", accepted)
    is_whole = isinstance(config.low, int) and isinstance(config.high, int)

    def at(u: float) -> Any:
        value = low * (high / low) ** u if config.scale == "log" else low + (high - low) * u
        if unit:
            return f"{value:.9g}{unit}"
        return round(value) if is_whole else float(f"{value:.9g}")

    return at


def _parted(value: object, where: str) -> tuple[float, str]:
    """(number, unit)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    match = _QUANTITY.fullmatch(str(value))
    try:
        if match is not None and math.isfinite(number := float(match[1])):
            return number, match[2]
    except ValueError:
        pass
    raise ConfigError(where, f"found {shown(value)}", 'a number, or a quantity such as "100Gbps"')


def number_of(value: object) -> float | None:
    """What a value is on a scale: a number, or the number of a quantity in its unit's base; None: a word."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    from pdes.units import QuantityError, parse_duration_ps, parse_rate_bps, parse_size_bytes

    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        for parse in (parse_rate_bps, parse_duration_ps, parse_size_bytes):
            try:
                return float(parse(value))
            except (QuantityError, ValueError):
                continue
    return None


def points_of(
    config: SweepConfig, axes: Sequence[Axis], accepts: Callable[[Point], bool], where: str
) -> list[Point]:  # fmt: skip
    """In a fixed order, each once. accepts: what the constraints say. ConfigError: there are none, or too many."""
    if config.design == "grid":
        n = math.prod(len(axis.values) for axis in axes)
        if n > MOST_RUNS:
            raise ConfigError(f"{where}: [sweep]", f"a grid of {n:,} points", f"at most {MOST_RUNS:,}, or a draw")
        found = [point for point in product(*(axis.values for axis in axes)) if accepts(point)]
    else:
        assert config.points is not None
        draw = np.random.Generator(np.random.PCG64(config.draw))
        drawn = _random(config.points, len(axes), draw)
        if config.design == "latin-hypercube":
            drawn = iter(_latin(config.points, len(axes), draw))
        points = (tuple(axis.at(float(u)) for axis, u in zip(axes, row, strict=True)) for row in drawn)
        found = _first(config.points, (point for point in points if accepts(point)))
    unique = list({json.dumps(point, default=str): point for point in found}.values())
    if not unique:
        raise ConfigError(f"{where}: [sweep] where", "no point is left", "constraints that some points meet")
    return unique


def _first(n: int, points: Iterator[Point]) -> list[Point]:
    return [point for _, point in zip(range(n), points, strict=False)]


def _random(n: int, n_axis: int, draw: np.random.Generator) -> Iterator[np.ndarray]:
    for _ in range(MOST_DRAWS * n):
        yield draw.random(n_axis)


def _latin(n: int, n_axis: int, draw: np.random.Generator) -> np.ndarray:
    """float64[n, n_axis]"""
    parts = np.stack([draw.permutation(n) for _ in range(n_axis)], axis=1)
    return (parts + draw.random((n, n_axis))) / n
