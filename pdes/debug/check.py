"""--check, --check-every: at the end of rounds, everything that is known twice is compared (`network.verify`).

Conservation of bytes by flow (design R8), order on wires and in queues, books of shared buffers, pools, time index. All
ranks' states come together on rank 0, and the checks are plain Python: it is for small runs.
"""

from collections.abc import Callable

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.verify.network import verify_ranks
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.round_exchange import ExchangeState
from pdes.errors import CausalityError
from pdes.units import format_duration


class RoundCheck:
    """An observer that checks, and never ends a run but by an error."""

    def __init__(
        self, topology: Topology, rank_of_node: np.ndarray, world: World,
        between: Callable[[], tuple[ExchangeState, np.ndarray | None]], every_ps: int = 0,
    ) -> None:  # fmt: skip
        """between: this rank's exchange, with what has come and is not on its links; its chains on hidden links.

        every_ps: simulated time from a check to the next one at least.
        """
        self._topology, self._rank_of_node, self._world, self._between = topology, rank_of_node, world, between
        self._every_ps = max(every_ps, 1)
        self.due_ps, self.n_check = 0, 0

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Check the round that has ended. CausalityError: on rank 0, with what does not hold."""
        self.due_ps = horizon_ps + self._every_ps
        exchange, hidden = self._between()
        parts = self._world.gather((state, exchange, hidden))
        fault = None
        if parts is not None:
            states, exchanges, heads = zip(*parts, strict=True)
            try:
                is_hiding = all(head is not None for head in heads)
                verify_ranks(states, exchanges, self._topology, self._rank_of_node, heads if is_hiding else ())
            except AssertionError as error:
                fault = str(error)
        if fault is not None:  # the other ranks wait below, and end with this one
            where = f"at check {self.n_check + 1}, {format_duration(horizon_ps, 6)} ({horizon_ps} ps)"
            raise CausalityError(f"--check: {fault}, {where}. This is a fault of the program: please report it")
        self._world.barrier()
        self.n_check += 1
        return False
