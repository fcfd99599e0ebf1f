"""`pdes-sim config.toml`: a simulation, on all ranks that were started.

Rank 0 reads and checks everything before the others hear of it; bad input ends all ranks with one message and status 2.
An exception that nobody expects ends all ranks with its traceback.
"""

import argparse
import contextlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pdes.beginning import Beginning, Terminated
from pdes.commands.complaint import complain, complain_in_json, on_rank
from pdes.commands.parser import add_config, load, new_parser
from pdes.engine.private_folder import is_first_run
from pdes.errors import SimError
from pdes.launcher import LauncherError, check_launch, read_launch

if TYPE_CHECKING:
    from pdes.engine.exchange import World
    from pdes.simulation import Compilers, Prepared
    from pdes.witness import Witness

TRACE_ROWS, MOST_TRACE_ROWS = 100_000, 10_000_000


def make_parser(epilog: str) -> argparse.ArgumentParser:
    """Its arguments. epilog: what the help ends with."""
    text = "Simulate a GPU training cluster packet by packet, on one rank or many."
    raw = argparse.RawDescriptionHelpFormatter
    parser = new_parser("pdes-sim", text, run, epilog=epilog, formatter_class=raw)
    add_config(parser, nargs="?")
    text = "instead of a config: a folder of checkpoints ([checkpoint] dir), or one of them, to go on from"
    parser.add_argument("--resume", metavar="DIR", help=text)
    parser.add_argument("--out", metavar="DIR", help="result folder, instead of the config's [output] dir")
    text = "with [[job]] tables: then run each job alone, too, and say how many times as long it took among the others"
    parser.add_argument("--alone", action="store_true", help=text)
    text = "where packets are simulated: cpu, or cuda: a GPU; cpu-windows: the GPU's program on this CPU"
    parser.add_argument("--device", choices=("cpu", "cpu-windows", "cuda"), default="cpu", help=text)
    _add_debugging(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    text = "lines of progress also where stderr is no terminal"
    parser.add_argument("--progress", action="store_true", help=text)
    text = "quiet, and then result.json as one line on stdout; errors as a line of JSON on stderr"
    parser.add_argument("--json", action="store_true", help=text)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


def _add_debugging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("looking into a run (docs/debugging.md)")
    text = "write every event of these flows and ports to trace.txt and trace.parquet: flow=12,port=leaf3:2"
    group.add_argument("--trace", metavar="WHAT", help=text)
    text = "of a trace: keep at most so many events, the first ones (default: %(default)s)"
    group.add_argument("--trace-limit", metavar="N", type=_row_count, default=TRACE_ROWS, help=text)
    text = "check conservation, order and bounds at the end of every round; slow"
    group.add_argument("--check", action="store_true", help=text)
    text = "the same at the first round's end after every so much simulated time, such as 5ms: for long runs"
    group.add_argument("--check-every", metavar="TIME", type=_duration, help=text)
    text = "stop at this simulated time, such as 1.2ms, and print what is under way"
    group.add_argument("--until", metavar="TIME", type=_duration, help=text)
    text = "stop at the first round's end where this holds, and print it: 'queue(leaf3:2) > 1MB'"
    group.add_argument("--break", metavar="CONDITION", dest="condition", help=text)
    text = "run the kernels as plain Python, for a debugger: python -m pdb -m pdes config.toml --python"
    group.add_argument("--python", action="store_true", help=text)


def _row_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= MOST_TRACE_ROWS):
        raise argparse.ArgumentTypeError(f"found {text!r}. Accepted: a number of events, 1 to {MOST_TRACE_ROWS}")
    return int(text)


