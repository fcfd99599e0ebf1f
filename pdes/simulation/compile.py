"""The kernels of a run are compiled before anything happens in it, rank 0's first so that the others find them."""

import time
from typing import Any

from models.network.build.warm_up import task
from models.network.skip.progress import sample_all
from pdes.beginning import STARTING, Beginning
from pdes.engine.jit import is_compiled
from pdes.simulation.assemble import Assembly
from pdes.simulation.compilers import ALWAYS, Compilers, announce_compiling, file_name
from pdes.simulation.job import Run


def compile_kernels(job: Run, beginning: Beginning | None = None) -> float:
    """Compile what a run needs; seconds that it took. Every rank must call it."""
    begin_s, beginning = time.monotonic(), beginning or Beginning()
    if job.is_asleep:
        return 0.0
    if job.world.rank == 0:
        _say_what_it_takes(job, beginning)
        _compile_beside(job, beginning)
    compile_in_turn(job)
    if job.world.rank == 0:
        beginning.enter(STARTING)
    return time.monotonic() - begin_s


def compile_in_turn(job: Run) -> None:
    """Compile the kernels on rank 0, or load them there, then on the ranks that simulate with it."""
    if job.world.rank == 0:
        _compile(job)
    job.world.barrier()
    if job.world.rank > 0:
        _compile(job)
    job.world.barrier()


def compile_beside(assembly: Assembly, kernels: list[tuple[Any, tuple[Any, ...]]]) -> None:
    """Have other processes compile kernels, callees before their callers, if an earlier run has left none."""
    with Compilers() as compilers:
        if compilers.is_at_work:
            compilers.give(task(kernel, arguments) for kernel, arguments in kernels[len(ALWAYS) :])
            assembly.facts.compile()
            compilers.wait(lambda: None)


def _say_what_it_takes(job: Run, beginning: Beginning) -> None:
    """Rank 0's compilers have been announced; here are runs that need one kernel or another besides."""
    if job.compilers is not None and job.compilers.is_at_work:
        return
    others = [] if job.model.fast_forward is None else [file_name(sample_all)]
    if is_compiled(*(file_name(kernel) for kernel, _ in job.model.kernels()), *others):
        beginning.enter("loading the kernels")
    else:
        announce_compiling(beginning, job.compilers)


def _compile_beside(job: Run, beginning: Beginning) -> None:
    """What is left to the other processes, and what only this one can do meanwhile."""
    compilers, model = job.compilers, job.model
    if compilers is None or not compilers.is_at_work:
        return
    compilers.give(task(kernel, arguments) for kernel, arguments in model.kernels()[len(ALWAYS) :])
    job.assembly.facts.compile()
    if model.fast_forward is not None:
        model.fast_forward.compile(model.state)
    compilers.wait(beginning.check)


def _compile(job: Run) -> None:
    job.model.compile()
    job.assembly.facts.compile()
