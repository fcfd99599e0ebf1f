"""A run before its first event: what is said of it meanwhile, and signals that end it.

Nothing has been simulated yet, so a signal to stop needs no checkpoint: rank 0 clears away what there is and ends all
ranks. What other ranks hear they pass on to rank 0. A signal that asks for a checkpoint waits for the rounds.
"""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from pdes.engine.exchange import World

QUIET_S, TERMINAL_S, FILE_S = 1.5, 0.5, 5.0
ENDS = (signal.SIGTERM, signal.SIGINT)
LATER = (signal.SIGUSR1,)
POLL_S = 0.1
STARTING = "starting"


class Interrupted(KeyboardInterrupt):
    """SIGINT before the first event. Not the plain one, after which Python dies of SIGINT even where it was caught."""

    exit_status = 130


class Terminated(KeyboardInterrupt):
    """SIGTERM before the first event; as an interrupt, so that nobody takes it for an error of theirs."""

    exit_status = 75


class Beginning:
    """One rank's. As a context manager, from the start of the program on; `end` when rounds begin.

    stream: what is said on rank 0; None: nothing. shows_progress: also where it is no terminal; else there only what
    `announce` says. says_start: there, too, that it starts, if that takes long; a first run does, with its files not
    yet in memory. heeds_signals: of the process; else they are as they were.
    """

    def __init__(
        self,
        rank: int = 0,
        stream: TextIO | None = None,
        shows_progress: bool = False,
        heeds_signals: bool = False,
        says_start: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world: World | None = None
        self._is_first = rank == 0
        self._stream = stream if self._is_first else None
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._shows, self._heeds_signals, self._clock = shows_progress or self._is_terminal, heeds_signals, clock
        self._says_start = says_start
        self._phase, self._count = STARTING, list[Callable[[], str]]()
        self._begin_s = self._phase_s = clock()
        self._next_s, self._line, self._is_over = self._begin_s + QUIET_S, threading.Lock(), threading.Event()
        self._has_open_line = self._has_spoken = False
        self._before: dict[int, object] = {}
        self.seen: set[int] = set()  # signals that wait for the rounds
        self.stopped_by: Interrupted | Terminated | None = None
        self.was_told = False  # by rank 0, which says so
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        for number in (*ENDS, *LATER) if self._heeds_signals else ():
            self._before[number] = signal.signal(number, self._hear)
        if self._stream is not None:
            self._thread = threading.Thread(target=self._keep_saying, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def join(self, world: "World") -> None:
        """There are other ranks from here on."""
        if world.size > 1:
            self._world, self._is_first = world, world.rank == 0
            world.while_waiting.append(self.check)

    def end(self) -> None:
        """From here on others say how far the run is, and heed its signals."""
        self._close()
        if self.stopped_by is not None:  # somebody has dropped it
            raise self.stopped_by
        if signal.SIGINT in self.seen:  # which rank 0 has not heard of in time
            self._stop(signal.SIGINT)

    def _close(self) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.clear_line()
        if self._world is not None:
            self._world.while_waiting.clear()

    def enter(self, phase: str, *count: Callable[[], str]) -> None:
        """What is under way now. count: says how much of it is done, "" for nothing."""
        self._phase, self._count, self._phase_s = phase, list(count), self._clock()

    def announce(self, text: str) -> None:
        """Say something at once, wherever this is going."""
        if self._stream is not None:
            self.clear_line()
            self._emit(f"pdes-sim: {text}\n")
            self._has_spoken = True
            self._next_s = max(self._next_s, self._clock() + POLL_S)

    def check(self) -> None:
        """Raise what another rank has been told to: on rank 0 what others heard, there what rank 0 ends with."""
        number = None if self._world is None or self._is_over.is_set() else self._world.told()
        if number is not None:
            self.was_told = not self._is_first
            self._stop(number)

    def pass_on(self, error: BaseException) -> None:
        """On rank 0, which ends as it was interrupted: let the others take their leave before it ends them."""
        if self._world is not None and self._is_first and isinstance(error, KeyboardInterrupt):
            number = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
            self._world.tell(number, list(range(1, self._world.size)))
            time.sleep(POLL_S)

    def clear_line(self) -> None:
        """Remove the line from a terminal, so that what follows starts on a clean one."""
        with self._line:
            if self._has_open_line:
                self._emit("\r\x1b[K")
                self._has_open_line = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._is_over.is_set() and number not in LATER:  # as if nobody had ever listened
            signal.signal(number, self._before[number])  # pyright: ignore[reportArgumentType]
            os.kill(os.getpid(), number)
        elif number in LATER or not (self._is_first or self._world is None):
            self.seen.add(number)
            if number in ENDS and self._world is not None:
                self._world.tell(number, [0])
        elif _is_in_callback(frame):
            threading.Timer(POLL_S, os.kill, (os.getpid(), number)).start()
        else:
            self._stop(number)

    def _stop(self, number: int) -> None:
        self.stopped_by = Terminated() if number == signal.SIGTERM else Interrupted()
        raise self.stopped_by

    def _keep_saying(self) -> None:
        while not self._is_over.wait(POLL_S):
            now_s = self._clock()
            if now_s >= self._next_s:
                if not self._shows:  # nor had to say anything until now
                    if self._says_start and not self._has_spoken and self._phase == STARTING:
                        self.announce(STARTING)
                    return
                self._say(now_s)
                self._next_s = now_s + (TERMINAL_S if self._is_terminal else FILE_S)

    def _say(self, now_s: float) -> None:
        counts = [text for text in (count() for count in self._count) if text]
        text = f"{self._phase}: " + ", ".join([f"{now_s - self._phase_s:.0f} s", *counts])
        with self._line:
            if self._is_terminal:
                self._emit(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
                self._has_open_line = True
            else:
                self._emit(f"{text}\n")

    def _emit(self, text: str) -> None:
        assert self._stream is not None
        with contextlib.suppress(OSError, ValueError):  # a closed pipe ends the lines, not the run
            self._stream.write(text)
            self._stream.flush()


def _is_in_callback(frame: FrameType | None) -> bool:
    """Whether C code has called the code that a signal interrupts: LLVM, or Python where an object's life ends. Both
    would drop what is raised there."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_name.startswith("_raw_object_cache_"):
            return True
        frame = frame.f_back
    return False