def _duration(text: str) -> str:
    from pdes.units import QuantityError, parse_duration_ps

    try:
        if parse_duration_ps(text) > 0:
            return text
        raise argparse.ArgumentTypeError(f"found {text!r}. Accepted: a duration above zero")
    except QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _choose_kernels(arguments: argparse.Namespace) -> None:
    """Which variant of the kernels: chosen by the environment, before the first of them is imported."""
    if arguments.python:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    if arguments.trace is not None:
        os.environ["PDES_TRACED"] = "1"


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is asked for beyond the config, as keywords for `simulation.prepare`; {} if nothing is."""
    checks = arguments.check or arguments.check_every is not None
    if not (arguments.trace or arguments.condition or checks or arguments.until):
        return {}
    from pdes.debug.options import DebugOptions
    from pdes.units import parse_duration_ps

    options = DebugOptions(
        trace=arguments.trace,
        trace_rows=arguments.trace_limit,
        condition=arguments.condition,
        checks=checks,
        check_every_ps=0 if arguments.check_every is None else parse_duration_ps(arguments.check_every),
        shows_end=arguments.until is not None,
        enters_debugger=_has_debugger(arguments),
    )
    return {"options": options}


def _has_debugger(arguments: argparse.Namespace) -> bool:
    """Whether somebody can talk to a debugger, and asks for one."""
    return arguments.python and sys.stdin is not None and sys.stdin.isatty()


def check(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """A run has a config or a checkpoint, which has its config in it."""
    if found.resume is None and found.config is None:
        parser.error("the following arguments are required: config.toml, or --resume DIR")
    if found.check and found.check_every is not None:
        parser.error("--check checks every round, --check-every fewer. Accepted: one of them")
    of_config = (
        found.config, found.overrides, found.tolerant, found.trace, found.condition, found.until, found.check,
        found.check_every, found.alone, found.device != "cpu",
    )  # fmt: skip
    if found.resume is not None and any(of_config):
        parser.error(
            "--resume goes on with the config in the checkpoint. Accepted besides: --out, --quiet, --progress, --json"
        )


class _Version(argparse.Action):
    """--version; asks the installed package only when it is used."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("pdes-sim")
        except PackageNotFoundError:
            number = "(not installed)"
        print(f"pdes-sim {number}")
        parser.exit()


def run(arguments: argparse.Namespace) -> int:
    """Simulate on all ranks. No exception leaves: each ends every rank."""
    arguments.quiet |= arguments.json
    if _is_of_cluster(arguments):
        from pdes.commands.cluster import run_cluster_config

        return run_cluster_config(arguments)
    _choose_kernels(arguments)
    stream = None if arguments.quiet else sys.stderr
    rank, says_start = read_launch().rank, is_first_run()
    with Beginning(rank, stream, arguments.progress, heeds_signals=True, says_start=says_start) as beginning:
        try:
            return _run(arguments, beginning)
        except KeyboardInterrupt as error:  # before there are other ranks, or after all is done
            return _interrupted(error, "" if read_launch().rank == 0 else None)


def _is_of_cluster(arguments: argparse.Namespace) -> bool:
    if arguments.config is None:
        from pdes.cluster.checkpoints import is_of_cluster

        return is_of_cluster(arguments.resume)
    from pdes.config.cluster.load import is_cluster_config

    return is_cluster_config(arguments.config)


def _run(arguments: argparse.Namespace, beginning: Beginning) -> int:
    try:
        comm = _start_mpi()
    except SimError as error:
        if read_launch().rank == 0:
            beginning.end()
            complain(error, None, arguments.json)
        return error.exit_status
    from pdes.witness import Witness

    beginning.join(comm)
    with Witness(comm.rank, comm.size) as witness:
        try:
            return _run_on(comm, arguments, witness, beginning)
        except BaseException as error:
            beginning.clear_line()
            status = _fail(error, comm, witness, arguments, beginning)
    comm.abort(status)  # ends the process if there are other ranks
    return status


def _interrupted(error: KeyboardInterrupt, where: str | None) -> int:
    """Say so; the exit status. where: on which rank; None: somebody else says it."""
    is_by_signal = isinstance(error, Terminated)
    if where is not None:
        text = f"stopped by a signal{where} before the first event" if is_by_signal else f"interrupted{where}"
        print(f"pdes-sim: {text}", file=sys.stderr, flush=True)
    return error.exit_status if is_by_signal else 130


