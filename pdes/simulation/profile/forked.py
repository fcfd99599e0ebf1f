"""Something tried in a copy of this process, which leaves nothing behind here but its answer."""

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from pdes.errors import SimError

Answer = TypeVar("Answer")


def forked(function: Callable[[], Answer]) -> Answer:
    """What a function returns in a copy of this process, which ends with it. SimError: it could not be had."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of numpy's, which the copy does not use
        try:
            child = os.fork()
        except OSError as error:
            raise SimError(f"no copy of this process could be made: {error.strerror}") from error
    if child == 0:
        _answer(function, reads, writes)
    os.close(writes)
    try:
        with os.fdopen(reads, "rb") as stream:
            found = stream.read()
    except BaseException:  # Ctrl-C
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.waitpid(child, 0)
    is_answer, value = _read(found)
    if not is_answer:
        raise SimError(f"a copy of this process failed: {value}")
    return value


def _read(said: bytes) -> tuple[bool, Any]:
    return pickle.loads(said) if said else (False, "it ended without a word")


def _answer(function: Callable[[], object], reads: int, writes: int) -> None:
    """Say what a function returns, and end without anything that would be done at an exit."""
    status = 1
    try:
        os.close(reads)
        try:
            said = pickle.dumps((True, function()))
        except Exception:
            said = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writes, "wb") as stream:
            stream.write(said)
        status = 0
    finally:
        os._exit(status)
