"""A result folder, opened to be read: complete, of a version that this one knows, or a message that says why not."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pdes.errors import ConfigError
from pdes.results.folder import ResultFolder, is_complete

NEEDED = {
    "result.json": ("config", "events", "flows", "packet_hops", "simulated_time_ps"),
    "run.json": ("ranks", "wall_seconds"),
}
"""Keys without which a file is not ours, or too old."""


class Results(NamedTuple):
    """One run's results."""

    folder: Path
    result: dict[str, Any]
    run: dict[str, Any]


def open_results(directory: str | Path) -> Results:
    """Open a result folder; an interrupted commit of its run is finished first. ConfigError: it cannot be read."""
    folder = Path(directory)
    if not folder.is_dir():
        raise ConfigError(str(folder), "is not a folder", "Accepted: a result folder, as --out names it")
    if not is_complete(folder):
        ResultFolder(folder).finish_interrupted_commit()
    if not is_complete(folder):
        accepted = "Name a folder that holds result.json, which a run writes last"
        raise ConfigError(str(folder), "no complete result here", accepted)
    with readable(folder):
        result, run = (_read(folder / name) for name in NEEDED)
    return Results(folder, result, run)


@contextlib.contextmanager
def readable(folder: Path) -> Iterator[None]:
    """What goes wrong while a folder is read is the folder's fault: a ConfigError that names it."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        found = str(error.args[0]) if isinstance(error, KeyError) else str(error)
        text = f"the results cannot be read: {found if ' ' in found else f'{found} is missing'}"
        raise ConfigError(str(folder), text, "Run the simulation again with this version") from error


def _read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    missing = [key for key in NEEDED[path.name] if not isinstance(value, dict) or key not in value]
    if missing:
        found = f"{path.name} has no {', '.join(missing)}: another version wrote it, or another program"
        accepted = "Accepted: a result folder of this version. Run the simulation again"
        raise ConfigError(str(path.parent), found, accepted)
    return value
