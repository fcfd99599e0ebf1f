"""Parameters of a control: from its class and [network.<name>] to one record per line rate."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.congestion.interface import REFERENCE_RATE_BPS, Scaled
from pdes.engine.jit import record
from pdes.errors import ConfigError, closest
from pdes.units import MAX_INT64, QuantityError, parse_duration_ps, parse_rate_bps, parse_size_bytes, shown

_PARSERS = {"_ps": parse_duration_ps, "_bytes": parse_size_bytes, "_bps": parse_rate_bps}


def nearest(word: str, known: Sequence[str]) -> str:
    """Advice for an unknown name: the known one most like it, or all of them when none is alike."""
    close = closest(word, known)
    return f'Did you mean "{close}"?' if close else f"Known: {', '.join(sorted(known)) or 'none'}"


def unit_of(name: str, default: Any) -> str:
    """The suffix that makes a parameter a quantity: "_ps", "_bytes", "_bps", or "" for a plain number."""
    value = default.at_100g if isinstance(default, Scaled) else default
    if isinstance(value, (bool, float)):
        return ""
    return next((unit for unit in _PARSERS if name.endswith(unit)), "")


def key_of(name: str, default: Any) -> str:
    """What a config calls a parameter: `min_rate = "1Gbps"` for min_rate_bps."""
    return name.removesuffix(unit_of(name, default))


def default_value(name: str, default: Any) -> int | float | Scaled:
    """A default of the class, parsed. Raises QuantityError or TypeError."""
    if isinstance(default, Scaled):
        inner = default_value(name, default.at_100g)
        assert not isinstance(inner, Scaled)
        return Scaled(inner)
    if isinstance(default, str):
        unit = unit_of(name, default)
        if not unit:
            raise TypeError(f"text needs a name that ends in {', '.join(_PARSERS)}")
        return _PARSERS[unit](default)
    if isinstance(default, (bool, np.bool_)):
        return int(default)
    if isinstance(default, (int, np.integer)):
        return int(default)
    if isinstance(default, (float, np.floating)):
        return float(default)
    raise TypeError(f"found {type(default).__name__}; a parameter is an int, a float, a bool, text or scaled()")


def given_value(where: str, name: str, default: Any, value: object) -> int | float:
    """A value of the config, in the inner unit. Raises ConfigError that names the key."""
    plain = default.at_100g if isinstance(default, Scaled) else default
    unit = unit_of(name, default)
    if unit:
        try:
            return _PARSERS[unit](value)
        except QuantityError as error:
            raise ConfigError(where, error.found, error.accepted) from None
    if isinstance(plain, bool):
        if isinstance(value, bool):
            return int(value)
        raise ConfigError(where, f"found {shown(value)}", "true or false")
    if isinstance(plain, int) and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) <= MAX_INT64:
            return value
        raise ConfigError(where, f"found {shown(value)}", "a whole number of at most 63 bits")
    if isinstance(plain, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
    raise ConfigError(where, f"found {shown(value)}", "a whole number" if isinstance(plain, int) else "a finite number")


def parameter_values(control: type, table: str, given: dict[str, Any], constants: str) -> dict[str, Any]:
    """Name to value, int, float or Scaled, of all parameters. given: the table [network.<name>] without `constants`.

    constants: "default" or one of the class's `papers`. A given value holds as it is for every line rate. Raises
    ConfigError: an unknown name, a value of the wrong type or out of the class's `limits`.
    """
    papers = getattr(control, "papers", {})
    if constants not in ("default", *papers):
        advice = nearest(constants, ["default", *papers])
        raise ConfigError(f"[{table}] constants", f"found {shown(constants)}", advice)
    defaults = dict(getattr(control, "parameters", {}))
    names = {key_of(name, default): name for name, default in defaults.items()}
    values = {name: default_value(name, default) for name, default in defaults.items()}
    values |= {name: default_value(name, value) for name, value in papers.get(constants, {}).items()}
    for key, value in given.items():
        name = names.get(key, key)
        where = f"[{table}] {key}"
        if name not in defaults:
            raise ConfigError(where, "unknown key", nearest(key, list(names)))
        if value == "auto":
            continue
        values[name] = inner = given_value(where, name, defaults[name], value)
        _check_limits(where, name, defaults[name], inner, getattr(control, "limits", {}))
    return values


def _check_limits(where: str, name: str, default: Any, value: float, limits: dict[str, tuple[Any, Any]]) -> None:
    """limits: name to (least, most), both included; numbers in the inner unit, or quantity text; None: no bound."""
    least, most = (_inner(name, bound) for bound in limits.get(name, (None, None)))
    if (least is not None and value < least) or (most is not None and value > most):
        texts = [
            f"{text} {shown(bound)}"
            for text, bound in zip(("at least", "at most"), limits[name], strict=True)
            if bound is not None
        ]
        unit = unit_of(name, default).removeprefix("_").replace("bps", "bit/s")
        raise ConfigError(where, f"found {value} {unit}".rstrip(), " and ".join(texts))


def _inner(name: str, bound: Any) -> int | float | None:
    """A limit in the inner unit."""
    value = None if bound is None else default_value(name, bound)
    assert not isinstance(value, Scaled)
    return value


def parameter_dtype(control: type) -> np.dtype:
    """The record that handlers get as their third argument; one unused word if there are no parameters."""
    defaults = getattr(control, "parameters", {})
    fields = [
        (name, np.float64 if _is_float(default_value(name, value)) else np.int64) for name, value in defaults.items()
    ]
    return record(fields or [("unused", np.int64)])


def make_parameters(control: type, values: dict[str, Any], line_rates_bps: Sequence[int]) -> np.ndarray:
    """One record per line rate, with scaled values resolved, whole units rounded down."""
    records = np.zeros(len(line_rates_bps), parameter_dtype(control))
    for i, line_rate_bps in enumerate(line_rates_bps):
        for name, value in values.items():
            records[name][i] = _resolve(value, int(line_rate_bps))
    return records


def _resolve(value: int | float | Scaled, line_rate_bps: int) -> int | float:
    if not isinstance(value, Scaled):
        return value
    at_100g = value.at_100g
    assert not isinstance(at_100g, str)
    if isinstance(at_100g, float):
        return at_100g * line_rate_bps / REFERENCE_RATE_BPS
    return at_100g * line_rate_bps // REFERENCE_RATE_BPS


def _is_float(value: int | float | Scaled) -> bool:
    return isinstance(value.at_100g if isinstance(value, Scaled) else value, float)
