"""`pdes-sim search search.toml`: the best layout and fabric of a config, on one rank or on all of an MPI run."""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from pdes.commands.complaint import complain
from pdes.commands.parser import new_parser
from pdes.errors import ConfigError, SimError
from pdes.launcher import read_launch

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
    overrides = {"metavar": "SEARCH.KEY=VALUE", "action": "append", "default": []}
    parser.add_argument("--set", dest="overrides", help="override a key of it; may be repeated", **overrides)
    parser.add_argument("--out", metavar="DIR", help="folder of the store, the tables and the report")
    text = "runs at a time, without mpirun (default: 1)"
    parser.add_argument("--processes", metavar="N", type=int, default=1, help=text)
    parser.add_argument("--again", action="store_true", help="run those again that have failed")
    parser.add_argument("--plan", action="store_true", help="rank all by the closed form, and run nothing")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print search.json instead of the table")
    return parser


def search(arguments: argparse.Namespace) -> int:
    """On every rank; the exit status."""
    from pdes.workers import workers

    try:
        if read_launch().size <= 1:
            return _search(arguments, None)
        with workers() as run_all:
            return 0 if run_all is None else _search(arguments, run_all)
    except SimError as error:
        if read_launch().rank == 0:
            complain(error, None, arguments.json)
        return error.exit_status
    except KeyboardInterrupt:
        if read_launch().rank == 0:
            print("pdes-sim: interrupted; the same command goes on", file=sys.stderr, flush=True)
        os._exit(130) if read_launch().size > 1 else None
        return 130


def _search(arguments: argparse.Namespace, run_all: "RunAll | None") -> int:
    from pdes.searching.load import load_search
    from pdes.searching.run import run_search, screened
    from pdes.searching.told import facts, lines, plan_lines
    from pdes.searching.write import write
    from pdes.workers import at_a_time

    if not 1 <= arguments.processes <= 1024 or (run_all is not None and arguments.processes > 1):
        accepted = "1: ranks do the work" if run_all is not None else "1 to 1024"
        raise ConfigError("--processes", f"found {arguments.processes}", accepted)
    asked = load_search(arguments.search, arguments.out, arguments.overrides)
    if arguments.plan:
        print("\n".join(plan_lines(asked, screened(asked))))
        return 0
    stream = None if arguments.quiet or arguments.json else sys.stderr
    if run_all is None:
        with at_a_time(arguments.processes) as here:
            found = run_search(asked, here, stream, arguments.again)
    else:
        found = run_search(asked, run_all, stream, arguments.again)
    path = write(found)
    if arguments.json:
        print(json.dumps(facts(found)))
    elif not arguments.quiet:
        print("\n".join([*lines(found), "", f"report in {path}"]))
    return 0
