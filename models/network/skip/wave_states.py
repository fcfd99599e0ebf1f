"""Waves in the packet network: one whose flows end as those of an earlier one did, without being simulated."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.credits import Credits
from models.network.skip.memo_states import MemoStates
from models.network.skip.snapshot import empty
from models.network.skip.suspend.freeze import hide
from models.network.skip.suspend.hidden import Hidden
from models.network.skip.suspend.thaw import show
from models.network.skip.suspend.withdraw import (
    N_SENT_COLUMN,
    SENT_BYTES,
    SENT_PACKETS,
    Counted,
    begin_wave,
    count_in_flight,
    count_short,
    find_messages,
    place_markers,
    purge,
    take_markers_back,
)
from models.network.state.records import N_FREE_PACKET, PAYLOAD_BYTES
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.skipping import history as h
from pdes.skipping import prediction as m
from pdes.skipping.similar.wave_entries import Past, Wave, WaveReplay
from pdes.skipping.similar.waves import Wants, Waves

Grow = Callable[[], NetworkState]


class Learner(NamedTuple):
    """Who learns from waves, which are no forecast then."""

    wants: Wants
    learn: Callable[[np.ndarray, np.ndarray], None]  # samples of one that is over, and when messages came across


def end_ports(state: NetworkState) -> np.ndarray:
    """int64[n_qp, 4]: of each queue pair the first and the last port of its way and of its acknowledgements'."""
    table, path = state.nic.facts, state.fabric.path_port
    closed = np.flatnonzero(path < 0)  # where the paths end
    ways = [table[name].astype(np.int64) for name in ("data_path", "ack_path")]
    ends = [path[row] for first in ways for row in (first, closed[np.searchsorted(closed, first)] - 1)]
    return np.stack(ends, axis=1).astype(np.int64)


