"""Counting what was got done without being simulated: packets and marks of queue pairs, bytes of ports, time spared."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.fluid_states import FluidStates
from models.network.skip.skipped import Skipped
from models.network.skip.suspend.freeze import count_sent
from models.network.skip.suspend.hidden import Hidden
from models.network.skip.suspend.withdraw import count_short
from models.network.state.records import HEADER_BYTES, PAYLOAD_BYTES
from models.network.switch.spread_ways import Spread
from pdes.skipping.frozen import joined
from pdes.skipping.similar.wave_entries import WaveReplay
from pdes.units import BITS_PER_BYTE, PS_PER_S


class Credits(NamedTuple):
    """What one rank counts into."""

    hidden: Hidden
    skipped: Skipped
    spread: Spread | None = None  # where ways of data name one port for a stage

    def note(
        self, state: NetworkState, cause: str, pairs: Sequence[np.ndarray], packets: Sequence[np.ndarray],
        marked: Sequence[np.ndarray], times_ps: Sequence[int],
    ) -> None:  # fmt: skip
        """Count what network partitions have got done: of each its queue pairs, their packets, the marked ones among
        them, and in which time; in `Hidden.advance_sent` what ports sent.

        cause: of `skipped.CAUSES`.
        """
        table, skipped, every = state.nic.queue_pairs, self.skipped, joined(pairs)
        is_here = self.hidden.here[state.nic.facts["node"][every]] != 0
        table["n_marked"][every[is_here]] += joined(marked)[is_here].astype(np.int32)
        skipped.hops_by_cause[cause] += int(count_sent(state.fabric, state.nic, self.hidden, every, joined(packets)))
        begin = np.cumsum([0, *map(len, pairs[:-1])])
        n_here = np.add.reduceat(is_here.astype(np.int64), begin)
        skipped.flow_ps_by_cause[cause] += sum(t * n for t, n in zip(times_ps, n_here.tolist(), strict=True))

    def note_wave(self, state: NetworkState, replay: WaveReplay, at_ps: int, packets: np.ndarray) -> None:
        """Count what the flows of a wave have got done until it ends at an instant."""
        none = np.zeros(len(replay.pairs), np.int64)
        self.note(state, "wave", [replay.pairs], [packets], [none], [0])
        self._note_time(state, "wave", replay.pairs, replay.spared_ps(at_ps))

    def take_back(self, cause: str, n_hop: int) -> None:
        """Packet-hops were counted that packets had made which were taken out of the network."""
        self.skipped.hops_by_cause[cause] -= n_hop

    def settle_fluid(self, state: NetworkState, fluid: FluidStates) -> None:
        """The run is over: count what went at flow level."""
        pairs, packets, short_bytes, spared_ps = fluid.totals(state)
        if len(pairs):
            self._settle(state, "fluid", pairs, packets, short_bytes)
            self._note_time(state, "fluid", pairs, spared_ps)
        twice_bytes, twice_hops = fluid.twice()  # also of messages that went on before anything of them was over
        state.fabric.ports["tx_bytes"] -= twice_bytes
        self.take_back("fluid", twice_hops)

    def settle_passes(self, state: NetworkState, packets: np.ndarray, short_bytes: np.ndarray) -> None:
        """The run is over: count what passes of loops that were not simulated would have sent.

        packets, short_bytes: int64[n_qp], of each queue pair, and what they lack to be full ones.
        """
        pairs = np.flatnonzero(packets)
        if len(pairs):
            self._settle(state, "pass", pairs, packets[pairs], short_bytes[pairs])

    def _settle(
        self, state: NetworkState, cause: str, pairs: np.ndarray, packets: np.ndarray, short_bytes: np.ndarray
    ) -> None:
        """Count packets of queue pairs, and what ports have sent of them."""
        self.note(state, cause, [pairs], [packets], [np.zeros(len(pairs), np.int64)], [0])
        sent_bytes = self.hidden.advance_sent.copy()
        self.hidden.advance_sent[:] = 0
        count_short(state.fabric, state.nic, pairs, short_bytes, sent_bytes)
        if self.spread is not None:
            sent_bytes += self._moved_bytes(state, self.spread, pairs, packets, short_bytes)
        state.fabric.ports["tx_bytes"] += sent_bytes

    def _moved_bytes(
        self, state: NetworkState, spread: Spread, pairs: np.ndarray, packets: np.ndarray, short_bytes: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """int64[n_port]: what ports have sent more of queue pairs' data than was counted, as stages send evenly."""
        constants, counted = state.fabric.constants, np.zeros(len(self.hidden.advance_sent), np.int64)
        data_bytes = packets * int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]) - short_bytes
        count_short(state.fabric, state.nic, pairs, -data_bytes, counted)
        moved = spread.spread(counted) - counted
        info = state.fabric.port_info
        is_timed = state.fabric.ports["ps_per_byte"] == 0  # by the time, not by bytes
        info["busy_ps"] += np.where(is_timed, moved * (BITS_PER_BYTE * PS_PER_S / info["rate_bps"]), 0).astype(np.int64)
        return moved

    def _note_time(self, state: NetworkState, cause: str, pairs: np.ndarray, spared_ps: np.ndarray) -> None:
        is_here = self.hidden.here[state.nic.facts["node"][pairs]].astype(np.int64)
        self.skipped.flow_ps_by_cause[cause] += int((spared_ps * is_here).sum())
