"""The decorator of every compiled kernel, and where compiled code is kept between runs.

Numba keys its disk cache by the content of a kernel's own file only, so an edit to an imported kernel would go
unseen. The cache folder is therefore named by a hash of all sources that kernels are made of (`pdes/engine`,
`pdes/skipping`, `models` but for `FREE_OF_KERNELS`, and `pdes/units.py`, whose constants are compiled into them), and
by the variant: kernels that write a trace are others.
"""

import atexit
import contextlib
import hashlib
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit

from pdes.engine.compiling.libraries import Entry, Program, Step, cache_of, compiler_into
from pdes.engine.compiling.loading import load_no_more_than_needed
from pdes.engine.compiling.remembered import remember
from pdes.engine.compiling.straight import make_straight
from pdes.engine.compiling.turns import Turns
from pdes.engine.private_folder import CACHE_NAME, OTHERS_ANY, OTHERS_WRITE, cache_base, make_private

TRACE_VARIABLE = "PDES_TRACED"
IS_TRACED = os.environ.get(TRACE_VARIABLE) == "1"  # set before the first kernel is imported, see `tracing`
VARIANT = "-traced" if IS_TRACED else ""
FREE_OF_KERNELS = (
    "cluster", "compute", "network/verify", "topology/direct", "workload/closed_form", "workload/compiler",
    "workload/exporters", "workload/importers", "workload/nccl", "workload/placing", "workload/training",
)  # fmt: skip
"""Folders of `models` that no kernel is in or imports from, so that an edit there compiles nothing anew."""
JIT_DISABLED = bool(numba.config.DISABLE_JIT)  # pyright: ignore[reportAttributeAccessIssue]


def source_digest() -> str:
    """Hash of every source file that a kernel can be made of, 16 hex digits; names the cache folder."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(numba.__version__.encode())
    folders = [root / folder for folder in ("pdes/engine", "pdes/skipping", "models")]
    free = tuple(f"models/{folder}/" for folder in FREE_OF_KERNELS)
    for path in [root / "pdes/units.py", *(path for folder in folders for path in sorted(folder.rglob("*.py")))]:
        name = path.relative_to(root).as_posix()
        if not name.startswith(free):
            digest.update(name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_seen: set[str] = set()


def compiled_kernels() -> set[str]:
    """Kernels that an earlier run of this version has left compiled, "module.function"."""
    folder = numba.config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]
    _seen.update(path.name.rpartition("-")[0] for path in Path(folder).rglob("*.nbi"))
    return _seen


def is_compiled(*kernel_names: str) -> bool:
    """True if an earlier run of this version left these kernels, "module.function", compiled."""
    return JIT_DISABLED or _seen.issuperset(kernel_names) or compiled_kernels().issuperset(kernel_names)


REFUSED: list[str] = []
"""Why folders of compiled code that others may have written to are not used: for people, as each run compiles then."""


def cache_folder() -> Path:
    """Folder of compiled code: $PDES_CACHE_DIR, else the user's cache folder, else a temporary one; of ours alone."""
    name, temporary = f"{source_digest()}{VARIANT}", Path(tempfile.gettempdir())
    for parent, root, refused_mode in (
        (cache_base(), CACHE_NAME, OTHERS_WRITE),
        (temporary, f"pdes-sim-{os.getuid()}", OTHERS_ANY),
    ):
        try:
            folder = make_private(parent, (root, name), refused_mode)
        except PermissionError as error:
            REFUSED.append(str(error))
            continue
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    fresh = tempfile.mkdtemp(prefix="pdes-sim-")
    atexit.register(shutil.rmtree, fresh, ignore_errors=True)  # nobody finds it again
    folder = Path(fresh) / f"kernels{VARIANT}"
    folder.mkdir()
    return folder


