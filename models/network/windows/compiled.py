"""The window engine as compiled code of a CPU: nodes over threads, or all on one."""

from numba import prange

from models.network.windows.state import OVERFLOWN, STOPPED, Windows
from models.network.windows.step import begin_window, look_around, run_node
from pdes.engine.jit import parallel_kernel, program_kernel, step_kernel
from pdes.engine.time_index import NEVER


@step_kernel
def _run_chunk(w: Windows, i_chunk):
    chunk = w.chunks[i_chunk]
    for node_id in range(chunk.first_node, chunk.end_node):
        run_node(w, node_id)


@step_kernel
def _is_over(w: Windows):
    """Whether no experiment has an event left."""
    for i in range(w.experiments.size):
        if w.experiments[i].begin_ps < NEVER:
            return False
    return True


@program_kernel
def run_serial(w: Windows, n_window):
    """At most so many windows on one thread; True: all is over. Less if a node stops for want of room."""
    for _ in range(n_window):
        for i_chunk in range(w.chunks.size):
            _run_chunk(w, i_chunk)
        for i_chunk in range(w.chunks.size):
            look_around(w, i_chunk)
        for i in range(w.experiments.size):
            begin_window(w, i)
        if _is_over(w) or w.status[STOPPED] or w.status[OVERFLOWN]:
            break
    return _is_over(w)


@parallel_kernel
def run_parallel(w: Windows, n_window):
    """The same over all threads."""
    for _ in range(n_window):
        for i_chunk in prange(w.chunks.size):
            _run_chunk(w, i_chunk)
        for i_chunk in prange(w.chunks.size):
            look_around(w, i_chunk)
        for i in prange(w.experiments.size):
            begin_window(w, i)
        if _is_over(w) or w.status[STOPPED] or w.status[OVERFLOWN]:
            break
    return _is_over(w)
