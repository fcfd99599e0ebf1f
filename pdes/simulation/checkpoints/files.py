"""The files of a checkpoint that are objects of ours, each of them read for itself."""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from pdes.engine import pickled
from pdes.engine.checkpoint_folder import open_file
from pdes.errors import ConfigError

SCENARIO, ALIKE = "scenario", "alike"


def own_file(rank: int) -> str:
    """The name of what one rank had."""
    return f"rank{rank}"


def read_part(path: Path, name: str) -> Any:
    """What a file of a checkpoint has. ConfigError: this program cannot read it."""
    try:
        with open_file(path, name) as stream:
            return pickled.load(stream)
    except (UnpicklingError, EOFError, ImportError, AttributeError) as error:
        found = f"{name} cannot be read: {error}"
        raise ConfigError(f"--resume {path}", found, "Accepted: a checkpoint that this version has written") from error