class WaveStates:
    """One rank's part."""

    def __init__(
        self, topology: Topology, world: World, hidden: Hidden, states: MemoStates, state: NetworkState
    ) -> None:
        """states: what stores and loads queue pairs."""
        self._world, self._hidden, self._states = world, hidden, states
        facts = state.nic.facts
        here = hidden.here.astype(np.bool_)
        self._sends_here, self._receives_here = here[facts["node"]], here[facts["receiver"]]
        self._late_bytes = np.zeros(topology.n_port, np.int64)  # that ports have sent without having counted it
        self._twice = np.zeros((topology.n_port, N_SENT_COLUMN), np.int64)  # what they count twice; this rank's packets

    def compile(self, state: NetworkState) -> None:
        """Compile what moves markers, or load it from the cache."""
        none, flags = np.zeros(0, np.int64), np.zeros(0, np.uint8)
        fabric, buffers, nic, hidden = state.fabric, state.buffers, state.nic, self._hidden
        begin_wave(fabric, buffers, nic, hidden, none, none, none)
        place_markers(fabric, buffers, nic, hidden, np.zeros((0, m.N_COLUMN), np.int64))
        take_markers_back(fabric, hidden, none, none, flags)
        find_messages(nic, none)
        purge(fabric, buffers, hidden, none, none, 0)
        count_in_flight(fabric, buffers, nic, hidden, none, none, Counted(self._twice, none))
        count_short(fabric, nic, none, none, self._late_bytes)
        self._states.compile_ends(state)

    def settle(self, state: NetworkState) -> int:
        """Count, when all is over, what ports have sent that others use meanwhile: to those a leap would be traffic.

        Packet-hops of this rank's packets that were counted twice.
        """
        twice, n_hop = np.sum(self._world.allgather(self._twice), axis=0), int(self._twice[:, SENT_PACKETS].sum())
        state.fabric.ports["tx_bytes"] += self._late_bytes - twice[:, SENT_BYTES]
        self._late_bytes[:], self._twice[:] = 0, 0
        return n_hop

    def _past(self, state: NetworkState, waves: list[Wave], now_ps: int, has_words: bool) -> list[Past]:
        """How the flows of waves that are over have ended; the same on every rank. End byte -1: the flow has another
        message under way, so its state is none of an end. has_words: with the states of queue pairs."""
        own = []
        for wave in waves:
            pairs, nic = wave.of.pairs, state.nic
            sends, receives = self._sends_here[pairs], self._receives_here[pairs]
            ended, delivered = nic.ended[pairs] * sends[:, None], nic.delivered_ps[nic.receiver_row[pairs]] * receives
            has_more = nic.queue_pairs["posted_end"][pairs] > nic.ended[pairs, 0]  # at flow level, which no look sees
            ended[has_more & sends, 0] = -1
            own.append(np.column_stack([ended, delivered]))
        if not waves:
            return []
        ends = np.cumsum([len(each) for each in own])[:-1]
        sums = np.split(self._world.gather_sum(np.concatenate(own)), ends)
        members = [(wave.of.pairs, wave.of.ports, wave.of.rows[:, h.MESSAGE_END].copy()) for wave in waves]
        words = self._states.ends(state, members, now_ps) if has_words else [np.zeros(0, np.int64)] * len(waves)
        columns = [np.ascontiguousarray(s.T) for s in sums]
        return [Past(s[0], s[3], s[1], s[2], w) for s, w in zip(columns, words, strict=True)]

    def look(
        self, state: NetworkState, waves: Waves, rows: np.ndarray, now_ps: int, is_alone: np.ndarray | None,
        learner: Learner | None, grow: Grow,
    ) -> tuple[NetworkState, np.ndarray]:  # fmt: skip
        """Note what is over, and freeze what goes as an earlier one did; (state, samples of what does not).

        is_alone: see `Waves.look`. learner: who learns from those that are over.
        """
        over, found = waves.look(now_ps, rows, state.nic.is_frozen, is_alone, learner and learner.wants)
        for wave, past in zip(over, self._past(state, over, now_ps, learner is None), strict=True):
            if waves.finish(wave, past, learner is None) and learner is not None:
                learner.learn(wave.of.rows, past.delivered_ps)
        if learner is not None:
            waves.follow(now_ps, found)
            return state, rows
        forms = [self._states.form(state, (each.pairs, each.ports, each.pairs)) for each in found]
        new = waves.begin(now_ps, found, forms)
        for replay in new:
            state = self._begin(state, replay, grow)
        return state, rows[state.nic.is_frozen[rows[:, h.FLOW]] == 0] if new else rows

    def _begin(self, state: NetworkState, replay: WaveReplay, grow: Grow) -> NetworkState:
        """Freeze a wave, free its packets, and have its messages end as its entry says; the network's state."""
        pairs, ports, of, others = replay.pairs, replay.ports, replay.of, replay.of.open
        hide(state.fabric, state.buffers, state.nic, self._hidden, pairs, ports)
        parts = (state.fabric, state.buffers, state.nic, self._hidden)
        count_in_flight(*parts, ports, pairs, Counted(self._twice, pairs[:0]))
        empty(state.fabric, state.buffers, state.nic, self._hidden, of.held)
        purge(state.fabric, state.buffers, self._hidden, others, pairs, replay.begin_ps)
        show(state.fabric, state.buffers, state.nic, self._hidden, pairs[:0], others, 0)
        while state.fabric.counters[N_FREE_PACKET] < 2 * len(pairs):
            state = grow()
        base = of.rows[:, h.DONE].copy()
        begin_wave(state.fabric, state.buffers, state.nic, self._hidden, pairs, of.held, base)
        place_markers(state.fabric, state.buffers, state.nic, self._hidden, replay.predictions)
        return state

    def end(
        self, state: NetworkState, waves: Waves, disturbed: list[tuple[WaveReplay, int]], horizon_ps: int,
        credits: Credits,
    ) -> int:  # fmt: skip
        """Let waves go on that are over, or that somebody has come to (disturbed, with the instants); when the last
        marker of these has come: until then nothing is frozen."""
        for replay, at_ps in [*disturbed, *((r, r.end_ps) for r in waves.due(horizon_ps))]:
            self._go_on(state, replay, at_ps, horizon_ps, credits)
        return max((replay.quiet_ps(horizon_ps) for replay, _ in disturbed), default=0)

    def _go_on(self, state: NetworkState, replay: WaveReplay, at_ps: int, horizon_ps: int, credits: Credits) -> None:
        """A wave goes on by itself from at_ps: flows that are not over from what they have got done, with nothing in
        flight."""
        fabric, nic, hidden = state.fabric, state.nic, self._hidden
        payload = int(fabric.constants[PAYLOAD_BYTES])
        base, is_over = replay.state_at(at_ps, horizon_ps, payload)
        take_markers_back(fabric, hidden, replay.held, replay.pairs, is_over.astype(np.uint8))
        packets = -((replay.of.rows[:, h.DONE] - base) // payload)
        credits.note_wave(state, replay, at_ps, packets)
        short = packets * payload - (base - replay.of.rows[:, h.DONE])
        count_short(fabric, nic, replay.pairs, short, self._late_bytes)
        fabric.ports["tx_bytes"][replay.held] += hidden.advance_sent[replay.held]
        hidden.advance_sent[replay.held] = 0
        self._late_bytes[replay.ports] += hidden.advance_sent[replay.ports]
        hidden.advance_sent[replay.ports] = 0
        self._states.load_ends(state, (replay.pairs, replay.ports, base), at_ps, replay.entry.words)
        find_messages(nic, replay.pairs[self._sends_here[replay.pairs]])
        show(fabric, state.buffers, nic, hidden, replay.pairs, replay.held, 0)
