"""The line on stderr that says how far a run is. It only looks at the wall clock; no result depends on it."""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from pdes.units import PS_PER_S, format_count, format_duration

QUIET_S = 2.0  # a short run prints nothing
TERMINAL_INTERVAL_S = 0.5
FILE_INTERVAL_S = 5.0


class Progress:
    """Prints `sim 12.4 ms, 31 %, 1/240 of real time, 31.2 M packet-hops/s, 2 ranks, eta 00:41` now and then; rank 0.

    On a terminal it rewrites one line, elsewhere it adds lines. A stream that fails (a closed pipe) ends the lines, not
    the run. stream: None for no output. end_ps: simulated time at which the run ends, if known; it gives the share of
    the run that is done when `update` is not told. clock: seconds of wall time, for tests. unit: of what is counted.
    """

    def __init__(
        self,
        stream: TextIO | None,
        n_rank: int,
        end_ps: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "packet-hops",
    ) -> None:
        self._stream, self._n_rank, self._end_ps, self._clock = stream, n_rank, end_ps, clock
        self._unit = unit
        self._is_terminal = stream is not None and stream.isatty()
        self._start_s = self._last_s = clock()
        self._last_count = self._last_sim_ps = 0
        self._next_s = self._start_s + QUIET_S
        self._has_open_line = False

    def update(
        self, sim_ps: int, count: int, fraction: float | None = None, more: Callable[[], list[str]] = list
    ) -> None:  # fmt: skip
        """Say where the run is; cheap, call it every round. count: of the unit, so far. fraction: of the run, 0..1.

        more: what else there is to say, asked for only when it is said.
        """
        now_s = self._clock()
        if self._stream is None or now_s < self._next_s:
            return
        if fraction is None and self._end_ps:
            fraction = sim_ps / self._end_ps
        elapsed_s = max(now_s - self._last_s, 1e-9)
        rate = (count - self._last_count) / elapsed_s
        speed = (sim_ps - self._last_sim_ps) / PS_PER_S / elapsed_s
        self._write(self._text(sim_ps, (speed, rate), fraction, now_s - self._start_s, more()))
        self._last_s, self._last_count, self._last_sim_ps = now_s, count, sim_ps
        self._next_s = now_s + (TERMINAL_INTERVAL_S if self._is_terminal else FILE_INTERVAL_S)

    def close(self) -> None:
        """Remove the line from a terminal, so that what follows starts on a clean one."""
        if self._has_open_line:
            self._emit("\r\x1b[K")
            self._has_open_line = False

    def _text(
        self, sim_ps: int, rates: tuple[float, float], fraction: float | None, elapsed_s: float, more: list[str]
    ) -> str:  # fmt: skip
        speed, rate = rates
        parts = [f"sim {format_duration(sim_ps)}"]
        done = None if fraction is None else min(max(fraction, 0.0), 1.0)
        if done is not None:
            parts.append(f"{int(100 * done)} %")
        if speed > 0:
            parts.append(speed_text(speed))
        parts.append(f"{format_count(round(rate))} {self._unit}/s")
        parts.append(f"{self._n_rank} rank{'s' if self._n_rank != 1 else ''}")
        parts += more
        if done:
            parts.append(f"eta {_clock_text(elapsed_s * (1 - done) / done)}")
        return ", ".join(parts)

    def _write(self, text: str) -> None:
        if self._is_terminal:
            width = shutil.get_terminal_size().columns
            self._emit(f"\r{text[: width - 1]}\x1b[K")
            self._has_open_line = True
        else:
            self._emit(text + "\n")

    def _emit(self, text: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._stream, self._has_open_line = None, False


def speed_text(speed: float) -> str:
    """Simulated time over wall time, above 0: "1/240 of real time", "3.1 x real time"."""
    if speed >= 1:
        return f"{format_count(speed)} x real time"
    return f"1/{format_count(round(1 / speed))} of real time"


def _clock_text(seconds: float) -> str:
    """ "00:41", "61:05" as "1:01:05", and a run that would take over 100 days as "long"."""
    if not seconds < 8_640_000:
        return "long"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes:02d}:{whole % 60:02d}"
