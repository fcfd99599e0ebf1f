"""Two result folders, row by row: which rows of which tables differ, and which is the first in simulated time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pdes.errors import ConfigError
from pdes.results.arrow import as_int64, taken, whole_numbers
from pdes.results.folder import ResultFolder, is_complete
from pdes.results.tables import COLUMNS, open_table

KEYS = {  # what tells a row from all others; of a trace, its place
    "trace": (), "tasks": ("task_id",), "flows": ("flow_id",), "rtt": ("flow_id", "sequence"),
    "samples_flows": ("time_ps", "flow_id"), "samples_ports": ("time_ps", "port_id"), "partitions": ("time_ps",),
    "breakdown": ("row_id",), "ports": ("port_id",),
}  # fmt: skip
TIMES = ("time_ps", "sent_ps", "start_ps", "delivered_ps", "finish_ps", "end_ps")
NEVER_PS = 2**63 - 1
Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A row that is not the same in both. a, b: None where it is missing. time_ps: NEVER_PS for totals of a run."""

    table: str
    time_ps: int
    key: Row
    a: Row | None
    b: Row | None

    @property
    def columns(self) -> list[str]:
        """Those that differ; none if a row is missing."""
        if self.a is None or self.b is None:
            return []
        return [name for name in self.a if self.a[name] != self.b[name]]


@dataclass(frozen=True)
class Comparison:
    """One table. n_a, n_b: its rows, None if there is no such table. first: by time, then by place."""

    table: str
    n_a: int | None
    n_b: int | None
    n_different: int
    first: Difference | None


def read(folder: Path, table: str) -> pa.Table | None:
    """A table of a result folder, None if it has none."""
    path = folder / f"{table}.parquet"
    if not path.is_file():
        return None
    with open_table(path) as file:
        return file.read()


def check_folder(folder: Path) -> None:
    """Raise ConfigError unless there are results in it."""
    if folder.is_dir() and not is_complete(folder):
        ResultFolder(folder).finish_interrupted_commit()
    if not is_complete(folder):
        raise ConfigError(str(folder), "has no result.json", "Accepted: a result folder, as --out names it")


def compare(a: Path, b: Path) -> list[Comparison]:
    """All tables, in the order in which they are looked at where times are equal."""
    return [found for table in KEYS if (found := _compare_table(table, read(a, table), read(b, table))) is not None]


def _compare_table(table: str, a: pa.Table | None, b: pa.Table | None) -> Comparison | None:
    if a is None or b is None:
        n_a, n_b = (None if t is None else t.num_rows for t in (a, b))
        return None if a is b else Comparison(table, n_a, n_b, 0, None)
    if tuple(a.column_names) != COLUMNS[table] or tuple(b.column_names) != COLUMNS[table]:
        raise ConfigError(f"table {table}", "its columns are those of another version", "two folders of one version")
    in_a, in_b = _places(a, b, KEYS[table])
    is_there = (in_a >= 0) & (in_b >= 0)
    n_row = int(is_there.sum())
    both_a, both_b = (taken(t, whole_numbers(places[is_there])) for t, places in ((a, in_a), (b, in_b)))
    differs = ~is_there
    is_other = np.zeros(n_row, np.bool_)
    times = np.full(len(in_a), NEVER_PS)
    own = np.full(n_row, NEVER_PS)
    earliest = np.full(n_row, NEVER_PS)
    for name in COLUMNS[table]:
        left, right = (_filled(t.column(name)) for t in (both_a, both_b))
        column_differs = left != right
        is_other |= column_differs
        if name in TIMES:
            least = np.minimum(np.where(left < 0, NEVER_PS, left), np.where(right < 0, NEVER_PS, right))
            earliest = np.where(column_differs, np.minimum(earliest, least), earliest)
            own = np.minimum(own, least)
    differs[is_there] = is_other
    times[is_there] = np.where(earliest < NEVER_PS, earliest, own)  # what is no time differs since the row began
    for side, places in ((a, in_a), (b, in_b)):
        alone = ~is_there & (places >= 0)
        times[alone] = _row_times(taken(side, whole_numbers(places[alone])))
    n_different = int(differs.sum())
    first = None
    if n_different:
        rows = np.flatnonzero(differs)
        at = rows[int(np.argmin(times[rows]))]
        one, other = (_row(t, int(places[at])) for t, places in ((a, in_a), (b, in_b)))
        some = one or other or {}
        key = {name: some[name] for name in KEYS[table]} or {"row": int(at)}
        first = Difference(table, int(times[at]), key, one, other)
    return Comparison(table, a.num_rows, b.num_rows, n_different, first)


def _places(a: pa.Table, b: pa.Table, key: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """For each row of either: its place in a and in b, -1 where it is missing."""
    if not key:
        place = np.arange(max(a.num_rows, b.num_rows))
        return np.where(place < a.num_rows, place, -1), np.where(place < b.num_rows, place, -1)
    keys = [np.column_stack([_filled(t.column(name)) for name in key]) for t in (a, b)]
    every, inverse = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    places = np.full((2, len(every)), -1)
    places[0, inverse[: a.num_rows]] = np.arange(a.num_rows)
    places[1, inverse[a.num_rows :]] = np.arange(b.num_rows)
    return places[0], places[1]


def _filled(column: Any) -> np.ndarray:
    """Numbers with -1 for null; texts as they are."""
    if pa.types.is_integer(column.type):
        return as_int64(column, -1)
    return np.array(["" if value is None else value for value in column.to_pylist()], dtype=object)


def _row_times(table: pa.Table) -> np.ndarray:
    """The earliest instant in each row."""
    out = np.full(table.num_rows, NEVER_PS)
    for name in TIMES:
        if name in table.column_names:
            values = _filled(table.column(name))
            out = np.minimum(out, np.where(values < 0, NEVER_PS, values))
    return out


def _row(table: pa.Table, place: int) -> Row | None:
    return table.slice(place, 1).to_pylist()[0] if place >= 0 else None
