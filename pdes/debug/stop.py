"""--break: the first round's end at which a condition holds."""

from models.network.build.arrays import NetworkState
from pdes.debug.conditions import Condition, Quantity, holds
from pdes.debug.quantities import Meter


class Breakpoint:
    """An observer that ends the run when a condition holds. The same on every rank, and on any number of them."""

    def __init__(self, condition: Condition, meter: Meter, enters_debugger: bool = False) -> None:
        self._condition, self._meter, self._enters_debugger = condition, meter, enters_debugger
        self.due_ps = 0
        self.values: dict[Quantity, int] = {}
        self.found_ps: int | None = None
        """When it held: every event before it has run, and none from it on. None: not yet."""

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """True where it holds."""
        self.due_ps = horizon_ps + 1
        self.values = self._meter.read(state, horizon_ps)
        if holds(self._condition, self.values):
            self.found_ps = horizon_ps
            if self._enters_debugger:
                breakpoint()  # `state` has everything; `c` goes on to the end of the run
        return self.found_ps is not None