_given = os.environ.get("NUMBA_CACHE_DIR")
numba.config.CACHE_DIR = f"{_given}{VARIANT}" if _given else str(cache_folder())  # pyright: ignore[reportAttributeAccessIssue]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
TURNS_VARIABLE = "PDES_COMPILES_BESIDE"  # "1": other processes compile the same kernels at this moment
load_no_more_than_needed()
remember()
_turns = Turns(lambda: numba.config.CACHE_DIR)  # pyright: ignore[reportAttributeAccessIssue]


def _njit(library: "type[Step | Entry] | None" = None, **options: Any) -> Any:
    """`numba.njit`, into such a library if one is given, in turn with other processes if there are such."""
    if JIT_DISABLED or options.get("inline") == "always":
        return njit(**options)
    if library is not None:
        options |= {"no_cfunc_wrapper": True, "pipeline_class": compiler_into(library)}
    decorate, cache = njit(**options), None if library is None else cache_of(library)

    def decorated(function: Callable[..., Any]) -> Any:
        found: Any = decorate(function)
        if cache is not None:
            found._cache = cache(function)
        if library is not None and issubclass(library, Entry):
            make_straight(found)
        return _turns.guard(found) if os.environ.get(TURNS_VARIABLE) == "1" else found

    return decorated


kernel: Decorator = _njit(Entry, forceinline=False)  # said, as callees inherit it
"""Compile a function over arrays and scalars; compiled code is cached on disk. Nobody calls it from C, for which Numba
would compile another way in."""

loop_kernel: Decorator = _njit(Entry, _nrt=False, forceinline=False)
"""The same for the event loop: it cannot allocate, and arrays that it passes on are not reference-counted, which costs
10 times the loop itself otherwise."""

parallel_kernel: Decorator = _njit(cache=True, parallel=True, forceinline=False)
"""A kernel that Python calls, with loops over threads (`prange`), whose bodies are calls of steps."""

inlined: Decorator = _njit(inline="always", _nrt=False)
"""Paste a function into its callers: for steps of the event loop that have one call site and touch many arrays."""


def record(fields: list[tuple[Any, ...]]) -> np.dtype:
    """Structured dtype whose rows have named attributes, compiled or not. fields: (name, type), (name, type, shape)."""
    taken = [field[0] for field in fields if hasattr(np.record, field[0])]
    assert not taken, f"{taken} mean something else on a row of a NumPy array"
    return np.dtype((np.record, np.dtype(fields, align=True)))


CACHE_LINE_BYTES = 64


def aligned_zeros(n_row: int, dtype: Any) -> np.ndarray:
    """Zeros whose first row begins a cache line, so that a record of one line never lies across two.

    NumPy's own large arrays begin 16 bytes behind one.
    """
    dtype = np.dtype(dtype)
    memory = np.zeros(n_row * dtype.itemsize + CACHE_LINE_BYTES, np.uint8)
    begin = -memory.ctypes.data % CACHE_LINE_BYTES
    return memory[begin : begin + n_row * dtype.itemsize].view(dtype)


def zeros_for(n_own: int, n_row: int, dtype: Any) -> np.ndarray:
    """`aligned_zeros`, of which n_own rows are going to be written: a page without any of these takes no memory.

    Small pages, then: a large one nearly always has some. If all rows are written, as on a single rank, large ones.
    """
    dtype = np.dtype(dtype)
    if n_own >= n_row:
        return aligned_zeros(n_row, dtype)
    n_byte = n_row * dtype.itemsize
    memory = mmap.mmap(-1, n_byte, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a system without large pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8).view(dtype)


step_kernel: Decorator = _njit(Step, _nrt=False, no_cpython_wrapper=True, forceinline=False)
"""A loop kernel that only other kernels call: it is compiled within them alone, and Python crashes on it."""

fast_step: Decorator = _njit(Step, _nrt=False, no_cpython_wrapper=True, forceinline=True)
"""A step that every packet takes, put into its callers whatever its size: a call hands over seven words for each
array that is in no table."""


program_kernel: Decorator = _njit(Program, _nrt=False, forceinline=False)
"""A loop kernel that Python calls, the whole loop: calls inside of it hand over only what is needed."""
