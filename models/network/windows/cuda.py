"""The window engine as kernels of a GPU, or of Numba's simulator of one.

A launch goes through many windows. Small experiments, if there are many, have a block of threads each, whose barrier
is the block's own. Else all blocks share all nodes, and a barrier is the grid's.

Only whoever asks for a GPU imports this. Floats are as on a CPU: fused multiplications and additions, which NVVM makes
unless it is told not to, would round once where a CPU rounds twice, and rates and tables would differ.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
from numba import config, typeof
from numba import cuda as _cuda

from models.congestion.interface import EVENT
from models.network.windows.engine import Tick, check_overflow
from models.network.windows.room import give_room, places_for
from models.network.windows.state import N_USED, ROOM, STOPPED, Windows
from models.network.windows.step import begin_window, look_around, run_node
from pdes.engine.time_index import NEVER
from pdes.errors import SimError

cuda: Any = _cuda  # whose types know no kernels
IS_SIMULATED = bool(config.ENABLE_CUDASIM)  # pyright: ignore[reportAttributeAccessIssue]
WINDOWS_AT_ONCE = 4 if IS_SIMULATED else 256  # between two looks at how far experiments are
MOST_IN_BLOCK = 4096  # nodes of an experiment that has one block
FEWEST_BLOCKS = 132  # experiments from which on each has one block: less leave much of a large GPU without work
BLOCK_THREADS = 4 if IS_SIMULATED else 640  # of a block that has an experiment
GRID_THREADS = 4 if IS_SIMULATED else 256  # of a block that shares the nodes with all others
WARP_THREADS = 2 if IS_SIMULATED else 32
CHUNK_NODES = 4
FIRST_ROOM = (8, 4, 2, 1)  # over what a CPU's links and nodes begin with, if it fits: who wants more stops a launch
MAX_REGISTERS = 96  # of a thread: a block of 640 fits into a multiprocessor, which has 2**16
WHOLE: Any = {} if IS_SIMULATED else {"lto": False, "max_registers": MAX_REGISTERS}  # a linker would fuse, too
RESULTS = ("ports", "port_info", "spots", "queue_pairs", "flows")  # what `run_networks` reads
SCRATCH = ("keys", "event_words")  # begin as zeros
VIEWS = {"controlled": "control", "events": "event_words"}  # the same memory as records


@cuda.jit(device=True)
def _place(n_block, block):
    """A thread's place among those of n_block blocks, of which its own is number block: warp by warp.

    Neighbours lie in different warps, and so do the nodes that have most to do, which are neighbours: threads of a warp
    wait for each other.
    """
    warp, lane = cuda.threadIdx.x // WARP_THREADS, cuda.threadIdx.x % WARP_THREADS
    return (lane * (cuda.blockDim.x // WARP_THREADS) + warp) * n_block + block


@cuda.jit(**WHOLE)
def _run_experiments(w, n_window):
    """So many windows of the block's experiment; less if a node that has stopped for want of room keeps the others."""
    i_experiment, place = cuda.blockIdx.x, _place(1, 0)
    experiment = w.experiments[i_experiment]
    first_node, end_node = w.chunks[experiment.first_chunk].first_node, w.chunks[experiment.end_chunk - 1].end_node
    for _ in range(n_window):
        begin_ps = experiment.begin_ps  # all threads see the same: nobody writes it before the next barrier
        if begin_ps >= NEVER:
            break
        for node_id in range(first_node + place, end_node, cuda.blockDim.x):
            run_node(w, node_id)
        cuda.syncthreads()
        for i_chunk in range(experiment.first_chunk + place, experiment.end_chunk, cuda.blockDim.x):
            look_around(w, i_chunk)
        cuda.syncthreads()
        if place == 0:
            begin_window(w, i_experiment)
        cuda.syncthreads()
        if experiment.begin_ps == begin_ps:
            break


