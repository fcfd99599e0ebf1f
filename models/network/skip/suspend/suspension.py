"""Freezing and thawing on one rank: hidden and shown, counted, restored, and with room held in shared buffers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.restore.restoration import Restoration
from models.network.skip.credits import Credits
from models.network.skip.room import Room
from models.network.skip.suspend.freeze import count_sent, hide
from models.network.skip.suspend.hidden import Hidden
from models.network.skip.suspend.thaw import show
from models.network.state.records import PAYLOAD_BYTES
from pdes.skipping.frozen import Freeze, each_of, joined
from pdes.skipping.replay.memo import Replay


@dataclass
class Suspension:
    """One rank's part."""

    hidden: Hidden
    credits: Credits
    restoration: Restoration | None = None  # None: what is frozen comes back as it was
    room: Room | None = None  # where switches have shared buffers

    def compile(self, state: NetworkState) -> None:
        """Compile what hides and shows, or load it from the cache."""
        none = np.zeros(0, np.int64)
        hide(state.fabric, state.buffers, state.nic, self.hidden, none, none)
        count_sent(state.fabric, state.nic, self.hidden, none, none)
        show(state.fabric, state.buffers, state.nic, self.hidden, none, none, 0)
        if self.restoration is not None:
            self.restoration.compile(state)
        if self.room is not None:
            self.room.compile(state)

    def freeze(self, state: NetworkState, new: Sequence[Freeze | Replay]) -> None:
        """Freeze network partitions, all in one call: they have nothing in common."""
        if self.room is not None:
            for freeze in new:
                self.room.hold(state, freeze)
        if new:
            pairs, ports = (joined([getattr(freeze, name) for freeze in new]) for name in ("pairs", "ports"))
            hide(state.fabric, state.buffers, state.nic, self.hidden, pairs, ports)

    def thaw(
        self, state: NetworkState, ended: Sequence[tuple[Freeze | Replay, int]], grow: Callable[[], NetworkState]
    ) -> NetworkState:
        """Let frozen partitions go on as if they had run on from the freeze, by whole periods up to an instant."""
        if not ended:
            return state
        for freeze, _ in ended:
            if self.restoration is not None and not isinstance(freeze, Replay):
                for one in each_of(freeze):
                    state = self.restoration.restore(state, one, grow)
        payload, pairs = int(state.fabric.constants[PAYLOAD_BYTES]), [freeze.pairs for freeze, _ in ended]
        times_ps, packets, marked = zip(*(freeze.progress(at_ps) for freeze, at_ps in ended), strict=True)
        self.credits.note(state, "steady", pairs, packets, marked, times_ps)
        alike: dict[int, list[Freeze | Replay]] = {}  # what goes on by the same time
        for (freeze, _), time_ps in zip(ended, times_ps, strict=True):
            alike.setdefault(time_ps, []).append(freeze)
        self.hidden.advance_bytes[joined(pairs)] = joined(packets) * payload
        for time_ps, freezes in alike.items():
            self.show(state, freezes, time_ps)
        if self.room is not None:
            for freeze, at_ps in ended:
                self.room.release(state, freeze, at_ps)
        self.hidden.advance_bytes[joined(pairs)] = 0  # what is left of them on other ways is not theirs
        self.hidden.advance_sent[joined([freeze.ports for freeze, _ in ended])] = 0
        return state

    def show(self, state: NetworkState, frozen: Sequence[Freeze | Replay], shift_ps: int) -> None:
        """Let frozen partitions go on shift_ps later, `Hidden.advance_bytes` further."""
        if frozen:
            pairs, ports = (joined([getattr(freeze, name) for freeze in frozen]) for name in ("pairs", "ports"))
            show(state.fabric, state.buffers, state.nic, self.hidden, pairs, ports, shift_ps)
