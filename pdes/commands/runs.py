"""What commands that run many configs have in common: their arguments, and who does the work."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pdes.commands.complaint import complain
from pdes.errors import ConfigError, SimError
from pdes.launcher import read_launch

if TYPE_CHECKING:
    from pdes.workers import RunAll

Work = Callable[[argparse.Namespace, "RunAll | None"], int]
"""The command on rank 0: (arguments, what runs on all other ranks, None without MPI) -> exit status."""


def add_arguments(parser: argparse.ArgumentParser, table: str, plan: str) -> None:
    """Those behind the file's name. table: of the file, whose keys --set overrides. plan: what --plan does."""
    overrides = {"metavar": f"{table.upper()}.KEY=VALUE", "action": "append", "default": []}
    parser.add_argument("--set", dest="overrides", help="override a key of it; may be repeated", **overrides)
    parser.add_argument("--out", metavar="DIR", help="folder of the store, the tables and the report")
    text = "runs at a time, without mpirun (default: 1)"
    parser.add_argument("--processes", metavar="N", type=int, default=1, help=text)
    parser.add_argument("--again", action="store_true", help="run those again that have failed")
    parser.add_argument("--plan", action="store_true", help=plan)
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help=f"print {table}.json instead of the table")


def on_every_rank(arguments: argparse.Namespace, work: Work) -> int:
    """Let rank 0 work, and the others for it; the exit status."""
    from pdes.workers import workers

    try:
        if read_launch().size <= 1:
            return work(arguments, None)
        with workers() as run_all:
            return 0 if run_all is None else work(arguments, run_all)
    except SimError as error:
        if read_launch().rank == 0:
            complain(error, None, arguments.json)
        return error.exit_status
    except KeyboardInterrupt:
        if read_launch().rank == 0:
            print("pdes-sim: interrupted; the same command goes on", file=sys.stderr, flush=True)
        os._exit(130) if read_launch().size > 1 else None
        return 130


def check_processes(arguments: argparse.Namespace, run_all: "RunAll | None") -> None:
    """ConfigError: --processes does not fit."""
    if not 1 <= arguments.processes <= 1024 or (run_all is not None and arguments.processes > 1):
        accepted = "1: ranks do the work" if run_all is not None else "1 to 1024"
        raise ConfigError("--processes", f"found {arguments.processes}", accepted)


@contextmanager
def those_who_run(arguments: argparse.Namespace, run_all: "RunAll | None") -> Iterator["RunAll"]:
    """The other ranks, or without MPI as many processes as --processes says."""
    if run_all is not None:
        yield run_all
        return
    from pdes.workers import at_a_time

    with at_a_time(arguments.processes) as here:
        yield here
