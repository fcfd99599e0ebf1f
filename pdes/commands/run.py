"""`pdes-sim config.toml`: a simulation, on all ranks that were started.

Rank 0 reads and checks everything before the others hear of it; bad input ends all ranks with one message and status 2.
An exception that nobody expects ends all ranks with its traceback.
"""

import argparse
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from pdes.commands.complaint import complain, on_rank
from pdes.commands.parser import add_config, load, new_parser
from pdes.errors import SimError
from pdes.launcher import LauncherError, check_launch, read_launch

if TYPE_CHECKING:
    from pdes.engine.exchange import World


def make_parser(epilog: str) -> argparse.ArgumentParser:
    """Its arguments. epilog: what the help ends with."""
    text = "Simulate a GPU training cluster packet by packet, on one rank or many."
    raw = argparse.RawDescriptionHelpFormatter
    parser = new_parser("pdes-sim", text, run, epilog=epilog, formatter_class=raw)
    add_config(parser, nargs="?")
    text = "instead of a config: a folder of checkpoints ([checkpoint] dir), or one of them, to go on from"
    parser.add_argument("--resume", metavar="DIR", help=text)
    parser.add_argument("--out", metavar="DIR", help="result folder, instead of the config's [output] dir")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


def check(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """A run has a config or a checkpoint, which has its config in it."""
    if found.resume is None and found.config is None:
        parser.error("the following arguments are required: config.toml, or --resume DIR")
    if found.resume is not None and (found.config is not None or found.overrides or found.tolerant):
        parser.error("--resume goes on with the config in the checkpoint. Accepted besides: --out and --quiet")


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
    try:
        comm = _start_mpi()
    except SimError as error:
        if read_launch().rank == 0:
            complain(error)
        return error.exit_status
    try:
        return _run_on(comm, arguments)
    except SimError as error:
        status = error.exit_status
        complain(error, comm)
    except KeyboardInterrupt:
        status = 130
        print(f"pdes-sim: interrupted{on_rank(comm)}", file=sys.stderr)
    except BaseException:
        status = 1
        # One write: what follows ends the process, and MPI passes on what has come by then.
        print(f"pdes-sim: internal error{on_rank(comm)}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    comm.abort(status)  # ends the process if there are other ranks
    return status


def _run_on(comm: "World", arguments: argparse.Namespace) -> int:
    from pdes import simulation

    prepared = None
    if comm.rank == 0:
        try:
            prepared = (0, _prepare(arguments, is_alone=comm.size == 1))
        except SimError as error:
            complain(error)
            prepared = (error.exit_status, None)
    elif comm.rank == 1:
        simulation.compile_ahead()
    status, scenario = comm.bcast(prepared)
    return status or simulation.run(scenario, comm, arguments.quiet)


def _prepare(arguments: argparse.Namespace, is_alone: bool) -> Any:
    from pdes import simulation

    if arguments.resume is None:
        return simulation.prepare(load(arguments), arguments.quiet, is_alone=is_alone)
    return simulation.prepare_resumed(arguments.resume, arguments.out, arguments.quiet, is_alone)


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
