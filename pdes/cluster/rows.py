"""Rows of whole numbers, and texts, of which only the last ones are in memory: the others are in a file without a name.

The file goes with the process, whatever ends it.
"""

import mmap
import tempfile
import weakref
from array import array
from pathlib import Path
from typing import Any

import numpy as np

IN_MEMORY = 1 << 12  # rows
IN_MEMORY_BYTES = 1 << 18  # of texts
CHUNK_BYTES = 1 << 20
LENGTH = 4  # bytes


class _Bytes:
    """Bytes, one after the other. folder: of the file; None: all stay in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.n = 0
        self._file: Any = None if folder is None else tempfile.TemporaryFile(dir=folder, buffering=0)
        if self._file is not None:
            weakref.finalize(self, self._file.close)
        self._kept = bytearray()

    def add(self, data: Any) -> None:
        """At the end."""
        self.n += len(data)
        if self._file is None:
            self._kept += data
            return
        left = memoryview(data)
        while len(left):
            left = left[self._file.write(left) :]

    def view(self) -> Any:
        """All of them, to be let go of soon."""
        return (
            self._kept
            if self._file is None or not self.n
            else mmap.mmap(self._file.fileno(), self.n, prot=mmap.PROT_READ)
        )

    def save(self, stream: Any) -> None:
        """As `load` reads them."""
        stream.write(self.n.to_bytes(8, "little"))
        view = self.view()
        for begin in range(0, self.n, CHUNK_BYTES):
            stream.write(bytes(view[begin : begin + CHUNK_BYTES]))

    def load(self, stream: Any) -> None:
        """EOFError: that is not all there."""
        left = int.from_bytes(_read(stream, 8), "little")
        while left:
            n = min(left, CHUNK_BYTES)
            self.add(_read(stream, n))
            left -= n


class _Kept:
    """Bytes, the last of which are in memory."""

    def __init__(self, folder: Path | None, last: Any) -> None:
        """last: empty, of what grows and has bytes."""
        self._bytes, self._last = _Bytes(folder), last

    def save(self, stream: Any) -> None:
        """As `load` reads them."""
        self._put()
        self._bytes.save(stream)

    def load(self, stream: Any) -> None:
        """Where there are none. EOFError: they are not all there."""
        self._bytes.load(stream)

    def _put(self) -> None:
        if self._last:
            self._bytes.add(memoryview(self._last).cast("B"))
            self._last = self._last[:0]


class Rows(_Kept):
    """A table of so many columns."""

    def __init__(self, n_column: int, folder: Path | None) -> None:
        super().__init__(folder, array("q"))
        self.n_column = n_column

    def __len__(self) -> int:
        return (self._bytes.n // 8 + len(self._last)) // self.n_column

    def add(self, row: tuple[int, ...]) -> None:
        """At the end."""
        self._last.extend(row)
        if len(self._last) >= IN_MEMORY * self.n_column:
            self._put()

    def part(self, which: slice | np.ndarray) -> np.ndarray:
        """Some rows, a copy."""
        self._put()
        if not len(self):
            return np.empty((0, self.n_column), np.int64)
        return np.array(np.frombuffer(self._bytes.view(), np.int64).reshape(-1, self.n_column)[which])

    def column(self, i: int) -> np.ndarray:
        """Of all rows, a copy."""
        found = np.empty(len(self), np.int64)
        for begin in range(0, len(found), IN_MEMORY):
            found[begin : begin + IN_MEMORY] = self.part(slice(begin, begin + IN_MEMORY))[:, i]
        return found


class Texts(_Kept):
    """Texts, each by where it begins."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(folder, bytearray())

    def add(self, text: str) -> int:
        """Where it begins."""
        begin, data = self._bytes.n + len(self._last), text.encode()
        self._last += len(data).to_bytes(LENGTH, "little") + data
        if len(self._last) >= IN_MEMORY_BYTES:
            self._put()
        return begin

    def part(self, begins: np.ndarray) -> list[str]:
        """Some of them."""
        self._put()
        view, found = self._bytes.view(), []
        for begin in begins.tolist():
            first = begin + LENGTH
            found.append(bytes(view[first : first + int.from_bytes(view[begin:first], "little")]).decode())
        return found


def _read(stream: Any, n: int) -> bytes:
    found = bytes(stream.read(n))
    if len(found) < n:
        raise EOFError("rows are missing")
    return found
