"""Messages at flow level: what a look takes from the packet level, and what is learned of what stays there.

A message is posted at flow level where the rates of flows like its own are known (`flow_level`). Those that are
simulated are where rates come from, and are taken over as soon as theirs are known:

- messages that are alone, whose times are learned as a whole (`alone_times`);
- companies of flows that go on evenly, alone or sharing ports, at the rates that were measured (`seen`), until
  something changes among them;
- flows that share ports, once it is known which part of their fair shares such flows get (`shares`).

Everything here is alike on every rank.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping import prediction as m
from pdes.skipping.flow_ports import ports_of
from pdes.skipping.fluid.ack_load import AckLoads, Slowdown
from pdes.skipping.fluid.alone_rates import MIN_ROUND_TRIPS
from pdes.skipping.fluid.alone_times import AloneTimes, Ended, Watch, Watched, as_watched
from pdes.skipping.fluid.at_flow_level import FlowLevel
from pdes.skipping.fluid.audit import FluidAudit
from pdes.skipping.fluid.flow_level import Comers
from pdes.skipping.fluid.flow_table import FAR_PS
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.seen import Seen
from pdes.skipping.fluid.shares import Rates, Shares

MIN_LEFT_ROUND_TRIPS = 4  # of a message under way, else the rest of it is simulated


@dataclass
class FluidCounters:
    """For the results."""

    known: int = 0  # rates: forms and sizes of messages that are alone, and sets of forms of flows that share ports
    posted: int = 0  # messages that went at flow level from their posting on
    joined: int = 0  # messages that were taken over at rates that were known
    measured: int = 0  # and at rates that were measured
    broken: int = 0  # messages that went on packet by packet


class Rests(NamedTuple):
    """Messages under way that are to be taken over. int64[n] unless it says otherwise."""

    at: np.ndarray  # rows of the samples of their flows
    free_ps: np.ndarray  # when their last bytes leave
    rates: np.ndarray  # float64[n, 2], bytes per ps: without, with acknowledgements of others on their ways

    def some(self, is_one: np.ndarray) -> "Rests":
        """Of these, some: bool[n]."""
        return Rests(self.at[is_one], self.free_ps[is_one], self.rates[is_one])


class Fluid:
    """What is at flow level, and what is known; alike on every rank."""

    def __init__(
        self, links: Links, holder: np.ndarray, tolerance: float, rtt_ps: int, slowdown: Slowdown, has_shares: bool,
        audit: FluidAudit,
    ) -> None:  # fmt: skip
        """holder: int32[n_port], written here: which ports flows at flow level have. has_shares: it is learned what
        flows get that share ports."""
        self.links, self.holder, self._tolerance, self._rtt_ps = links, holder, tolerance, rtt_ps
        self._slowdown, self.audit = slowdown, audit
        n_flow = len(links.form)
        self.level = FlowLevel(links, tolerance, rtt_ps, slowdown, audit.stretches.seed)
        self._loads = AckLoads(links.data_ways, links.all_ways, links.n_port)
        self._seen = Seen(links.data_ways, links.n_port, tolerance, rtt_ps)
        self._times, self._watch = AloneTimes(links, tolerance, rtt_ps, slowdown), Watch(n_flow, rtt_ps)
        self.shares = Shares(links, tolerance, rtt_ps) if has_shares else None
        self._last = np.full((n_flow, 3), -1, np.int64)  # message, bytes acknowledged, when: at the last look
        self._next_look_ps = self._next_end_ps = NEVER
        self.takes_under_way = True  # messages; else only what is posted goes at flow level
        self.wants_look = False  # flows went on packet by packet that may share what they meet on
        # Of the last look: samples without shadows; did each meet ACKs, was it alone and clear, are its stages mixed?
        self._rows = np.zeros((0, h.N_COLUMN), np.int64)
        self._was_loaded, self._is_clear, self._is_mixed = (np.zeros(0, np.bool_) for _ in range(3))
        self.counters = FluidCounters()

    def compile(self, n_column: int) -> None:
        """Compile what looks and ticks need, or load it from the cache. n_column: of samples."""
        none, rows = np.zeros(0, np.int64), np.zeros((0, n_column), np.int64)
        self._loads.compile()
        self.level.compile(self.holder)
        self._seen.look(0, rows, none, none, self.holder)
        self._seen.next_look_ps = NEVER
        if self.shares is not None:
            self.shares.compile()

    def share(self, other: "Fluid") -> None:
        """Write into the array of holders that another one writes into, which models read."""
        other.holder[:] = self.holder
        self.holder = other.holder

    @property
    def next_look_ps(self) -> int:
        """When it wants to see how messages under way get on."""
        return min(self._next_look_ps, self._next_end_ps, self._seen.next_look_ps)

    @property
    def next_tick_ps(self) -> int:
        """The next tick, whatever is posted."""
        audit_ps = self.audit.next_tick_ps(self.level.last_ps + self.level.tick_ps)
        return min(self.level.next_ps, audit_ps)

    def note_predicted(self, predicted: np.ndarray) -> None:
        """It is known how messages end; for the audit. predicted: int64[n, N_COLUMN]."""
        has_shadow = self.level.table.is_shadow[predicted[:, m.FLOW]] != 0
        self.audit.stretches.note(int((predicted[:, m.ENDED_PS] - predicted[:, m.POSTED_PS]).max(initial=0)))
        if has_shadow.any():
            self.audit.predict(predicted[has_shadow])

    def look(self, now_ps: int, rows: np.ndarray, frozen: np.ndarray, is_frozen: np.ndarray) -> Watched:
        """See how flows get on; the messages that are over and were alone, to be learned of (`learn`).

        rows: samples of active flows, ascending. frozen: int64[], flows that are, which have none; is_frozen: of each
        flow whether it is, 0 or 1.
        """
        ports = self._loads.update(rows[:, h.FLOW].copy(), frozen)
        self.level.note_load(now_ps, ports, self._loads.n_flow(ports))
        self._rows = rows = rows[~self.audit.has_shadow(rows)] if self.audit.is_on else rows
        flows = rows[:, h.FLOW].copy()
        self._was_loaded = self._loads.simulated.meets(flows)
        self._is_mixed = self.level.see_loads(flows, rows[:, h.HAS_TIMER].copy(), now_ps)
        self.note_loads()
        self._seen.look(now_ps, rows, 2 * self.links.form[flows] + self._was_loaded, frozen, self.holder)
        is_alone = self._seen.is_alone & ~self._is_mixed
        over = self._watch.over(rows, is_alone, self._was_loaded, is_frozen != 0, self.links.form)
        self._is_clear = self._watch.note_alone(now_ps, rows, is_alone)
        if self._is_clear.any():
            begins = self._is_clear & (self._rates_alone(rows, self._was_loaded) == 0)
            self._watch.begin(rows[begins], self._was_loaded[begins], self.links.form)
        self._next_end_ps = self._first_end_ps()
        return over

    def note_loads(self) -> None:
        """Forms may have changed with the load of stages."""
        if self.level.have_new_loads() and self.shares is not None:
            self.shares.forget_forms()

    def _first_end_ps(self) -> int:
        """When the first of the short messages that are watched may be over: of a flow's messages a look sees the last
        that has ended alone."""
        rows = self._watch.rows
        flows, size = rows[:, h.FLOW], rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN]
        took_ps = (size * self._slowdown.line_ps[flows]).astype(np.int64)
        short = np.flatnonzero(took_ps < MIN_ROUND_TRIPS * self._rtt_ps)
        if len(short) == 0:
            return NEVER
        short = short[self._times.seeks(flows[short], size[short])]
        return int((rows[short, h.POSTED_PS] + took_ps[short]).min(initial=NEVER))

    def _rates_alone(self, rows: np.ndarray, is_loaded: np.ndarray) -> np.ndarray:
        """float64[n]: rates of rows' messages if they are alone, 0: not known. is_loaded: bool[n]."""
        size = rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN]
        return self.level.rates_alone(rows[:, h.FLOW].copy(), size, is_loaded.astype(np.int64))

    def alone_of(self, rows: np.ndarray) -> np.ndarray:
        """bool[n]: whose ways nobody else's data uses, of the rows that `look` was given."""
        found = np.zeros(len(rows), np.bool_)
        at = np.searchsorted(rows[:, h.FLOW], self._rows[:, h.FLOW])
        found[at] = self._seen.is_alone
        return found

    def learn(self, over: Watched, ended: Ended) -> None:
        """Note how long messages took that were alone."""
        for new in self._times.learn(over, ended):
            self.audit.stretches.note(new.ended_ps)
            self.level.note_alone(new.flow, new.size, new.delivered_ps - int(self.links.behind_ps[new.flow]))

    def take(self, now_ps: int, frozen_port: np.ndarray) -> np.ndarray:
        """Take over messages under way; predictions of those that are not simulated any more, by flow.

        Their ends are not known yet. frozen_port: uint8[n_port], 1: frozen; who uses such a port is left alone.
        """
        self.wants_look = False
        if not self.takes_under_way:
            return self._only_learn()
        taken = self._take_alone(now_ps, frozen_port)
        found, is_taken = [taken], np.zeros(len(self._rows), np.bool_)
        is_taken[np.searchsorted(self._rows[:, h.FLOW], taken[:, m.FLOW])] = True
        if self.audit.is_on:
            is_taken |= self.audit.has_shadow(self._rows)
        for company in self._seen.even():
            if not is_taken[company].any():
                found.append(self._take_even(now_ps, company, frozen_port))
        if self.shares is not None:
            flow, version = self._rows[:, h.FLOW].copy(), self.shares.version
            for company, has_settled in self._seen.whole(version):
                if self.level.table.n_message[flow[company[0]]] == 0:
                    given = self.shares.rates(flows := flow[company])
                    if given is not None:
                        found.append(self._take_shares(self.shares, now_ps, company, frozen_port, given))
                        continue
                    self._seen.pass_over(flows, version)
                    if has_settled:
                        self._learn_shares(self.shares, company, flows)
        self._note_news()
        predicted = np.concatenate(found)
        return predicted[np.argsort(predicted[:, m.FLOW], kind="stable")]

    def _only_learn(self) -> np.ndarray:
        """Learn of companies that have settled, and take over nobody."""
        self._next_look_ps = NEVER
        if (shares := self.shares) is not None:
            for company, has_settled in self._seen.whole(shares.version):
                self._seen.pass_over(flows := self._rows[company, h.FLOW].copy(), shares.version)
                if has_settled and not self._is_mixed[company].any():
                    self._learn_shares(shares, company, flows)
        self._note_news()
        return np.zeros((0, m.N_COLUMN), np.int64)

    def _note_news(self) -> None:
        """Let flows go at flow level of which `shares` knows now what they get."""
        if self.shares is not None and self.shares.news:
            for key, known in sorted(self.shares.news.items()):
                self.level.note(key, known)
            self.shares.news.clear()
        self.counters.known = len(self._times) + (0 if self.shares is None else self.shares.n_known)

    def _take_alone(self, now_ps: int, frozen_port: np.ndarray) -> np.ndarray:
        """Take over messages that are alone and whose rates are known.

        One that has just begun takes its time from its posting on. One that is under way goes on at its rate if that is
        its rate by the last two looks.
        """
        rows, rates = self._rows, np.zeros((len(self._rows), 2))
        mine = np.flatnonzero(self._seen.is_alone & (rows[:, h.IS_WHOLE] != 0))
        if len(mine):
            for k in range(2):
                rates[mine, k] = self._rates_alone(rows[mine], np.full(len(mine), k == 1))
            mine = mine[(rates[mine, 0] > 0) & self.level.takes(rows[mine, h.FLOW], now_ps)]
        row, rate, before = rows[mine], rates[mine], self._last[rows[mine, h.FLOW]]
        self._last[rows[:, h.FLOW]] = rows[:, (h.ID, h.DONE, h.DONE_PS)]
        if len(mine) == 0:
            self._next_look_ps = NEVER
            return np.zeros((0, m.N_COLUMN), np.int64)
        flows, begin, end, done = (row[:, k] for k in (h.FLOW, h.MESSAGE_BEGIN, h.MESSAGE_END, h.DONE))
        one = np.arange(len(mine))
        now_rate = rate[one, self.level.meets_acks(flows.copy()).astype(np.int64)]
        is_new, late_ps = done == begin, self.links.behind_ps[flows] + self.links.ack_ps[flows]
        from_ps = np.where(is_new, row[:, h.POSTED_PS], row[:, h.DONE_PS] - late_ps)
        free_ps = from_ps + ((end - done) / now_rate).astype(np.int64)
        should_ps = (done - before[:, 1]) / rate[one, self._was_loaded[mine].astype(np.int64)]
        is_right = (before[:, 0] == row[:, h.ID]) & (done > before[:, 1]) & (before[:, 1] > begin)
        is_right &= np.abs(row[:, h.DONE_PS] - before[:, 2] - should_ps) <= self._tolerance * should_ps
        is_right = np.where(is_new, self._is_clear[mine], is_right)
        is_long = free_ps + late_ps >= now_ps + MIN_LEFT_ROUND_TRIPS * self._rtt_ps
        is_right &= is_long & self._are_free(flows, frozen_port)
        self._next_look_ps = now_ps if (is_long & ~is_right).any() else NEVER
        self.counters.joined += int(is_right.sum())
        return self._join(now_ps, Rests(mine, free_ps, rate).some(is_right))

    def _are_free(self, flows: np.ndarray, frozen_port: np.ndarray) -> np.ndarray:
        """bool[n]: whether no port of flows' ways, and of their acknowledgements', is frozen."""
        start = self.links.all_ways[0]
        n_port = start[flows + 1] - start[flows]
        is_frozen = frozen_port[self.all_ports(flows)] == 1
        return np.add.reduceat(is_frozen, np.cumsum(n_port) - n_port) == 0 if len(flows) else np.zeros(0, np.bool_)

    def _take_even(self, now_ps: int, company: np.ndarray, frozen_port: np.ndarray) -> np.ndarray:
        """Take over a company that goes on evenly, at the rates that were measured."""
        rows = self._rows[company]
        flows, done, end = rows[:, h.FLOW].copy(), rows[:, h.DONE], rows[:, h.MESSAGE_END]
        windows = self._seen.last_windows(flows)
        if self.shares is not None and len(company) > 1:
            self.shares.learn(flows, windows, rows[:, h.SENT] - done)
        late_ps = self.links.behind_ps[flows] + self.links.ack_ps[flows]
        rates = np.repeat((windows[:, 0] / windows[:, 1])[:, None], 2, axis=1)
        if len(company) == 1:
            size, span_ps = int(windows[0, 0]), int(windows[0, 1])
            was_loaded = bool(self._was_loaded[company[0]])
            for k in range(2):
                rates[0, k] /= self._slowdown.times(int(flows[0]), size, span_ps, was_loaded, k == 1)
        now_rate = rates[np.arange(len(flows)), self.level.meets_acks(flows).astype(np.int64)]
        free_ps = rows[:, h.DONE_PS] + ((end - done) / now_rate).astype(np.int64) - late_ps
        is_short = free_ps.min() < now_ps + MIN_LEFT_ROUND_TRIPS * self._rtt_ps
        if is_short or not self._are_free(flows, frozen_port).all() or not self.level.takes(flows, now_ps).all():
            return np.zeros((0, m.N_COLUMN), np.int64)
        if len(company) == 1 and self._watch.end(rows)[0]:
            ended_ps = free_ps + late_ps
            delivered_ps = free_ps + self.links.behind_ps[flows]
            is_loaded = self.level.meets_acks(flows)
            self.learn(as_watched(rows, is_loaded), Ended(end, ended_ps, rows[:, h.MARKED], delivered_ps))
        self.counters.measured += len(company)
        return self._join(now_ps, Rests(company, free_ps, rates))

    def _learn_shares(self, shares: Shares, company: np.ndarray, flows: np.ndarray) -> None:
        """Learn of a company that has settled, and of which it is not known what its flows get."""
        if shares.is_news(flows) and self._seen.go_steadily(flows):
            rows = self._rows[company]
            shares.learn(flows, self._seen.last_windows(flows), rows[:, h.SENT] - rows[:, h.DONE])

    def _take_shares(
        self, shares: Shares, now_ps: int, company: np.ndarray, frozen_port: np.ndarray, given: Rates
    ) -> np.ndarray:
        """Take over a company of which it is known what its flows get."""
        none, rows = np.zeros((0, m.N_COLUMN), np.int64), self._rows[company]
        flows = rows[:, h.FLOW].copy()
        free_ps = shares.rests(now_ps, rows, given)
        is_free = self._are_free(flows, frozen_port).all() and self.level.takes(flows, now_ps).all()
        if len(free_ps) == 0 or not is_free or not self.level.knows(given.key):  # it was learned in this very look
            return none
        self.counters.joined += len(company)
        rates = np.repeat(given.rates[:, None], 2, axis=1)
        return self._join(now_ps, Rests(company, free_ps, rates), given.queued_ps, given.key)

    def _join(self, now_ps: int, rests: Rests, queued_ps: int = 0, key: bytes | None = None) -> np.ndarray:
        """Take over messages; those without shadows as predictions, whose ends are not known yet."""
        rows, n = self._rows[rests.at], len(rests.at)
        if n == 0:
            return np.zeros((0, m.N_COLUMN), np.int64)
        flows, done, end = rows[:, h.FLOW].copy(), rows[:, h.DONE], rows[:, h.MESSAGE_END]
        has_shadow = self.audit.stretches.is_drawn(flows)
        late_ps = self.links.behind_ps[flows] + self.links.ack_ps[flows]
        self.audit.stretches.note(int((rests.free_ps + late_ps - rows[:, h.POSTED_PS]).max()))
        whole = end - rows[:, h.MESSAGE_BEGIN]
        posts = np.column_stack([flows, rows[:, h.ID], end - done, end, rows[:, h.POSTED_PS], whole, has_shadow])
        found = m.predictions(posts)
        found[:, m.BEGIN_PS], found[:, m.MARKED] = now_ps, rows[:, h.MARKED]
        found[:, [m.FREE_PS, m.DELIVERED_PS, m.ENDED_PS]] = now_ps + FAR_PS
        now_rate = rests.rates[np.arange(n), self.level.meets_acks(flows).astype(np.int64)]
        left = np.maximum(rests.free_ps - now_ps, 0) * now_rate
        self.level.join(now_ps, self.holder, Comers(posts, left, rests.rates, np.full(n, queued_ps)), key)
        self.audit.follow(posts, np.maximum(rows[:, h.DONE_PS], rows[:, h.POSTED_PS]))
        self._seen.forget(flows)
        return found[~has_shadow]

    def go_on(self, flows: np.ndarray, base: np.ndarray, at_ps: int) -> None:
        """Flows go on packet by packet: what had left by at_ps."""
        self._seen.forget(flows)
        self._watch.alone_since_ps[flows[self.level.table.n_beside[flows] > 0]] = NEVER
        self._next_look_ps = min(self._next_look_ps, at_ps) if len(flows) else self._next_look_ps  # whatever is posted
        if self.shares is not None:
            self.shares.go_on(flows, base, at_ps)
            self.wants_look |= self.shares.n_known > 0

    def all_ports(self, flows: np.ndarray) -> np.ndarray:
        """Ports of flows' ways and their acknowledgements'."""
        return ports_of(flows, *self.links.all_ways)

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it."""
        return vars(self.counters) | {"posted": self.level.n_posted}
