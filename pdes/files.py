"""Files that a user names: what may never end is refused, and JSON comes with the place where it stops being any.

All that reads such a file reads it through here: a named pipe without a writer or /dev/zero would hold a run up for
good, and Python's parsers give up on deep nesting and on long numbers in ways of their own.
"""

import errno
import gzip
import importlib.util
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pdes.errors import ConfigError
from pdes.units import MAX_DIGITS, is_count, shown

MAX_DEPTH = 64  # of tables in tables; ours have five
DEEP = f"nested more than {MAX_DEPTH} levels deep"
UNREADABLE = "cannot be read: "
LONG_NUMBER = f"a whole number of more than {MAX_DIGITS} digits"
_KINDS = (
    (stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"), (stat.S_ISSOCK, "a socket"),
)  # fmt: skip
_LONG_RUN = re.compile(r"(?<![\w.])[+-]?[0-9][0-9_]{40,}")  # MAX_DIGITS
_BRACKET = re.compile(r"""\"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[\]{}]""")
Place = tuple[str | int, ...]
"""Keys, and positions in lists from 0."""


def require_file(path: str | Path) -> Path:
    """The path, if it is no pipe, device or socket. OSError, whose `strerror` says so: it is one, or is not there."""
    text = _endless(os.stat(path).st_mode)
    if text:
        raise OSError(errno.EINVAL, text, str(path))
    return Path(path)


def missing(path: Path) -> str:
    """What people are told of a path that is no file."""
    text = _endless(path.stat().st_mode) if path.exists() else ""
    return f"{path}: {text}" if text else f"there is no file {path}"


def _endless(mode: int) -> str:
    name = next((name for is_kind, name in _KINDS if is_kind(mode)), None)
    return f"it is {name}, which may never end; write what it holds to a file" if name else ""


def read_bytes(path: str | Path) -> bytes:
    """All of a file. OSError: it cannot be read, or is none."""
    return require_file(path).read_bytes()


def read_text(path: str | Path, encoding: str = "utf-8-sig", errors: str = "strict") -> str:
    """All of a text file. OSError: it cannot be read, or is none; UnicodeDecodeError: it is not text."""
    return require_file(path).read_text(encoding=encoding, errors=errors)


def why_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """What people are told of a file that could not be read as text."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8 text"
    return error.strerror or str(error)


def from_python(path: Path, name: str) -> Any:
    """What a user's Python file calls `name`, None if it has none. ConfigError: it cannot be read, or fails."""
    spec = importlib.util.spec_from_file_location(f"users_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(str(path), f"cannot be read: {type(error).__name__}: {error}", "a Python file") from error
    return getattr(module, name, None)


def whole_within(word: str, most: int, where: str, what: str) -> int:
    """A whole number from 0 to `most`. ConfigError: the word is none. what: the name of the number."""
    if is_count(word) and int(word) <= most:
        return int(word)
    raise ConfigError(where, f"{what} {word[:60]!r}", f"a whole number from 0 to {most}")


def read_zipped(path: str | Path, most: int) -> bytes:
    """All of a file, unzipped if it is gzip's. OSError: it cannot be read; ConfigError: damaged, above `most` bytes."""
    with require_file(path).open("rb") as file:
        is_zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            content = (gzip.GzipFile(fileobj=file) if is_zipped else file).read(most + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ConfigError(str(path), f"is not whole as gzip: {error}", "a whole .gz file, or text") from error
    if len(content) > most:
        raise ConfigError(
            str(path), f"holds more than {most} bytes", "less: a shorter recording, or one iteration of it"
        )
    return content


def read_json(path: str | Path, most: int | None = None, exact: bool = False) -> Any:
    """What a JSON file holds. ConfigError names the file, and the line where it stops being JSON or is too deep.

    most: bytes of a file that may be gzip's. exact: numbers with a point come as the text that they are.
    """
    try:
        text = read_text(path) if most is None else read_zipped(path, most).decode("utf-8-sig")
        value = json.loads(text, parse_float=str if exact else None)
    except OSError as error:
        raise ConfigError(str(path), f"{UNREADABLE}{error.strerror}", "a readable JSON file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}, byte {error.start}", "is not UTF-8 text", "a JSON file") from error
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise ConfigError(where, f"is not JSON: {error.msg}", "a whole JSON file") from error
    except (RecursionError, ValueError) as error:
        raise excess(path, text, error) from error
    for place, found in excesses(value):
        where = f"{path}, key {'.'.join(map(str, place[:8]))}"
        raise ConfigError(where, f"is {found}", "numbers of 64 bits, few levels")
    return value


def excess(path: str | Path, text: str, error: Exception) -> ConfigError:
    """An error with the place of what a parser gave up on: nesting (RecursionError), or digits (ValueError)."""
    if isinstance(error, RecursionError):
        return ConfigError(f"{path}, line {_deep_line(text)}", f"is {DEEP}", f"at most {MAX_DEPTH} levels")
    match = _LONG_RUN.search(text)
    line = 1 + text.count("\n", 0, match.start()) if match else 1
    found = f"{shown(match[0])[:24].strip(chr(34))}..., {LONG_NUMBER}" if match else str(error)
    return ConfigError(f"{path}, line {line}", f"found {found}", "numbers of 64 bits")


def _deep_line(text: str) -> int:
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_DEPTH:
            return 1 + text.count("\n", 0, match.start())
    return 1


def excesses(value: object) -> Iterator[tuple[Place, str]]:
    """(place, what it is) of what is nested too deep, and of whole numbers that are too long to be of any use."""
    open_ones: list[tuple[Place, object]] = [((), value)]
    while open_ones:
        place, one = open_ones.pop()
        if len(place) > MAX_DEPTH:
            yield place, DEEP
        elif isinstance(one, dict | list | tuple):
            for key, inner in one.items() if isinstance(one, dict) else enumerate(one):
                if isinstance(inner, int) and inner.bit_length() > MAX_DIGITS * 10 // 3:
                    yield (*place, key), LONG_NUMBER
                elif isinstance(inner, dict | list | tuple):
                    open_ones.append(((*place, key), inner))
