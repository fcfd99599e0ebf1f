"""ASTRA-sim's system file (JSON): by which algorithm collectives are done on each dimension, and in how many parts.

What else it says is not modelled: endpoint delay, the memory that a reduction goes through (local-mem-bw), the order in
which parts of several collectives share a dimension. Parts of one collective go one after the other.
"""

from pathlib import Path
from typing import Any

from models.workload.trace.collectives import ALGORITHMS, CollectiveRules
from pdes.errors import ConfigError
from pdes.files import read_json

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
SAME_AS = {"oneRing": "ring", "oneDirect": "direct", "oneHalvingDoubling": "halvingDoubling"}
CHUNKS = "preferred-dataset-splits"


def read_system(path: Path, dimensions: tuple[int, ...]) -> CollectiveRules:
    """Rules of a system file. ConfigError names the key."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ConfigError(str(path), "is no JSON object", "an ASTRA-sim system file")
    algorithm = tuple((name, _algorithms(path, content, name)) for name in OPERATIONS)
    n_chunk = content.get(CHUNKS, 1)
    if type(n_chunk) is not int or n_chunk < 1:
        raise ConfigError(f"{path}, {CHUNKS}", f"found {n_chunk!r}", "a whole number from 1 on")
    return CollectiveRules(dimensions, algorithm, n_chunk)


def _algorithms(path: Path, content: dict[str, Any], operation: str) -> tuple[str, ...]:
    key = f"{operation}-implementation"
    if f"{key}-custom" in content:
        accepted = "the custom collective's own Chakra trace as the workload"
        raise ConfigError(f"{path}, {key}-custom", "a collective of one's own", accepted)
    names = content.get(key, ["ring"])
    names = [SAME_AS.get(str(name), str(name)) for name in (names if isinstance(names, list) else [names])]
    for name in names:
        if name not in ALGORITHMS:
            raise ConfigError(f"{path}, {key}", f'found "{name}"', ", ".join([*ALGORITHMS, *SAME_AS]))
    return tuple(names)
