"""Single keys of a config from the command line: `--set table.key=value`."""

from typing import Any

from pdes.config.toml_file import read_value
from pdes.errors import ConfigError
from pdes.units import is_count, shown


def override(data: dict[str, Any], text: str) -> tuple[str, ...]:
    """Put one "table.key=value" into `data`; return its keys. A value that is not TOML is taken as a string."""
    name, equals, value = text.partition("=")
    keys = tuple(key.strip() for key in name.split("."))
    if not equals or len(keys) < 2 or not all(keys):
        found = "names no table" if equals and len(keys) == 1 else "is not an assignment"
        raise ConfigError(f"--set {text}", found, "Accepted: table.key=value, such as simulation.seed=7")
    place: Any = data
    for key in keys[:-1]:
        place = _step(place, key, text)
    if isinstance(place, list):
        raise ConfigError(f"--set {text}", "replaces a whole element of a list", "Accepted: table.key=value")
    place[keys[-1]] = read_value(value.strip(), f"--set {name.strip()}")
    return keys


def _step(place: Any, key: str, text: str) -> Any:
    """The table or list under `key`, made when missing; list positions count from 0."""
    if isinstance(place, list):
        if is_count(key) and int(key) < len(place):
            return place[int(key)]
        raise ConfigError(f"--set {text}", f"{shown(key)} is no position", f"Accepted: 0 to {len(place) - 1}")
    inner = place.setdefault(key, {})
    if not isinstance(inner, dict | list):
        raise ConfigError(f"--set {text}", f"{shown(key)} is a value, not a table", "Accepted: table.key=value")
    return inner
