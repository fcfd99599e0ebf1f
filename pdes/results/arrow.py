"""Arrow's arrays from what tables are made of, and back.

`pyarrow.array` loads pandas, where that is installed, to see whether it was given something of it, and methods of
arrays that compute load all functions of `pyarrow.compute`: 0.3 s of a run together. These come to the same without.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


def whole_numbers(values: np.ndarray, is_null: np.ndarray | None = None) -> Any:
    """int64, null where is_null, if given, says so."""
    import pyarrow as pa

    known = None
    if is_null is not None and is_null.any():
        known = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [known, pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def texts(words: Sequence[str]) -> Any:
    """Strings."""
    import pyarrow as pa

    coded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, coded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        return pa.array(words, pa.string())
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(coded))]
    return pa.Array.from_buffers(pa.string(), len(coded), buffers)


def taken(array: Any, places: Any) -> Any:
    """What of an array or a table is in these places of it, an Arrow array; null where they are."""
    try:
        from pyarrow._compute import call_function
    except ImportError:  # it is not public
        from pyarrow.compute import call_function
    return call_function("take", [array, places])


def as_int64(column: Any, null: int) -> np.ndarray:
    """A column of whole numbers of any width, as a table has it, or one chunk of it; null: what stands for null."""
    parts, kind = [np.zeros(0, np.int64)], column.type.to_pandas_dtype()
    for chunk in getattr(column, "chunks", [column]):
        is_known, values = chunk.buffers()
        own = np.frombuffer(values, kind)[chunk.offset : chunk.offset + len(chunk)].astype(np.int64, copy=False)
        if chunk.null_count:
            bits = np.unpackbits(np.frombuffer(is_known, np.uint8), bitorder="little")
            own = np.where(bits[chunk.offset : chunk.offset + len(chunk)], own, null)
        parts.append(own)
    return parts[-1] if len(parts) == 2 else np.concatenate(parts)
