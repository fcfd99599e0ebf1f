"""Distributions of message sizes as points of their cumulative distribution, in the form of HPCC's traffic generator.

A file has a line "bytes percent" for each point, from 0 to 100 percent; lines that begin with # say where it is from.
Between two points the size is uniform. Distributions by name are files of this package.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from pdes.errors import ConfigError
from pdes.files import read_text, why_unreadable

FOLDER = Path(__file__).resolve().parent / "sizes"
MAX_BYTES = 2**40
BUILT_IN = ("web-search", "fb-hadoop")


@dataclass(frozen=True)
class SizeDistribution:
    """Points of a cumulative distribution, both columns float64[n_point], ascending; frac from 0 to 1."""

    name: str
    size_bytes: np.ndarray
    frac: np.ndarray

    @cached_property
    def mean_bytes(self) -> float:
        """Of the distribution as it is drawn, up to the rounding to whole bytes."""
        middle = (self.size_bytes[1:] + self.size_bytes[:-1]) / 2
        return float((middle * np.diff(self.frac)).sum())

    def sizes(self, uniform: np.ndarray) -> np.ndarray:
        """int64, bytes from 1 on, for numbers in [0, 1): the inverse of the distribution, rounded."""
        return np.maximum(1, np.rint(np.interp(uniform, self.frac, self.size_bytes))).astype(np.int64)


def read_sizes(path: Path) -> SizeDistribution:
    """A distribution from a file. Raises ConfigError with the file and the line."""
    with suppress(OSError):
        state = path.stat()
        return _read(path, state.st_mtime_ns, state.st_size)
    return _read(path, 0, 0)


@lru_cache(maxsize=16)
def _read(path: Path, _time_ns: int, _size_bytes: int) -> SizeDistribution:
    """Once per version of the file."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = f"cannot be read: {why_unreadable(error)}"
        raise ConfigError(str(path), found, "a text file, 'bytes percent' per line") from None
    points: list[tuple[float, float]] = []
    where = str(path)
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            where = f"{path}, line {number}"
            points.append(_point(where, line.split(), points))
    if len(points) < 2 or points[-1][1] != 100:
        raise ConfigError(where, "the distribution ends before 100 percent", "a last line 'bytes 100'")
    size_bytes, percent = np.array(points).T
    found = SizeDistribution(path.stem, size_bytes.copy(), percent / 100)
    if found.mean_bytes < 1:
        raise ConfigError(str(path), f"messages of {found.mean_bytes:g} bytes on average", "at least 1 byte")
    return found


def _point(where: str, words: list[str], before: list[tuple[float, float]]) -> tuple[float, float]:
    try:
        size_bytes, percent = (float(word) for word in words)
    except ValueError:
        raise ConfigError(where, f"{' '.join(words)!r}", "'bytes percent', two numbers") from None
    if not (0 <= size_bytes <= MAX_BYTES and 0 <= percent <= 100):
        raise ConfigError(where, f"{' '.join(words)!r}", f"0..{MAX_BYTES} bytes and 0..100 percent")
    if not before and percent != 0:
        raise ConfigError(where, f"the distribution begins at {percent:g} percent", "a first line 'bytes 0'")
    if before and (size_bytes < before[-1][0] or percent <= before[-1][1]):
        raise ConfigError(where, f"{' '.join(words)!r}", "a size not below the last one's, and more percent")
    return size_bytes, percent
