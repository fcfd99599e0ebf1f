"""A config as TOML text, and its file: whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from pdes.errors import ConfigError

Tables = dict[str, dict[str, object] | list[dict[str, object]]]
"""Tables by name, in order; a list is an array of tables. Empty ones are left out."""


def toml_text(head: str, tables: Tables) -> str:
    """The text of a config file. head: its first line, a comment."""
    lines = [f"# {head}"]
    for name, content in tables.items():
        rows, title = (content, f"[[{name}]]") if isinstance(content, list) else ([content], f"[{name}]")
        for table in rows:
            if table:
                lines += ["", title, *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_whole(target: Path, text: str) -> None:
    """Write the whole file or nothing. ConfigError: it cannot be written."""
    with whole_file(target) as file:
        file.write(text)


@contextmanager
def whole_file(target: Path) -> Iterator[TextIO]:
    """A file to write to, line ends as they are: it takes its name when all is written. ConfigError: it cannot be."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield file
        unfinished.replace(target)
    except OSError as error:
        accepted = "Accepted: a file name in a folder that can be written"
        raise ConfigError(str(target), f"cannot be written: {error.strerror}", accepted) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
