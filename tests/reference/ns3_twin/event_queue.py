"""The heap of events, and the rules that order the events of one instant."""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

Order = tuple[int, int, int]
"""(kind, source, sequence): an event's place within its instant under the engine's rule, design R2."""

WIRE, ARRIVAL, CONTROL_TIMER, FLOW_START = 0, 1, 2, 3  # kinds
PORT_IDLE, NIC_WAKES = 0, 1  # sequence of an event of kind WIRE; its source is the port
ALPHA_TIMER, DECREASE_TIMER, INCREASE_TIMER = 0, 1, 2  # sequence of an event of kind CONTROL_TIMER; source: the flow


def tie_rule(tie: str) -> Callable[[Order, int], Any]:
    """What orders events of one instant, from an event's order and the running number of its scheduling.

    tie: "ns3", first scheduled, first run; "engine"; "reverse", last scheduled, first run; "random:<seed>".
    """
    if tie == "ns3":
        return lambda order, number: number
    if tie == "engine":
        return lambda order, number: order
    if tie == "reverse":
        return lambda order, number: -number
    if tie.startswith("random:"):
        generator = Random(int(tie.removeprefix("random:")))
        return lambda order, number: generator.random()
    raise ValueError(f"no tie rule {tie!r}. Accepted: ns3, engine, reverse, random:<seed>")


class EventQueue:
    """What is still to happen. now_ns: the time of the event that runs; n_run: how many have run."""

    def __init__(self, tie: str) -> None:
        self.now_ns = 0
        self.n_run = 0
        self._rule = tie_rule(tie)
        self._heap: list[tuple] = []
        self._n_pushed = 0
        self._cancelled: set[int] = set()

    def push(self, time_ns: int, order: Order, action: Callable[..., None], *arguments: Any) -> int:
        """Schedule action(*arguments); the number returned can be cancelled as long as the event has not run."""
        self._n_pushed = number = self._n_pushed + 1
        heappush(self._heap, (time_ns, self._rule(order, number), number, action, arguments))
        return number

    def cancel(self, number: int | None) -> None:
        """Forget a scheduled event; None is no event."""
        if number is not None:
            self._cancelled.add(number)

    def run(self, stop_ns: int) -> None:
        """Run all events before stop_ns."""
        while self._heap and self._heap[0][0] < stop_ns:
            self.now_ns, _, number, action, arguments = heappop(self._heap)
            if number in self._cancelled:
                self._cancelled.remove(number)
            else:
                self.n_run += 1
                action(*arguments)
