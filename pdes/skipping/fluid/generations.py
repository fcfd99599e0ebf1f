"""When the times of messages agree whose packets go different ways, where it is drawn how many packets meet.

Of messages that are posted together the fastest are over first, and their times are alike, however slow the others
are. So times count by **generations**: the messages of one form and size that were posted before the first of them was
over. They are known when the last two generations, or as many as have LEAST messages, differ little, and so do their
messages. A control may remember what it met, as TIMELY does: then the first generation is faster than later ones.
"""

import numpy as np

from pdes.engine.time_index import NEVER

LEAST = 8  # messages
MOST = 64  # generations that are kept
WIDE = 2  # times the tolerance: so large the standard deviation may be
Times = tuple[int, int]  # from the posting on: until a message came across, until it was acknowledged


class Generations:
    """Of messages of one form and size, in the order of their ends."""

    def __init__(self) -> None:
        self._over: list[list[Times]] = []  # generations that are over
        self._now: list[Times] = []
        self._first_end_ps = NEVER  # of the present one

    def add(self, posted_ps: int, times: Times, tolerance: float) -> Times | None:
        """A message is over, its times as they are to be learned; the mean of those that agree, None: they do not."""
        agreed = None
        if posted_ps >= self._first_end_ps:
            self._over = [*self._over[1 - MOST :], self._now]
            self._now, self._first_end_ps = [], NEVER
            agreed = self._agreed(tolerance)
        self._now.append(times)
        self._first_end_ps = min(self._first_end_ps, posted_ps + times[1])
        return agreed

    def _agreed(self, tolerance: float) -> Times | None:
        last: list[Times] = []
        n_generation = 0
        while n_generation < len(self._over) and (n_generation < 2 or len(last) < LEAST):
            n_generation += 1
            last += self._over[-n_generation]
        if n_generation < 2 or len(last) < LEAST:
            return None
        times, n_new = np.array(last), len(self._over[-1])
        new, old, mean = times[:n_new, 1].mean(), times[n_new:, 1].mean(), times.mean(axis=0)
        if abs(new / old - 1) > tolerance or times[:, 1].std() > WIDE * tolerance * mean[1]:
            return None
        return int(mean[0]), int(mean[1])
