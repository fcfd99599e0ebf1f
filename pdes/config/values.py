"""A config from Python values, without a file: the same tables, keys, units and checks as in TOML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdes.config.load import config_from_dict
from pdes.config.root import Config


def make_config(tables: Mapping[str, Any] | None = None, /, *, folder: str | Path = ".", **more: Any) -> Config:
    """A checked config of nested tables, given as a dict, as keywords, or both: keywords come on top, key by key.

    `make_config(topology={"kind": "fat-tree", "k": 4}, workload={...})`. folder: what file names are relative to.
    Raises ConfigError with every fault.
    """
    data = _copied(dict(tables or {}))
    _put_on_top(data, _copied(more))
    return config_from_dict(data, Path(folder) / "config")


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list | tuple) else value


def _put_on_top(data: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(data.get(key), dict):
            _put_on_top(data[key], value)
        else:
            data[key] = value
