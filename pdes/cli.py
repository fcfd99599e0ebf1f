"""The command line: `pdes-sim config.toml`, and plan, report, convert. Imports what it needs only when it needs it.

Rank 0 reads and checks everything before the others hear of it; bad input ends all ranks with one message and status 2.
An exception that nobody expects ends all ranks with its traceback.
"""

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from pdes.errors import ConfigError, SimError
from pdes.launcher import LauncherError, check_launch, read_launch

if TYPE_CHECKING:
    from pdes.config import Config
    from pdes.engine.exchange import World

EPILOG = """\
commands:
  pdes-sim config.toml                            simulate; under mpirun -n N on N ranks, with the same results
  pdes-sim --resume DIR                           go on from the newest checkpoint in DIR, on any number of ranks
  pdes-sim plan config.toml                       print what a run would be, and run nothing
  pdes-sim plan config.toml --ranks 1,2,4,..,64   replay a short run on one rank: the time to expect on many
  pdes-sim report DIR                             print the summary of a result folder again
  pdes-sim convert ns3 FOLDER -o case.toml        make a config of an ns-3 (HPCC) case, or of
                                                  astra-sim, simai or htsim inputs
  pdes-sim export chakra config.toml -o PREFIX    write a workload as Chakra traces or GOAL; flows as ns-3's fct.txt

Exit status: 0 done, 2 bad input, 75 stopped by SIGTERM after a checkpoint, 1 anything else."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit status. argv: without the program's name; None: the process's own."""
    launch = read_launch()
    try:
        arguments = _parse(sys.argv[1:] if argv is None else argv, is_silent=launch.rank > 0)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    if arguments.command is _run:
        return _run(arguments)
    if launch.rank > 0:  # only a simulation needs more than one process
        return 0
    try:
        return arguments.command(arguments)
    except SimError as error:
        _complain(error)
        return error.exit_status


def _parse(argv: list[str], is_silent: bool) -> argparse.Namespace:
    makers = {"plan": _plan_parser, "report": _report_parser, "convert": _convert_parser, "export": _export_parser}
    is_command = bool(argv) and argv[0] in makers
    parser = makers[argv[0]]() if is_command else _run_parser()
    with open(os.devnull, "w") as nowhere, contextlib.ExitStack() as stack:
        if is_silent:  # n ranks would say the same n times
            stack.enter_context(contextlib.redirect_stdout(nowhere))
            stack.enter_context(contextlib.redirect_stderr(nowhere))
        if not argv:
            parser.print_help(sys.stderr)
            parser.exit(2)
        if not is_command and len(argv) > 1 and argv[0].isidentifier() and argv[1].endswith(".toml"):
            parser.error(f"{argv[0]} is no command. Commands: {', '.join(makers)}; to simulate, give the config alone")
        found = parser.parse_args(argv[1:] if is_command else argv)
        if found.command is _run:
            _check_run(parser, found)
        return found


