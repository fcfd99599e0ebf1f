"""A run that loses all it sends: time goes on, packets are sent again and again, and none gets through.

A look counts such a stretch if, since the look before, nothing was acknowledged and no task ended, though packets were
dropped, and every queue pair with something unacknowledged has timed out at least LEAST_TIMEOUTS times in a row; and if
nothing is to come that could change it: no link event, no stream that waits for a time. That is no proof where losses
are random, but then the chance is at most that of LEAST_TIMEOUTS losses in a row, in every pair.
"""

from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.state.parameters import NetworkParameters
from models.network.watch.blocked import Blocked
from models.topology.graph import Topology
from models.workload.program import WAITING_TIME
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.units import PS_PER_S

LEAST_TIMEOUTS = 8
LEAST_INTERVAL_PS = PS_PER_S
Seen = tuple[int, int, int]  # bytes acknowledged, tasks ended, packets dropped


def make_stall_watch(
    topology: Topology, parameters: NetworkParameters, rank_of_node: np.ndarray, world: World
) -> "StallWatch | None":
    """None where no packet is ever lost, so that none is sent again."""
    if parameters.transport is None:
        return None
    last_ps = max((change.time_ps for change in parameters.link_changes), default=-1)
    return StallWatch(topology, rank_of_node, world, parameters.transport.max_timeout_ps, last_ps)


class StallWatch:
    """One rank's part in looking for it; all ranks decide alike."""

    def __init__(
        self, topology: Topology, rank_of_node: np.ndarray, world: World, max_timeout_ps: int, last_change_ps: int
    ) -> None:
        """max_timeout_ps: the longest retransmission timeout. last_change_ps: of the last link event."""
        self._topology, self._rank_of_node, self._world = topology, rank_of_node, world
        self._interval_ps = max(LEAST_INTERVAL_PS, 2 * LEAST_TIMEOUTS * max_timeout_ps)
        self._last_change_ps = last_change_ps
        self._seen: Seen | None = None
        self.due_ps = self._interval_ps
        self.found_ps = self.since_ps = -1

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Whether nothing gets through any more; the same on every rank."""
        parts = self._world.allgather(self._facts(state))
        seen: Seen = tuple(sum(part[i] for part in parts) for i in range(3))  # pyright: ignore[reportAssignmentType]
        may_change = any(part[3] for part in parts) or horizon_ps <= self._last_change_ps
        before, self._seen = self._seen, seen
        self.since_ps = horizon_ps - self._interval_ps
        self.due_ps = min(NEVER, horizon_ps + self._interval_ps)
        is_stuck = before is not None and seen[:2] == before[:2] and seen[2] > before[2] and not may_change
        if is_stuck:
            self.found_ps = horizon_ps
        return is_stuck

    def _facts(self, state: NetworkState) -> tuple[int, int, int, bool]:
        """What this rank's hosts have got through, what its switches dropped, and whether something is to come."""
        rows = self._rows(state)
        table, streams = state.nic.queue_pairs, state.work.streams
        is_open = table["acked_byte"][rows] < table["posted_end"][rows]
        here = self._rank_of_node[streams["node"]] == self._world.rank
        is_waiting = bool((here & (streams["waiting_for"] == WAITING_TIME)).any())
        is_trying = bool((table["n_backoff"][rows][is_open] < LEAST_TIMEOUTS).any())
        acked, tasks = int(table["acked_byte"][rows].sum()), int(state.work.iteration_tasks.sum())
        return acked, tasks, int(state.buffers.drops.sum()), is_waiting or is_trying

    def _rows(self, state: NetworkState) -> np.ndarray:
        """Queue pairs that send here."""
        return state.nic.sends

    def explain(self, state: NetworkState) -> list[Blocked]:
        """The queue pairs of this rank that get nothing through, each with its last timeouts."""
        table, found = state.nic.queue_pairs, []
        for row in sorted(self._rows(state).tolist(), key=lambda row: int(table["node"][row])):
            pair = table[row]
            if pair.acked_byte < pair.posted_end:
                src, dst = int(pair.node), self._receiver(state, row)
                names = self._topology.node_name
                left = int(pair.posted_end) - int(pair.acked_byte)
                text = f"{names[src]} sends {left:,} bytes to {names[dst]} again and again: {int(pair.n_backoff)} "
                found.append(Blocked(src, f"{text}timeouts in a row, nothing acknowledged", -1))
        return found

    def _receiver(self, state: NetworkState, row: int) -> int:
        return int(state.nic.facts["receiver"][row])

    def save(self) -> dict[str, Any]:
        """For a checkpoint; all ranks have the same."""
        return {"due_ps": self.due_ps, "seen": self._seen}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.due_ps, self._seen = saved["due_ps"], saved["seen"]
