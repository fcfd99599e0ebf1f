"""PFC deadlock: queues of switches that wait for each other in a circle, proved from the exact state at a look.

A queue is stuck if the switch behind its port pauses it, and every packet which that switch holds of it waits in a
stuck queue too: a pause ends only when one of these packets leaves (`managed_switch`), and none ever will. `find_stuck`
takes the largest set of queues for which this holds; in it, following who waits for whom must come to a circle.

That holds if nothing is on its way: so a queue counts only if it has not moved since the last look, and looks are
further apart than any packet is on a link; and one that waits for a packet elsewhere, in a queue that moves or may yet
move, does not count. So a network that is not deadlocked is never reported to be. A deadlock is seen at the second look
after everything that can leave has left the switches on the circle.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.link.wire_time import transmission_ps
from models.network.state.parameters import NetworkParameters
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER


class StuckQueue(NamedTuple):
    """A queue on a circle; it waits for the next one, the last for the first."""

    port: int
    queue: int
    queued_bytes: int


Circle = tuple[StuckQueue, ...]


class QueueFacts(NamedTuple):
    """What one rank knows of queues that have not moved. A queue's code is port * n_queue + queue."""

    queued_bytes: dict[int, int]  # of paused queues of this rank's switches
    held_bytes: dict[int, dict[int, int]]  # packets that wait in them, by the queue that they came from
    pausing_bytes: dict[int, int]  # queues that this rank's switches pause, and have packets of: all they hold of each


def find_stuck(parts: list[QueueFacts]) -> dict[int, list[int]]:
    """The stuck queues, and for each the stuck queues that it waits for, ascending."""
    held_bytes, pausing_bytes = {}, {}
    for part in parts:
        held_bytes |= part.held_bytes
        pausing_bytes |= part.pausing_bytes
    stuck = set(held_bytes) & set(pausing_bytes)
    while True:
        waiting_bytes, waits_for = dict.fromkeys(stuck, 0), {code: [] for code in stuck}
        for other in sorted(stuck):
            for code, size_bytes in held_bytes[other].items():
                if code in stuck:
                    waiting_bytes[code] += size_bytes
                    waits_for[code].append(other)
        still = {code for code in stuck if 0 < pausing_bytes[code] == waiting_bytes[code]}
        if still == stuck:
            return waits_for
        stuck = still


