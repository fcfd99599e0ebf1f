"""Flow level in the packet network: one rank's part of what `pdes.skipping.fluid` decides."""

from collections.abc import Callable

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.host.visits import list_members
from models.network.skip.fluid_ends import (
    BASE_BYTE,
    CLOSED_PAIR,
    N_CLOSED_COLUMN,
    close_at_receivers,
    close_at_senders,
    place_predicted,
    take_out,
)
from models.network.skip.fluid_moves import drop_shadows, note_progress
from models.network.skip.fluid_ticks import (
    IS_AUDITED,
    LEFT_PS,
    N_BROKEN,
    N_MISSING,
    N_PREDICTED,
    N_SAMPLE,
    N_UNPLACED,
    begin_tick,
    end_tick,
    follow,
    gather_posts,
    make_ticks,
    no_ticks,
    place_followers,
)
from models.network.skip.progress import Samples
from models.network.skip.suspend.hidden import Hidden
from models.network.skip.suspend.withdraw import N_SENT_COLUMN, SENT_BYTES, SENT_PACKETS, Counted, Members, count_short
from models.network.state.records import HAS_PFC, N_FLUID, N_FREE_PACKET, N_FROZEN_PORT, TIMEOUT_PS
from pdes.engine.exchange import World
from pdes.skipping import history as h
from pdes.skipping import prediction as m
from pdes.skipping.fluid.alone_times import Ended
from pdes.skipping.fluid.fluid import Fluid

Grow = Callable[[], NetworkState]
SPAN_PS = 2**50  # of the straight line that says how far a message is
LEAST_LEFT = 1e-6  # of a message that is not over


