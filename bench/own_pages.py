"""What of arrays is in the memory of this process alone, page by page (Linux: /proc/self/pagemap)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

PAGE_BYTES = 4096
IS_PRESENT, IS_FILE_OR_SHARED = np.uint64(1 << 63), np.uint64(1 << 61)


def own_bytes(array: np.ndarray) -> int:
    """Bytes of the pages with any of it that are in memory and nobody else's."""
    if not array.nbytes:
        return 0
    first, end = array.ctypes.data // PAGE_BYTES, -(-(array.ctypes.data + array.nbytes) // PAGE_BYTES)
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(8 * first)
        pages = np.frombuffer(file.read(8 * (end - first)), np.uint64)
    return PAGE_BYTES * int((((pages & IS_PRESENT) > 0) & ((pages & IS_FILE_OR_SHARED) == 0)).sum())


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """All arrays in a named tuple of arrays and such tuples."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays_in(part)


def table_pages(tables: Any) -> np.ndarray:
    """(Bytes that are in this process's own pages, bytes) of every array in tables, int64[n_array, 2]."""
    arrays = {array.ctypes.data: array for array in arrays_in(tables)}.values()
    return np.array([(own_bytes(array), array.nbytes) for array in arrays], np.int64)


def again_bytes(of_ranks: list[np.ndarray]) -> int:
    """What each rank has, in the mean, of tables that others have as well. of_ranks: `table_pages` of each."""
    own = np.array([pages[:, 0] for pages in of_ranks]).sum(axis=0)
    return int(np.maximum(0, own - of_ranks[0][:, 1]).sum()) // len(of_ranks)
