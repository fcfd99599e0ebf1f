"""CSV files of measurements, line by line: their columns by several names, and what is wrong with a file and line."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pdes.errors import ConfigError
from pdes.files import require_file

MOST_LINES = 200_000
TIMES_PS = {"_s": 10**12, "_ms": 10**9, "_us": 10**6, "_ns": 10**3, "_ps": 1}


class Line(NamedTuple):
    """One measurement. where: file and line, for errors. cells: column to text; empty ones are left out."""

    where: str
    cells: dict[str, str]

    def number(self, column: str, least: float = 0.0) -> float:
        """Above `least`. ConfigError: it is none."""
        return number(self.where, column, self.cells[column], least)

    def time_ps(self, columns: Sequence[str]) -> float | None:
        """Of the first of these columns that has a value; its name says the unit. None: none has one."""
        for column in columns:
            if column in self.cells:
                unit = next(ps for suffix, ps in TIMES_PS.items() if column.endswith(suffix))
                return self.number(column) * unit
        return None


def number(where: str, column: str, text: str, least: float = 0.0) -> float:
    """A finite number above `least`. ConfigError: the text is none."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least < value < math.inf:
        raise ConfigError(f"{where}: {column}", f"found {text[:60]!r}", f"Accepted: a number above {least:g}")
    return value


def timed(stem: str) -> list[str]:
    """Columns for a time, such as iteration_s, iteration_ms, .."""
    return [stem + suffix for suffix in TIMES_PS]


def read_lines(path: Path, aliases: Mapping[str, str], wanted: str) -> list[Line]:
    """The lines of a CSV file. Raises ConfigError.

    aliases: of columns, other name to name. wanted: what it should be.
    """
    found: list[Line] = []
    try:
        with require_file(path).open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, strict=True)
            header = [aliases.get(name.strip().lower(), name.strip()) for name in next(rows, [])]
            twice = sorted({name for name in header if name and header.count(name) > 1})
            if not any(header) or twice:
                what = f"column {', '.join(twice)} is there twice" if twice else "no header"
                raise ConfigError(f"{path}: line 1", what, f"Accepted: {wanted}")
            for cells in rows:
                where = f"{path}: line {rows.line_num}"
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) > len(header) or len(found) >= MOST_LINES:
                    what = "more values than columns" if len(cells) > len(header) else f"more than {MOST_LINES:,} lines"
                    raise ConfigError(where, what, f"Accepted: {wanted}")
                pairs = zip(header, (cell.strip() for cell in cells), strict=False)
                found.append(Line(where, {name: cell for name, cell in pairs if name and cell}))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", f"Accepted: {wanted}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(str(path), f"is not CSV: {error}", f"Accepted: {wanted}") from None
    if not found:
        raise ConfigError(str(path), "has no measurement", f"Accepted: {wanted}")
    return found
