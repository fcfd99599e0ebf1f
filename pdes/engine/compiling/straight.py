"""Calling a kernel from Python straight, without asking for the types of all arrays that it gets.

Numba looks at every argument of every call: 0.2 us an array, of which the rounds get 313 (docs/experiments/one-core.md,
"Calls from Python"). Those arrays lie in tuples that stay the same objects for thousands of calls. Here a tuple's types
are asked for once, as long as it is kept (`let_go`), and a call whose arguments have the types of an earlier one goes
to the machine code of that one.

Everything that decides a type is compared, for all arguments that are no such tuple at every call: dtype, dimensions,
layout and flags of arrays, classes of all else.
"""

from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher

from pdes.engine.compiling import tables
from pdes.engine.compiling.tables import LARGE

LEAST_ARRAYS = 12  # in tuples: with fewer, Numba is as fast
FLAGS = 0x1 | 0x2 | 0x100 | 0x400  # of an array: C and Fortran order, aligned, writeable
INT64 = np.iinfo(np.int64)
SCALARS = frozenset({bool, float, np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float64})
UNKNOWN = -1
MOST_KNOWN, MOST_DTYPES = 256, 4096  # that are kept

_known: dict[int, tuple[tuple[Any, ...], int]] = {}  # by id: a tuple, which is kept so that no other one has it
_codes: dict[Any, int] = {}  # of what tuples are made of
_dtypes: dict[int, tuple[np.dtype, int]] = {}  # by id
_dtype_codes: dict[np.dtype, int] = {}


def let_go() -> None:
    """Forget which tuples were seen: their arrays are to go."""
    _known.clear()
    tables.let_go()


def _dtype_code(dtype: np.dtype) -> int:
    found = _dtypes.get(id(dtype))
    if found is None:
        if len(_dtypes) == MOST_DTYPES:
            _dtypes.clear()
        found = _dtypes[id(dtype)] = dtype, _dtype_codes.setdefault(dtype, len(_dtype_codes))
    return found[1]


def _kind(value: Any) -> Any:
    """What decides its type, for comparisons; UNKNOWN if that is not known here."""
    cls = type(value)
    if cls is np.ndarray:
        return _dtype_code(value.dtype), value.ndim, value.flags.num & FLAGS
    if cls is int:
        return cls if INT64.min <= value <= INT64.max else UNKNOWN
    if isinstance(value, tuple):
        found = _known.get(id(value))
        if found is not None:
            return found[1]
        kinds = cls, *map(_kind, value)
        if UNKNOWN in kinds:
            return UNKNOWN
        code = _codes.setdefault(kinds, len(_codes))
        if len(value) >= LARGE or any(id(part) in _known for part in value):  # it is remembered
            if len(_known) == MOST_KNOWN:
                _known.clear()
            _known[id(value)] = value, code
        return code
    return cls if cls in SCALARS else UNKNOWN


def n_array(value: Any) -> int:
    """Arrays in a tuple; 0 of all else."""
    return sum(type(v) is np.ndarray or n_array(v) for v in value) if isinstance(value, tuple) else 0


class Straight(CPUDispatcher):
    """A kernel that Python calls. `make_straight` makes it one."""

    _straight: "dict[tuple[Any, ...], Any] | None" = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        """See the module."""
        if named:
            return super().__call__(*args, **named)
        kinds = tuple(map(_kind, args))
        entries = self._straight
        if entries is None:
            if sum(map(n_array, args)) < LEAST_ARRAYS:
                self.__class__ = CPUDispatcher  # pyright: ignore[reportAttributeAccessIssue]
                return self(*args)
            entries = self._straight = {}
        entry = entries.get(kinds)
        if entry is not None:
            return entry(*args)
        found = super().__call__(*args)
        if UNKNOWN not in kinds and len(args) == self.py_func.__code__.co_argcount:
            every = list(self.overloads.values())
            taken = every[0] if len(every) == 1 else self.overloads.get(tuple(map(self.typeof_pyval, args)))
            if taken is not None:
                entries[kinds] = taken.entry_point
        return found


def make_straight(kernel: Any) -> Any:
    """The same kernel, called so."""
    kernel.__class__ = Straight
    return kernel
