"""Processes that compile at the same time share what they have in common: who comes second waits, and then loads it.

A kernel is locked while it is compiled, in a file in the cache folder. Kernels call each other without circles, so no
two wait for each other; the lock goes with its process. Where files cannot be locked, both compile.
"""

import contextlib
import fcntl
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FILE_NAME = "turns"


class Turns:
    """One process's; the file is opened at the first use."""

    def __init__(self, folder: Callable[[], str]) -> None:
        self._folder, self._file, self._held = folder, -1, Counter[int]()

    @contextlib.contextmanager
    def take(self, name: str) -> Iterator[None]:
        """Hold the name, as soon as no other process does; within itself as well."""
        place = zlib.crc32(name.encode())
        with contextlib.suppress(OSError):
            if self._file < 0:
                path = Path(self._folder()) / FILE_NAME
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if not self._held[place]:
                fcntl.lockf(self._file, fcntl.LOCK_EX, 1, place)
        self._held[place] += 1
        try:
            yield
        finally:
            self._held[place] -= 1
            if not self._held[place] and self._file >= 0:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def guard(self, kernel: Any) -> Any:
        """Have a Numba kernel compile, or load, in its turn."""
        name, compile_now = f"{kernel.__module__}.{kernel.__name__}", kernel.compile

        def compile_in_turn(types: Any) -> Any:
            with self.take(name):
                return compile_now(types)

        kernel.compile = compile_in_turn
        return kernel
