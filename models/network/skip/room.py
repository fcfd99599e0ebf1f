"""Room in shared buffers for what is frozen: how much it may take, and what others must leave it (design section 4).

A frozen network partition holds in a switch's shared pool what it held at the freeze. Had it run on, it would have held
now more, now less. Nobody can tell as long as every packet that comes to the switch fits even if the partition has the
most that it may have, and as long as the pool has so much left that no packet of the partition would be paused or
dropped either. So while something is frozen at a switch its books hold the most, and the first packet that does not fit
by them, or leaves too little, stops the switch and is an interrupt (`interrupts`): all that is frozen there thaws.

The most is what waited in the partition's queues since it thawed last, all of it taken for packets of each port that
feeds them, and a packet that has just come. A partition that stays within the reserves is dry: nobody can tell what it
has, so others may even be paused and dropped beside it.
"""

from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs, has_pfc
from models.network.state.parameters import NetworkParameters
from models.network.state.records import FLAG_FRAME, N_CROWDED, Fabric
from models.network.switch.shared_buffer import ALPHA_BITS
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.jit import loop_kernel
from pdes.engine.time_index import NEVER
from pdes.skipping.frozen import Freeze
from pdes.skipping.replay.memo import Replay


class Claim(NamedTuple):
    """What a network partition may take of this rank's switches, and what it needs. int64[n], a row for each switch."""

    node: np.ndarray  # ascending
    more_bytes: np.ndarray  # of the pool, at most, beyond what it has
    most_bytes: np.ndarray  # of the pool, at most; 0: it is dry
    limit_bytes: np.ndarray  # with more than this in use of the pool, a packet of it might be paused or dropped


@loop_kernel
def carries_frame(fabric: Fabric, ports):
    """Whether a PFC frame is on one of these links. ports: int64[]."""
    for i in range(ports.size):
        packet = np.int64(fabric.ports[np.uint64(ports[i])].link_head)
        while packet >= 0:
            item = fabric.packets[np.uint64(packet)]
            if item.bits & FLAG_FRAME:
                return True
            packet = np.int64(item.next)
    return False


