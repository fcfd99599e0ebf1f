"""The window engine as compiled code of a CPU: on one thread, or over threads.

Experiments know nothing of each other, so each goes through many windows before the next one, with its state in the
cache; over threads it is one thread's, if there are enough of them. Else nodes are shared out, with barriers.
"""

import numba
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
def _run_experiment(w: Windows, i_experiment, n_window):
    """At most so many windows of an experiment; less if a node that has stopped for want of room keeps the others."""
    experiment = w.experiments[i_experiment]
    for _ in range(n_window):
        begin_ps = experiment.begin_ps
        if begin_ps == NEVER or w.status[OVERFLOWN]:
            break
        for i_chunk in range(experiment.first_chunk, experiment.end_chunk):
            _run_chunk(w, i_chunk)
        for i_chunk in range(experiment.first_chunk, experiment.end_chunk):
            look_around(w, i_chunk)
        begin_window(w, i_experiment)
        if experiment.begin_ps == begin_ps:
            break


@step_kernel
def _is_over(w: Windows):
    """Whether no experiment has an event left."""
    for i in range(w.experiments.size):
        if w.experiments[i].begin_ps < NEVER:
            return False
    return True


@program_kernel
def run_serial(w: Windows, n_window):
    """At most so many windows of each experiment on one thread; True: all is over."""
    for i in range(w.experiments.size):
        _run_experiment(w, i, n_window)
    return _is_over(w)


@parallel_kernel
def run_parallel(w: Windows, n_window, n_thread):
    """The same over so many threads."""
    if w.experiments.size >= n_thread:
        for i in prange(w.experiments.size):
            _run_experiment(w, i, n_window)
        return _is_over(w)
    for _ in range(n_window):
        for i_chunk in prange(w.chunks.size):
            _run_chunk(w, i_chunk)
        for i_chunk in prange(w.chunks.size):
            look_around(w, i_chunk)
        for i in range(w.experiments.size):
            begin_window(w, i)
        if _is_over(w) or w.status[STOPPED] or w.status[OVERFLOWN]:
            break
    return _is_over(w)


def run_over_threads(w: Windows, n_window: int) -> bool:
    """The same over as many threads as Numba has."""
    return bool(run_parallel(w, n_window, numba.get_num_threads()))
