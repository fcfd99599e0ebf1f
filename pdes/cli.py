"""The command line: which command it is, and with which arguments. The commands are in `pdes.commands`."""

import argparse
import contextlib
import os
import sys
from importlib import import_module

from pdes.commands.complaint import complain
from pdes.engine.compiling.garbage import collect_seldom
from pdes.errors import SimError, closest
from pdes.launcher import read_launch

COMMANDS = (
    "plan",
    "report",
    "timeline",
    "diff",
    "explain",
    "convert",
    "export",
    "calibrate",
    "compare",
    "sweep",
    "search",
)
ON_ALL_RANKS = ("sweep", "search")  # besides a simulation
BROKEN_PIPE = 141  # what a shell says of a program that SIGPIPE ended
EPILOG = """\
commands:
  pdes-sim config.toml                            simulate; under mpirun -n N on N ranks, with the same results
  pdes-sim --resume DIR                           go on from the newest checkpoint in DIR, on any number of ranks
  pdes-sim plan config.toml                       print what a run would be, and run nothing
  pdes-sim plan config.toml --ranks 1,2,4,..,64   sample the run on one rank: the time to expect on many
  pdes-sim report DIR [DIR ...]                   explain a run in one HTML file, or compare several
  pdes-sim timeline DIR -o trace.json.gz          what GPUs did over time, for ui.perfetto.dev
  pdes-sim diff DIR DIR                           print where two results begin to differ, and what led to it
  pdes-sim compare A.toml B.toml --seeds 10       which of two clusters or policies is better, and how sure that is
  pdes-sim sweep sweep.toml                       a config over axes and seeds: what is better, and by how much
  pdes-sim search search.toml                     the best layout and fabric: closed form, flow mode, packets
  pdes-sim explain KEY                            print what a key of the config means, its unit and default
  pdes-sim convert ns3 FOLDER -o case.toml        make a config of an ns-3 (HPCC) case, or of
                                                  astra-sim, simai or htsim inputs, a flow list,
                                                  a trace of a cluster's jobs, a profile of PyTorch
                                                  or Nsight Systems, or a launch script
  pdes-sim export chakra config.toml -o PREFIX    write a workload as Chakra traces or GOAL; flows as ns-3's fct.txt
  pdes-sim calibrate --flow config.toml -o FILE   measure a congestion control for [wormhole] mode = "flow"

Exit status: 0 done, 2 bad input, 75 stopped by SIGTERM after a checkpoint or before the first event, 130 by Ctrl-C,
1 anything else."""


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit status. argv: without the program's name; None: the process's own."""
    if argv is None:
        collect_seldom()
    launch = read_launch()
    try:
        arguments = _parse(sys.argv[1:] if argv is None else argv, is_silent=launch.rank > 0)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    if arguments.is_run:
        return arguments.command(arguments)
    if launch.rank > 0 and not arguments.is_on_all_ranks:
        return 0
    try:
        return arguments.command(arguments)
    except SimError as error:
        complain(error)
        return error.exit_status
    except BrokenPipeError:  # who reads has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _parse(argv: list[str], is_silent: bool) -> argparse.Namespace:
    is_command = bool(argv) and argv[0] in COMMANDS
    with open(os.devnull, "w") as nowhere, contextlib.ExitStack() as stack:
        if is_silent:  # n ranks would say the same n times
            stack.enter_context(contextlib.redirect_stdout(nowhere))
            stack.enter_context(contextlib.redirect_stderr(nowhere))
        found = _parse_command(argv) if is_command else _parse_run(argv)
        found.is_run = not is_command
        found.is_on_all_ranks = is_command and argv[0] in ON_ALL_RANKS
        return found


def _parse_command(argv: list[str]) -> argparse.Namespace:
    return import_module(f"pdes.commands.{argv[0]}").make_parser().parse_args(argv[1:])


def _parse_run(argv: list[str]) -> argparse.Namespace:
    from pdes.commands import run

    parser = run.make_parser(EPILOG)
    if not argv:
        parser.print_help(sys.stderr)
        parser.exit(2)
    if len(argv) > 1 and argv[0].isidentifier() and argv[1].endswith(".toml"):
        parser.error(f"{argv[0]} is no command. Commands: {', '.join(COMMANDS)}; to simulate, give the config alone")
    _suggest(parser, argv[0])
    found = parser.parse_args(argv)
    run.check(parser, found)
    return found


def _suggest(parser: argparse.ArgumentParser, word: str) -> None:
    """End with a suggestion if the first word is neither a file nor an option, and like a command."""
    if word.startswith("-") or word.endswith(".toml") or os.path.exists(word):
        return
    meant = closest(word, COMMANDS, 0.6)
    if meant is not None:
        parser.error(f'{word} is no command, and no file. Did you mean "{meant}"?')