def _check_run(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """A run has a config or a checkpoint, which has its config in it."""
    if found.resume is None and found.config is None:
        parser.error("the following arguments are required: config.toml, or --resume DIR")
    if found.resume is not None and (found.config is not None or found.overrides or found.tolerant):
        parser.error("--resume goes on with the config in the checkpoint. Accepted besides: --out and --quiet")


def _new_parser(name: str, description: str, command: Any, **kwargs: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, description=description, allow_abbrev=False, **kwargs)
    parser.set_defaults(command=command)
    return parser


def _run_parser() -> argparse.ArgumentParser:
    text = "Simulate a GPU training cluster packet by packet, on one rank or many."
    raw = argparse.RawDescriptionHelpFormatter
    parser = _new_parser("pdes-sim", text, _run, epilog=EPILOG, formatter_class=raw)
    _add_config(parser, nargs="?")
    text = "instead of a config: a folder of checkpoints ([checkpoint] dir), or one of them, to go on from"
    parser.add_argument("--resume", metavar="DIR", help=text)
    parser.add_argument("--out", metavar="DIR", help="result folder, instead of the config's [output] dir")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


def _add_config(parser: argparse.ArgumentParser, **keys: Any) -> None:
    parser.add_argument("config", metavar="config.toml", help="what to simulate", **keys)
    text = "override one key of the config; may be repeated"
    parser.add_argument("--set", metavar="TABLE.KEY=VALUE", dest="overrides", action="append", default=[], help=text)
    text = "of a trace: leave out what some tools write wrong, and warn; the same as --set workload.tolerant=true"
    parser.add_argument("--tolerant", action="store_true", help=text)


def _plan_parser() -> argparse.ArgumentParser:
    from pdes.plan_options import add_arguments

    parser = _new_parser("pdes-sim plan", "Print what a run would be; with --ranks, on how many ranks how long.", _plan)
    _add_config(parser)
    add_arguments(parser)
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = _new_parser("pdes-sim report", "Print the summary of a result folder.", _report)
    parser.add_argument("directory", metavar="DIR", help="a result folder")
    return parser


def _convert_parser() -> argparse.ArgumentParser:
    from pdes.convert.parser import add_convert

    parser = _new_parser("pdes-sim convert", "Make a config of another simulator's input.", _convert)
    add_convert(parser)
    return parser


def _export_parser() -> argparse.ArgumentParser:
    from pdes.convert.parser import add_export

    parser = _new_parser("pdes-sim export", "Write a workload, or flows, in another tool's format.", _export)
    add_export(parser)
    return parser


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


def _run(arguments: argparse.Namespace) -> int:
    """Simulate on all ranks. No exception leaves: each ends every rank."""
    try:
        comm = _start_mpi()
    except SimError as error:
        if read_launch().rank == 0:
            _complain(error)
        return error.exit_status
    try:
        return _run_on(comm, arguments)
    except SimError as error:
        status = error.exit_status
        _complain(error, comm)
    except KeyboardInterrupt:
        status = 130
        print(f"pdes-sim: interrupted{_on_rank(comm)}", file=sys.stderr)
    except BaseException:
        status = 1
        # One write: what follows ends the process, and MPI passes on what has come by then.
        print(f"pdes-sim: internal error{_on_rank(comm)}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    comm.abort(status)  # ends the process if there are other ranks
    return status


def _run_on(comm: "World", arguments: argparse.Namespace) -> int:
    from pdes import simulation

    prepared = None
    if comm.rank == 0:
        try:
            prepared = (0, _prepare(arguments, is_alone=comm.size == 1))
        except SimError as error:
            _complain(error)
            prepared = (error.exit_status, None)
    elif comm.rank == 1:
        simulation.compile_ahead()
    status, scenario = comm.bcast(prepared)
    return status or simulation.run(scenario, comm, arguments.quiet)


def _prepare(arguments: argparse.Namespace, is_alone: bool) -> Any:
    from pdes import simulation

    if arguments.resume is None:
        return simulation.prepare(_load(arguments), arguments.quiet, is_alone=is_alone)
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


def _load(arguments: argparse.Namespace) -> "Config":
    from pdes.config import load_config

    overrides = list(arguments.overrides)
    if arguments.tolerant:
        overrides.append("workload.tolerant=true")
    if getattr(arguments, "out", None) is not None:
        overrides.append(f"output.dir={_quoted(arguments.out)}")
    return load_config(arguments.config, overrides)


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _plan(arguments: argparse.Namespace) -> int:
    from pdes.plan_options import asked

    wanted, config = asked(arguments), _load(arguments)
    from pdes import simulation

    simulation.plan(config, wanted)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    if not os.path.isdir(arguments.directory):
        raise ConfigError(arguments.directory, "is not a folder", "Accepted: a result folder, as --out names it")
    from pdes.results.summary import print_report

    print_report(arguments.directory)
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    from pdes.convert.parser import run_convert

    for warning in run_convert(arguments):
        print(f"pdes-sim: warning: {warning}", file=sys.stderr)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from pdes.scenario.export import run_export

    for path in run_export(arguments):
        print(path)
    return 0


def _complain(error: SimError, comm: "World | None" = None) -> None:
    print(f"pdes-sim: error{_on_rank(comm)}: {error}", file=sys.stderr)


def _on_rank(comm: "World | None") -> str:
    return f" on rank {comm.rank} of {comm.size}" if comm is not None and comm.size > 1 else ""
