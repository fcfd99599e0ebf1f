"""Measured kernel times from a user's file, which take the place of the model's.

A CSV file with the columns kind, dtype, count, m, n, k, bytes, time_us. A matrix product is found by its sizes (count
times m x k by k x n), attention by count (sequences x heads), m (queries), n (keys) and k (values of a query), anything
else by the bytes that it reads and writes; columns that do not name a kernel are 0 or empty. Times include the launch.
"""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from models.compute.operators import Kernel
from pdes.errors import ConfigError

COLUMNS = ("kind", "dtype", "count", "m", "n", "k", "bytes", "time_us")
BY_SIZES = ("gemm", "attention")
KINDS = (*BY_SIZES, "elementwise", "norm", "optimizer")
Key = tuple[str, str, int, int, int, int, int]


def key_of(kernel: Kernel) -> Key:
    """What identifies a kernel in a table."""
    if kernel.kind in BY_SIZES:
        return kernel.kind, kernel.dtype, kernel.count, kernel.m, kernel.n, kernel.k, 0
    return kernel.kind, "", 0, 0, 0, 0, kernel.hbm_bytes


@dataclass(frozen=True)
class KernelTable:
    """Times of kernels, ps. Hashed by the file's name, so that segments of equal devices are found again."""

    name: str
    times_ps: dict[Key, int] = field(hash=False, repr=False)

    def time_ps(self, kernel: Kernel) -> int | None:
        """Measured time, or None."""
        return self.times_ps.get(key_of(kernel))


def read_kernel_table(path: Path) -> KernelTable:
    """Read a file. Raises ConfigError with file and line."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", "a CSV file of kernel times") from None
    times_ps: dict[Key, int] = {}
    for i_line, row in enumerate(rows, 2):
        where = f"{path}:{i_line}"
        missing = [name for name in ("kind", "time_us") if not row.get(name)]
        if missing:
            raise ConfigError(where, f"no {' and no '.join(missing)}", f"columns {', '.join(COLUMNS)}")
        if row["kind"] not in KINDS:
            raise ConfigError(where, f"kind {row['kind']!r}", f"one of {', '.join(KINDS)}")
        try:
            sizes = [int(row.get(name) or 0) for name in ("count", "m", "n", "k", "bytes")]
            time_ps = round(float(row["time_us"]) * 10**6)
        except ValueError as error:
            raise ConfigError(where, str(error), "whole numbers for sizes and a number of microseconds") from None
        if time_ps <= 0 or min(sizes) < 0:
            raise ConfigError(where, f"time_us {row['time_us']}, sizes {sizes}", "a time above 0, and no negative size")
        sized = row["kind"] in BY_SIZES
        count, m, n, k, n_byte = sizes
        key = (
            (row["kind"], row.get("dtype") or "bf16", max(count, 1), m, n, k, 0)
            if sized
            else (row["kind"], "", 0, 0, 0, 0, n_byte)
        )
        times_ps[key] = time_ps
    return KernelTable(str(path), times_ps)
