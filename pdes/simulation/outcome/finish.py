"""The end of a run whose rounds are over: what the ranks counted, whether it came to its end, its results."""

import sys
from collections.abc import Callable

from pdes.errors import SimError
from pdes.simulation.job import Run
from pdes.simulation.loop import Ended
from pdes.simulation.outcome.gather import gather
from pdes.simulation.outcome.verdict import check_deadlock, check_end
from pdes.simulation.outcome.write import write_results


def finish(job: Run, compile_s: float, ended: Ended, quiet: bool) -> int:
    """Write the results, on all ranks; the exit status. Raises SimError. compile_s: what kernels took."""
    world = job.world
    if job.is_asleep:
        job.everyone.barrier()
        return 0
    totals = gather(job)
    say = _sayer(job)
    job.assembly.debug.tell(say, totals["last_ps"])
    traces = job.assembly.debug.write(job.folder, say)
    if world.rank == 0:  # alone, so that what it says is said once; the others wait below and end with it
        try:
            check_end(job, totals)
        except SimError:
            job.folder.keep(traces)  # what shows how it came to that
            raise
    job.world.barrier()
    if world.rank == 0:
        write_results(job, totals, compile_s, ended, quiet, traces)
        if job.witness is not None:
            job.witness.release_folder()
        check_deadlock(job, totals)
    job.everyone.barrier()
    return 0


def _sayer(job: Run) -> Callable[[str], None]:
    """Says something that was asked for, once: on stderr, also where all else is quiet."""
    if job.world.rank > 0:
        return lambda _: None
    return lambda text: print(text if text.startswith(" ") else f"pdes-sim: {text}", file=sys.stderr, flush=True)
