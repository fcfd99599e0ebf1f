"""Lines of a trace, one at a time and none longer than a limit: what cannot be read is a finding, never an end."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pdes.convert.cluster.audit import LEFT_OUT, Audit, Finding, quoted
from pdes.convert.cluster.variants import Variants, as_published
from pdes.errors import ConfigError
from pdes.files import require_file

NO_VARIANTS: Variants = {}
MAX_LINE_BYTES = 10**6
HEAD_BYTES = 2**16
MAX_HEAD_LINES = 20
LONG = "line of more than a megabyte"
NO_TEXT = "not UTF-8 text"
BAD_QUOTES = "quotes that are wrong"
OTHER_COLUMNS = "another number of columns"
READABLE = "a trace of jobs that can be read"


class Head(NamedTuple):
    """How a file begins. columns: of its first line, in small letters; lines: the first ones that are whole."""

    text: str
    columns: tuple[str, ...]
    lines: tuple[str, ...]

    def has(self, *names: str) -> bool:
        """Whether the first line names all these columns."""
        return set(names) <= set(self.columns)

    def as_published(self, variants: Variants) -> "Head":
        """The same with columns by the names that the trace was published with."""
        return self._replace(columns=as_published(self.columns, variants))


def read_head(path: Path) -> Head:
    """ConfigError: the file cannot be read."""
    try:
        with require_file(path).open("rb") as file:
            raw = file.read(HEAD_BYTES)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", READABLE) from error
    text = raw.decode("utf-8-sig", errors="replace")
    lines = tuple(line.rstrip("\r") for line in text.split("\n")[:MAX_HEAD_LINES] if line.strip())
    return Head(text, tuple(names_of(lines[0])) if lines else (), lines)


def names_of(line: str) -> list[str]:
    """Names of columns of a header line: in small letters, without quotes and spaces around them."""
    return [word.strip().strip('"').strip().lower() for word in line.split(",")]


def text_lines(path: Path, audit: Audit) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line that holds something. ConfigError: the file cannot be read."""
    try:
        with require_file(path).open("rb") as file:
            number = 0
            while raw := file.readline(MAX_LINE_BYTES):
                number += 1
                if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
                    while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                        pass
                    audit.add(Finding(LONG, path.name, number, "", "", "", LEFT_OUT))
                    continue
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    audit.add(Finding(NO_TEXT, path.name, number, "", "", f"byte {error.start}", LEFT_OUT))
                    continue
                if text and not text.isspace():
                    yield number, text
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", READABLE) from error


def table_lines(path: Path, audit: Audit, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """(line, fields without spaces around them). No field goes over lines: a lone quote would take the file with it."""
    for number, text in text_lines(path, audit):
        words = [text]
        if '"' in text:
            try:
                words = next(csv.reader([text], delimiter=delimiter, strict=True), [])
            except csv.Error as error:
                audit.add(Finding(BAD_QUOTES, path.name, number, "", "", str(error), LEFT_OUT))
                continue
        else:
            words = text.split(delimiter)
        yield number, [word.strip() for word in words]


def records(
    path: Path, audit: Audit, needed: Sequence[str], optional: Sequence[str] = (), variants: Variants = NO_VARIANTS
) -> Iterator[tuple[int, list[str]]]:
    """(line, the fields of `needed` and `optional`, empty where there is no such column) below a header line.

    variants: other names of these columns. ConfigError: there is no header, or it lacks a column.
    """
    lines = table_lines(path, audit)
    _, header = next(lines, (0, []))
    names = as_published([word.lower() for word in header], variants)
    missing = [name for name in needed if name not in names]
    if missing:
        found = f"no column {missing[0]} in {quoted(','.join(names))}"
        raise ConfigError(f"{path}, line 1", found, f"a header line with {', '.join(needed)}")
    at = [names.index(name) if name in names else len(names) for name in (*needed, *optional)]
    yield from _chosen(lines, at, len(names), path, audit)


def bare_records(path: Path, audit: Audit, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of a table whose header may be missing."""
    lines = (one for one in table_lines(path, audit) if [word.lower() for word in one[1]] != list(columns))
    yield from _chosen(lines, list(range(len(columns))), len(columns), path, audit)


def _chosen(
    lines: Iterator[tuple[int, list[str]]], at: list[int], n_column: int, path: Path, audit: Audit
) -> Iterator[tuple[int, list[str]]]:
    for number, words in lines:
        if len(words) != n_column:
            found = f"{len(words)} instead of {n_column}"
            audit.add(Finding(OTHER_COLUMNS, path.name, number, "", "", found, LEFT_OUT))
            continue
        words.append("")  # for columns that there are not
        yield number, [words[k] for k in at]
