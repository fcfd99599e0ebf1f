"""A rank's side of its witness (`pdes.witness_process`): it is told what it needs to say, should the rank be killed.

Where it cannot be started, a run goes on without.
"""

import contextlib
import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

import numpy as np

from pdes import witness_process

N_WORD = 64  # of shared memory: the round loop's
SCRIPT = witness_process.__file__


class Witness:
    """As a context manager: it is dismissed at the end, when all that is to be said has been said."""

    def __init__(self, rank: int = 0, n_rank: int = 1) -> None:
        machine = f"process {os.getpid()} on {socket.gethostname()}"
        self.who = f"rank {rank} of {n_rank} ({machine})" if n_rank > 1 else f"the run ({machine})"
        self.words = np.zeros(N_WORD, np.int64)
        self._folder: Path | None = None
        self._is_first: bool | None = None
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._start()

    def _start(self) -> None:
        memory = os.memfd_create("pdes-sim rounds")
        try:
            os.ftruncate(memory, 8 * N_WORD)
            words = np.frombuffer(mmap.mmap(memory, 8 * N_WORD), np.int64)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", SCRIPT, self.who, str(os.getpid()), str(memory)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(memory,), start_new_session=True,
            )  # fmt: skip
            self.words = words
        finally:
            os.close(memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()

    def tell(self, **facts: object) -> None:
        """What it may need. folder: where the first to speak leaves a file; checkpoints: what to go on from;
        stall_s: of wall time, 0: never; places: of the words that move while all is well, the last one 1 while waiting.
        """
        if "folder" in facts:
            self._folder = Path(str(facts["folder"]))
        self._send("".join(f"{key} {value}\n" for key, value in facts.items()))

    def claim(self) -> bool:
        """Whether this rank is the first to say that the run has failed."""
        if self._is_first is None:
            self._is_first = self._claim()
        return self._is_first

    def _claim(self) -> bool:
        if self._folder is None:
            return True
        try:
            os.close(os.open(self._folder / witness_process.CLAIM, os.O_CREAT | os.O_EXCL))
        except (FileExistsError, FileNotFoundError):  # somebody has failed before, and perhaps cleared the folder
            return False
        except OSError:
            return True  # no room
        return True

    def release_folder(self) -> None:
        """The results are there, and the work folder is gone: who fails from here on has nobody to ask."""
        self._folder = None

    def dismiss(self) -> None:
        """The rank says itself what there is to say from here on."""
        self._send("bye\n")
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()
        self._process = None

    def _send(self, text: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(text.encode())
                self._process.stdin.flush()