def most_in_use(pool_bytes: np.ndarray, alpha_1024: np.ndarray, part_bytes: np.ndarray) -> np.ndarray:
    """How much of pools may be in use so that queues with these parts stay below their thresholds; -1: nothing.

    All int64[n]. The inverse of `shared_buffer.threshold_bytes`.
    """
    free_bytes = -(-((part_bytes + 1) << ALPHA_BITS) // np.maximum(alpha_1024, 1))
    return np.where(alpha_1024 > 0, pool_bytes - free_bytes, -1)


class Room:
    """The buffers of one rank's switches, as far as they matter to what is frozen."""

    def __init__(
        self, topology: Topology, pairs: QueuePairs, parameters: NetworkParameters, world: World, here: np.ndarray
    ) -> None:
        buffer = parameters.buffer
        assert buffer is not None
        self._topology, self._world, self._has_pfc = topology, world, has_pfc(parameters)
        self._receives_here = here[topology.port_dst] & topology.is_switch[topology.port_dst]
        self._sends_here = here[topology.port_src] & topology.is_switch[topology.port_src]
        self._n_queue, self._reserve_bytes = parameters.n_queue, buffer.reserve_bytes
        self._packet_bytes = parameters.payload_bytes + parameters.header_bytes
        self.reroute(pairs)
        self._since_ps = np.zeros(topology.n_port, np.int64)  # when ports have begun to note their longest queues
        self._held: dict[int, tuple[Claim, int]] = {}  # by first port: and the first queue pair
        self._limits: dict[int, dict[int, int]] = {}  # by switch and first port

    def reroute(self, pairs: QueuePairs) -> None:
        """Queue pairs have these ways, from now on."""
        self._turn_start, self._turn = _turns(pairs, self._topology.n_port)

    def compile(self, state: NetworkState) -> None:
        """Compile what looks at links, or load it from the cache."""
        carries_frame(state.fabric, np.zeros(0, np.int64))

    def allows(self, state: NetworkState, freezes: list[Freeze], now_ps: int) -> list[bool]:
        """Which network partitions may be frozen now, all together; the same on every rank.

        Not one that pauses or is paused, nor one that might be if it went on, by what was seen of it for as long as
        its rates were measured: from the first packet on, whose acknowledgement may have come just before a thaw. What
        has been refused is observed anew.
        """
        measured_ps = [int((f.done_ps - f.done_ps // f.done_packets).max()) for f in freezes]
        since_ps = [int(self._since_ps[f.ports].max()) for f in freezes]
        watched = [now_ps - since >= span for since, span in zip(since_ps, measured_ps, strict=True)]
        claims = [self._claim(state, freeze.pairs) for freeze in freezes]
        own = self._fit(state, claims)
        for i, freeze in enumerate(freezes):
            own[i] = own[i] and self._is_quiet(state, freeze.ports)
        fits = np.all(self._world.gather_values(own), axis=0).tolist()
        for freeze, is_watched, has_room in zip(freezes, watched, fits, strict=True):
            if is_watched and not has_room:
                self._observe_anew(state, freeze.ports, now_ps)
        return [a and b for a, b in zip(watched, fits, strict=True)]

    def hold(self, state: NetworkState, freeze: Freeze | Replay) -> None:
        """Something is frozen from now on: enter the most that it may have into the books."""
        claim, first, switches = self._claim(state, freeze.pairs), int(freeze.ports[0]), state.buffers.switches
        self._held[first] = claim, int(freeze.pairs[0])
        switches["shared_bytes"][claim.node] += claim.more_bytes
        switches["frozen_bytes"][claim.node] += claim.more_bytes
        switches["n_wet"][claim.node] += claim.most_bytes > 0
        for node, limit_bytes in zip(claim.node.tolist(), claim.limit_bytes.tolist(), strict=True):
            self._limits.setdefault(node, {})[first] = limit_bytes
            self._set_limit(state, node)

    def release(self, state: NetworkState, freeze: Freeze | Replay, now_ps: int) -> None:
        """It goes on: the books hold what it has."""
        first, switches = int(freeze.ports[0]), state.buffers.switches
        claim, _ = self._held.pop(first)
        switches["shared_bytes"][claim.node] -= claim.more_bytes
        switches["frozen_bytes"][claim.node] -= claim.more_bytes
        switches["n_wet"][claim.node] -= claim.most_bytes > 0
        for node in claim.node.tolist():
            del self._limits[node][first]
            self._set_limit(state, node)
        self._observe_anew(state, freeze.ports, now_ps)

    def interrupted(self, state: NetworkState) -> dict[int, int]:
        """A queue pair of each network partition that has to thaw for a packet at a switch, with the instant."""
        found: dict[int, int] = {}
        if state.fabric.counters[N_CROWDED] == 0:
            return found
        times_ps = state.buffers.switches["interrupt_ps"]
        for node in np.flatnonzero(times_ps < NEVER).tolist():
            for first in self._limits[node]:
                pair = self._held[first][1]
                found[pair] = min(found.get(pair, NEVER), int(times_ps[node]))
        times_ps[:] = NEVER
        state.fabric.counters[N_CROWDED] = 0
        return found

    def _set_limit(self, state: NetworkState, node: int) -> None:
        """What of a switch's pool may be in use. Below all of it while anything is frozen."""
        switch, limits = state.buffers.switches[node], self._limits[node].values()
        switch["limit_bytes"] = min(limits, default=int(switch["pool_bytes"]))

    def _observe_anew(self, state: NetworkState, ports: np.ndarray, now_ps: int) -> None:
        managed, earlier_bytes = state.buffers.managed, state.buffers.egress["earlier_max_bytes"]
        self._since_ps[ports] = now_ps
        own = ports[self._sends_here[ports]]
        earlier_bytes[own] = np.maximum(earlier_bytes[own], managed["max_queued_bytes"][own])
        managed["max_queued_bytes"][own] = managed["queued_bytes"][own]

    def _claim(self, state: NetworkState, pairs: np.ndarray) -> Claim:
        buffers, n_port = state.buffers, self._topology.n_port
        start = self._turn_start
        turns = np.unique(np.concatenate([self._turn[start[p] : start[p + 1]] for p in pairs.tolist()]))
        inlet_of, outlet_of = turns // n_port, turns % n_port
        own = self._sends_here[outlet_of]
        inlet_of, outlet_of = inlet_of[own], outlet_of[own]
        inlet, at = np.unique(inlet_of, return_inverse=True)
        node, place = np.unique(self._topology.port_dst[inlet], return_inverse=True)
        waited_bytes = buffers.managed["max_queued_bytes"].astype(np.int64)
        # an ingress port may have had all that waited at the ports that it feeds, beyond its reserve in the pool
        bytes_of = _sums(at, waited_bytes[outlet_of], len(inlet)) + self._packet_bytes
        beyond = np.maximum(bytes_of - self._reserve_bytes, 0)
        alpha = buffers.inlets["alpha_1024"][inlet].astype(np.int64)
        limit_bytes = buffers.switches["pool_bytes"][node]
        np.minimum.at(limit_bytes, place, most_in_use(limit_bytes[place], alpha, beyond))
        # and all of them together no more than all that waited
        outlet = np.unique(outlet_of)
        all_bytes = _sums(np.searchsorted(node, self._topology.port_src[outlet]), waited_bytes[outlet], len(node))
        most_bytes = np.minimum(_sums(place, beyond, len(node)), all_bytes + self._packet_bytes)
        held = buffers.ingress["held_bytes"].reshape(-1, self._n_queue)[inlet]
        has_bytes = _sums(place, np.maximum(held - self._reserve_bytes, 0).sum(axis=1), len(node))
        return Claim(node, np.maximum(most_bytes - has_bytes, 0), most_bytes, limit_bytes)

    def _fit(self, state: NetworkState, claims: list[Claim]) -> list[bool]:
        """Which claims could be held, all together, by this rank's switches."""
        switches = state.buffers.switches
        used_bytes, limit_bytes = switches["shared_bytes"].copy(), switches["limit_bytes"].copy()
        for claim in claims:
            used_bytes[claim.node] += claim.more_bytes
            limit_bytes[claim.node] = np.minimum(limit_bytes[claim.node], claim.limit_bytes)
        has_room, pauses = used_bytes <= limit_bytes, switches["n_pausing"] > 0
        return [bool((has_room[c.node] & ~(pauses[c.node] & (c.most_bytes > 0))).all()) for c in claims]

    def _is_quiet(self, state: NetworkState, ports: np.ndarray) -> bool:
        """Whether no pause is under way at these ports, as far as they are here."""
        if not self._has_pfc:
            return True
        buffers = state.buffers
        own, into = ports[self._sends_here[ports]], ports[self._receives_here[ports]]
        ingress = buffers.ingress.reshape(-1, self._n_queue)[into]
        return not (
            buffers.managed["paused"][own].any()
            or (buffers.managed["frame_head"][own] >= 0).any()
            or state.nic.nic_ports["paused"][ports].any()
            or ingress["is_pausing"].any()
            or ingress["headroom_bytes"].any()
            or carries_frame(state.fabric, ports)
        )


def _sums(place: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """int64[n]: the sum of the values of each place."""
    sums = np.zeros(n, np.int64)
    np.add.at(sums, place, values)
    return sums


def _turns(pairs: QueuePairs, n_port: int) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_pair + 1], int64[]): where data passes a switch, by row: port in * n_port + port out."""
    begin = pairs.path_start[0:-1:2][pairs.pair_of_row]
    n_turn = pairs.path_start[1::2][pairs.pair_of_row] - begin - 2  # without the first port and the end mark
    start = np.concatenate([[0], np.cumsum(n_turn)]).astype(np.int64)
    slots = np.arange(int(start[-1])) + np.repeat(begin - start[:-1], n_turn)
    port = pairs.path_port.astype(np.int64)
    return start, port[slots] * n_port + port[slots + 1]
