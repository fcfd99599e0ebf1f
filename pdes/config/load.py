"""Reading a config file: TOML, then overrides of single keys, then every table by itself, then all of them together."""

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pdes.config.checks import cross_faults
from pdes.config.faults import faults_of, nearest, report
from pdes.config.fields import Fault, Table
from pdes.config.network import NetworkConfig
from pdes.config.root import Config
from pdes.config.sections import (
    CheckpointConfig,
    OutputConfig,
    PartitionConfig,
    RunConfig,
    SimulationConfig,
    WormholeConfig,
)
from pdes.config.topology import TOPOLOGY_KINDS
from pdes.config.workload import WORKLOAD_KINDS
from pdes.errors import ConfigError
from pdes.units import shown

_PLAIN_TABLES: dict[str, type[Table]] = {
    "simulation": SimulationConfig,
    "network": NetworkConfig,
    "partition": PartitionConfig,
    "wormhole": WormholeConfig,
    "checkpoint": CheckpointConfig,
    "run": RunConfig,
    "output": OutputConfig,
}
_KIND_TABLES = {"topology": TOPOLOGY_KINDS, "workload": WORKLOAD_KINDS}


def load_config(path: str | Path, overrides: list[str] | None = None) -> Config:
    """Read, override and check a config. overrides: "table.key=value", as after --set.

    Raises one ConfigError that lists every fault: file, table and key, what was found, what is accepted.
    """
    source = Path(path)
    data = _read_toml(source)
    overridden = {_override(data, text) for text in overrides or []}
    return config_from_dict(data, source, overridden)


def config_from_dict(
    data: dict[str, Any], source: Path = Path("config.toml"), overridden: set[tuple[str, ...]] | None = None
) -> Config:
    """Check tables as TOML gives them. source: for texts and relative file names. Raises ConfigError as load_config."""
    names = [*_KIND_TABLES, *_PLAIN_TABLES]
    faults = [Fault((name,), "unknown table", nearest(name, names)) for name in data if name not in names]
    tables: dict[str, Table] = {}
    for name in names:
        faults += _check_table(name, data, tables)
    faults += cross_faults(tables, source.parent)
    if faults:
        raise report(source, faults, overridden or set())
    config = Config(**tables)  # pyright: ignore[reportArgumentType]
    config._source = source
    return config


def _read_toml(source: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(source.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(str(source), f"cannot be read: {error.strerror}", "Accepted: a TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: byte {error.start}", "is not UTF-8 text", "Accepted: a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        place = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", str(error), re.DOTALL)
        if place is None:
            raise ConfigError(str(source), f"is not TOML: {error}") from error
        text, line, column, _end = place.groups()
        where = f"{source}: line {line}, column {column}" if line else f"{source}: end of file"
        raise ConfigError(where, f"is not TOML: {text}", 'Accepted: lines such as link_rate = "100Gbps"') from error


def _override(data: dict[str, Any], text: str) -> tuple[str, ...]:
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
    place[keys[-1]] = _value(value.strip())
    return keys


def _step(place: Any, key: str, text: str) -> Any:
    """The table or list under `key`, made when missing; list positions count from 0."""
    if isinstance(place, list):
        if key.isascii() and key.isdigit() and int(key) < len(place):
            return place[int(key)]
        raise ConfigError(f"--set {text}", f"{shown(key)} is no position", f"Accepted: 0 to {len(place) - 1}")
    inner = place.setdefault(key, {})
    if not isinstance(inner, dict | list):
        raise ConfigError(f"--set {text}", f"{shown(key)} is a value, not a table", "Accepted: table.key=value")
    return inner


def _value(text: str) -> object:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text


def _check_table(name: str, data: dict[str, Any], tables: dict[str, Table]) -> list[Fault]:
    """Validate one table; put it into `tables` if it is right, else return its faults."""
    content = data.get(name, {} if name in _PLAIN_TABLES else None)
    if content is None:
        return [Fault((name,), "this table is missing", _kind_choice(name))]
    if not isinstance(content, dict):
        return [Fault((name,), f"found {shown(content)}", f"Accepted: a table, [{name}]")]
    table = _PLAIN_TABLES.get(name) or _KIND_TABLES[name].get(str(content.get("kind")))
    if table is None:
        found = f"found {shown(content['kind'])}" if "kind" in content else "missing, and it has no default"
        return [Fault((name, "kind"), found, _kind_choice(name))]
    try:
        tables[name] = table.model_validate(content)
    except ValidationError as error:
        return faults_of(error, table, name)
    return []


def _kind_choice(name: str) -> str:
    return "Accepted: kind = " + ", ".join(shown(kind) for kind in _KIND_TABLES[name])
