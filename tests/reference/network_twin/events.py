"""The one heap of events, in design R2's order: time, kind, source, sequence.

The node needs no place in the order, since nothing that happens at one node acts at another one at the same instant.
"""

from collections.abc import Callable
from heapq import heappop, heappush

CHANGE, START, ARRIVAL, TIMER, POST = range(-1, 4)  # kinds; START also stands for a pacing time that comes
Action = Callable[[int], None]


class Events:
    """What is to happen. n_lasting: how many of them keep the run going: all but timers and changes of links."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int, int, int, Action]] = []
        self.n_pushed = 0
        self.n_lasting = 0

    def push(self, time_ps: int, kind: int, source: int, sequence: int, action: Action) -> None:
        """Let action(time_ps) happen. source: port, queue pair's row, flow or change; sequence: FIFO, timer."""
        self.n_pushed += 1
        self.n_lasting += kind not in (TIMER, CHANGE)
        heappush(self.heap, (time_ps, kind, source, sequence, self.n_pushed, action))

    def run_next(self) -> None:
        """Let the first event happen."""
        time_ps, kind, _, _, _, action = heappop(self.heap)
        self.n_lasting -= kind not in (TIMER, CHANGE)
        action(time_ps)
