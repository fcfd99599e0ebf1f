"""Communicator groups of a Chakra trace: a JSON file `{"<name>": [ranks...]}`, which nodes name in `pg_name`."""

import json
from pathlib import Path

from pdes.errors import ConfigError
from pdes.files import read_json


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
