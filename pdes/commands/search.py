"""`pdes-sim search search.toml`: the best layout and fabric of a config, on one rank or on all of an MPI run."""

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
        "Search for the best layout and fabric of a training job: a closed form ranks all candidates, flow mode some, "
        "packets the best few. Runs that are known are not run again: the same command goes on where it was stopped. "
        "Under mpirun all ranks but the first run them."
    )
    parser = new_parser("pdes-sim search", text, search)
    parser.add_argument("search", metavar="search.toml", help="a file with [search]")
    add_arguments(parser, "search", "rank all by the closed form, and run nothing")
    return parser


def search(arguments: argparse.Namespace) -> int:
    """On every rank; the exit status."""
    return on_every_rank(arguments, _search)


def _search(arguments: argparse.Namespace, run_all: "RunAll | None") -> int:
    from pdes.searching.load import load_search
    from pdes.searching.run import run_search, screened
    from pdes.searching.told import facts, lines, plan_lines
    from pdes.searching.write import write

    check_processes(arguments, run_all)
    asked = load_search(arguments.search, arguments.out, arguments.overrides)
    if arguments.plan:
        print("\n".join(plan_lines(asked, screened(asked))))
        return 0
    stream = None if arguments.quiet or arguments.json else sys.stderr
    with those_who_run(arguments, run_all) as runners:
        found = run_search(asked, runners, stream, arguments.again)
    path = write(found)
    if arguments.json:
        print(json.dumps(facts(found)))
    elif not arguments.quiet:
        print("\n".join([*lines(found), "", f"report in {path}"]))
    return 0