def find_circles(parts: list[QueueFacts], n_queue: int) -> tuple[Circle, ...]:
    """Circles among the stuck queues, each from its lowest code on; () if nothing is stuck.

    Of all that a queue waits for, the one with the lowest code is followed, so circles share no queue.
    """
    waits_for = find_stuck(parts)
    queued_bytes = {code: size for part in parts for code, size in part.queued_bytes.items()}
    circles, seen = [], set()
    for code in sorted(waits_for):
        walk = []
        while code not in seen:
            seen.add(code)
            walk.append(code)
            code = waits_for[code][0]
        if code in walk:
            circle = walk[walk.index(code) :]
            first = circle.index(min(circle))
            circles.append(circle[first:] + circle[:first])
    return tuple(
        tuple(StuckQueue(code // n_queue, code % n_queue, queued_bytes[code]) for code in circle)
        for circle in sorted(circles)
    )


class DeadlockWatch:
    """One rank's part in looking for deadlocks; rank 0 decides. interval_ps None: only when nothing is left to do."""

    def __init__(
        self,
        topology: Topology,
        parameters: NetworkParameters,
        rank_of_node: np.ndarray,
        world: World,
        interval_ps: int | None,
    ) -> None:
        between = topology.is_switch[topology.port_src] & topology.is_switch[topology.port_dst]
        self._ports = np.flatnonzero(between & (rank_of_node[topology.port_src] == world.rank))
        self._n_queue, self._world = parameters.n_queue, world
        self._interval_ps = NEVER if interval_ps is None else max(interval_ps, _longest_flight_ps(topology, parameters))
        self._last: dict[int, tuple[int, ...]] = {}
        self.due_ps = self._interval_ps
        self.circles: tuple[Circle, ...] = ()
        self.found_ps = -1

    def look(self, state: NetworkState, horizon_ps: int) -> bool:
        """Whether some queues are stuck for good; the same on every rank."""
        waiting = self._paused_queues(state)
        still = [code for code, first_packet in waiting.items() if self._last.get(code) == first_packet]
        self._last = waiting
        self.due_ps = min(NEVER, horizon_ps + self._interval_ps)
        self._decide(state, still)
        if self.circles:
            self.found_ps = horizon_ps
        return bool(self.circles)

    def save(self, state: NetworkState) -> dict[str, Any]:
        """This rank's part of a checkpoint: which queues have not moved since the last look."""
        now = dict(zip(self._last, self._first_packets(state, np.array(list(self._last), np.int64)), strict=True))
        return {"due_ps": self.due_ps, "still": [code for code, first in self._last.items() if now[code] == first]}

    def load(self, parts: Sequence[dict[str, Any]], state: NetworkState) -> None:
        """Go on from a checkpoint. parts: of all ranks."""
        self.due_ps = parts[0]["due_ps"]
        codes = np.array([code for part in parts for code in part["still"]], np.int64)
        codes = codes[np.isin(codes // self._n_queue, self._ports)]
        self._last = dict(zip(codes.tolist(), self._first_packets(state, codes), strict=True))

    def look_at_end(self, state: NetworkState) -> None:
        """The same once a run is over: without events nothing moves, so no look before is needed."""
        is_over = min(self._world.allgather(int(state.fabric.node_time[1]))) >= NEVER
        if is_over and not self.circles:
            self._decide(state, list(self._paused_queues(state)))

    def _decide(self, state: NetworkState, codes: list[int]) -> None:
        parts = self._world.gather(self._facts(state, codes))
        self.circles = self._world.bcast(find_circles(parts, self._n_queue) if parts is not None else None)

    def _paused_queues(self, state: NetworkState) -> dict[int, tuple[int, ...]]:
        """{code: what tells its first packet from others} of queues with packets that may not go."""
        managed = state.buffers.managed
        held = managed["waiting"][self._ports] & managed["paused"][self._ports]
        found = {}
        for queue in range(1, self._n_queue):
            codes = self._ports[(held >> queue) & 1 > 0] * self._n_queue + queue
            found |= dict(zip(codes.tolist(), self._first_packets(state, codes), strict=True))
        return found

    def _first_packets(self, state: NetworkState, codes: np.ndarray) -> list[tuple[int, ...]]:
        """What tells the first packet of each queue from others; of an empty one, nothing."""
        first = state.buffers.queues["head"][codes]
        packets = state.fabric.packets[first]
        return list(zip(first.tolist(), packets["queue_pair"].tolist(), packets["sequence"].tolist(), strict=True))

    def _facts(self, state: NetworkState, codes: list[int]) -> QueueFacts:
        queues, ingress = state.buffers.queues, state.buffers.ingress
        held_bytes = {code: self._held_bytes(state, code) for code in codes}
        sources = {source for held in held_bytes.values() for source in held if ingress["is_pausing"][source]}
        pausing_bytes = {
            source: int(ingress["held_bytes"][source]) + int(ingress["headroom_bytes"][source]) for source in sources
        }
        return QueueFacts({code: int(queues["queued_bytes"][code]) for code in codes}, held_bytes, pausing_bytes)

    def _held_bytes(self, state: NetworkState, code: int) -> dict[int, int]:
        """Bytes that wait in a queue, by the code of the queue that sent them to this switch."""
        packets, queue, held = state.fabric.packets, code % self._n_queue, {}
        packet = int(state.buffers.queues["head"][code])
        while packet >= 0:
            source = int(packets["arrival_ps"][packet]) * self._n_queue + queue  # of a waiting packet: where it came in
            held[source] = held.get(source, 0) + int(packets["size_bytes"][packet])
            packet = int(packets["next"][packet])
        return held


def _longest_flight_ps(topology: Topology, parameters: NetworkParameters) -> int:
    """From the start of a packet's transmission to its arrival, at most."""
    size_bytes, is_ns3 = parameters.payload_bytes + parameters.header_bytes, parameters.ns3 is not None
    links = set(zip(topology.port_rate_bps.tolist(), topology.port_delay_ps.tolist(), strict=True))
    times_ps = (delay_ps + int(transmission_ps(size_bytes, rate_bps, is_ns3)) for rate_bps, delay_ps in links)
    return max(times_ps, default=0)
