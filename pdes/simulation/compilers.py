"""Processes that compile a run's kernels while it gets ready, and on which everyone waits before the first event.

They leave what they compile in the cache (`models.network.build.warm_up`); whether they succeed does not matter, as
ranks compile what they do not find there. Numba and LLVM take one core per process, so there are
two where there are cores.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Self

import numba

from pdes.beginning import Beginning
from pdes.engine.jit import JIT_DISABLED, REFUSED, TURNS_VARIABLE, VARIANT, compiled_kernels, is_compiled

N_PROCESS = 2
POLL_S = 0.02
LAST = ""  # a task that is none
PROGRAM = """import os, queue, sys, threading
lines = queue.SimpleQueue()
def listen():
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)  # the run has ended, or has no more to ask, whatever is being imported or compiled
threading.Thread(target=listen, daemon=True).start()
sys.path = {path!r}
try:
    os.sched_setaffinity(0, {cores!r})
except OSError:
    pass
from models.network.build.warm_up import serve
serve(lines)"""
HOSTS = "models.network.host.host run_hosts"
ALWAYS = (
    HOSTS, "models.network.streams.stream run_stream", "pdes.engine.round open_round", "pdes.engine.round close_round",
    "models.network.rounds unpack_arrivals", "models.network.rounds pack",
)  # fmt: skip
N_LATER = 2  # tasks that only the scenario tells: the switches, the rounds


def file_name(kernel: Any) -> str:
    """Of a kernel, or a task's, as Numba's cache has it: "module.function"."""
    module, name = kernel.split()[:2] if isinstance(kernel, str) else (kernel.__module__, kernel.__name__)
    return f"{module.rpartition('.')[2]}.{name}"


def announce_compiling(beginning: Beginning, compilers: "Compilers | None") -> None:
    """Say that it takes a while, and from now on how far it is."""
    for why in REFUSED:
        beginning.announce(f"warning: compiled code is not kept there: {why}")
    beginning.announce("compiling the kernels, once per version: a minute or so")
    beginning.enter("compiling the kernels (first run of this version)", *([compilers.count] if compilers else []))


class Compilers:
    """On rank 0, as a context manager. None are started if an earlier run has left the kernels, or for one core."""

    def __init__(self, cores: Collection[int] | None = None) -> None:
        """cores: that they may use; None: those of this process."""
        self._cores = os.sched_getaffinity(0) if cores is None else cores
        self._tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._done: list[str] = []
        self._n_given = self._n_task = 0

    @property
    def is_at_work(self) -> bool:
        """Whether somebody still has something to do, or will get it."""
        return len(self._done) < self._n_task and any(thread.is_alive() for thread in self._threads)

    def give(self, lines: Iterable[str]) -> None:
        """More to compile, after what was given before."""
        for line in lines:
            self._n_given += 1
            self._tasks.put(line)

    def wait(self, look: Callable[[], None]) -> None:
        """Until all that was given is done, or nobody is left to do it. look: called all the time."""
        self._n_task = self._n_given
        while self.is_at_work:
            look()
            time.sleep(POLL_S)
        self.close()

    def count(self) -> str:
        """How far they are, for people; "" if there are none."""
        return f"{len(self._done)} of {self._n_task} done" if self._processes else ""

    def close(self) -> None:
        """End them at once."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
            self._tasks.put(LAST)  # one for each thread
        for process in processes:
            process.wait()
        for thread in self._threads:
            thread.join()
        self._threads = []

    def __enter__(self) -> Self:
        if JIT_DISABLED or len(self._cores) < 2 or is_compiled(file_name(HOSTS)):
            return self
        known = compiled_kernels()
        self.give(line for line in ALWAYS if file_name(line) not in known)
        self._n_task = self._n_given + N_LATER
        try:
            for _ in range(N_PROCESS):
                self._start()
        except OSError:  # no room for another process
            pass
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        folder = numba.config.CACHE_DIR.removesuffix(VARIANT)  # pyright: ignore[reportAttributeAccessIssue]
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM.format(path=sys.path, cores=sorted(self._cores))],
            env=os.environ | {TURNS_VARIABLE: "1", "NUMBA_CACHE_DIR": folder}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._processes.append(process)
        self._threads.append(threading.Thread(target=self._feed, args=(process,), daemon=True))
        self._threads[-1].start()

    def _feed(self, process: subprocess.Popen[str]) -> None:
        """Hand one process a task after the other, until it ends."""
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError, ValueError), process.stdin, process.stdout:
            while process.poll() is None and (line := self._tasks.get()) != LAST:
                try:
                    process.stdin.write(f"{line}\n")
                    process.stdin.flush()
                    process.stdout.readline()
                finally:
                    self._done.append(line)  # or given up: ranks compile it then
