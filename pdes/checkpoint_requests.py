"""When a run is asked for a checkpoint: by the wall clock, or by a signal. No result depends on it."""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple, Self

STOPPED_STATUS, FAILED_STATUS = 75, 1  # exit status after a signal to stop: there is a new checkpoint; there is none
STOPS = (signal.SIGTERM,)  # a checkpoint, then the end
GOES_ON = (signal.SIGUSR1,)


class Request(NamedTuple):
    """What was asked for. stops: the run ends with the checkpoint."""

    is_due: bool
    stops: bool


class Requests:
    """One rank's. As a context manager: signals count from entry to exit, if they are to be heeded at all."""

    def __init__(
        self,
        every_s: float | None,
        heeds_signals: bool,
        clock: Callable[[], float] = time.monotonic,
        stops: tuple[int, ...] = STOPS,
    ) -> None:
        """every_s: None: never by the clock. clock: seconds of wall time, for tests. stops: signals to stop."""
        self._every_s, self._heeds_signals, self._clock, self._stops = every_s, heeds_signals, clock, stops
        self._seen: set[int] = set()
        self._before: dict[int, object] = {}
        self._next_s = 0.0
        self.restart()

    def __enter__(self) -> Self:
        for number in (*self._stops, *GOES_ON) if self._heeds_signals else ():
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]

    def take_over(self, seen: set[int]) -> None:
        """Signals that came before, to somebody else."""
        self._seen |= seen & {*self._stops, *GOES_ON}

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and number in self._seen:  # pressed again: nobody has looked since
            raise KeyboardInterrupt
        self._seen.add(number)

    @property
    def is_pending(self) -> bool:
        """Whether this rank wants a checkpoint."""
        return bool(self._seen) or self._clock() >= self._next_s

    def take(self) -> Request:
        """What has been asked for up to now."""
        request = Request(self.is_pending, not self._seen.isdisjoint(self._stops))
        self._seen.clear()
        return request

    def set_interval(self, every_s: float | None) -> None:
        """Once it is known. every_s: None: never by the clock."""
        self._every_s = every_s
        self.restart()

    def restart(self) -> None:
        """The clock's next turn is a whole interval from now."""
        self._next_s = float("inf") if self._every_s is None else self._clock() + self._every_s
