"""What looks at the network's state at decision instants (design R6).

It changes nothing in it, but may say how many iterations there are to be (`models.network.streams.iterations`).
"""

from collections.abc import Sequence
from typing import Protocol

from models.network.build.arrays import NetworkState
from pdes.engine.round import END_RUN
from pdes.engine.time_index import NEVER


class Observer(Protocol):
    """One rank's part of something that looks at the whole network; every rank has the same ones in the same order."""

    due_ps: int
    """When it wants to look next, the same on every rank; NEVER: not again."""

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Look, when every event below horizon_ps has run, and move due_ps above it. True: the run is to end here."""
        ...


def next_look_ps(observers: Sequence[Observer]) -> int:
    """When the next of them wants to look."""
    return min((observer.due_ps for observer in observers), default=NEVER)


def look_at(observers: Sequence[Observer], state: NetworkState, horizon_ps: int) -> int:
    """Let all look that are due; when the next one is, or END_RUN."""
    ends = [observer.look(state, horizon_ps) for observer in observers if observer.due_ps <= horizon_ps]
    return END_RUN if any(ends) else next_look_ps(observers)
