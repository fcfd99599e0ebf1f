"""The tables of a recording of Nsight Systems, as its SQLite export has them. Only tables are read, no views."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from pdes.errors import ConfigError
from pdes.files import require_file
from pdes.units import shown

KERNELS, RUNTIME, RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
COPIES = (("CUPTI_ACTIVITY_KIND_MEMCPY", "copy"), ("CUPTI_ACTIVITY_KIND_MEMSET", "fill"))
STRINGS, ENTRIES = "StringIds", "NVTX_PAYLOAD_SCHEMA_ENTRIES"
MOST_ROWS = 2**25  # of one table
MAX_NS = 2**61 // 1000
PID_BITS = 24  # of a global thread number, below its process


class OnGpu(NamedTuple):
    """A kernel or copy: ns, the process and GPU that it is of, and where it stands."""

    name: str
    start_ns: int
    end_ns: int
    stream: int
    place: tuple[int, int]
    correlation: int
    is_kernel: bool
    where: str


class Call(NamedTuple):
    """A call of CUDA. thread: a global number."""

    name: str
    begin_ns: int
    end_ns: int
    thread: int
    correlation: int


class Marking(NamedTuple):
    """A range of NVTX."""

    text: str
    begin_ns: int
    end_ns: int
    thread: int
    json: object
    content: object


def process_of(thread: int) -> int:
    """The process of a global thread number, as kernels have it."""
    return thread >> PID_BITS << PID_BITS


class Recording:
    """An open recording. sqlite3.Error: the file is none; ConfigError: a table or a value is not as it should be."""

    def __init__(self, path: Path) -> None:
        self._path = require_file(path)
        self._base = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        self._base.execute("PRAGMA trusted_schema = OFF")
        rows = self._base.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
        names = {str(row[0]) for row in rows}
        known = (KERNELS, RUNTIME, RANGES, STRINGS, ENTRIES, *(name for name, _ in COPIES))
        self._columns = {name: self._columns_of(name) for name in known if name in names}
        if KERNELS not in self._columns:
            raise ConfigError(
                str(path), f"no table {KERNELS}", "nsys export --type sqlite, recorded with --trace cuda,nvtx"
            )
        self._strings = dict(self._rows(STRINGS, ("id", "value"))) if STRINGS in self._columns else {}

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def _columns_of(self, table: str) -> set[str]:
        return {str(row[1]) for row in self._base.execute(f'PRAGMA table_info("{table}")')}

    def _rows(self, table: str, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> Iterator[tuple]:
        """Rows of a table; NULL for optional columns that it lacks."""
        there = self._columns.get(table)
        if there is None:
            return
        missing = [name for name in columns if name not in there]
        if missing:
            raise ConfigError(
                f"{self._path}, table {table}", f"no column {missing[0]}", "a table as Nsight Systems exports"
            )
        chosen = [f'"{name}"' for name in columns] + [f'"{name}"' if name in there else "NULL" for name in optional]
        for number, row in enumerate(self._base.execute(f'SELECT {", ".join(chosen)} FROM "{table}"')):
            if number >= MOST_ROWS:
                raise ConfigError(f"{self._path}, table {table}", f"more than {MOST_ROWS} rows", "a shorter recording")
            yield row

    def _text(self, number: object) -> str:
        return str(self._strings.get(number, ""))[:1000] if isinstance(number, int) else ""

    def on_gpu(self) -> Iterator[OnGpu]:
        """Kernels, copies and fills."""
        columns = ("start", "end", "streamId", "deviceId", "correlationId")
        for number, row in enumerate(self._rows(KERNELS, columns, ("globalPid", "demangledName", "shortName"))):
            where = f"{self._path}, table {KERNELS}, row {number + 1}"
            name = self._text(row[6]) or self._text(row[7]) or "kernel"
            yield self._on_gpu(name, row, True, where)
        for table, name in COPIES:
            for number, row in enumerate(self._rows(table, columns, ("globalPid",))):
                yield self._on_gpu(name, row, False, f"{self._path}, table {table}, row {number + 1}")

    def _on_gpu(self, name: str, row: tuple, is_kernel: bool, where: str) -> OnGpu:
        start, end, stream, device, correlation = (self._whole(value, where) for value in row[:5])
        if end < start:
            raise ConfigError(where, f"start {start}, end {end}", "an end behind the start")
        process = row[5] if isinstance(row[5], int) else 0
        return OnGpu(name, start, end, stream, (process, device), correlation, is_kernel, where)

    def _whole(self, value: object, where: str) -> int:
        if not isinstance(value, int) or not 0 <= value < MAX_NS:
            raise ConfigError(where, f"found {shown(value)}", f"whole numbers from 0 to {MAX_NS}")
        return value

    def calls(self) -> Iterator[Call]:
        """Calls of CUDA."""
        rows = self._rows(RUNTIME, ("start", "end", "globalTid", "correlationId"), ("nameId",))
        for number, row in enumerate(rows):
            where = f"{self._path}, table {RUNTIME}, row {number + 1}"
            begin, end, correlation = (self._whole(row[k], where) for k in (0, 1, 3))
            yield Call(self._text(row[4]), begin, end, row[2] if isinstance(row[2], int) else 0, correlation)

    def markings(self) -> Iterator[Marking]:
        """Ranges of NVTX on a thread."""
        optional = ("text", "textId", "jsonText", "jsonTextId", "binaryData")
        for number, row in enumerate(self._rows(RANGES, ("start", "end", "globalTid"), optional)):
            if row[1] is None:  # a mark
                continue
            where = f"{self._path}, table {RANGES}, row {number + 1}"
            begin, end = (self._whole(row[k], where) for k in (0, 1))
            text = str(row[3])[:1000] if row[3] is not None else self._text(row[4])
            json = row[5] if row[5] is not None else self._strings.get(row[6])
            yield Marking(text, begin, end, row[2] if isinstance(row[2], int) else 0, json, row[7])

    def entries(self) -> Iterator[tuple]:
        """Schema, name, type and offset of each field of payloads."""
        return self._rows(ENTRIES, ("schemaId", "name", "type"), ("offset",))
