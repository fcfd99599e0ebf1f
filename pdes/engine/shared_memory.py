"""Memory that the ranks of one machine share: a file that lies in memory, and values whose arrays lie in such a file.

A value is pickled without its arrays, which lie behind each other in the file. Whoever reads it gets arrays over a
private map of the file: all ranks see the same pages until one writes, and that one gets pages of its own.
"""

import contextlib
import mmap
import os
import pickle
import secrets
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path("/dev/shm")
ALIGN_BYTES = 64  # a cache line, as `pdes.engine.jit.aligned_zeros` has it


class Packed(NamedTuple):
    """A value on its way to other ranks."""

    head: bytes  # pickled, without the arrays
    places: list[tuple[int, int]]  # first byte and end of each array in the file
    buffers: list[memoryview]  # what lies there

    @property
    def n_byte(self) -> int:
        """Of the file."""
        return max(self.places[-1][1] if self.places else 0, 1)


def pack(value: Any) -> Packed:
    """Take a value apart."""
    found: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=found.append)
    buffers = [buffer.raw() for buffer in found]
    places, end = [], 0
    for buffer in buffers:
        begin = end + -end % ALIGN_BYTES
        end = begin + buffer.nbytes
        places.append((begin, end))
    return Packed(head, places, buffers)


def new_path() -> Path:
    """A name that no file in memory has; who may make the file knows its name before, so that none is left behind."""
    return FOLDER / f"pdes-{os.getpid()}-{secrets.token_hex(4)}"


def create(path: Path, n_byte: int) -> None:
    """A file of zeros that lies in memory. OSError: there is no room for it."""
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(file, 0, n_byte)  # a page for which there is no room would kill whoever writes to it
    finally:
        os.close(file)


def attach(path: Path, n_byte: int, is_private: bool = False) -> mmap.mmap:
    """Its memory. is_private: what is written to it stays here. OSError: it is not to be seen from here."""
    file = os.open(path, os.O_RDWR)
    try:
        return mmap.mmap(file, n_byte, mmap.MAP_PRIVATE if is_private else mmap.MAP_SHARED)
    finally:
        os.close(file)


def remove_mapped(prefix: str) -> None:
    """Take the names of files in memory that this process has mapped and whose names begin like that."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for path in {line.split(maxsplit=5)[-1].strip() for line in maps if f" {FOLDER}/{prefix}" in line}:
            with contextlib.suppress(OSError):  # another rank has
                os.unlink(path)


def store(path: Path, packed: Packed) -> None:
    """A file with the arrays of a value. OSError: there is no room for it."""
    create(path, packed.n_byte)
    with path.open("r+b") as file:
        for (begin, _), buffer in zip(packed.places, packed.buffers, strict=True):
            file.seek(begin)
            file.write(buffer)


def unpack(head: bytes, places: list[tuple[int, int]], memory: mmap.mmap) -> Any:
    """The value, its arrays over the memory, which lasts as long as one of them."""
    view = memoryview(memory)
    return pickle.loads(head, buffers=[view[begin:end] for begin, end in places])
