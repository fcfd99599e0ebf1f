"""Iteration times on disk: a line for each case, added as it becomes known, shared by runs that use the same file.

A line is JSON with a digest of itself. One that is damaged, cut off or of another version is left out, and its case is
run again; whoever writes appends a whole line under a lock, so nothing that was known is lost.
"""

import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from pdes.errors import ConfigError


class Entry(NamedTuple):
    """What is known of a case. time_ps: of an iteration. how_sure: how far off its runs are known to be."""

    time_ps: int
    how_sure: str


class IterationMemo:
    """By key. path: None for none on disk. n_bad: lines that were left out."""

    def __init__(self, path: Path | None) -> None:
        """ConfigError: the file cannot be read."""
        self.path, self.n_bad = path, 0
        self._known: dict[str, Entry] = {}
        if path is None:
            return
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as error:
            raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a file of iteration times") from error
        for line in filter(None, lines):
            found = _read(line)
            if found is None:
                self.n_bad += 1
            else:
                self._known[found[0]] = found[1]

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Entry | None:
        """What is known."""
        return self._known.get(key)

    def add(self, key: str, about: str, entry: Entry) -> None:
        """Keep it. about: the case, for people. ConfigError: the file cannot be written."""
        self._known[key] = entry
        if self.path is None:
            return
        body = {"key": key, "about": about, "time_ps": entry.time_ps, "how_sure": entry.how_sure}
        line = json.dumps(body | {"digest": _digest(body)}, ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # of a writer that was killed
                        line = "\n" + line
                file.write(line.encode())
        except OSError as error:
            raise ConfigError(str(self.path), f"cannot be written: {error.strerror}", "a file in a folder") from error


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


def _read(line: bytes) -> tuple[str, Entry] | None:
    try:
        body = json.loads(line)
        digest = body.pop("digest")
        if digest != _digest(body) or type(body["time_ps"]) is not int or body["time_ps"] <= 0:
            return None
        return str(body["key"]), Entry(body["time_ps"], str(body["how_sure"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
