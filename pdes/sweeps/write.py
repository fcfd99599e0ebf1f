"""The files of a sweep beside its store: tables, summary, report; each in place whole or not at all."""

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdes.errors import ConfigError
from pdes.sweeps.found import Found
from pdes.sweeps.page import page
from pdes.sweeps.told import facts

RUNS, POINTS, SUMMARY, PAGE = "runs.parquet", "points.parquet", "sweep.json", "report.html"


def write(found: Found) -> Path:
    """All of them; where the report is. ConfigError: they cannot be written."""
    import pyarrow.parquet as pq

    folder = found.sweep.directory
    text = json.dumps(facts(found), indent=1, ensure_ascii=False, default=str) + "\n"
    html = page(found)
    put_file(folder / RUNS, lambda path: pq.write_table(found.runs(), path))
    put_file(folder / POINTS, lambda path: pq.write_table(found.points(), path))
    put_file(folder / SUMMARY, lambda path: path.write_text(text, encoding="utf-8"))
    put_file(folder / PAGE, lambda path: path.write_text(html, encoding="utf-8"))
    return folder / PAGE


def put_file(path: Path, write_to: Callable[[Path], Any]) -> None:
    """In place whole or not at all. ConfigError: it cannot be written."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_to(unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(str(path), f"cannot be written: {error.strerror}", "a folder for results") from error