@cuda.jit(**WHOLE)
def _run_network(w, n_window, least_ps):
    """So many windows of all experiments by all blocks, which are all there at a time and meet between steps.

    least_ps: int64[n_experiment], NEVER; for these kernels alone.
    """
    grid, n_thread, place = cuda.cg.this_grid(), cuda.gridsize(1), _place(cuda.gridDim.x, cuda.blockIdx.x)
    for _ in range(n_window):
        i_ahead = 0  # an experiment that is not over; all threads see the same
        while i_ahead < w.experiments.size and w.experiments[i_ahead].begin_ps >= NEVER:
            i_ahead += 1
        if i_ahead == w.experiments.size:
            break
        for node_id in range(place, w.nodes.size, n_thread):
            run_node(w, node_id)
        grid.sync()
        for i_chunk in range(place, w.chunks.size, n_thread):
            look_around(w, i_chunk)
            chunk = w.chunks[i_chunk]
            cuda.atomic.min(least_ps, w.spots[chunk.first_node].experiment, chunk.least_ps)
        grid.sync()
        for i in range(place, w.experiments.size, n_thread):
            w.experiments[i].begin_ps = least_ps[i]
            least_ps[i] = NEVER
        grid.sync()


@cuda.jit(**WHOLE)
def _find_wanted(w, rows, n_row):
    """Who wants room, in any order: rows of ROOM, whose number is counted in n_row[0]; status counts it as used."""
    for i in range(cuda.grid(1), w.wires.size + w.spots.size, cuda.gridsize(1)):
        i_spot = i - w.wires.size
        n_place = np.int64(w.spots[i_spot].n_wanted) if i_spot >= 0 else w.wires[i].n_wanted
        if n_place > 0:
            row = rows[cuda.atomic.add(n_row, 0, 1)]
            row.first, row.n_place = cuda.atomic.add(w.status, N_USED, n_place), n_place
            row.owner, row.is_node = (i_spot, 1) if i_spot >= 0 else (i, 0)


@cuda.jit(**WHOLE)
def _give_rooms(w, rows):
    for i in range(cuda.grid(1), rows.size, cuda.gridsize(1)):
        give_room(w, rows, i)


KERNELS: tuple[Any, ...] = (_run_experiments, _run_network, _give_rooms, _find_wanted)


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
    """Kernels that are compiled meanwhile round as a CPU does; SimError if the compiler fuses anything all the same.

    What is looked at is what is run: asked for later, a kernel's text may have been compiled once more.
    """
    if IS_SIMULATED:
        yield
        return
    from numba.cuda.cudadrv import nvvm

    driver: Any = nvvm
    compile_ir = driver.compile_ir

    def compile_unfused(text: Any, **options: Any) -> bytes:
        compiled = compile_ir(text, **(options | {"fma": False}))
        if b"fma.rn.f64" in compiled:
            raise SimError("this version of numba-cuda fuses floating-point operations, so that results would differ")
        return compiled

    driver.compile_ir = compile_unfused
    try:
        yield
    finally:
        driver.compile_ir = compile_ir


class CudaEngine:
    """Windows on a GPU. Nothing leaves it before all experiments are over, but for what says how far they are."""

    chunk_nodes = CHUNK_NODES

    def __init__(self) -> None:
        self.kernel_seconds = 0.0  # of the windows of all runs, without copies

    def run(self, w: Windows, tick: Tick | None = None) -> Windows:
        """Run all experiments to their ends; the state as it is then, but for packets."""
        n_most, least_ps = most_nodes(w), cuda.to_device(np.full(len(w.experiments), NEVER))
        with unfused():
            room = _first_room(w)
            w.wires["n_wanted"] *= room
            w.spots["n_wanted"] *= room
            on_device = _relieve(_to_device(w))
            while True:
                begin_s = perf_counter()
                _launch(on_device, n_most, least_ps)
                status = on_device.status.copy_to_host()  # waits for the kernel
                self.kernel_seconds += perf_counter() - begin_s
                experiments = on_device.experiments.copy_to_host()
                check_overflow(status)
                if status[STOPPED]:
                    on_device = _relieve(on_device)
                elif (experiments["begin_ps"] >= NEVER).all():
                    for field in RESULTS:
                        getattr(on_device, field).copy_to_host(getattr(w, field))
                    return w
                if tick is not None:
                    tick(int(on_device.spots.copy_to_host()["n_hop"].sum()))


