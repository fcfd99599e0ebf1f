"""Where the ranks of one machine meet: a barrier that brings everyone the least value, in memory that they share.

MPI's reductions spin until the last rank is there. With more ranks than cores that takes the cores from those who still
work, so a rank that has waited for a while sleeps here (Linux's futex) until the last one wakes all. Boxes for records
lie in the same memory: what a rank has put into its own before a meeting, its neighbours read after it.

Everything is there twice, for odd and even meetings: who comes to a meeting has read what the one before brought, so
what is written for the next one cannot reach anyone too early.
"""

import ctypes
import platform
from pathlib import Path

import numpy as np

from pdes.engine import shared_memory
from pdes.engine.atomics import add_to_word, load_word, lower_word, store_word
from pdes.engine.foreign import call7, clock_ns
from pdes.engine.jit import loop_kernel

LINE_WORDS = 16  # of 8 bytes: two cache lines, which some machines fetch together
# Words of the shared memory, a line each.
ARRIVED, MEETING, SLEEPING, LEAST_EVEN, LEAST_ODD, MORE_EVEN, MORE_ODD, BOXES = (i * LINE_WORDS for i in range(8))
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
FUTEX_WAIT, FUTEX_WAKE, EVERYONE = 0, 1, 2**31 - 1
NOBODY = np.int64(2**63 - 1)  # no value is larger
SPIN_NS = 30_000  # where every rank has a core. Who spins longer keeps it from others that would sooner be done
POLLS_PER_LOOK = 64  # at the clock


def can_sleep() -> bool:
    """Whether this system has what sleeping and waking need."""
    return platform.system() == "Linux" and platform.machine() in _FUTEX_NUMBERS


def futex_number() -> int:
    """The system call's number."""
    return _FUTEX_NUMBERS[platform.machine()]


def syscall_address() -> int:
    """Address of the C library's syscall."""
    return ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value or 0


def create(path: Path, n_word: int) -> None:
    """Shared memory of int64 words, as a file that lies in memory. OSError: there is no room for it."""
    shared_memory.create(path, 8 * n_word)
    attach(path, n_word)[[LEAST_EVEN, LEAST_ODD]] = NOBODY


def attach(path: Path, n_word: int) -> np.ndarray:
    """The words, int64[n_word], as every rank of the machine sees them. OSError: they are not to be seen from here."""
    return np.frombuffer(shared_memory.attach(path, 8 * n_word), np.int64)


@loop_kernel
def meet(words, n_rank, value, spin_ns, system, clock):
    """Wait until all n_rank ranks are here; the least of their values (int64, below NOBODY).

    words: shared. spin_ns: how long to spin before sleeping. system: int64[2], syscall_address() and futex_number().
    clock: int64[3], clock_address() and its buffer.
    """
    base = words.ctypes.data
    meeting = load_word(base + 8 * MEETING)
    here = LEAST_ODD if meeting & 1 else LEAST_EVEN
    lower_word(base + 8 * here, value)
    if add_to_word(base + 8 * ARRIVED, 1) == n_rank - 1:
        store_word(base + 8 * (LEAST_EVEN if meeting & 1 else LEAST_ODD), NOBODY)  # which everyone has read
        store_word(base + 8 * (MORE_EVEN if meeting & 1 else MORE_ODD), 0)
        store_word(base + 8 * ARRIVED, 0)
        store_word(base + 8 * MEETING, meeting + 1)
        if load_word(base + 8 * SLEEPING) > 0:
            call7(system[0], system[1], base + 8 * MEETING, FUTEX_WAKE, EVERYONE, 0, 0, 0)
    else:
        _wait(base, meeting, spin_ns, system, clock)
    return load_word(base + 8 * here)


@loop_kernel
def _wait(base, meeting, spin_ns, system, clock):
    """Until the meeting is over."""
    if spin_ns > 0:
        end_ns = clock_ns(clock[0], clock[1:]) + spin_ns
        while clock_ns(clock[0], clock[1:]) < end_ns:
            for _ in range(POLLS_PER_LOOK):
                if load_word(base + 8 * MEETING) != meeting:
                    return
    add_to_word(base + 8 * SLEEPING, 1)
    while load_word(base + 8 * MEETING) == meeting:
        expected = meeting & 0xFFFFFFFF  # a futex is the word's lower half
        call7(system[0], system[1], base + 8 * MEETING, FUTEX_WAIT, expected, 0, 0, 0)
    add_to_word(base + 8 * SLEEPING, -1)
