"""A result folder, opened to be read: complete, of a version that this one knows, or a message that says why not."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pdes.errors import ConfigError
from pdes.files import UNREADABLE, read_json
from pdes.results.folder import ResultFolder, is_complete
from pdes.units import shown

NEEDED: dict[str, dict[str, type]] = {
    "result.json": {"config": dict, "events": int, "flows": int, "packet_hops": int, "simulated_time_ps": int},
    "run.json": {"ranks": int, "wall_seconds": float},
}
"""Keys without which a file is not ours, or too old, and what they hold."""
KINDS = {"workload": dict, "network": dict, "versions": dict, "iteration_time_ps": list, "slowest_flows": list}
WORDS = {dict: "a table", list: "a list", int: "a whole number", float: "a number"}
_WRONG = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError)
"""What a file that holds something else than a run has left leads to, in whatever reads it."""


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
    return Results(folder, read_facts(folder, "result.json"), read_facts(folder, "run.json"))


@contextlib.contextmanager
def readable(folder: str | Path) -> Iterator[None]:
    """What goes wrong while a folder is read is the folder's fault: a ConfigError that names it."""
    try:
        yield
    except BrokenPipeError:  # of what is printed meanwhile
        raise
    except _WRONG as error:
        found = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        if isinstance(error, TypeError | AttributeError | ArithmeticError | IndexError):
            found = f"a value is not what a run leaves ({found})"
        found = " ".join(found.split()).rstrip(".")
        text = f"the results cannot be read: {found if ' ' in found else f'{found} is missing'}"
        raise ConfigError(str(folder), text, "Run the simulation again with this version") from error


def read_facts(folder: Path, name: str, needed: Sequence[str] | None = None) -> dict[str, Any]:
    """result.json or run.json of a folder. ConfigError: it is none that this version has written.

    needed: keys without which it is of no use, None: all of NEEDED.
    """
    again = "Accepted: a result folder of this version. Run the simulation again"
    try:
        value = read_json(folder / name)
    except ConfigError as error:
        raise ConfigError(
            error.where, f"the results cannot be read: {error.found.removeprefix(UNREADABLE)}", again
        ) from error
    missing = [
        key for key in (NEEDED[name] if needed is None else needed) if not isinstance(value, dict) or key not in value
    ]
    if missing:
        found = f"{name} has no {', '.join(missing)}: another version wrote it, or another program"
        raise ConfigError(str(folder), found, again)
    for key, kind in (NEEDED[name] | KINDS).items():
        is_right = isinstance(value.get(key), (int, float) if kind is float else kind)
        if key in value and (not is_right or isinstance(value[key], bool)):
            raise ConfigError(f"{folder / name}: {key}", f"found {shown(value[key])}, not {WORDS[kind]}", again)
    return value
