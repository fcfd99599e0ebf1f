"""Communicator groups of a Chakra trace: a JSON file `{"<name>": [ranks...]}`, which nodes name in `pg_name`."""

import json
from pathlib import Path

from pdes.errors import ConfigError


def read_json(path: Path) -> object:
    """A JSON file. ConfigError names the line where it stops being one."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a readable JSON file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}, byte {error.start}", "is not UTF-8 text", "a JSON file") from error
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise ConfigError(where, f"is not JSON: {error.msg}", "a whole JSON file") from error


def read_communicators(path: Path) -> dict[str, tuple[int, ...]]:
    """Ranks of every communicator by name."""
    content = read_json(path)
    accepted = 'a JSON object such as {"1": [0, 1], "2": [2, 3]}'
    if not isinstance(content, dict):
        raise ConfigError(str(path), "is no JSON object", accepted)
    groups = {}
    for name, ranks in content.items():
        if not isinstance(ranks, list) or any(type(rank) is not int for rank in ranks):
            raise ConfigError(f"{path}, communicator {name}", f"found {json.dumps(ranks)[:60]}", accepted)
        groups[name] = tuple(ranks)
    return groups
