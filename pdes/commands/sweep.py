"""`pdes-sim sweep sweep.toml`: many runs of one config, on one rank or on all of an MPI run, and what they say."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from pdes.commands.parser import new_parser
from pdes.commands.runs import add_arguments, check_processes, on_every_rank, those_who_run

if TYPE_CHECKING:
    from pdes.workers import RunAll


def make_parser() -> argparse.ArgumentParser:
    """Its arguments."""
    text = (
        "Run a config over axes and seeds, and say what is better by how much. Runs that are known are not run again: "
        "the same command goes on where it was stopped. Under mpirun all ranks but the first run them."
    )
    parser = new_parser("pdes-sim sweep", text, sweep)
    parser.add_argument("sweep", metavar="sweep.toml", help="a file with [sweep]")
    add_arguments(parser, "sweep", "say what would be run, and run nothing")
    return parser


def sweep(arguments: argparse.Namespace) -> int:
    """On every rank; the exit status."""

    return on_every_rank(arguments, _sweep)


def _sweep(arguments: argparse.Namespace, run_all: "RunAll | None") -> int:
    from pdes.sweeps.load import load_sweep
    from pdes.sweeps.run import run_sweep
    from pdes.sweeps.told import facts, lines
    from pdes.sweeps.write import write

    check_processes(arguments, run_all)
    asked = load_sweep(arguments.sweep, arguments.out, arguments.overrides)
    if len(asked.seeds) > 1:
        from pdes.sweeps.paired import quantile

        quantile(2)  # says so at once if SciPy is missing
    if arguments.plan:
        n_point, n_seed = len(asked.points), len(asked.seeds)
        print(f"{n_point:,} points of {n_seed:,} seeds: {n_point * n_seed:,} runs")
        return 0
    stream = None if arguments.quiet or arguments.json else sys.stderr
    with those_who_run(arguments, run_all) as runners:
        found = run_sweep(asked, runners, stream, arguments.again)
    path = write(found)
    if arguments.json:
        print(json.dumps(facts(found)))
    elif not arguments.quiet:
        print("\n".join([*lines(found), "", f"report in {path}"]))
    return 0
