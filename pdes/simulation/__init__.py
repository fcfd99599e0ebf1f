"""One run, start to results, and what `plan` prints.

`prepare` (rank 0) builds and checks; `run` (every rank) simulates; both are what `cli` calls. Nothing here can change a
result: it only decides where LPs run and where rows go.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from models.network.watch.blocked import find_circle
from pdes.beginning import Beginning
from pdes.config import Config, load_config
from pdes.config.values import make_config
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.errors import SimError
from pdes.plan_options import Asked
from pdes.result import Result
from pdes.results.pauses import deadlock_text
from pdes.scenario import build_scenario
from pdes.simulation.checkpoint import checkpoint_directory
from pdes.simulation.compilers import Compilers, announce_compiling
from pdes.simulation.failure import explained, how_to_go_on
from pdes.simulation.gather import gather
from pdes.simulation.job import Prepared, Run, prepare, prepare_resumed
from pdes.simulation.memory import within_memory
from pdes.simulation.write import deadlocks, write_results
from pdes.units import format_duration
from pdes.witness import Witness

MOST_LINES = 20  # about who waits

__all__ = ["Compilers", "Prepared", "announce_compiling", "plan", "prepare", "prepare_resumed", "run", "simulate"]


def run(
    prepared: Prepared, world: World, quiet: bool = False, witness: Witness | None = None, heeds_signals: bool = True,
    shows_progress: bool = False, beginning: Beginning | None = None,
) -> int:  # fmt: skip
    """Simulate a prepared scenario on all ranks and write its results; the exit status. Raises SimError.

    witness: of this rank. heeds_signals: SIGUSR1 and SIGTERM ask for checkpoints, see `checkpoint.STOPPED_STATUS`.
    shows_progress: also where stderr is no terminal. beginning: of the program, ends when rounds begin.
    """
    job, checkpoints = None, checkpoint_directory(prepared.scenario.config).absolute()
    try:
        job = Run(prepared, world, witness)
        return _run(job, quiet, heeds_signals, shows_progress, beginning or Beginning())
    except KeyboardInterrupt:
        if witness is not None:
            witness.claim()
        raise
    except Exception as error:
        if witness is not None:
            witness.claim()  # before the folder for that is cleared
        if (refused := explained(error, checkpoints)) is not None:
            raise refused from error
        if not isinstance(error, SimError):
            error.add_note(how_to_go_on(checkpoints))
        raise
    finally:
        for spool in () if job is None else (job.flows, job.tasks, job.spent):
            spool.close()
        if world.rank == 0:
            prepared.folder.abandon()


def _run(job: Run, quiet: bool, heeds_signals: bool, shows_progress: bool, beginning: Beginning) -> int:
    """All of a run, on one rank."""
    world = job.world
    _warn(job)
    compile_s = job.compile(beginning)
    job.restore()
    loop_s = job.simulate(quiet, heeds_signals, shows_progress, beginning)
    if job.checkpoints is not None and job.checkpoints.exit_status:
        return job.checkpoints.exit_status
    totals = gather(job)
    say = _sayer(job)
    job.debug.tell(say, totals["last_ps"])
    traces = job.debug.write(job.folder, say)
    if world.rank == 0:  # alone, so that what it says is said once; the others wait below and end with it
        try:
            _check_end(job, totals)
        except SimError:
            job.folder.keep(traces)  # what shows how it came to that
            raise
    job.world.barrier()
    if world.rank == 0:
        write_results(job, totals, (compile_s, loop_s), quiet, traces)
        job.release_folder()
        _check_deadlock(job, totals)
    job.world.barrier()
    return 0


def _check_end(job: Run, totals: dict[str, Any]) -> None:
    """Raise SimError if a run without a stop time ended before its workload; with a deadlock there are results."""
    n_left = job.n_flow - totals["n_flow_done"]
    ends_early = job.scenario.stop_ps is not None or job.debug.stopped_ps is not None
    if job.stall is not None and job.is_stalled:
        stalled = [item.text for item in sorted(totals["stalled"], key=lambda item: item.node)]
        lines = [f"{n_left} flows are unfinished", *_listed(stalled)]
        lines.append("Links that are down or lose everything may be why; [simulation] stop_time ends a run anyway")
        text = f"the run cannot go on: since {format_duration(job.stall.since_ps, 3)} at the latest every packet is "
        text += "lost that is sent, and nothing is to come that changes it"
        raise SimError(text + "\n  " + "\n  ".join(lines))
    if ends_early or job.circles or not (totals["blocked"] or n_left):
        return
    if totals["last_ps"] > NEVER // 8:
        text = f"the run would pass {format_duration(NEVER)} of simulated time, the most that there is, with "
        raise SimError(f"{text}{n_left} flows unfinished. Check the rates, delays and sizes of the config")
    lines = [f"{n_left} flows are unfinished", *_who_waits(job, totals)]
    raise SimError("the run cannot go on: nothing is left to happen, but\n  " + "\n  ".join(lines))


def _who_waits(job: Run, totals: dict[str, Any]) -> list[str]:
    """Lines that say who waits for whom; first a circle, if there is one."""
    blocked = sorted(totals["blocked"], key=lambda item: item.node)  # the same on any number of ranks
    names = [job.scenario.topology.node_name[node] for node in find_circle(blocked)]
    circle = [f"a circle: {' waits for '.join([*names, names[0]])}"] if names else []
    return circle + _listed([item.text for item in blocked])


def _listed(texts: list[str]) -> list[str]:
    """Not more of them than anyone would read."""
    more = [f"and {len(texts) - MOST_LINES} more"] if len(texts) > MOST_LINES else []
    return texts[:MOST_LINES] + more


def _check_deadlock(job: Run, totals: dict[str, Any]) -> None:
    """Raise SimError if a PFC deadlock kept the run from its end; its results are in place."""
    n_left = job.n_flow - totals["n_flow_done"]
    is_end = job.scenario.stop_ps is None and (n_left or totals["blocked"])
    if not (job.is_deadlocked or (job.circles and is_end)):
        return
    lines = [deadlock_text(deadlock) for deadlock in deadlocks(job, totals)]
    lines.append(f"{n_left} flows are unfinished; the results up to here are in {job.folder.directory}")
    lines.append("A larger [network.buffer], a slower start or routes without a circle may avoid it")
    why = "some queues wait for each other for ever" if job.is_deadlocked else "nothing is left to happen"
    raise SimError(f"the run cannot go on: {why}\n  " + "\n  ".join(lines))


def _sayer(job: Run) -> Callable[[str], None]:
    """Says something that was asked for, once: on stderr, also where all else is quiet."""
    if job.world.rank > 0:
        return lambda _: None
    return lambda text: print(text if text.startswith(" ") else f"pdes-sim: {text}", file=sys.stderr, flush=True)


def _warn(job: Run) -> None:
    s, world = job.scenario, job.world
    n_idle = world.size - s.n_lp
    if world.rank == 0 and n_idle > 0:
        text = f"{_counted(world.size, 'rank')} for {_counted(s.n_lp, 'LP')}: {_counted(n_idle, 'rank')} "
        text += f"{'has' if n_idle == 1 else 'have'} nothing to do"
        print(f"pdes-sim: warning: {text}. A lower [partition] delay_threshold may give more LPs", file=sys.stderr)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def simulate(
    config: Config | Mapping[str, Any] | str | Path, out: str | Path | None = None, *, quiet: bool = True
) -> Result:  # fmt: skip
    """Simulate on one rank, from Python; what came of it. Raises SimError.

    config: checked, or as `make_config` takes it, or a TOML file. out: the result folder, in place of the config's.
    quiet: nothing is printed.
    """
    if isinstance(config, str | Path):
        config = load_config(config)
    elif not isinstance(config, Config):
        config = make_config(config)
    if out is not None:
        config = config.written_to(out)
    with Beginning(stream=None if quiet else sys.stderr) as beginning, Compilers() as compilers:
        if compilers.is_at_work:
            announce_compiling(beginning, compilers)
        prepared = prepare(config, quiet)
        prepared.compilers = compilers
        run(prepared, World(), quiet, heeds_signals=False, beginning=beginning)
    return Result(config.output.dir)


def plan(config: Config, wanted: Asked | None = None) -> None:
    """Print what a run would be, and on how many ranks how long if that is wanted; writes no results."""
    from pdes.plan import print_plan

    with within_memory(config):
        scenario = build_scenario(config)
    print_plan(scenario)
    if wanted is not None:
        from pdes.plan_ranks import print_ranks

        print_ranks(scenario, wanted)
