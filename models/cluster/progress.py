"""How far a job gets in some time, with checkpoints: closed forms, so that a checkpoint is no event."""

from typing import NamedTuple


class Checkpoints(NamedTuple):
    """interval_us: of computing between two; 0: none is written. write_us: so long the job stands still for one.

    restart_us: before it computes when it goes on after an interruption. begin_us: before it computes at all.
    """

    interval_us: int = 0
    write_us: int = 0
    restart_us: int = 0
    begin_us: int = 0


class Done(NamedTuple):
    """work_us: done since the start. saved_us: of it, what a checkpoint has. writing_us: stood still for these."""

    work_us: int
    saved_us: int
    writing_us: int


def time_us(work_us: int, speed: float, checkpoints: Checkpoints) -> int:
    """How long work takes, with the checkpoints between; its end is none."""
    computing = -int(-work_us // speed) if speed != 1.0 else work_us
    if not checkpoints.interval_us or not computing:
        return computing
    return computing + (computing - 1) // checkpoints.interval_us * checkpoints.write_us


def done_in(elapsed_us: int, work_us: int, speed: float, checkpoints: Checkpoints) -> Done:
    """How far work is after so much time. elapsed_us: at most `time_us`; below zero is none."""
    if elapsed_us <= 0:
        return Done(0, 0, 0)
    if not checkpoints.interval_us:
        return Done(min(_work(elapsed_us, speed), work_us), 0, 0)
    n, rest = divmod(elapsed_us, checkpoints.interval_us + checkpoints.write_us)
    computing = min(rest, checkpoints.interval_us)
    saved = n * checkpoints.interval_us
    return Done(
        min(_work(saved + computing, speed), work_us),
        min(_work(saved, speed), work_us),
        n * checkpoints.write_us + rest - computing,
    )


def _work(computing_us: int, speed: float) -> int:
    return computing_us if speed == 1.0 else int(computing_us * speed)
