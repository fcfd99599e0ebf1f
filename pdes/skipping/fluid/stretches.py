"""Stretches of time, some of which are drawn: in these, what could go at flow level is simulated (`audit`).

Single messages must not be drawn: acknowledgements at flow level are not in the network, so a message that is simulated
beside them meets a load that comes and goes, and says more of the audit than of flow level. Where all that it could
meet is simulated, it meets what it meets in a full run. So flows that share ports, with those of their
acknowledgements, directly or by others, are one component, and drawn together: a rail, if nothing crosses rails.

A stretch lasts four times the longest that anything has taken which went at flow level, or could have. Whether it is
drawn, for a component, is up to the seed, its number and the component's alone. Two drawn ones in a row are one:
nothing happens between them. Where one begins or ends the component's flows go on packet by packet. What begins in a
drawn stretch is compared unless

- that is within the time of what takes longest from the beginning: others may still go on from flow level (warm-up), or
- the stretch ends, the next one is not drawn, and what takes longest would not be over by then.

Neither depends on the message. So long ones are compared as often as short ones; if all that is wholly within a stretch
were compared, long ones would be too seldom. What takes longer than anything before it may still be cut short.
"""

import numpy as np

from pdes.engine.jit import loop_kernel
from pdes.engine.rng import uniform
from pdes.engine.time_index import NEVER
from pdes.random_plain import PURPOSE_AUDIT

FIRST_STREAM = 2  # of PURPOSE_AUDIT, that of stretch 0: `audit` has 0, `waves` 1
LENGTH = 4  # of a stretch, in times of what takes longest
NO_STRETCH = -1


@loop_kernel
def _draw(seed, number, share, out):
    """Write for each component whether a stretch is drawn. out: bool[n_component]."""
    for i in range(out.size):
        out[i] = uniform(seed, np.int64(i), PURPOSE_AUDIT, FIRST_STREAM + number) < share


class Stretches:
    """Which one it is now, and what is to be compared of it; alike on every rank."""

    def __init__(self, component: np.ndarray, share: float, seed: int, least_ps: int) -> None:
        """component: int64[n_flow], 0 .. n_component - 1. share: 0..1, of all time. least_ps: what anything at flow
        level takes at least."""
        self.share, self.seed, self.component = share, seed, component
        self.longest_ps = least_ps  # that anything has taken so far which could have been at flow level
        n = int(component.max(initial=-1)) + 1
        self.number, self._is_drawn = -1, np.zeros(n, np.bool_)
        # What begins from the one on, and before the other, is compared.
        self._first_ps, self._last_ps = (np.full(n, NEVER, np.int64) for _ in range(2))
        self.end_ps = NEVER  # where none is drawn
        if share > 0:
            self.go_on(0)
            self._first_ps[self._is_drawn] = 0

    def draws(self, number: int) -> np.ndarray:
        """bool[n_component]: where a stretch is drawn."""
        found = np.zeros(len(self._is_drawn), np.bool_)
        _draw(self.seed, number, self.share, found)
        return found

    def is_drawn(self, flows: np.ndarray) -> np.ndarray:
        """bool[n]: which flows' messages are simulated now."""
        return self._is_drawn[self.component[flows]]

    def go_on(self, now_ps: int) -> np.ndarray:
        """Begin another stretch; bool[n_component], of which the last one was drawn and this one is not, or the other
        way round."""
        was_drawn = self._is_drawn
        self.number += 1
        self._is_drawn = self.draws(self.number)
        self.end_ps = now_ps + LENGTH * self.longest_ps
        self._first_ps = np.where(was_drawn, self._first_ps, now_ps + self.longest_ps)
        self._first_ps[~self._is_drawn] = NEVER
        self._last_ps = np.where(self.draws(self.number + 1), NEVER, self.end_ps - self.longest_ps)
        return was_drawn != self._is_drawn

    def unit_of(self, flows: np.ndarray, begin_ps: np.ndarray | int) -> np.ndarray:
        """int64[n]: for messages that begin in this stretch, what is drawn together; NO_STRETCH: not compared."""
        mine = self.component[flows]
        counts = (self._first_ps[mine] <= begin_ps) & (begin_ps < self._last_ps[mine])
        return np.where(counts, self.number * len(self._is_drawn) + mine, NO_STRETCH)

    def note(self, took_ps: int) -> None:
        """Something takes so long that could be at flow level."""
        self.longest_ps = max(self.longest_ps, took_ps)
