"""Runs that have ended, in SQLite: each is there whole from the instant that it is added, whatever comes after.

A run's key is a digest of all that it follows from, so a sweep that is changed, killed or given more seeds finds what
it has in common with earlier ones.
"""

import contextlib
import fcntl
import json
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from pdes.errors import ConfigError

FILE, LOCK = "runs.sqlite", ".lock"
DONE, FAILED, REFUSED = "done", "failed", "refused"
_SCHEMA = """
create table if not exists runs (
    key text primary key, point text not null, seed integer not null, status text not null, metrics text not null,
    message text not null, wall_s real not null
) without rowid
"""


class Row(NamedTuple):
    """Of a run. point: its values, as JSON. message: why it failed, "" if it did not. wall_s: what it took."""

    key: str
    point: str
    seed: int
    status: str
    metrics: dict[str, float]
    message: str
    wall_s: float


class Store:
    """In a folder, for one process at a time."""

    def __init__(self, folder: Path) -> None:
        """ConfigError: the folder cannot be written, another sweep is at work in it, or the file is no store."""
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("a")
        except OSError as error:
            raise ConfigError(str(folder), f"cannot be written: {error.strerror}", "a folder for results") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ConfigError(str(folder), "another sweep is at work in it", "another folder, or wait") from error
        try:
            self._base = sqlite3.connect(self.path)
            self._base.execute("pragma synchronous = full")
            self._base.execute(_SCHEMA)
            self._base.commit()
            self._rows = {row.key: row for row in self._read()}
        except (sqlite3.Error, ValueError) as error:
            self.close()
            raise ConfigError(str(self.path), f"is no store of runs: {error}", "move it away") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let others at it."""
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._base.close()
        self._lock.close()

    def get(self, key: str) -> Row | None:
        """What is known of a run."""
        return self._rows.get(key)

    def add(self, *rows: Row) -> None:
        """For good, all of them or none. ConfigError: the disk refuses it."""
        self._rows.update((row.key, row) for row in rows)
        values: list[Any] = [row._replace(metrics=json.dumps(row.metrics)) for row in rows]  # pyright: ignore[reportArgumentType]
        try:
            with self._base:
                self._base.executemany("insert or replace into runs values (?, ?, ?, ?, ?, ?, ?)", values)
        except sqlite3.Error as error:
            raise ConfigError(str(self.path), f"cannot be written: {error}", "a disk with room") from error

    def _read(self) -> list[Row]:
        rows = self._base.execute("select key, point, seed, status, metrics, message, wall_s from runs")
        return [Row(*row)._replace(metrics=json.loads(row[4])) for row in rows]
