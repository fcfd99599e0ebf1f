"""Finding what repeats in a sequence, so that a schedule of a thousand microbatches is a few loops."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
MAX_PERIOD = 512


def find_loops(sequence: Sequence[T]) -> list[tuple[int, list[T]]]:
    """The sequence as (times, part) in order, with what repeats one after the other told once.

    At each place the shortest period that saves most is taken, of at most MAX_PERIOD.
    """
    loops: list[tuple[int, list[T]]] = []
    at, n = 0, len(sequence)
    while at < n:
        best, saved = (1, 1), 0
        for period in range(1, min(MAX_PERIOD, (n - at) // 2) + 1):
            if sequence[at] != sequence[at + period]:
                continue
            end = at + period
            while end < n and sequence[end] == sequence[end - period]:
                end += 1
            times = (end - at) // period
            if times > 1 and (times - 1) * period > saved:
                best, saved = (times, period), (times - 1) * period
        times, period = best
        part = list(sequence[at : at + period])
        if times == 1 and loops and loops[-1][0] == 1:
            loops[-1][1].extend(part)
        else:
            loops.append((times, part))
        at += times * period
    return loops
