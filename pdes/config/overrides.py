"""Single keys of a config from the command line: `--set table.key=value`."""

from typing import Any

from pdes.config.toml_file import read_value
from pdes.errors import ConfigError
from pdes.units import is_count, shown

ASSIGNMENT = "Accepted: table.key=value, such as simulation.seed=7"


def override(data: dict[str, Any], text: str) -> tuple[str, ...]:
    """Put one "table.key=value" into `data`; return its keys. A value that is not TOML is taken as a string."""
    name, equals, value = text.partition("=")
    where = f"--set {text}"
    if not equals:
        raise ConfigError(where, "is not an assignment", ASSIGNMENT)
    keys = keys_of(name, where, ASSIGNMENT)
    put(data, keys, read_value(value.strip(), f"--set {name.strip()}"), where)
    return keys


def keys_of(name: str, where: str, accepted: str) -> tuple[str, ...]:
    """Of "table.key". where: in an error."""
    keys = tuple(key.strip() for key in name.split("."))
    if len(keys) < 2 or not all(keys):
        raise ConfigError(where, "names no table" if len(keys) == 1 else "is not an assignment", accepted)
    return keys


def put(data: dict[str, Any], keys: tuple[str, ...], value: object, where: str) -> None:
    """Put one value where its keys say; tables are made where they are missing. where: in an error."""
    place: Any = data
    for key in keys[:-1]:
        place = _step(place, key, where)
    if isinstance(place, list):
        raise ConfigError(where, "replaces a whole element of a list", "Accepted: table.key=value")
    place[keys[-1]] = value


def _step(place: Any, key: str, where: str) -> Any:
    """The table or list under `key`, made when missing; list positions count from 0."""
    if isinstance(place, list):
        if is_count(key) and int(key) < len(place):
            return place[int(key)]
        raise ConfigError(where, f"{shown(key)} is no position", f"Accepted: 0 to {len(place) - 1}")
    inner = place.setdefault(key, {})
    if not isinstance(inner, dict | list):
        raise ConfigError(where, f"{shown(key)} is a value, not a table", "Accepted: table.key=value")
    return inner
