"""The file that a calibration ends in: tables of a config, and where they come from."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdes.calibrating.run import Found, facts
from pdes.config.calibration import ALIGNMENT, FACTS
from pdes.convert.toml_text import toml_text, write_whole
from pdes.simulation.versions import version_of

HEAD = """\
Measured values. Made by: {command}
# They stand wherever a config that names this file says nothing: [simulation] calibration = "{name}"
# Errors are means of absolute relative ones; held_out: of measurements that the fit did not know."""


def text_of(found: Sequence[Found], words: Sequence[str], name: str) -> str:
    """The file. words: of the command, after its name."""
    tables: dict[str, Any] = {FACTS: {"version": version_of("pdes-sim")}}
    tables[f"{FACTS}.source"] = [facts(one) for one in found]
    for one in found:
        for key, table in one.tables.items():
            before = tables.get(key, {})
            tables[key] = before | table if isinstance(table, dict) else table
        if one.aligned is not None:
            tables[ALIGNMENT] = one.aligned.table()
    return toml_text(HEAD.format(command=f"pdes-sim calibrate {shlex.join(words)}", name=name), tables)


def write(found: Sequence[Found], words: Sequence[str], target: Path) -> None:
    """Whole or not at all. Raises ConfigError."""
    write_whole(target, text_of(found, words, target.name))