class FluidStates:
    """One rank's part."""

    def __init__(
        self, world: World, hidden: Hidden, state: NetworkState, fluid: Fluid, n_column: int, n_hop: np.ndarray
    ) -> None:  # fmt: skip
        """n_column: of samples. n_hop: int64[n_qp], that a packet and its acknowledgement make."""
        self._n_hop = n_hop
        self._world, self._hidden, self.fluid, self._n_column = world, hidden, fluid, n_column
        table, here = state.nic.facts, hidden.here.astype(np.bool_)
        self._sends_here, self._receives_here = here[table["node"]], here[table["receiver"]]
        self._twice = np.zeros((fluid.links.n_port, N_SENT_COLUMN), np.int64)  # by ports; of this rank's packets
        self._frozen = np.zeros(len(table), np.int64)  # queue pairs that are
        self._least_bytes = state.nic.fluid["least_bytes"].copy()  # whatever is known
        self._make_ticks()
        self._note_stretch(state)

    def _make_ticks(self) -> None:
        fluid, audit = self.fluid, self.fluid.audit
        arrays = fluid.holder, audit.shadow_end
        self.ticks = make_ticks(fluid.level.table, fluid.level.tick_ps, arrays, self._hidden, self._world.gathering)
        self.ticks.words[IS_AUDITED] = audit.is_on

    def compile(self, state: NetworkState, samples: Samples) -> None:
        """Compile what happens at looks and ticks, or load it from the cache. samples: without other ranks."""
        none, rows = np.zeros(0, np.int64), np.zeros((0, N_CLOSED_COLUMN), np.int64)
        predicted = np.zeros((0, m.N_COLUMN), np.int64)
        parts = (state.fabric, state.buffers, state.nic, self._hidden)
        self.fluid.compile(self._n_column)
        list_members(state.nic.frozen, len(self._frozen), self._frozen)
        close_at_senders(*parts, none, 0, 0, rows)
        close_at_receivers(*parts, rows)
        count_short(state.fabric, state.nic, none, none, np.zeros(len(self._twice), np.int64))
        take_out(*parts, predicted, Members(none, none, none), Counted(self._twice, none), 0)
        place_predicted(*parts, predicted)
        drop_shadows(state.fabric, state.nic, self._hidden, none)
        ticks = no_ticks(self.fluid.links.all_ways, self._hidden, World().gathering)
        gather_posts(state.fabric, state.nic, ticks)
        begin_tick(*parts[:3], samples, ticks, 0, 0)
        follow(state.fabric, state.nic, ticks, none)
        place_followers(*parts[:3], ticks, 0)
        end_tick(*parts[:3], ticks, 0)
        note_progress(state.fabric, state.nic, self._hidden, predicted)

    @property
    def next_ps(self) -> int:
        """The next tick, whatever is posted."""
        return self.fluid.next_tick_ps

    @property
    def stretch_end_ps(self) -> int:
        """When another stretch of time begins, in which other messages are simulated to be compared, if the run goes on
        so long."""
        return self.fluid.audit.stretches.end_ps

    def look(
        self, state: NetworkState, rows: np.ndarray, now_ps: int, grow: Grow
    ) -> tuple[NetworkState, np.ndarray, np.ndarray]:
        """Learn of messages that are over, and take to flow level what is under way; (the network's state, samples in
        which that is not plain any more, which rows are alone)."""
        nic, n = state.nic, 0
        if state.fabric.counters[N_FROZEN_PORT] > 0:
            n = list_members(nic.frozen, len(nic.is_frozen), self._frozen)
        over = self.fluid.look(now_ps, rows, self._frozen[:n], nic.is_frozen)
        if len(over.flows):
            self.fluid.learn(over, self._ended(state, over.flows))
        is_alone = self.fluid.alone_of(rows)
        predicted = self.fluid.take(now_ps, nic.frozen_port)
        self._write_news(state)
        if len(predicted):
            state = self._withdraw(state, predicted, now_ps, grow)
        return state, self._kept_apart(state, rows, predicted), is_alone

    def _write_news(self, state: NetworkState) -> None:
        """What may go at flow level from now on, for those who post messages."""
        level = self.fluid.level
        state.fabric.counters[N_FLUID] = level.is_used
        if level.has_news:
            form = level.table.form
            state.nic.fluid["most_bytes"] = level.most_bytes[form]
            state.nic.fluid["least_bytes"] = np.maximum(self._least_bytes, level.least_bytes[form])
            level.has_news = False

    def _kept_apart(self, state: NetworkState, rows: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Samples in which what was taken to flow level is not plain any more, nor what has a shadow there."""
        is_apart = np.zeros(len(rows), np.bool_)
        is_apart[np.searchsorted(rows[:, h.FLOW], predicted[:, m.FLOW])] = True
        if self.fluid.audit.is_on:
            is_apart |= self.fluid.audit.has_shadow(rows)
            self._note_shadows(state)
        if is_apart.any():
            rows = rows.copy()
            rows[is_apart, h.IS_WHOLE] = 0  # more may wait behind: so nothing around it is frozen
            rows[is_apart, h.IS_PLAIN] = 0
        return rows

    def _withdraw(self, state: NetworkState, predicted: np.ndarray, now_ps: int, grow: Grow) -> NetworkState:
        """Take what is in flight of messages out of the network, and have them end as `predicted` says."""
        pairs = predicted[:, m.FLOW].copy()
        ports = np.unique(self.fluid.all_ports(pairs))
        members = Members(pairs, ports, predicted[:, m.END] - predicted[:, m.SIZE])
        if state.fabric.constants[HAS_PFC]:  # each sender that pauses may be let go on, by a frame
            while state.fabric.counters[N_FREE_PACKET] < state.buffers.switches["n_pausing"].sum():
                state = grow()
        may_lose = bool(state.fabric.constants[TIMEOUT_PS])
        lost_bytes = np.zeros(len(pairs) if may_lose else 0, np.int64)
        parts = (state.fabric, state.buffers, state.nic, self._hidden)
        take_out(*parts, predicted, members, Counted(self._twice, lost_bytes), now_ps)
        if may_lose:
            lost_bytes = self._world.gather_sum(lost_bytes) * self._sends_here[pairs]
            for name in ("sent_bytes", "resent_bytes"):
                state.nic.queue_pairs[name][pairs] += lost_bytes
        follow(state.fabric, state.nic, self.ticks, pairs)
        while state.fabric.counters[N_FREE_PACKET] < 2 * len(predicted):
            state = grow()
        place_predicted(state.fabric, state.buffers, state.nic, self._hidden, predicted)
        return self._place_followers(state, now_ps, grow)

    def _ended(self, state: NetworkState, pairs: np.ndarray) -> Ended:
        """How queue pairs' last messages have ended, the same on every rank."""
        nic = state.nic
        own = np.column_stack([
            nic.ended[pairs] * self._sends_here[pairs][:, None],
            nic.delivered_ps[nic.receiver_row[pairs]] * self._receives_here[pairs],
        ])  # fmt: skip
        return Ended(*self._world.gather_sum(own).T)

    def tick(
        self, state: NetworkState, now_ps: int, samples: Samples, grow: Grow
    ) -> tuple[NetworkState, dict[int, int]]:
        """See to what was posted and what ends, or to what rounds have left of it; (the network's state, queue pairs
        that have to send packets, with their instants).

        samples: of all active queue pairs. grow: for more packets.
        """
        fluid, ticks, words = self.fluid, self.ticks, self.ticks.words
        if not fluid.level.is_used and not fluid.audit.is_on:
            return state, {}
        if words[LEFT_PS] != now_ps:
            n_post = gather_posts(state.fabric, state.nic, ticks)
            if n_post == 0 and now_ps < min(self.next_ps, self.stretch_end_ps):
                return state, {}
            fluid.audit.follow(ticks.posts[:n_post], ticks.posts[:n_post, m.POSTED_PS])
            begin_tick(state.fabric, state.buffers, state.nic, samples, ticks, n_post, now_ps)
        words[LEFT_PS] = -1
        fluid.note_loads()
        self._write_news(state)
        assert words[N_MISSING] == 0, f"{words[N_MISSING]} ends of messages at flow level are missing"
        broken = fluid.level.broken(words[N_BROKEN], now_ps)
        if fluid.audit.is_on:
            fluid.note_predicted(fluid.level.table.predicted[: words[N_PREDICTED]].copy())
            rows = samples.rows[: words[N_SAMPLE]]
            broken = np.concatenate([broken, self._go_through_audit(state, now_ps, rows)])
        again = self._go_on(state, broken, now_ps, now_ps)
        if words[N_UNPLACED] == 0:
            end_tick(state.fabric, state.buffers, state.nic, ticks, now_ps)
        return self._place_followers(state, now_ps, grow), again

    def _place_followers(self, state: NetworkState, now_ps: int, grow: Grow) -> NetworkState:
        """Mark the ends of what has followed and has no markers yet."""
        while state.fabric.counters[N_FREE_PACKET] < 2 * self.ticks.words[N_UNPLACED]:
            state = grow()
        place_followers(state.fabric, state.buffers, state.nic, self.ticks, now_ps)
        return state

    def _go_through_audit(self, state: NetworkState, now_ps: int, rows: np.ndarray) -> np.ndarray:
        """Compare messages that are over with their shadows. Where a stretch begins in which others are simulated,
        flows that go on packet by packet, int64[]."""
        fluid, audit = self.fluid, self.fluid.audit
        if not audit.is_on:
            return np.zeros(0, np.int64)
        over = audit.over(rows)
        if len(over):
            audit.end(over, *self._ended(state, over[:, m.FLOW])[:2])
        if now_ps < audit.stretches.end_ps:
            self._note_shadows(state)
            return np.zeros(0, np.int64)
        changes = audit.stretches.go_on(now_ps)
        self._note_stretch(state)
        followed = np.unique(audit.running[:, m.FLOW])
        self._drop_shadows(state, followed[changes[audit.stretches.component[followed]]])
        there = fluid.level.there
        return fluid.level.give_up(there[changes[audit.stretches.component[there]]], fluid.holder, now_ps)

    def _note_stretch(self, state: NetworkState) -> None:
        """Tell those who post messages which of them are simulated to be compared."""
        stretches = self.fluid.audit.stretches
        state.nic.fluid["is_audited"] = stretches.is_drawn(np.arange(len(self._frozen)))

    def _note_shadows(self, state: NetworkState) -> None:
        """Tell those who post messages which of them have shadows."""
        level, fluid = self.fluid.level, state.nic.fluid
        fluid["shadow_end"] = self.fluid.audit.shadow_end
        fluid["n_shadow"] = level.table.n_message * level.table.is_shadow

    def close(self, state: NetworkState, interrupts: dict[int, int], horizon_ps: int) -> dict[int, int]:
        """Somebody has come packet by packet; queue pairs that have to send packets, too, with their instants."""
        flows = np.array(sorted(interrupts), np.int64)
        broken = self.fluid.level.interrupt(flows, self.fluid.holder, horizon_ps)
        return self._go_on(state, broken, min(interrupts.values()), horizon_ps)

    def _go_on(self, state: NetworkState, pairs: np.ndarray, at_ps: int, horizon_ps: int) -> dict[int, int]:
        """Queue pairs go on packet by packet, as of an instant; those with shadows have none any more."""
        if len(pairs) == 0:
            return {}
        table = self.fluid.level.table
        has_shadow = table.is_shadow[pairs] != 0
        self._drop_shadows(state, pairs[has_shadow])
        pairs = pairs[~has_shadow]
        open_ended = pairs[table.is_predicted[pairs] == 0]
        _, size, left = self.fluid.level.left(open_ended, at_ps)
        done_ps = (SPAN_PS * (1 - np.maximum(left / size, LEAST_LEFT))).astype(np.int64)
        begin_ps = at_ps + self.fluid.links.behind_ps[open_ended] - done_ps
        progress = m.predictions(table.message[open_ended, 0])
        progress[:, m.BEGIN_PS], progress[:, m.DELIVERED_PS] = begin_ps, begin_ps + SPAN_PS
        note_progress(state.fabric, state.nic, self._hidden, progress)
        rows = self.close_at(state, np.sort(pairs), at_ps, horizon_ps)
        self.fluid.counters.broken += int((rows[:, BASE_BYTE] >= 0).sum())
        return dict.fromkeys(rows[rows[:, BASE_BYTE] >= 0, CLOSED_PAIR].tolist(), at_ps)

    def give_up_all(self, state: NetworkState, now_ps: int) -> None:
        """Everything goes on packet by packet. On one rank."""
        self._go_on(state, self.fluid.level.give_up(self.fluid.level.there, self.fluid.holder, now_ps), now_ps, now_ps)
        pairs = np.flatnonzero(state.nic.fluid["n_withdrawn"] > 0)  # whose last bytes have left
        if len(pairs):
            self.close_at(state, pairs, now_ps, now_ps)
        state.fabric.counters[N_FLUID] = 0

    def _drop_shadows(self, state: NetworkState, pairs: np.ndarray) -> None:
        if len(pairs):
            self.fluid.audit.let_go(pairs)
            drop_shadows(state.fabric, state.nic, self._hidden, pairs)
            self.fluid.go_on(pairs, np.full(len(pairs), -1, np.int64), 0)
            self._note_shadows(state)

    def close_at(self, state: NetworkState, pairs: np.ndarray, at_ps: int, horizon_ps: int) -> np.ndarray:
        """Have queue pairs go on packet by packet as of an instant; what all senders say, by queue pair."""
        fabric, nic, own = state.fabric, state.nic, np.zeros((len(pairs), N_CLOSED_COLUMN), np.int64)
        n_row = close_at_senders(fabric, state.buffers, nic, self._hidden, pairs, at_ps, horizon_ps, own)
        rows = self._world.gather_rows(own[:n_row])
        rows = rows[np.argsort(rows[:, CLOSED_PAIR], kind="stable")]
        close_at_receivers(fabric, state.buffers, nic, self._hidden, rows)
        goes_on = rows[rows[:, BASE_BYTE] >= 0]
        self.fluid.go_on(goes_on[:, CLOSED_PAIR], goes_on[:, BASE_BYTE], at_ps)
        return rows

    def settle_audit(self, state: NetworkState) -> None:
        """The run is over: compare what has ended since the last tick."""
        over = self.fluid.audit.running
        if len(over):
            self.fluid.audit.predict(self.fluid.level.planned(over[:, m.FLOW]))
            over = self.fluid.audit.running
            self.fluid.audit.end(over, *self._ended(state, over[:, m.FLOW])[:2])
        self.fluid.audit.finish()

    def totals(self, state: NetworkState) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(queue pairs that were at flow level, packets that were not simulated, bytes that these lack to be full ones,
        time); the same on every rank."""
        fluid, sends = state.nic.fluid, self._sends_here
        own = np.stack([fluid[name] for name in ("packets", "short_bytes", "spared_ps")]) * sends
        packets, short_bytes, spared_ps = np.sum(self._world.allgather(own), axis=0)
        pairs = np.flatnonzero(packets)
        return pairs, packets[pairs], short_bytes[pairs], spared_ps[pairs]

    def hops_so_far(self, state: NetworkState) -> int:
        """Packet-hops that flow level has spared this rank so far: for progress; `totals` has them exactly."""
        carried = int((state.nic.fluid["packets"] * self._sends_here) @ self._n_hop)
        return carried - int(self._twice[:, SENT_PACKETS].sum())

    def go_on(self, fluid: Fluid, twice: np.ndarray | int) -> None:
        """Take over what a checkpoint has: `fluid`, and what this rank's packets count twice."""
        fluid.share(self.fluid)
        self.fluid, self._twice[:] = fluid, twice
        self._make_ticks()

    def twice(self) -> tuple[np.ndarray, int]:
        """Of packets that were taken out of the network: (int64[n_port], bytes that ports have counted; packet-hops of
        this rank's packets)."""
        of_all = np.sum(self._world.allgather(self._twice), axis=0)
        return of_all[:, SENT_BYTES], int(self._twice[:, SENT_PACKETS].sum())
