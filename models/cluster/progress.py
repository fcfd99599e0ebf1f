"""How far a job gets in some time, with checkpoints: closed forms, so that a checkpoint is no event.

Checkpoints are due by the time of computing, whatever its speed, so a change of speed moves none of them.
"""

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
    """work_us: done since the start. saved_us: of it, what a checkpoint has. writing_us: stood still for these.

    computing_us: all of that time; slow_us: of it, what was lost beside full speed. kept_us, kept_slow_us: the same by
    the last checkpoint.
    """

    work_us: int
    saved_us: int
    writing_us: int
    computing_us: int
    slow_us: int
    kept_us: int
    kept_slow_us: int

    @property
    def unsaved_us(self) -> int:
        """Time since the last checkpoint, without what was lost as the job was slow."""
        return self.computing_us - self.kept_us - (self.slow_us - self.kept_slow_us)


class Mark(NamedTuple):
    """Where a job's speed has changed last since its start, and what it had done by then.

    saved_us, kept_slow_us: work and slow time by its last checkpoint before. slow: the share of time that is lost from
    here on.
    """

    computing_us: int = 0
    work_us: int = 0
    slow_us: int = 0
    saved_us: int = 0
    kept_slow_us: int = 0
    slow: float = 0.0


FROM_START = Mark()
NOTHING = Done(0, 0, 0, 0, 0, 0, 0)


def time_us(work_us: int, speed: float, checkpoints: Checkpoints, mark: Mark = FROM_START) -> int:
    """How long work takes since its start, with the checkpoints between; its end is none."""
    left_us = work_us - mark.work_us
    computing = mark.computing_us + (-int(-left_us // speed) if speed != 1.0 else left_us)
    if not checkpoints.interval_us or not computing:
        return computing
    return computing + (computing - 1) // checkpoints.interval_us * checkpoints.write_us


def done_in(elapsed_us: int, work_us: int, speed: float, checkpoints: Checkpoints, mark: Mark = FROM_START) -> Done:
    """How far work is after so much time. elapsed_us: at most `time_us`, not before the mark; below zero is none."""
    if elapsed_us <= 0:
        return NOTHING
    computing, kept, writing = elapsed_us, 0, 0
    if checkpoints.interval_us:
        n, rest = divmod(elapsed_us, checkpoints.interval_us + checkpoints.write_us)
        kept, part = n * checkpoints.interval_us, min(rest, checkpoints.interval_us)
        computing, writing = kept + part, n * checkpoints.write_us + rest - part
    work, slow = _at(computing, speed, mark)
    saved, kept_slow = _at(kept, speed, mark) if kept >= mark.computing_us else (mark.saved_us, mark.kept_slow_us)
    return Done(min(work, work_us), min(saved, work_us), writing, computing, slow, kept, kept_slow)


def mark_of(done: Done, speed: float, full_speed: float) -> Mark:
    """Where speed changes. done: until then. speed: from then on."""
    slow = 1 - speed / full_speed if speed < full_speed else 0.0
    return Mark(done.computing_us, done.work_us, done.slow_us, done.saved_us, done.kept_slow_us, slow)


def _at(computing_us: int, speed: float, mark: Mark) -> tuple[int, int]:
    """Work and slow time."""
    since_us = computing_us - mark.computing_us
    work_us = since_us if speed == 1.0 else int(since_us * speed)
    return mark.work_us + work_us, mark.slow_us + int(since_us * mark.slow)
