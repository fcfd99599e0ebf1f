"""One run, start to results, and what `plan` prints.

`prepare` (rank 0) builds and checks; `run` (every rank) simulates; both are what `cli` calls. Nothing here can change a
result: it only decides where LPs run and where rows go.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdes.beginning import Beginning
from pdes.checkpoint_places import checkpoint_directory
from pdes.config import Config, load_config
from pdes.config.values import make_config
from pdes.engine.compiling.straight import let_go
from pdes.engine.exchange import World
from pdes.errors import SimError
from pdes.plan_options import Asked
from pdes.result import Result
from pdes.simulation.checkpoints.saved import take_up
from pdes.simulation.compile import compile_kernels
from pdes.simulation.compilers import Compilers, announce_compiling
from pdes.simulation.devices import Device
from pdes.simulation.failure import explained, how_to_go_on
from pdes.simulation.job import Run
from pdes.simulation.loop import run_to_end
from pdes.simulation.memory import within_memory
from pdes.simulation.outcome.finish import finish
from pdes.simulation.preparation.placing import build_placed
from pdes.simulation.preparation.prepare import prepare, prepare_resumed
from pdes.simulation.preparation.prepared import Prepared
from pdes.units import format_count
from pdes.witness import Witness

MANY_HOPS = 3 * 10**9
"""From which on a run of one rank takes minutes."""

__all__ = ["Compilers", "Prepared", "announce_compiling", "plan", "prepare", "prepare_resumed", "run", "simulate"]


def run(
    prepared: Prepared, world: World, quiet: bool = False, witness: Witness | None = None, heeds_signals: bool = True,
    shows_progress: bool = False, beginning: Beginning | None = None,
) -> int:  # fmt: skip
    """Simulate a prepared scenario on all ranks and write its results; the exit status. Raises SimError.

    witness: of this rank. heeds_signals: SIGUSR1 and SIGTERM ask for checkpoints, see
    `checkpoints.take.STOPPED_STATUS`. shows_progress: also where stderr is no terminal. beginning: of the program,
    ends when rounds begin.
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
        if job is not None:
            job.rows.close()
        let_go()
        if world.rank == 0:
            prepared.folder.abandon()


def _run(job: Run, quiet: bool, heeds_signals: bool, shows_progress: bool, beginning: Beginning) -> int:
    """All of a run, on one rank."""
    _warn(job)
    if not quiet:
        _say_what_saves_time(job)
    if job.device == "cpu":
        compile_s = compile_kernels(job, beginning)
        take_up(job)
        ended = run_to_end(job, quiet, heeds_signals, shows_progress, beginning)
    else:
        from pdes.simulation.devices.run import run_on_device

        compile_s, ended = 0.0, run_on_device([job], job.device, beginning)
    if ended.exit_status:
        return ended.exit_status
    return finish(job, compile_s, ended, quiet)


def _warn(job: Run) -> None:
    s, world = job.scenario, job.everyone
    n_idle = world.size - s.n_lp
    if world.rank == 0 and n_idle > 0:
        text = f"{_counted(world.size, 'rank')} for {_counted(s.n_lp, 'LP')}: {_counted(n_idle, 'rank')} "
        text += f"{'has' if n_idle == 1 else 'have'} nothing to do"
        print(f"pdes-sim: warning: {text}. A lower [partition] delay_threshold may give more LPs", file=sys.stderr)


def _say_what_saves_time(job: Run) -> None:
    """Where a run without fast-forwarding takes minutes or more, that there are other modes."""
    s, hops = job.scenario, int(job.scenario.port_hops.sum())
    if job.everyone.rank > 0 or s.config.wormhole.mode != "off" or s.stop_ps is not None or hops < MANY_HOPS:
        return
    text = f"all {format_count(hops)} packet-hops are simulated. `pdes-sim plan` says how long that takes, and"
    print(f'pdes-sim: {text} with [wormhole] mode = "exact", "auto" or "flow"', file=sys.stderr)


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def simulate(
    config: Config | Mapping[str, Any] | str | Path, out: str | Path | None = None, *, quiet: bool = True,
    device: Device = "cpu",
) -> Result:  # fmt: skip
    """Simulate on one rank, from Python; what came of it. Raises SimError.

    config: checked, or as `make_config` takes it, or a TOML file. out: the result folder, in place of the config's.
    quiet: nothing is printed. device: "cuda" is a GPU, see docs/gpu.md.
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
        prepared = prepare(config, quiet, device=device)
        prepared.compilers = compilers
        run(prepared, World(), quiet, heeds_signals=False, beginning=beginning)
    return Result(config.output.dir)


def plan(config: Config, wanted: Asked | None = None) -> None:
    """Print what a run would be, and on how many ranks how long if that is wanted; writes no results."""
    from pdes.plan import print_plan

    with within_memory(config):
        scenario = build_placed(config)
    print_plan(scenario)
    if wanted is not None:
        from pdes.plan_ranks import print_ranks

        print_ranks(scenario, wanted)
