"""The window engine as kernels of a GPU, or of Numba's simulator of one.

Small experiments have a block of threads each, which goes through many windows in one launch: its barrier is the
block's own. Where an experiment is too large for that, the three steps of a window are launches of their own, with a
thread for each node, chunk and experiment.

Only whoever asks for a GPU imports this. Floats are as on a CPU: fused multiplications and additions, which NVVM makes
unless it is told not to, would round once where a CPU rounds twice, and rates and tables would differ.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import numpy as np
from numba import config
from numba import cuda as _cuda

from models.congestion.interface import EVENT
from models.network.windows.engine import Tick, check_overflow
from models.network.windows.make import relieve
from models.network.windows.state import OVERFLOWN, STOPPED, Windows
from models.network.windows.step import begin_window, look_around, run_node
from pdes.engine.time_index import NEVER
from pdes.errors import SimError

cuda: Any = _cuda  # whose types know no kernels
IS_SIMULATED = bool(config.ENABLE_CUDASIM)  # pyright: ignore[reportAttributeAccessIssue]
WINDOWS_AT_ONCE = 4 if IS_SIMULATED else 256  # between two looks at how far experiments are
MOST_IN_BLOCK = 4096  # nodes of an experiment that has one block
THREADS, BLOCK_THREADS = 32, 4 if IS_SIMULATED else 256  # of a block: in launches by step; that has an experiment
CHUNK_NODES = 4
WHOLE: Any = {"lto": False} if "lto" in signature(cuda.jit).parameters else {}  # a linker would fuse, too
VIEWS = {"controlled": "control", "events": "event_words"}  # the same memory as records


@cuda.jit(**WHOLE)
def _run_nodes(w):
    node_id = cuda.grid(1)
    if node_id < w.nodes.size:
        run_node(w, node_id)


@cuda.jit(**WHOLE)
def _look_around(w):
    i_chunk = cuda.grid(1)
    if i_chunk < w.chunks.size:
        look_around(w, i_chunk)


@cuda.jit(**WHOLE)
def _begin_windows(w):
    i = cuda.grid(1)
    if i < w.experiments.size:
        begin_window(w, i)


@cuda.jit(**WHOLE)
def _run_experiment(w, n_window):
    """So many windows of the block's experiment."""
    i_experiment, thread = cuda.blockIdx.x, cuda.threadIdx.x
    experiment = w.experiments[i_experiment]
    first_node, end_node = w.chunks[experiment.first_chunk].first_node, w.chunks[experiment.end_chunk - 1].end_node
    for _ in range(n_window):
        if experiment.begin_ps >= NEVER:  # all threads see the same: nobody writes it before the next barrier
            break
        for node_id in range(first_node + thread, end_node, cuda.blockDim.x):
            run_node(w, node_id)
        cuda.syncthreads()
        for i_chunk in range(experiment.first_chunk + thread, experiment.end_chunk, cuda.blockDim.x):
            look_around(w, i_chunk)
        cuda.syncthreads()
        if thread == 0:
            begin_window(w, i_experiment)
        cuda.syncthreads()


STEPS: tuple[Any, ...] = (_run_nodes, _look_around, _begin_windows)
KERNELS: tuple[Any, ...] = (*STEPS, _run_experiment)


def why_not() -> str:
    """Why no GPU can be used here; "" if one can."""
    if IS_SIMULATED or cuda.is_available():
        return ""
    try:
        cuda.current_context()
    except Exception as error:  # whatever the driver says
        lines = [line.strip().rstrip(".") for line in str(error).splitlines() if line.strip(" :")]
        said = [line for line in lines if not line.startswith("Error at driver init")] or [type(error).__name__]
        return f"Numba finds no GPU: {said[0]}"
    return "Numba finds no GPU"


def name() -> str:
    """Of the device."""
    if IS_SIMULATED:
        return "CUDA simulator"
    found = cuda.get_current_device().name
    return found.decode() if isinstance(found, bytes) else str(found)


@contextmanager
def unfused() -> Iterator[None]:
    """Kernels that are compiled meanwhile round as a CPU does."""
    if IS_SIMULATED:
        yield
        return
    from numba.cuda.cudadrv import nvvm

    driver: Any = nvvm
    compile_ir = driver.compile_ir

    def compile_unfused(text: Any, **options: Any) -> Any:
        return compile_ir(text, **(options | {"fma": False}))

    driver.compile_ir = compile_unfused
    try:
        yield
    finally:
        driver.compile_ir = compile_ir


def _check_unfused() -> None:
    """Raise SimError if the compiler has fused anything all the same."""
    if IS_SIMULATED:
        return
    for kernel in KERNELS:
        texts = kernel.inspect_asm()
        if any("fma.rn.f64" in text for text in (texts.values() if isinstance(texts, dict) else [texts])):
            raise SimError("this version of numba-cuda fuses floating-point operations, so that results would differ")


class CudaEngine:
    """Windows on a GPU. Nothing leaves it before all experiments are over, but for what says how far they are."""

    chunk_nodes = CHUNK_NODES

    def run(self, w: Windows, tick: Tick | None = None) -> Windows:
        """Run all experiments to their ends; the state as it is then."""
        on_device, is_checked, n_most = _to_device(w), False, most_nodes(w)
        while True:
            with unfused():
                _launch(on_device, n_most)
            if not is_checked:
                _check_unfused()
                is_checked = True
            status, experiments = on_device.status.copy_to_host(), on_device.experiments.copy_to_host()
            if status[STOPPED] or status[OVERFLOWN]:
                w = _to_host(w, on_device)
                check_overflow(w)
                w = relieve(w)
                on_device = _to_device(w)
            elif (experiments["begin_ps"] >= NEVER).all():
                return _to_host(w, on_device)
            if tick is not None:
                tick(int(on_device.spots.copy_to_host()["n_hop"].sum()))


def most_nodes(w: Windows) -> int:
    """Of an experiment."""
    return int(np.bincount(w.spots["experiment"]).max())


def _launch(w: Windows, n_most: int) -> None:
    """WINDOWS_AT_ONCE windows. Launches run one after the other, which is a barrier. n_most: `most_nodes`."""
    if n_most <= MOST_IN_BLOCK:
        _run_experiment[w.experiments.size, BLOCK_THREADS](w, WINDOWS_AT_ONCE)
        return
    for _ in range(WINDOWS_AT_ONCE):
        for kernel, n in zip(STEPS, (w.nodes.size, w.chunks.size, w.experiments.size), strict=True):
            kernel[(n + THREADS - 1) // THREADS, THREADS](w)


def _to_device(w: Windows) -> Windows:
    arrays = {field: cuda.to_device(getattr(w, field)) for field in w._fields if field not in VIEWS}
    for field, source in VIEWS.items():
        dtype = EVENT if field == "events" else w.controlled.dtype
        arrays[field] = arrays[source].view(dtype).reshape(len(getattr(w, source)))
    return Windows(**arrays)


def _to_host(w: Windows, on_device: Windows) -> Windows:
    """Copy back what has changed, into the arrays that it came from."""
    for field in w._fields:
        if field not in VIEWS and getattr(w, field).size:
            np.copyto(getattr(w, field), getattr(on_device, field).copy_to_host())
    return w
