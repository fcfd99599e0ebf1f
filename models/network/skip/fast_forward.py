"""Fast-forwarding of the packet network: what is asked of it, and what happens to it, at decision instants.

Every rank gathers what its active queue pairs have got done, all ranks decide alike (`pdes.skipping`), and each freezes
and thaws its own part (`freeze`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs, cannot_grow
from models.network.restore.path_queues import PathQueues
from models.network.restore.restoration import Restoration
from models.network.round_looks import (
    ASSESSED_PS,
    FLOW_LEVEL_PS,
    FROM_PS,
    HAS_WAVES,
    N_ROUND_LOOK_WORD,
    N_ROW,
    SEEN_POSTED,
    TICK_EVERY_PS,
    TICK_PS,
    UNTIL_PS,
    WAVES_COME_FIRST,
    WAVES_PS,
    WAVES_WAIT,
    RoundLooks,
)
from models.network.skip.credits import Credits
from models.network.skip.fluid_states import FluidStates
from models.network.skip.freeze import Hidden, count_sent, hide, show
from models.network.skip.memo_states import Found, Member, MemoStates
from models.network.skip.progress import ACKED_BYTE, PAIR, make_samples, sample_all
from models.network.skip.room import Room
from models.network.skip.skipped import Skipped
from models.network.skip.taken_interrupts import meets_frozen, take_interrupts
from models.network.skip.wave_states import WaveStates
from models.network.state.records import N_POSTED, PAYLOAD_BYTES
from models.network.state.ways import ports_of_pairs
from models.network.switch.routed_ways import RoutedWays
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.gathering import compile_gathers
from pdes.engine.time_index import NEVER
from pdes.skipping.audit import Audit
from pdes.skipping.controller import Controller, Counters, compile_partitions
from pdes.skipping.frozen import Freeze, each_of, joined
from pdes.skipping.look.partition_series import PartitionSeries
from pdes.skipping.replay.memo import Entry, Memo, Replay, by_entry, for_each
from pdes.skipping.similar.wave_entries import WaveReplay
from pdes.skipping.similar.waves import Waves

WATCHED = 2  # of nic.frozen_port


class FastForward:
    """One rank's part: an object that looks at decision instants, and may change the state there."""

    def __init__(
        self, topology: Topology, pairs: QueuePairs, controller: Controller, world: World, here: np.ndarray,
        moving_words: tuple[list[int], list[int]], hop_words: tuple[list[int], list[int]], control_words: list[int],
        is_managed: bool,
    ) -> None:  # fmt: skip
        self._controller, self._world = controller, world
        n_pair = len(pairs.pair_of_row)
        self.hidden = Hidden(
            link_head=np.full(topology.n_port, -1, np.int32),
            port_src=topology.port_src.astype(np.int64),
            is_managed=np.array([is_managed], np.int64),
            here=here.astype(np.uint8),
            time_word=np.array(moving_words[0], np.int64),
            byte_word=np.array(moving_words[1], np.int64),
            hop_word=np.array(hop_words[0], np.int64),
            hop_of_word=np.array(hop_words[1], np.int64),
            advance_bytes=np.zeros(n_pair, np.int64),
            advance_sent=np.zeros(topology.n_port, np.int64),
        )
        word = np.array(control_words, np.int64)
        self._samples = make_samples(self.hidden.here, word, n_pair, world.gathering)
        self.n_column = self._samples.rows.shape[1]
        self._skipped = Skipped()
        self._credits = Credits(self.hidden, self._skipped)
        self.series: PartitionSeries | None = None  # where somebody asks for it
        self.frozen = controller.frozen  # what is, now
        self.ways = ports_of_pairs(pairs)
        self.restoration: Restoration | None = None  # None: what is frozen comes back as it was
        self.limit_ps = NEVER
        self._level_ps = 0  # some logical process has run so far; before, nothing is decided
        self.states: MemoStates | None = None  # where the memo is used
        self._watched: list[np.ndarray] = []  # ports that are
        self.waves: Waves | None = None  # where it has a tolerance
        self.wave_states: WaveStates | None = None
        self.fluid: FluidStates | None = None  # where messages may go at flow level
        self.grow: Callable[[], NetworkState] = cannot_grow
        self.queues: PathQueues | None = None  # of samples, where the criterion looks at them
        self.room: Room | None = None  # where switches have shared buffers
        self.routes: RoutedWays | None = None  # where switches choose the ways of flows
        self.lossy_port: np.ndarray | None = None  # bool[n_port], that lose packets at random; None: none does
        self._later: dict[int, int] = {}  # queue pairs that have met frozen ports, and when: see `taken_interrupts`
        self.criterion: dict[str, Any] = {}  # what the results say of it
        self._round_look_words, self._looks = np.zeros(N_ROUND_LOOK_WORD, np.int64), None
        self._round_look_words[[ASSESSED_PS, TICK_PS, FLOW_LEVEL_PS]] = -1, NEVER, NEVER

    @property
    def counters(self) -> Counters:
        """What was decided, the same on every rank."""
        return self._controller.counters

    @property
    def audit(self) -> Audit | None:
        """How far skips would have been off, the same on every rank; None where none are drawn."""
        return self._controller.audit

    def audit_facts(self) -> dict[str, Any]:
        """What `result.json` says of it; {} where nothing is drawn."""
        if self.audit is None:
            return {}
        waves = {} if self.waves is None else {"waves": self.waves.audited.facts()}
        return {"audit": self.audit.facts() | waves | ({} if self.fluid is None else self.fluid.fluid.audit.facts())}

    @property
    def link_head(self) -> np.ndarray:
        """int32[n_port]: the first packet on each frozen port's link, for `verify_network`."""
        return self.hidden.link_head

    def compile(self, state: NetworkState) -> None:
        """Compile what a look needs, or load it from the cache. Nothing is active yet."""
        none = np.zeros(0, np.int64)
        hide(state.fabric, state.buffers, state.nic, self.hidden, none, none)
        count_sent(state.fabric, state.nic, self.hidden, none, none)
        show(state.fabric, state.buffers, state.nic, self.hidden, none, none, 0)
        nic = state.nic._replace(active=state.nic.active.copy())  # which a sample changes
        sample_all(state.fabric, nic, self._samples._replace(gathering=World().gathering))
        compile_gathers()
        compile_partitions()
        self._controller.looks.compile()
        self._controller.criterion.compile()
        if self.states is not None:
            self.states.compile(state)
        if self.waves is not None and self.wave_states is not None:
            self.waves.compile()
            self.wave_states.compile(state)
        if self.fluid is not None:
            self.fluid.compile(state)
        if self.restoration is not None:
            self.restoration.compile(state)
        if self.queues is not None:
            self.queues.sample_own(state.fabric, state.nic, none)
        if self.room is not None:
            self.room.compile(state)

    def round_looks(self, other_look_ps: int) -> RoundLooks | None:
        """What rounds need to look by themselves until somebody else looks, at other_look_ps; None: they cannot."""
        table, words = self._controller.looks.assessment, self._round_look_words
        if table is None:
            return None
        follows_all = self.restoration is not None or self.queues is not None or self.series is not None
        is_audited = self.audit is not None and bool(self.audit.running)
        self._controller.prepare()
        is_own = follows_all or is_audited or (self.fluid is not None and self.fluid.fluid.wants_look)
        pause_ps = NEVER if self.routes is None else self.routes.pause_ps
        words[UNTIL_PS] = 0 if is_own else min(other_look_ps, self._stretch_end_ps, pause_ps)
        words[FROM_PS], words[ASSESSED_PS] = self._level_ps, -1
        if self.waves is not None:
            words[HAS_WAVES] = WAVES_WAIT if self.fluid is not None else WAVES_COME_FIRST
            words[WAVES_PS] = self._next_wave_look_ps
        if self.fluid is not None:
            words[FLOW_LEVEL_PS] = self.fluid.next_ps
        self._looks = self._looks or RoundLooks(words, self._samples, table)
        return self._looks

    def thaw(self, state: NetworkState, horizon_ps: int) -> bool:
        """Thaw what has to be thawed; whether all nodes have then done what is before the horizon, and no more.

        If not, nothing may be decided: how far nodes of a stopped logical process have come is up to what else is on
        their rank, and what has thawed at an instant before is still to come as far as the others.
        """
        interrupts, self._later = take_interrupts(state, self._world, self.room, self._later)
        is_stopped = bool(interrupts)  # some logical process is
        if self.fluid is not None and is_stopped:
            interrupts = self.fluid.close(state, interrupts, horizon_ps) | interrupts
        elif self.fluid is not None and horizon_ps >= self._level_ps:
            state, interrupts = self.fluid.tick(state, horizon_ps, partial(self._sample, state), self.grow)
        disturbed = self.waves.disturbed(interrupts) if self.waves is not None else []
        for replay, at_ps in disturbed:  # its flows go on through ports that others have frozen, too
            interrupts = dict.fromkeys(replay.pairs.tolist(), at_ps) | interrupts
        is_due = bool(interrupts) or self._controller.first_thaw_ps <= horizon_ps
        if is_due:
            until_ps = min(interrupts.values()) if interrupts and self.room is not None else horizon_ps
            state = self._thaw(state, list(self._controller.ends(until_ps, interrupts)))
            self._later = {pair: at_ps for pair, at_ps in self._later.items() if meets_frozen(state, pair)}
        self._end_waves(state, horizon_ps, disturbed)
        if is_due:
            due = [(replay, replay.entry) for replay in self._controller.due(horizon_ps) if replay.entry is not None]
            for entry, replays in by_entry(due):
                state = self._take_over(state, replays, entry, horizon_ps)
        if is_stopped:
            self._level_ps = max(self._level_ps, horizon_ps)
        is_level = not is_stopped and horizon_ps >= self._level_ps
        if not is_level:
            self._controller.give_up(horizon_ps)
            self._let_go(state, horizon_ps)
            if self.states is not None:
                self._watch(state)
            ends = (self._controller.first_thaw_ps, self._first_wave_end_ps)
            self.limit_ps = min(self._level_ps, *ends, *self._later.values())
        return is_level

    def look(self, state: NetworkState, horizon_ps: int) -> int:
        """Freeze what is steady, when `thaw` has said that one may; the instant of the next look."""
        if self.routes is not None and not self._follow(self.routes, horizon_ps):
            return self.limit_ps
        is_due = horizon_ps >= min(self._controller.next_look_ps, self._controller.first_end_ps)
        is_look_due = is_due or self._is_assessed(horizon_ps)
        is_wave_due = (self.fluid is not None or not is_look_due) and self._is_wave_due(state, horizon_ps)
        if is_look_due or is_wave_due:
            self._decide(state, horizon_ps, is_wave_due)
        if self.states is not None:
            self._watch(state)
        self.limit_ps = self._controller.first_end_ps
        if self.fluid is not None:
            self.limit_ps = min(self.limit_ps, max(self.fluid.next_ps, horizon_ps + 1))
        if self.waves is not None:
            self.limit_ps = min(self.limit_ps, self._first_wave_end_ps)
            self._round_look_words[TICK_PS] = max(self._tick_ps, horizon_ps + 1)
        stretch_end_ps = max(self._stretch_end_ps, horizon_ps + 1)
        return min(self._controller.next_look_ps, self.limit_ps, self._tick_ps, stretch_end_ps)

    def _follow(self, routes: RoutedWays, now_ps: int) -> bool:
        """Whether something may be decided: not while switches learn of a change; afterwards ways are others."""
        if routes.move(now_ps):
            self._controller = routes.remake(routes.pairs).carry_on(self._controller)
            self.frozen, self.ways, self._looks = self._controller.frozen, ports_of_pairs(routes.pairs), None
            if self.room is not None:
                self.room.reroute(routes.pairs)
        self.limit_ps = routes.resumes_ps(now_ps)
        return self.limit_ps == now_ps

    def _is_assessed(self, now_ps: int) -> bool:
        """Whether the rounds have looked and found something: see `round_looks`."""
        return bool(self._round_look_words[ASSESSED_PS] == now_ps)

    def _decide(self, state: NetworkState, horizon_ps: int, is_wave_due: bool) -> None:
        is_assessed = self._is_assessed(horizon_ps)
        assert not (is_assessed and is_wave_due and self.fluid is not None), "flow level would take what was judged"
        if is_assessed:
            rows = self._samples.rows[: self._round_look_words[N_ROW]]
        else:
            rows = self._sample(state)
        if self.restoration is not None:
            self.restoration.note(state, rows[:, PAIR].copy())
        if self.queues is not None:
            rows = np.hstack([rows, self.queues.sample(state.fabric, state.nic, rows[:, PAIR].copy())])
        is_alone = None
        if self.fluid is not None and is_wave_due:
            state, rows, is_alone = self.fluid.look(state, rows, horizon_ps, self.grow)
        if self.waves is not None and (is_wave_due or self.fluid is None):
            state, rows = self._look_at_waves(state, rows, horizon_ps, is_alone)
        allows = None if self.room is None and self.lossy_port is None else partial(self._allows, state)
        self._freeze(state, self._controller.decide(horizon_ps, rows, allows, is_assessed))
        if self.states is not None:
            self._replay(state, rows, horizon_ps)
        if self.series is not None:
            self.series.add(*self._controller.census(horizon_ps))

    def _sample(self, state: NetworkState) -> np.ndarray:
        """Samples of all active queue pairs, of all ranks, ascending; those of the sample before are written over."""
        return self._samples.rows[: sample_all(state.fabric, state.nic, self._samples)]

    @property
    def _stretch_end_ps(self) -> int:
        """When another stretch of time begins, in which other messages have shadows; NEVER: none does."""
        return NEVER if self.fluid is None else self.fluid.stretch_end_ps

    def _allows(self, state: NetworkState, freezes: list[Freeze], now_ps: int) -> list[bool]:
        """Which network partitions may be frozen: not those that may lose packets at random, which no measured rate
        foretells, nor those that a shared buffer has no room for."""
        may = [True] * len(freezes) if self.room is None else self.room.allows(state, freezes, now_ps)
        lossy = self.lossy_port
        return may if lossy is None else [m and not lossy[f.ports].any() for m, f in zip(may, freezes, strict=True)]

    @property
    def _first_wave_end_ps(self) -> int:
        """The first planned end of a wave that is replayed."""
        return NEVER if self.waves is None else self.waves.first_end_ps

    @property
    def _next_wave_look_ps(self) -> int:
        """When waves, or flow level, want to look even if nothing is posted."""
        fluid_ps = NEVER if self.fluid is None else self.fluid.fluid.next_look_ps
        return NEVER if self.waves is None else min(self.waves.next_look_ps, fluid_ps)

    def _is_wave_due(self, state: NetworkState, now_ps: int) -> bool:
        """Whether waves want a look: something was posted, or one may be over."""
        wants_look = self.fluid is not None and self.fluid.fluid.wants_look
        if self.waves is None or (now_ps < self._tick_ps and not wants_look):
            return False
        words, n_posted = self._round_look_words, int(state.fabric.counters[N_POSTED])
        is_due = wants_look or n_posted != words[SEEN_POSTED] or now_ps >= self._next_wave_look_ps
        words[TICK_PS], words[SEEN_POSTED] = now_ps + self.waves.tick_ps, n_posted
        return self._world.is_any(bool(is_due))

    def use_waves(self, waves: Waves, states: WaveStates) -> None:
        """Have waves, from the beginning on."""
        self.waves, self.wave_states = waves, states
        self._round_look_words[[TICK_PS, TICK_EVERY_PS]] = waves.tick_ps

    @property
    def _tick_ps(self) -> int:
        """When waves want to see whether something was posted, NEVER: there are none."""
        return int(self._round_look_words[TICK_PS])

    def _look_at_waves(
        self, state: NetworkState, rows: np.ndarray, now_ps: int, is_alone: np.ndarray | None
    ) -> tuple[NetworkState, np.ndarray]:
        """Note what is over, and freeze what goes as an earlier one did; (state, samples of what does not)."""
        assert self.waves is not None and self.wave_states is not None and self.states is not None
        over, found = self.waves.look(now_ps, rows, state.nic.is_frozen, is_alone)
        for wave, past in zip(over, self.wave_states.past(state, over, now_ps), strict=True):
            if self.waves.finish(wave, past) and self.fluid is not None:
                self.fluid.fluid.learn_episode(wave.of.rows, past.delivered_ps)
        forms = [self.states.form(state, (each.pairs, each.ports, each.pairs)) for each in found]
        new = self.waves.begin(now_ps, found, forms)
        for replay in new:
            state = self.wave_states.begin(state, replay, self.grow)
        return state, rows[state.nic.is_frozen[rows[:, PAIR]] == 0] if new else rows

    def _end_waves(self, state: NetworkState, horizon_ps: int, disturbed: list[tuple[WaveReplay, int]]) -> None:
        """Let waves go on that are over, or that somebody has come to (disturbed, with the instants)."""
        if self.waves is None or self.wave_states is None:
            return
        for replay, _ in disturbed:  # until the last marker has come nothing is frozen
            self._level_ps = max(self._level_ps, replay.quiet_ps(horizon_ps))
        for replay, at_ps in [*disturbed, *((r, r.end_ps) for r in self.waves.due(horizon_ps))]:
            credit = partial(self._credits.note_wave, state, replay, at_ps)
            self.wave_states.end(state, replay, at_ps, horizon_ps, credit)

    def _replay(self, state: NetworkState, rows: np.ndarray, now_ps: int) -> None:
        """Let followers take over what their leaders have come to, and key what is fresh."""
        control = self._controller
        if not (self._memo.running or control.fresh):
            return
        over = control.over(now_ps, rows)
        self._let_go(state, now_ps)
        members = [(e.pairs, e.ports, mine[:, ACKED_BYTE].copy()) for e, _, mine in over]
        for (episode, freeze, mine), found in zip(over, self._states(state, members, now_ps), strict=True):
            progress = None
            if freeze is not None:
                progress = (freeze.period_ps, freeze.n_period, freeze.done_packets, freeze.done_ps, freeze.marked)
            entry = episode.entry(now_ps, mine, *found, progress)
            self._memo.end(episode, entry)
            if entry.n_draw == 0:
                state = self._take_over(state, episode.followers, entry, now_ps)
            else:
                self._go_on(state, episode.followers, now_ps)
        if control.fresh is not None and self.states is not None:
            self._freeze(state, control.keyed(now_ps, self.states.keys(state, control.fresh, now_ps)))

    def _states(self, state: NetworkState, members: list[Member], now_ps: int) -> list[Found]:
        return self.states.states(state, members, now_ps) if self.states is not None else []

    @property
    def memo(self) -> Memo | None:
        """What it has found out, None where nothing that one network partition does says anything of another."""
        return self._controller.memo

    @property
    def settings(self) -> dict[str, Any]:
        """What decides when it looks, and when an episode ends."""
        return asdict(self._controller.criterion.settings)

    @property
    def _memo(self) -> Memo:
        assert self._controller.memo is not None
        return self._controller.memo

    def _watch(self, state: NetworkState) -> None:
        """Have it noted when somebody comes to the ports of a network partition that others wait for."""
        watched = [episode.ports for episode in self._memo.running.values() if episode.followers]
        if self.waves is None and list(map(id, watched)) == list(map(id, self._watched)):
            return  # as it is; but waves clear what is noted of their ports
        frozen_port = state.nic.frozen_port
        for ports in self._watched:
            frozen_port[ports[frozen_port[ports] == WATCHED]] = 0
        for ports in watched:
            frozen_port[ports] = WATCHED
        self._watched = watched

    def _take_over(self, state: NetworkState, replays: list[Replay], entry: Entry, now_ps: int) -> NetworkState:
        """Network partitions that stood still come to what an entry says: they go on, or are frozen."""
        if not replays:
            return state
        assert self.states is not None
        bases, n_member = [replay.done_byte(entry) for replay in replays], sum(r.n_member for r in replays)
        pairs, ports = (joined([getattr(replay, name) for replay in replays]) for name in ("pairs", "ports"))
        state.fabric.ports["tx_bytes"][ports] += for_each(entry.port_bytes, n_member)
        state = self.states.put(state, (pairs, ports, joined(bases)), n_member, now_ps, entry.words, self.grow)
        payload = int(state.fabric.constants[PAYLOAD_BYTES])
        packets = [(base - r.rows[:, ACKED_BYTE]) // payload for r, base in zip(replays, bases, strict=True)]
        marked = [for_each(entry.marked, replay.n_member) for replay in replays]
        times_ps = [now_ps - replay.begin_ps for replay in replays]
        self._credits.note(state, replays[0].cause, [replay.pairs for replay in replays], packets, marked, times_ps)
        self.hidden.advance_sent[ports] = 0  # it is known better
        over = [part for replay in replays for part in self._controller.periodic.steady_after(replay, entry, now_ps)]
        self._show(state, [replay for replay, freeze in over if freeze is None], 0)
        self._controller.replace(replays, over)
        return state

    def _let_go(self, state: NetworkState, now_ps: int) -> None:
        """Thaw followers that have nothing to wait for."""
        self._go_on(state, self._controller.stranded, now_ps)
        self._controller.stranded = []

    def _go_on(self, state: NetworkState, replays: list[Replay], now_ps: int) -> None:
        """Network partitions that stood still go on from their beginnings."""
        if replays:
            self._thaw(state, [(replay, now_ps) for replay in replays])
            self._controller.replace(replays, [(replay, None) for replay in replays])

    @property
    def next_look_ps(self) -> int:
        """When it wants to look."""
        ends_ps = self._controller.first_end_ps, self._stretch_end_ps
        return min(self._controller.next_look_ps, *ends_ps, self._tick_ps)

    def _freeze(self, state: NetworkState, new: Sequence[Freeze | Replay]) -> None:
        """Freeze network partitions, all in one call: they have nothing in common."""
        if self.room is not None:
            for freeze in new:
                self.room.hold(state, freeze)
        if new:
            pairs, ports = (joined([getattr(freeze, name) for freeze in new]) for name in ("pairs", "ports"))
            hide(state.fabric, state.buffers, state.nic, self.hidden, pairs, ports)

    def _thaw(self, state: NetworkState, ended: Sequence[tuple[Freeze | Replay, int]]) -> NetworkState:
        """Let frozen partitions go on as if they had run on from the freeze, by whole periods up to an instant."""
        if not ended:
            return state
        for freeze, _ in ended:
            if self.restoration is not None and not isinstance(freeze, Replay):
                for one in each_of(freeze):
                    state = self.restoration.restore(state, one, self.grow)
        payload, pairs = int(state.fabric.constants[PAYLOAD_BYTES]), [freeze.pairs for freeze, _ in ended]
        times_ps, packets, marked = zip(*(freeze.progress(at_ps) for freeze, at_ps in ended), strict=True)
        self._credits.note(state, "steady", pairs, packets, marked, times_ps)
        alike: dict[int, list[Freeze | Replay]] = {}  # what goes on by the same time
        for (freeze, _), time_ps in zip(ended, times_ps, strict=True):
            alike.setdefault(time_ps, []).append(freeze)
        self.hidden.advance_bytes[joined(pairs)] = joined(packets) * payload
        for time_ps, freezes in alike.items():
            self._show(state, freezes, time_ps)
        if self.room is not None:
            for freeze, at_ps in ended:
                self.room.release(state, freeze, at_ps)
        self.hidden.advance_bytes[joined(pairs)] = 0  # what is left of them on other ways is not theirs
        self.hidden.advance_sent[joined([freeze.ports for freeze, _ in ended])] = 0
        return state

    def _show(self, state: NetworkState, frozen: Sequence[Freeze | Replay], shift_ps: int) -> None:
        if frozen:
            pairs, ports = (joined([getattr(freeze, name) for freeze in frozen]) for name in ("pairs", "ports"))
            show(state.fabric, state.buffers, state.nic, self.hidden, pairs, ports, shift_ps)

    def settle(self, state: NetworkState) -> None:
        """The run is over: count what had to wait for that."""
        if self.wave_states is not None:
            self._credits.settle_waves(state, self.wave_states)
        if self.fluid is not None:
            self._credits.settle_fluid(state, self.fluid)
            self.fluid.settle_audit(state)

    def settle_passes(self, state: NetworkState, packets: np.ndarray, short_bytes: np.ndarray) -> None:
        """The run is over: count what was left out with passes of loops, see `Credits.settle_passes`."""
        self._credits.settle_passes(state, packets, short_bytes)

    def hops_so_far(self, state: NetworkState) -> int:
        """Packet-hops that this rank was spared so far, those of flow level that are not counted yet among them."""
        return sum(self._skipped.hops_by_cause.values()) + (self.fluid.hops_so_far(state) if self.fluid else 0)

    @property
    def skipped(self) -> Skipped:
        """What this rank's hosts and ports were spared so far."""
        return self._skipped
