"""Measured kernel times from a user's file, which take the place of the model's.

A CSV file with the columns kind, dtype, count, m, n, k, bytes, time_us; and beside_us, what the kernel takes while the
GPU exchanges something all along, for those of which it was measured, for `pdes-sim calibrate`. A matrix product is
found by its sizes (count times m x k by k x n) and number format, attention, forward or backward, by count (sequences
x heads), m (queries), n (keys), k (values of a query) and format, anything else by the bytes that it reads and writes;
columns that do not name a kernel are 0 or empty.
Times include the launch. Nothing is interpolated: a kernel that is not in the table keeps the model's time.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from models.compute.layout import DTYPE_BYTES
from models.compute.operators import Kernel
from pdes.errors import ConfigError
from pdes.files import require_file
from pdes.units import PS_PER_US, whole_number

COLUMNS = ("kind", "dtype", "count", "m", "n", "k", "bytes", "time_us")
BESIDE = "beside_us"
SIZES = ("count", "m", "n", "k", "bytes")
BY_SIZES = ("gemm", "attention", "attention-backward")
KINDS = (*BY_SIZES, "elementwise", "norm", "optimizer")
MOST_US = 10**9  # of one kernel: a quarter of an hour
Key = tuple[str, str, int, int, int, int, int]


def key_of(kernel: Kernel) -> Key:
    """What identifies a kernel in a table."""
    if kernel.kind in BY_SIZES:
        kind = f"{kernel.kind}-backward" if kernel.is_backward else kernel.kind
        return kind, kernel.dtype, kernel.count, kernel.m, kernel.n, kernel.k, 0
    return kernel.kind, "", 0, 0, 0, 0, kernel.hbm_bytes


@dataclass(frozen=True)
class KernelTable:
    """Times of kernels, ps. Hashed by the file's name, so that segments of equal devices are found again."""

    name: str
    times_ps: dict[Key, int] = field(hash=False, repr=False)
    beside_ps: dict[Key, int] = field(default_factory=dict, hash=False, repr=False)

    def time_ps(self, kernel: Kernel) -> int | None:
        """Measured time, or None."""
        return self.times_ps.get(key_of(kernel))


def read_kernel_table(path: Path) -> KernelTable:
    """Read a file. Raises ConfigError with file and line."""
    try:
        with require_file(path).open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            _check_header(path, rows.fieldnames or ())
            times_ps: dict[Key, int] = {}
            beside_ps: dict[Key, int] = {}
            for row in rows:
                key, time_ps = _read_row(f"{path}: line {rows.line_num}", row)
                if key in times_ps:
                    raise ConfigError(
                        f"{path}: line {rows.line_num}", "a kernel that is there already", "each one once"
                    )
                times_ps[key] = time_ps
                if row.get(BESIDE):
                    beside_ps[key] = _beside_ps(f"{path}: line {rows.line_num}", row[BESIDE], time_ps)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a CSV file of kernel times") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(str(path), f"is not CSV: {error}", "a CSV file of kernel times, UTF-8") from None
    if not times_ps:
        raise ConfigError(str(path), "no kernel", f"a line with {', '.join(COLUMNS)}, and one for each kernel")
    return KernelTable(str(path), times_ps, beside_ps)


def _check_header(path: Path, columns: Iterable[str]) -> None:
    found = list(columns)
    wrong = [name for name in found if name not in (*COLUMNS, BESIDE)]
    missing = [name for name in ("kind", "time_us") if name not in found]
    accepted = f"columns {', '.join(COLUMNS)}, each once"
    if missing:
        raise ConfigError(f"{path}: line 1", f"no column {' and no '.join(missing)}", accepted)
    if wrong or len(set(found)) < len(found):
        raise ConfigError(f"{path}: line 1", f"columns {', '.join(found)}", accepted)


def _beside_ps(where: str, text: str, time_ps: int) -> int:
    try:
        beside_us = float(text)
    except ValueError as error:
        raise ConfigError(where, str(error), f"a number of microseconds for {BESIDE}") from None
    if not time_ps / PS_PER_US <= beside_us <= MOST_US:  # not a number, too
        raise ConfigError(where, f"{BESIDE} {text}", f"no less than time_us, and at most {MOST_US} us")
    return round(beside_us * PS_PER_US)


def _read_row(where: str, row: dict) -> tuple[Key, int]:
    missing = [name for name in ("kind", "time_us") if not row.get(name)]
    if missing:
        raise ConfigError(where, f"no {' and no '.join(missing)}", f"columns {', '.join(COLUMNS)}")
    if None in row:
        raise ConfigError(where, "more values than columns", "a value for each column")
    kind, dtype = row["kind"], row.get("dtype") or ""
    if kind not in KINDS:
        raise ConfigError(where, f"kind {kind!r}", f"one of {', '.join(KINDS)}")
    try:
        count, m, n, k, n_byte = sizes = [whole_number(row.get(name) or "0") for name in SIZES]
        time_us = float(row["time_us"])
    except ValueError as error:
        raise ConfigError(where, str(error), "whole numbers for sizes and a number of microseconds") from None
    if not 0 < time_us <= MOST_US or math.isnan(time_us) or min(sizes) < 0:
        found = f"time_us {row['time_us']}, sizes {sizes}"
        raise ConfigError(where, found, f"a time above 0 and at most {MOST_US} us, and no negative size")
    time_ps = max(1, round(time_us * PS_PER_US))
    if kind not in BY_SIZES:
        if not n_byte:
            raise ConfigError(where, f"{kind} without bytes", "the bytes that it reads and writes")
        return (kind, "", 0, 0, 0, 0, n_byte), time_ps
    if dtype and dtype not in DTYPE_BYTES:
        raise ConfigError(where, f"dtype {dtype!r}", f"one of {', '.join(DTYPE_BYTES)}")
    if not (m and n and k):
        raise ConfigError(where, f"{kind} of {m} x {k} by {k} x {n}", "sizes m, n and k above 0")
    return (kind, dtype or "bf16", max(count, 1), m, n, k, 0), time_ps
