"""A process, or a rank under mpirun, that does one run after another: only its first run imports and loads kernels.

mpirun -n 2 python tests/mpi/standing.py FOLDER    every rank takes its orders from the socket there, see `mpi.crew`
"""

import json
import os
import runpy
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdes.engine.compiling.garbage import collect_seldom
from pdes.launcher import read_launch


def do(arguments: list[str]) -> int:
    """What `python *arguments` does, in this process; its exit status."""
    try:
        if arguments[:2] == ["-m", "pdes"]:
            from pdes import cli

            return cli.main(arguments[2:])
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@contextmanager
def surroundings(order: dict[str, Any], out: Path, err: Path) -> Iterator[None]:
    """The working directory and the variables of an order; what is printed goes to files, also from other languages."""
    sound, folder = dict(os.environ), os.getcwd()
    saved = [os.dup(1), os.dup(2)]
    try:
        for path, target in ((out, 1), (err, 2)):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, target)
            os.close(file)
        os.chdir(order["folder"])
        os.environ.update(order["environment"])
        yield
    finally:
        for stream, copy, target in zip((sys.stdout, sys.stderr), saved, (1, 2), strict=True):
            stream.flush()
            os.dup2(copy, target)
            os.close(copy)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(sound)


def main() -> None:
    folder, rank = Path(sys.argv[1]), read_launch().rank
    collect_seldom()
    with socket.socket(socket.AF_UNIX) as orders:
        orders.connect(str(folder / "orders"))
        with orders.makefile("rw") as lines:
            print(rank, file=lines, flush=True)
            for line in lines:
                order = json.loads(line)
                with surroundings(order, folder / f"{rank}.out", folder / f"{rank}.err"):
                    status = do(order["arguments"])
                print(status, file=lines, flush=True)


if __name__ == "__main__":
    main()
