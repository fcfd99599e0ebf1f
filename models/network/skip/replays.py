"""Network partitions that stand still and come to what others came to (`pdes.skipping.replay`), on one rank."""

from collections.abc import Callable, Sequence

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.skip.memo_states import MemoStates
from models.network.skip.progress import ACKED_BYTE
from models.network.skip.suspend.suspension import Suspension
from models.network.state.records import PAYLOAD_BYTES
from pdes.skipping.controller import Controller
from pdes.skipping.frozen import joined
from pdes.skipping.replay.memo import Entry, Memo, Replay, by_entry, for_each

Grow = Callable[[], NetworkState]
WATCHED = 2  # of nic.frozen_port


class Replays:
    """One rank's part. The controller, which has a memo, decides: it is an argument, as another one may take over."""

    def __init__(self, states: MemoStates, suspension: Suspension) -> None:
        """states: what keys, stores and loads packet states."""
        self.states, self._suspension = states, suspension
        self.watched: list[np.ndarray] = []  # ports that are

    def look(self, state: NetworkState, control: Controller, rows: np.ndarray, now_ps: int, grow: Grow) -> NetworkState:
        """Let followers take over what their leaders have come to, and key what is fresh."""
        memo = _memo_of(control)
        if not (memo.running or control.fresh):
            return state
        over = control.over(now_ps, rows)
        self.let_go(state, control, now_ps, grow)
        members = [(e.pairs, e.ports, mine[:, ACKED_BYTE].copy()) for e, _, mine in over]
        for (episode, freeze, mine), found in zip(over, self.states.states(state, members, now_ps), strict=True):
            progress = None
            if freeze is not None:
                progress = (freeze.period_ps, freeze.n_period, freeze.done_packets, freeze.done_ps, freeze.marked)
            entry = episode.entry(now_ps, mine, *found, progress)
            memo.end(episode, entry)
            if entry.n_draw == 0:
                state = self._take_over(state, control, episode.followers, entry, now_ps, grow)
            else:
                self._go_on(state, control, episode.followers, now_ps, grow)
        if control.fresh is not None:
            keys = self.states.keys(state, control.fresh, now_ps)
            self._suspension.freeze(state, control.keyed(now_ps, keys))
        return state

    def end_due(self, state: NetworkState, control: Controller, now_ps: int, grow: Grow) -> NetworkState:
        """Replays of entries that have come to their ends take these over."""
        due = [(replay, replay.entry) for replay in control.due(now_ps) if replay.entry is not None]
        for entry, replays in by_entry(due):
            state = self._take_over(state, control, replays, entry, now_ps, grow)
        return state

    def watch(self, state: NetworkState, control: Controller, has_waves: bool) -> None:
        """Have it noted when somebody comes to the ports of a network partition that others wait for."""
        watched = [episode.ports for episode in _memo_of(control).running.values() if episode.followers]
        if not has_waves and list(map(id, watched)) == list(map(id, self.watched)):
            return  # as it is; but waves clear what is noted of their ports
        frozen_port = state.nic.frozen_port
        for ports in self.watched:
            frozen_port[ports[frozen_port[ports] == WATCHED]] = 0
        for ports in watched:
            frozen_port[ports] = WATCHED
        self.watched = watched

    def _take_over(
        self, state: NetworkState, control: Controller, replays: Sequence[Replay], entry: Entry, now_ps: int, grow: Grow
    ) -> NetworkState:
        """Network partitions that stood still come to what an entry says: they go on, or are frozen."""
        if not replays:
            return state
        bases, n_member = [replay.done_byte(entry) for replay in replays], sum(r.n_member for r in replays)
        pairs, ports = (joined([getattr(replay, name) for replay in replays]) for name in ("pairs", "ports"))
        state.fabric.ports["tx_bytes"][ports] += for_each(entry.port_bytes, n_member)
        state = self.states.put(state, (pairs, ports, joined(bases)), n_member, now_ps, entry.words, grow)
        payload = int(state.fabric.constants[PAYLOAD_BYTES])
        packets = [(base - r.rows[:, ACKED_BYTE]) // payload for r, base in zip(replays, bases, strict=True)]
        marked = [for_each(entry.marked, replay.n_member) for replay in replays]
        times_ps, suspension = [now_ps - replay.begin_ps for replay in replays], self._suspension
        suspension.credits.note(state, replays[0].cause, [r.pairs for r in replays], packets, marked, times_ps)
        suspension.hidden.advance_sent[ports] = 0  # it is known better
        over = [part for replay in replays for part in control.periodic.steady_after(replay, entry, now_ps)]
        suspension.show(state, [replay for replay, freeze in over if freeze is None], 0)
        control.replace(list(replays), over)
        return state

    def let_go(self, state: NetworkState, control: Controller, now_ps: int, grow: Grow) -> None:
        """Thaw followers that have nothing to wait for."""
        self._go_on(state, control, control.stranded, now_ps, grow)
        control.stranded = []

    def _go_on(
        self, state: NetworkState, control: Controller, replays: Sequence[Replay], now_ps: int, grow: Grow
    ) -> None:
        """Network partitions that stood still go on from their beginnings."""
        if replays:
            self._suspension.thaw(state, [(replay, now_ps) for replay in replays], grow)
            control.replace(list(replays), [(replay, None) for replay in replays])


def _memo_of(control: Controller) -> Memo:
    assert control.memo is not None
    return control.memo
