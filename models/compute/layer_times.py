"""Measured times of whole layers from a user's file, in the place of their kernels and exchanges inside a server.

A CSV file with the columns tp, microbatch, part, forward_us, backward_us, update_us: what a GPU of a tensor-parallel
group of so many takes for one microbatch of so many sequences, forward and backward, with what the group exchanges, and
for the optimizer's step of the part's parameters. part: embedding, layer, head. This is what planners profile (Metis,
Sailor). Nothing is interpolated: a size that is not in the table is refused.
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pdes.errors import ConfigError
from pdes.files import require_file
from pdes.units import PS_PER_US, whole_number

TIMES = ("forward_us", "backward_us", "update_us")
COLUMNS = ("tp", "microbatch", "part", *TIMES)
PARTS = ("embedding", "layer", "head")
MOST_US = 10**9  # of one layer: a quarter of an hour


class PartTimes(NamedTuple):
    """Of one part of a model on a GPU."""

    forward_ps: int
    backward_ps: int
    update_ps: int


Key = tuple[int, int, str]  # tp, microbatch, part


@dataclass(frozen=True)
class LayerTimes:
    """Times by size. Hashed by the file's name."""

    name: str
    times: Mapping[Key, PartTimes] = field(hash=False, repr=False)

    def of(self, tp: int, microbatch: int, part: str) -> PartTimes | None:
        """Of "embedding", "dense" (a layer), "head"; None: not measured."""
        return self.times.get((tp, microbatch, "layer" if part == "dense" else part))


def read_layer_times(path: Path) -> LayerTimes:
    """Read a file. Raises ConfigError with file and line."""
    accepted = f"a CSV file with the columns {', '.join(COLUMNS)}"
    times: dict[Key, PartTimes] = {}
    try:
        with require_file(path).open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, strict=True)
            if sorted(rows.fieldnames or ()) != sorted(COLUMNS):
                raise ConfigError(f"{path}: line 1", f"columns {', '.join(rows.fieldnames or ()) or 'none'}", accepted)
            for row in rows:
                where = f"{path}: line {rows.line_num}"
                key, found = _read_row(where, row)
                if key in times:
                    raise ConfigError(where, "a size that is there already", "each one once")
                times[key] = found
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", accepted) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(str(path), f"is not CSV: {error}", accepted) from None
    if not times:
        raise ConfigError(str(path), "no times", accepted)
    return LayerTimes(str(path), times)


def _read_row(where: str, row: dict) -> tuple[Key, PartTimes]:
    if None in row or None in row.values():
        raise ConfigError(where, "not as many values as columns", f"columns {', '.join(COLUMNS)}")
    if row["part"] not in PARTS:
        raise ConfigError(where, f"part {row['part']!r}", f"one of {', '.join(PARTS)}")
    try:
        tp, microbatch = (whole_number(row[name]) for name in ("tp", "microbatch"))
        times_us = [float(row[name]) for name in TIMES]
    except ValueError as error:
        raise ConfigError(where, str(error), "whole numbers for sizes, numbers of microseconds for times") from None
    if min(tp, microbatch) < 1 or not all(0 <= time <= MOST_US and not math.isnan(time) for time in times_us):
        found = f"tp {tp}, microbatch {microbatch}, times {', '.join(row[name] for name in TIMES)}"
        raise ConfigError(where, found, f"sizes from 1, times from 0 to {MOST_US} us")
    return (tp, microbatch, row["part"]), PartTimes(*(round(time * PS_PER_US) for time in times_us))
