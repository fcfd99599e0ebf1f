"""Compiled code that was kept is loaded without what only compiling needs.

Before Numba loads a function it has all of its own functions ready for the compiler, and loads `scipy.linalg`, where
that is installed, to see whether there is a BLAS: half a second of a process that compiles nothing. Machine code needs
Numba's allocator alone, and compiling asks for the rest by itself.

What is replaced is not public: `tests/pdes/engine/test_loading.py` sees when it is called otherwise.
"""

import sys
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from numba.core import environment
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

ASKS = "numba.np.arraymath"  # for a BLAS, as it is loaded
_environment_of = environment._rebuild_env


class Loading(FunctionCache):
    """Where a kernel's compiled code is kept. That place is looked for at once: a change of the process's environment
    has Numba forget the folder that it was told of."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept for a signature, or None."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@wraps(_environment_of)
def _environment(modname: str, *others: Any) -> Any:
    """The variables of a module in which a function of a kernel is."""
    if modname == ASKS and ASKS not in sys.modules:
        _load_without_blas()
    return _environment_of(modname, *others)


def _load_without_blas() -> None:
    """That SciPy can be found says as much; who multiplies matrices loads it when that is compiled."""
    algebra: Any = import_module("numba.np.linalg")
    ensure = algebra.ensure_blas
    algebra.ensure_blas = _find
    try:
        asking: Any = import_module(ASKS)
        asking.ensure_blas = ensure
    finally:
        algebra.ensure_blas = ensure


def _find() -> None:
    if find_spec("scipy") is None:
        raise ImportError("SciPy is not installed")


def load_no_more_than_needed() -> None:
    """From now on."""
    environment._rebuild_env = _environment