def _first_room(w: Windows) -> int:
    """The first of FIRST_ROOM that takes a third of the free memory at most, or the last: old and longer tables of
    packets are there at a time when room grows by half."""
    if IS_SIMULATED:
        return FIRST_ROOM[-1]
    n_place = int(w.wires["n_wanted"].sum() + w.spots["n_wanted"].sum())
    n_byte = n_place * (w.packets.itemsize + w.label.itemsize + w.extra.shape[1] * w.extra.itemsize)
    free_byte = cuda.current_context().get_memory_info()[0]
    return next((room for room in FIRST_ROOM if room * n_byte <= free_byte // 3), FIRST_ROOM[-1])


def most_nodes(w: Windows) -> int:
    """Of an experiment."""
    return int(np.bincount(w.spots["experiment"]).max())


def _launch(w: Windows, n_most: int, least_ps: Any) -> None:
    """WINDOWS_AT_ONCE windows. n_most: `most_nodes`. least_ps: see `_run_network`."""
    n_experiment = w.experiments.size
    if n_most <= MOST_IN_BLOCK and n_experiment >= FEWEST_BLOCKS:
        _run_experiments[n_experiment, BLOCK_THREADS](w, WINDOWS_AT_ONCE)
    else:
        _run_network[_n_block(w, least_ps), GRID_THREADS](w, WINDOWS_AT_ONCE, least_ps)


def _n_block(w: Windows, least_ps: Any) -> int:
    """How many blocks can meet: as many as are there at a time."""
    if IS_SIMULATED:
        return 1
    signature = (typeof(w), typeof(WINDOWS_AT_ONCE), typeof(least_ps))
    return _run_network.compile(signature).max_cooperative_grid_blocks(GRID_THREADS)


def _to_device(w: Windows) -> Windows:
    fields = [field for field in w._fields if field not in VIEWS]
    arrays = {field: (_zeros if field in SCRATCH else cuda.to_device)(getattr(w, field)) for field in fields}
    for field, source in VIEWS.items():
        dtype = EVENT if field == "events" else w.controlled.dtype
        arrays[field] = arrays[source].view(dtype).reshape(len(getattr(w, source)))
    return Windows(**arrays)


def _zeros(table: np.ndarray) -> Any:
    """As large a table of zeros on the device."""
    if IS_SIMULATED or not table.size:
        return cuda.to_device(table)
    from numba.cuda.cudadrv.driver import device_memset

    found = cuda.device_array(table.shape, table.dtype)
    device_memset(found, 0, table.nbytes)
    return found


def _relieve(w: Windows) -> Windows:
    """The same with room for all who want some. Neither packets nor who wants room leave the device for that."""
    n_owner, n_row = w.wires.size + w.spots.size, cuda.to_device(np.zeros(1, np.int64))
    rows = cuda.device_array(n_owner, ROOM)
    _find_wanted[_blocks_for(n_owner), GRID_THREADS](w, rows, n_row)
    n_wanted, status = int(n_row.copy_to_host()[0]), w.status.copy_to_host()
    n_new = places_for(status, w.packets.size)
    if n_new > w.packets.size:
        w = w._replace(**{name: _longer(getattr(w, name), n_new) for name in ("packets", "label", "extra")})
    status[STOPPED] = 0
    w.status.copy_to_device(status)
    if n_wanted:
        _give_rooms[_blocks_for(n_wanted), GRID_THREADS](w, rows[:n_wanted])
    return w


def _blocks_for(n_row: int) -> int:
    """Blocks of GRID_THREADS whose threads go through so many rows."""
    return 1 if IS_SIMULATED else (n_row + GRID_THREADS - 1) // GRID_THREADS


def _longer(table: Any, n_row: int) -> Any:
    """A copy on the device with so many rows; those that are new hold anything."""
    shape = (n_row, *table.shape[1:])
    if not np.prod(shape):
        return cuda.to_device(np.zeros(shape, table.dtype))
    longer = cuda.device_array(shape, table.dtype)
    if table.size:
        _bytes_of(longer)[: table.size * table.dtype.itemsize].copy_to_device(_bytes_of(table))
    return longer


def _bytes_of(table: Any) -> Any:
    return table.reshape(table.size).view(np.uint8)
