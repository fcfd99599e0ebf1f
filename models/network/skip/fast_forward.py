"""Fast-forwarding of the packet network: what is asked of it, and what happens to it, at decision instants.

Every rank gathers what its active queue pairs have got done, all ranks decide alike (`pdes.skipping`), and each freezes
and thaws its own part (`suspend`).
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from models.network.build.arrays import NetworkState, QueuePairs, cannot_grow
from models.network.restore.path_queues import PathQueues
from models.network.round_looks import (
    ASSESSED_PS,
    FLOW_LEVEL_PS,
    FROM_PS,
    HAS_WAVES,
    HELD_PS,
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
from models.network.skip.fluid_ticks import no_ticks
from models.network.skip.progress import PAIR, make_samples, sample_all
from models.network.skip.replays import Replays
from models.network.skip.skipped import Skipped
from models.network.skip.suspend.hidden import Hidden
from models.network.skip.suspend.suspension import Suspension
from models.network.skip.taken_interrupts import meets_others, take_interrupts
from models.network.skip.wave_states import Learner, WaveStates
from models.network.state.records import N_POSTED
from models.network.state.ways import ports_of_pairs
from models.network.switch.routed_ways import RoutedWays
from models.network.switch.spread_ways import Spread
from pdes.engine.exchange import World
from pdes.engine.gathering import compile_gathers
from pdes.engine.time_index import NEVER
from pdes.skipping.audit import Audit
from pdes.skipping.controller import Controller, Counters, compile_partitions
from pdes.skipping.frozen import Freeze
from pdes.skipping.look.partition_series import PartitionSeries
from pdes.skipping.replay.memo import Memo
from pdes.skipping.similar.waves import Waves


class FastForward:
    """One rank's part: an object that looks at decision instants, and may change the state there."""

    def __init__(
        self, pairs: QueuePairs, controller: Controller, world: World, hidden: Hidden, control_words: list[int]
    ) -> None:  # fmt: skip
        """control_words: those of a queue pair's control that samples have."""
        self._controller, self._world, self.hidden = controller, world, hidden
        word = np.array(control_words, np.int64)
        self._samples = make_samples(hidden.here, word, len(pairs.pair_of_row), world.gathering)
        self.n_column = self._samples.rows.shape[1]
        self._skipped = Skipped()
        self._credits = Credits(hidden, self._skipped)
        self.suspension = Suspension(hidden, self._credits)
        self.series: PartitionSeries | None = None  # where somebody asks for it
        self.frozen = controller.frozen  # what is, now
        self.ways = ports_of_pairs(pairs)
        self.limit_ps = self.held_ps = NEVER  # no round passes it; and where Python has to look: not at ticks
        self._level_ps = 0  # some logical process has run so far; before, nothing is decided
        self.replays: Replays | None = None  # where the memo is used
        self.waves: Waves | None = None  # where it has a tolerance
        self.wave_states: WaveStates | None = None
        self.fluid: FluidStates | None = None  # where messages may go at flow level
        self.grow: Callable[[], NetworkState] = cannot_grow
        self.queues: PathQueues | None = None  # of samples, where the criterion looks at them
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
        self.suspension.compile(state)
        nic = state.nic._replace(active=state.nic.active.copy())  # which a sample changes
        samples = self._samples._replace(gathering=World().gathering)
        sample_all(state.fabric, nic, samples)
        compile_gathers()
        compile_partitions()
        self._controller.looks.compile()
        self._controller.criterion.compile()
        if self.replays is not None:
            self.replays.states.compile(state)
        if self.waves is not None and self.wave_states is not None:
            self.waves.compile()
            self.wave_states.compile(state)
        if self.fluid is not None:
            self.fluid.compile(state._replace(nic=nic), samples)
        if self.queues is not None:
            self.queues.sample_own(state.fabric, state.nic, none)

    def round_looks(self, other_look_ps: int) -> RoundLooks | None:
        """What rounds need to look by themselves until somebody else looks, at other_look_ps; None: they cannot."""
        table, words = self._controller.looks.assessment, self._round_look_words
        if table is None:
            return None
        follows_all = self.suspension.restoration is not None or self.queues is not None or self.series is not None
        is_audited = self.audit is not None and bool(self.audit.running)
        self._controller.prepare()
        is_own = follows_all or is_audited or (self.fluid is not None and self.fluid.fluid.wants_look)
        pause_ps = NEVER if self.routes is None else self.routes.pause_ps
        words[UNTIL_PS] = 0 if is_own else min(other_look_ps, self._stretch_end_ps, pause_ps)
        words[FROM_PS], words[HELD_PS], words[ASSESSED_PS] = self._level_ps, self.held_ps, -1
        if self.waves is not None:
            words[HAS_WAVES] = WAVES_WAIT if self.fluid is not None else WAVES_COME_FIRST
            words[WAVES_PS] = self._next_wave_look_ps
        if self.fluid is not None:
            words[FLOW_LEVEL_PS] = self.fluid.next_ps
        if self._looks is None or (self.fluid is not None and self._looks.ticks is not self.fluid.ticks):
            ticks = no_ticks(self.ways, self.hidden, self._world.gathering) if self.fluid is None else self.fluid.ticks
            self._looks = RoundLooks(words, self._samples, table, ticks)
        return self._looks

    def thaw(self, state: NetworkState, horizon_ps: int) -> bool:
        """Thaw what has to be thawed; whether all nodes have then done what is before the horizon, and no more.

        If not, nothing may be decided: how far nodes of a stopped logical process have come is up to what else is on
        their rank, and what has thawed at an instant before is still to come as far as the others.
        """
        interrupts, self._later = take_interrupts(state, self._world, self.suspension.room, self._later)
        is_stopped = bool(interrupts)  # some logical process is
        if self.fluid is not None and is_stopped:
            interrupts = self.fluid.close(state, interrupts, horizon_ps) | interrupts
        elif self.fluid is not None and horizon_ps >= self._level_ps:
            state, interrupts = self.fluid.tick(state, horizon_ps, self._samples, self.grow)
        disturbed = self.waves.disturbed(interrupts) if self.waves is not None else []
        for replay, at_ps in disturbed:  # its flows go on through ports that others have frozen, too
            interrupts = dict.fromkeys(replay.pairs.tolist(), at_ps) | interrupts
        is_due = bool(interrupts) or self._controller.first_thaw_ps <= horizon_ps
        if is_due:
            until_ps = min(interrupts.values()) if interrupts and self.suspension.room is not None else horizon_ps
            state = self.suspension.thaw(state, list(self._controller.ends(until_ps, interrupts)), self.grow)
            self._later = {pair: at_ps for pair, at_ps in self._later.items() if meets_others(state, pair)}
        if self.waves is not None and self.wave_states is not None:
            quiet_ps = self.wave_states.end(state, self.waves, disturbed, horizon_ps, self._credits)
            self._level_ps = max(self._level_ps, quiet_ps)
        if is_due and self.replays is not None:
            state = self.replays.end_due(state, self._controller, horizon_ps, self.grow)
        if is_stopped:
            self._level_ps = max(self._level_ps, horizon_ps)
        is_level = not is_stopped and horizon_ps >= self._level_ps
        if not is_level:
            self._controller.give_up(horizon_ps)
            if self.replays is not None:
                self.replays.let_go(state, self._controller, horizon_ps, self.grow)
                self.replays.watch(state, self._controller, self.waves is not None)
            ends = (self._controller.first_thaw_ps, self._first_wave_end_ps)
            self.limit_ps = self.held_ps = min(self._level_ps, *ends, *self._later.values())
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
        if self.replays is not None:
            self.replays.watch(state, self._controller, self.waves is not None)
        self.limit_ps = self.held_ps = min(self._controller.first_end_ps, self._first_wave_end_ps)
        if self.fluid is not None:
            self.limit_ps = min(self.held_ps, max(self.fluid.next_ps, horizon_ps + 1))
        if self.waves is not None:
            self._round_look_words[TICK_PS] = max(self._tick_ps, horizon_ps + 1)
        stretch_end_ps = max(self._stretch_end_ps, horizon_ps + 1)
        return min(self._controller.next_look_ps, self.limit_ps, self._tick_ps, stretch_end_ps)

    def hold(self, at_ps: int) -> None:
        """No round passes an instant, which is Python's to look at, up to the next look. For who looks around this."""
        self.limit_ps, self.held_ps = min(self.limit_ps, at_ps), min(self.held_ps, at_ps)

    def _follow(self, routes: RoutedWays, now_ps: int) -> bool:
        """Whether something may be decided: not while switches learn of a change; afterwards ways are others."""
        if routes.move(now_ps):
            self._controller = routes.remake(routes.pairs).carry_on(self._controller)
            self.frozen, self.ways, self._looks = self._controller.frozen, ports_of_pairs(routes.pairs), None
            if self.suspension.room is not None:
                self.suspension.room.reroute(routes.pairs)
        self.limit_ps = self.held_ps = routes.resumes_ps(now_ps)
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
        if self.suspension.restoration is not None:
            self.suspension.restoration.note(state, rows[:, PAIR].copy())
        if self.queues is not None:
            rows = np.hstack([rows, self.queues.sample(state.fabric, state.nic, rows[:, PAIR].copy())])
        is_alone = None
        if self.fluid is not None and is_wave_due:
            state, rows, is_alone = self.fluid.look(state, rows, horizon_ps, self.grow)
        learner = self._learner
        if self.waves is not None and self.wave_states is not None and (is_wave_due or self.fluid is None):
            if learner is not None or self.replays is not None:
                state, rows = self.wave_states.look(state, self.waves, rows, horizon_ps, is_alone, learner, self.grow)
        allows = None if self.suspension.room is None and self.lossy_port is None else partial(self._allows, state)
        self.suspension.freeze(state, self._controller.decide(horizon_ps, rows, allows, is_assessed))
        if self.replays is not None:
            self.replays.look(state, self._controller, rows, horizon_ps, self.grow)
        if self.series is not None:
            self.series.add(*self._controller.census(horizon_ps))

    @property
    def _learner(self) -> Learner | None:
        """Who learns from waves; None: nobody, they are a forecast of their own."""
        shares = None if self.fluid is None else self.fluid.fluid.shares
        return None if shares is None else Learner(shares.wants, shares.learn_episode)

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
        room = self.suspension.room
        may = [True] * len(freezes) if room is None else room.allows(state, freezes, now_ps)
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

    def spread_over(self, spread: Spread | None) -> None:
        """Have what goes at flow level count evenly at all ports of a stage."""
        self._credits = self._credits._replace(spread=spread)

    @property
    def _tick_ps(self) -> int:
        """When waves want to see whether something was posted, NEVER: there are none."""
        return int(self._round_look_words[TICK_PS])

    @property
    def memo(self) -> Memo | None:
        """What it has found out, None where nothing that one network partition does says anything of another."""
        return self._controller.memo

    @property
    def settings(self) -> dict[str, Any]:
        """What decides when it looks, and when an episode ends."""
        return asdict(self._controller.criterion.settings)

    @property
    def next_look_ps(self) -> int:
        """When it wants to look."""
        ends_ps = self._controller.first_end_ps, self._stretch_end_ps
        return min(self._controller.next_look_ps, *ends_ps, self._tick_ps)

    def settle(self, state: NetworkState) -> None:
        """The run is over: count what had to wait for that."""
        if self.wave_states is not None:
            self._credits.take_back("wave", self.wave_states.settle(state))
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
