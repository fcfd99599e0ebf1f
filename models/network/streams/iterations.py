"""Iterations that repeat: an observer that ends a workload early, once its iterations take the same time.

As Arcadia fast-forwards (Meta, NSDI'26, section 6.3): some iterations are simulated, the others taken to be like them.
Deviation: there, how many to simulate is given; here, as many as it takes until the last of them say what the mean of
the others will be (`agreement`).

Iterations have no barrier between them (design R12): GPUs are in later ones when one is done. So every stream goes on
to the end of the last iteration that any stream has begun, and all ends as a run of that many iterations would.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState
from models.topology.graph import Topology
from models.workload.agreement import Agreement, agreement
from models.workload.plan import WorkloadPlan
from models.workload.program import Work
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER

FIRST_LOOK_PS = 10**6
SAVED = ("_end_ps", "_clock_ps", "n_iteration", "agreed", "due_ps")


class IterationWatch:
    """One rank's part in deciding how many iterations are simulated; every rank decides the same.

    It decides from whole iterations at the look instants, which the simulated times alone determine.
    """

    def __init__(
        self,
        topology: Topology,
        plan: WorkloadPlan,
        rank_of_node: np.ndarray,
        world: World,
        n_repeat: int,
        tolerance: float,
    ) -> None:
        """n_repeat: how many cycles must agree, at least 1. tolerance: the largest bound of their mean's error."""
        self._mine = np.flatnonzero(rank_of_node[topology.host[plan.streams["gpu"]]] == world.rank)
        self._world, self._n_repeat, self._tolerance = world, n_repeat, tolerance
        self._end_ps = [0]  # of the whole iterations, behind the start
        self._clock_ps = [0]  # the same by the clock, which is behind where passes were left out (`repeats`)
        self.skipped_before: Callable[[int], np.ndarray] | None = None  # that, before the ends of so many iterations
        self.n_iteration = plan.n_iteration  # that are simulated, unless the run ends before
        self.agreed: Agreement | None = None  # what made it fewer than the plan's
        self.due_ps = FIRST_LOOK_PS

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """End the workload behind what has begun if its times say enough of the rest. Never ends the run itself."""
        n_done, n_begun = self._progress(state.work)
        self._learn_ends(state.work, n_done)
        is_open = n_begun < self.n_iteration
        if is_open:
            found = agreement(np.diff(self._end_ps).tolist(), self._n_repeat, self.n_iteration - n_begun)
            if found is not None and found.bound <= self._tolerance:
                self.n_iteration, self.agreed, is_open = n_begun, found, False
                state.work.streams["n_iteration"] = n_begun
        self.due_ps = self._next_look_ps(horizon_ps) if is_open else NEVER
        return False

    def save(self) -> dict[str, Any]:
        """The same on every rank, for a checkpoint."""
        return {name: getattr(self, name) for name in SAVED}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        for name in SAVED:
            setattr(self, name, saved[name])

    def _progress(self, work: Work) -> tuple[int, int]:
        """(iterations that every stream has behind it, iterations that some stream has begun), of all ranks."""
        iteration = work.streams["iteration"][self._mine]
        own = (int(iteration.min(initial=self.n_iteration)), int(iteration.max(initial=0)))
        parts = self._world.allgather(own)
        return min(part[0] for part in parts), min(self.n_iteration, 1 + max(part[1] for part in parts))

    def _learn_ends(self, work: Work, n_done: int) -> None:
        n_known = len(self._end_ps) - 1
        if n_done > n_known:
            ends = np.max(self._world.allgather(work.iteration_end_ps[n_known:n_done]), axis=0)
            self._clock_ps += ends.tolist()
            if self.skipped_before is not None:
                ends = ends + self.skipped_before(n_done)[n_known:]
            self._end_ps += ends.tolist()

    def _next_look_ps(self, horizon_ps: int) -> int:
        """Just after the next iteration should have ended; every eighth of an iteration when that has passed.

        Before one has ended, instants that are an eighth of the run apart.
        """
        if len(self._clock_ps) == 1:
            return horizon_ps + max(1, horizon_ps // 8)
        time_ps = self._clock_ps[-1] - self._clock_ps[-2]
        expected_ps = self._clock_ps[-1] + time_ps + time_ps // 64
        return expected_ps if expected_ps > horizon_ps else horizon_ps + max(1, time_ps // 8)
