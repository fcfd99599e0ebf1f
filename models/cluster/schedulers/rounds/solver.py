"""SciPy, for policies that solve a problem, and for `pdes-sim calibrate`."""

import ctypes
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pdes.errors import ConfigError


def optimize(where: str = "[cluster] scheduler", what: str = "this policy") -> Any:
    """scipy.optimize. ConfigError: it is not installed; where, what: needs it."""
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        accepted = 'pip install "pdes-sim[cluster]"'
        raise ConfigError(where, f"{what} needs SciPy, which is not installed", accepted) from error


@contextmanager
def silent() -> Iterator[None]:
    """What a library writes to standard output by itself, as HiGHS sometimes does, is not among what a run says."""
    flush = ctypes.CDLL(None).fflush
    flush(None)
    try:
        kept = os.dup(1)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
        flush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
