"""Ranks that stay: they are started once, and then do one run after another as if each had processes of its own."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

STANDING = Path(__file__).with_name("standing.py")


class Crew:
    """The ranks of one mpirun, or a single process without it.

    A run that ends the ranks, as one does that fails on several, ends the crew: `is_over` says so then.
    """

    def __init__(self, launcher: list[str], n_rank: int, environment: dict[str, str], timeout_s: float) -> None:
        self.is_over = False
        self._timeout_s, self._n_rank = timeout_s, n_rank
        self._folder = tempfile.TemporaryDirectory(prefix="pdes-crew-")
        folder = Path(self._folder.name)
        command = [*launcher, sys.executable, str(STANDING), str(folder)]
        with socket.socket(socket.AF_UNIX) as door, (folder / "said").open("w") as said:
            door.bind(str(folder / "orders"))
            door.listen(n_rank)
            door.settimeout(1)
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
            self._ranks = [self._admit(door) for _ in range(n_rank)]

    def do(self, arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """`python *arguments` on all ranks, in the present working directory; TimeoutExpired ends the crew."""
        order = {"arguments": arguments, "environment": environment, "folder": os.getcwd()}
        folder = Path(self._folder.name)
        for rank in range(self._n_rank):
            for name in ("out", "err"):
                (folder / f"{rank}.{name}").write_text("")
        try:
            for _, lines in self._ranks:
                print(json.dumps(order), file=lines, flush=True)
            answers = [lines.readline() for _, lines in self._ranks]
        except TimeoutError as error:
            self.end()
            raise subprocess.TimeoutExpired(arguments, self._timeout_s) from error
        if "" in answers:
            status = self._process.wait(self._timeout_s)
            self.is_over = True
        else:
            status = max(map(int, answers), key=abs)
        out, err = (
            "".join((folder / f"{rank}.{name}").read_text() for rank in range(self._n_rank)) for name in ("out", "err")
        )
        return subprocess.CompletedProcess(arguments, status, out, err)

    def end(self) -> None:
        """Let all ranks go home: they end when nobody gives orders any more."""
        self.is_over = True
        for connection, lines in self._ranks:
            lines.close()
            connection.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _admit(self, door: socket.socket) -> tuple[socket.socket, TextIO]:
        """The connection to the next rank that reports. RuntimeError: it has ended before."""
        until_s = time.monotonic() + self._timeout_s
        while time.monotonic() < until_s and self._process.poll() is None:
            try:
                connection, _ = door.accept()
            except TimeoutError:
                continue
            connection.settimeout(self._timeout_s)
            lines = connection.makefile("rw")
            lines.readline()  # who it is
            return connection, lines
        said = (Path(self._folder.name) / "said").read_text()
        raise RuntimeError(f"ranks that were started did not report: {said}")