def _fail(
    error: BaseException, comm: "World", witness: "Witness", arguments: argparse.Namespace, beginning: Beginning
) -> int:
    """Say that the run has failed and why, once of all ranks; the exit status."""
    is_first = witness.claim() and not beginning.was_told
    error = beginning.stopped_by or error  # of which it may be what somebody has made
    if isinstance(error, MemoryError):
        from pdes.simulation.failure import explained

        error = explained(error) or error
    if isinstance(error, SimError):
        if is_first:
            complain(error, comm, arguments.json)
        return error.exit_status
    if isinstance(error, KeyboardInterrupt):
        status = _interrupted(error, on_rank(comm) if is_first else None)
        beginning.pass_on(error)
        return status
    if is_first:
        # One write: what follows ends the process, and MPI passes on what has come by then.
        text = "".join(traceback.format_exception(error))
        if arguments.json:
            complain_in_json({"error": "internal error", "status": 1, "traceback": text}, comm)
        else:
            print(f"pdes-sim: internal error{on_rank(comm)}\n{text}", file=sys.stderr, flush=True)
    if _has_debugger(arguments) and comm.size == 1:
        import pdb

        pdb.post_mortem(error.__traceback__)
    return 1


def _run_on(comm: "World", arguments: argparse.Namespace, witness: "Witness", beginning: Beginning) -> int:
    from pdes import simulation

    status, prepared, n_rank_here, cores = 0, None, comm.n_rank_here(), comm.cores_here()
    with contextlib.ExitStack() as stack:
        if comm.rank == 0:
            try:
                n_ranks = comm.size, n_rank_here
                prepared = _prepare(
                    arguments, n_ranks, beginning, lambda: stack.enter_context(simulation.Compilers(cores))
                )
                stack.callback(prepared.folder.abandon)  # which does nothing once there are results
            except SimError as error:
                beginning.end()
                complain(error, None, arguments.json)
                status = error.exit_status
        status, shared = comm.bcast_once((status, prepared))
        if status:
            return status
        if prepared is not None:  # rank 0 keeps what only it has
            prepared.scenario, shared = shared.scenario, prepared
        more = {"shows_progress": True} if arguments.progress else {}
        status = simulation.run(shared, comm, arguments.quiet, witness, beginning=beginning, **more)
    if arguments.alone and status == 0:
        from pdes.commands.alone import run_alone

        run_alone(shared.scenario, comm, arguments.quiet)
    if arguments.json and comm.rank == 0 and status == 0:
        directory = shared.scenario.config.output.dir
        with open(os.path.join(directory, "result.json"), encoding="utf-8") as file:
            print(json.dumps({"output": directory} | json.load(file)), flush=True)
    return status


def _prepare(
    arguments: argparse.Namespace, n_ranks: tuple[int, int], beginning: Beginning, start: Callable[[], "Compilers"]
) -> "Prepared":
    """n_ranks: all and those here. start: of the compilers, once the config is a good one, as that is said."""
    from pdes import simulation

    resume: str | None = arguments.resume
    config = load(arguments) if resume is None else None
    if arguments.alone and config is not None:
        from pdes.simulation.alone import check_alone

        check_alone(config)
    if config is not None and arguments.device != "cpu":  # whose kernels are others
        return simulation.prepare(config, arguments.quiet, *n_ranks, **_options(arguments), device=arguments.device)
    compilers = start()
    if compilers.is_at_work:
        simulation.announce_compiling(beginning, compilers)
    else:
        beginning.enter("building the scenario")
    if config is None:
        assert resume is not None
        prepared = simulation.prepare_resumed(resume, arguments.out, arguments.quiet, *n_ranks)
    else:
        prepared = simulation.prepare(config, arguments.quiet, *n_ranks, **_options(arguments))
    prepared.compilers = compilers
    return prepared


def _start_mpi() -> "World":
    """The ranks. LauncherError: MPI is missing, or does not belong to the launcher."""
    launch = read_launch()
    try:
        from pdes.engine.exchange import world

        with warnings.catch_warnings():  # of mpi4py, on every rank: check_launch says it once and says what to do
            warnings.filterwarnings("ignore", "suspicious MPI execution environment")
            comm = world()
    except (ImportError, RuntimeError) as error:  # mpi4py without a library
        text = f"{launch.launcher or 'the launcher'}: no usable MPI library was found ({error}). "
        raise LauncherError(text + "Install one, for example with pip install 'pdes-sim[mpich]'") from error
    check_launch(launch, comm.size, comm.library())
    return comm
