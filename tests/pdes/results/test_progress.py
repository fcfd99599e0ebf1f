"""The progress line, on a clock that the test turns."""

import io

import pytest

from pdes.results.progress import Progress, speed_text


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drive(progress: Progress, clock: Clock, until_s: float, step_s: float = 0.125) -> None:
    """1 ms simulated and 10 M packet-hops per second of wall time; ends after 40 s."""
    while clock.now_s < 100 + until_s:
        clock.now_s += step_s
        elapsed_s = clock.now_s - 100
        progress.update(round(elapsed_s * 10**9), round(elapsed_s * 10**7), elapsed_s / 40)


def test_a_run_of_two_seconds_prints_nothing():
    for stream in (io.StringIO(), Terminal()):
        clock = Clock()
        progress = Progress(stream, 2, clock=clock)
        drive(progress, clock, 1.8)
        progress.close()
        assert stream.getvalue() == ""


def test_lines_in_a_file_come_every_five_seconds_and_say_it_all():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, 2, clock=clock)
    drive(progress, clock, 13)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "sim 2 ms, 5 %, 1/1 k of real time, 10 M packet-hops/s, 2 ranks, eta 00:38",
        "sim 7 ms, 17 %, 1/1 k of real time, 10 M packet-hops/s, 2 ranks, eta 00:33",
        "sim 12 ms, 30 %, 1/1 k of real time, 10 M packet-hops/s, 2 ranks, eta 00:28",
    ]


def test_a_terminal_has_one_line_that_close_removes():
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, 1, clock=clock)
    drive(progress, clock, 4)
    lines = stream.getvalue().split("\r")[1:]
    assert len(lines) == 5 and all(line.endswith("\x1b[K") for line in lines) and "\n" not in stream.getvalue()
    assert "1 rank," in lines[0]
    progress.close()
    progress.close()
    assert stream.getvalue().endswith("\r\x1b[K") and stream.getvalue().count("\r") == 6


@pytest.mark.parametrize(
    ("end_ps", "fraction", "expected"),
    [
        (None, None, "sim 1 ms, 1/3 k of real time, 3 packet-hops/s, 1 rank"),
        (4 * 10**9, None, "sim 1 ms, 25 %, 1/3 k of real time, 3 packet-hops/s, 1 rank, eta 00:09"),
        (4 * 10**9, 0.5, "sim 1 ms, 50 %, 1/3 k of real time, 3 packet-hops/s, 1 rank, eta 00:03"),
        (None, 0.0, "sim 1 ms, 0 %, 1/3 k of real time, 3 packet-hops/s, 1 rank"),
        (None, 1.7, "sim 1 ms, 100 %, 1/3 k of real time, 3 packet-hops/s, 1 rank, eta 00:00"),
        (None, 1e-4, "sim 1 ms, 0 %, 1/3 k of real time, 3 packet-hops/s, 1 rank, eta 8:19:57"),
        (None, 1e-12, "sim 1 ms, 0 %, 1/3 k of real time, 3 packet-hops/s, 1 rank, eta long"),
    ],
)
def test_what_is_not_known_is_left_out(end_ps, fraction, expected):
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, 1, end_ps, clock)
    clock.now_s += 3
    progress.update(10**9, 10, fraction)
    assert stream.getvalue() == expected + "\n"


def test_no_stream_and_a_closed_stream_do_no_harm():
    clock = Clock()
    closed = io.StringIO()
    closed.write("x")
    progress = [Progress(None, 1, clock=clock), Progress(closed, 1, clock=clock)]
    closed.close()
    for one in progress:
        drive(one, clock, 30)
        one.close()


def test_what_else_there_is_to_say_is_asked_for_only_when_it_is_said():
    stream, clock, asked = io.StringIO(), Clock(), []

    def more() -> list[str]:
        asked.append(clock.now_s)
        return ["rank 0 waits 12 %", "skipped 40 %"]

    progress = Progress(stream, 2, clock=clock)
    for _ in range(30):
        clock.now_s += 0.125
        progress.update(10**9, 10**6, 0.5, more)
    assert len(asked) == 1 and "2 ranks, rank 0 waits 12 %, skipped 40 %, eta" in stream.getvalue()


@pytest.mark.parametrize(
    ("speed", "text"),
    [(0.004, "1/250 of real time"), (1, "1 x real time"), (2500, "2.5 k x real time")],
)
def test_speed_is_simulated_over_wall_time(speed: float, text: str):
    assert speed_text(speed) == text
