"""Which flows have ports to themselves, and how long their messages take then: what opens lanes, and closes them.

A message is alone if no other flow's data uses a port of its way as long as it lasts; acknowledgements of others may.
If its flow has been alone for some round trips before, its control has settled, and how long the message takes is up to
its way's form (rates and delays in order) and its size. Once two messages of one form and size in a row took the same
within the tolerance, the mean of both counts for all to come: this is Wormhole's memo (section 4) with a single flow
for a conflict graph. Deviations: the key knows nothing of rates, an episode is a whole message, and it may go on from
the last one without a break, so that the steps of a ring follow each other in no time.

Until then a message that is alone is simulated until its pace is known (`paces`); the rest of it is taken to go on so
(Wormhole's steady skipping, section 5, of a single flow whose acknowledgements nobody waits behind).

Acknowledgements of others do slow data down (`ack_load`), and those of lanes are not simulated. So times are kept as if
there were none, and a message that meets some at the look before it is posted, or before it takes its lane, takes
longer by their share.

A flow that is alone, and whose message or pace is known, gets a lane: the ports of its way. It keeps it until somebody
else has data for one of them. Everything here is alike on every rank.
"""

from typing import Any

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.flow_ports import ports_of
from pdes.skipping.fluid.ack_load import AckLoads, Slowdown
from pdes.skipping.fluid.alone import find_alone
from pdes.skipping.fluid.at_flow_level import FlowLevel
from pdes.skipping.fluid.groups import Groups
from pdes.skipping.fluid.lane_audit import LaneAudit
from pdes.skipping.fluid.lane_records import Ended, LaneCounters, Times, Watched
from pdes.skipping.fluid.lane_times import MIN_ROUND_TRIPS, LaneTimes
from pdes.skipping.fluid.paces import Paces
from pdes.skipping.fluid.shares import Shares
from pdes.skipping.fluid.stretches import Stretches
from pdes.skipping.prediction import (
    N_PREDICTED_COLUMN,
    PREDICTED_DELIVERED_PS,
    PREDICTED_END,
    PREDICTED_ENDED_PS,
    PREDICTED_FLOW,
    PREDICTED_FREE_PS,
    PREDICTED_ID,
    PREDICTED_MARKED,
)

MAX_BACKOFF = 6
WORTH_MESSAGES = 4  # a lane that had fewer is not opened again so soon
MIN_LEFT_ROUND_TRIPS = 4  # of a message under way, else the rest of it is simulated


class Lanes:
    """Those that are open, and what is known; alike on every rank."""

    def __init__(
        self, data_ways: tuple[np.ndarray, np.ndarray], all_ways: tuple[np.ndarray, np.ndarray], form: np.ndarray,
        holder: np.ndarray, tolerance: float, rtt_ps: int, behind_ps: np.ndarray, ack_ps: np.ndarray,
        slowdown: Slowdown, byte_ps: np.ndarray | None = None, audit: LaneAudit | None = None,
    ) -> None:  # fmt: skip
        """data_ways: ports of flow f are data_ways[1][data_ways[0][f] : data_ways[0][f + 1]]; all_ways: with those of
        its acknowledgements. form: int64[n_flow], equal where ways are. holder: int32[n_port], -1, written here: the
        flow that has a lane through a port. behind_ps: int64[n_flow], from a last byte's leaving to its arrival;
        ack_ps: from there to its acknowledgement. byte_ps: float64[n_port], time that a byte of payload takes; None:
        groups do not go on at `shares`. audit: what follows messages that are simulated to be compared.
        """
        self._start, self._port_of = data_ways
        self._all_start, self._all_port_of = all_ways
        self._form, self._holder, self._tolerance, self._rtt_ps = form, holder, tolerance, rtt_ps
        n_flow, n_port = len(form), len(holder)
        self.is_open = np.zeros(n_flow, np.bool_)
        self._n_data, self._last_look_ps = np.zeros(n_port, np.int32), -1
        self._watched = np.full(n_flow, -1, np.int64)  # the message that is watched
        self._watched_rows = np.zeros((0, h.N_COLUMN), np.int64)
        self._alone_since_ps = np.full(n_flow, NEVER, np.int64)  # by all looks since then
        self.behind_ps, self.ack_ps = behind_ps, ack_ps
        self._last = np.full((n_flow, 3), -1, np.int64)  # message, bytes acknowledged, when: at the last look
        self._paces = Paces(n_flow, tolerance, rtt_ps)
        self._loads = AckLoads(data_ways, all_ways, n_port)
        self._slowdown = slowdown
        self._watched_load = np.zeros(n_flow, np.bool_)  # whether the message that is watched meets acknowledgements
        # By row of the last look: whether it meets simulated acknowledgements, and whether its pace is known.
        self._was_loaded, self._is_paced = (np.zeros(0, np.bool_) for _ in range(2))
        self._not_before_ps, self._n_vain = (np.zeros(n_flow, np.int64) for _ in range(2))
        self.times = LaneTimes(form, tolerance, rtt_ps, slowdown, behind_ps + ack_ps)
        self.has_news = False  # more times are known than were asked for
        self._is_whole = np.zeros(0, np.bool_)
        self.reloaded = np.zeros(0, np.int64)  # flows with lanes, see `loads`
        self._next_look_ps = NEVER  # when it wants to see how messages under way get on
        self.groups = Groups(n_flow, n_port)
        self.audit = audit or LaneAudit(n_flow, Stretches(np.zeros(n_flow, np.int64), 0.0, 0, rtt_ps))
        self._is_kept, self.is_alone = (np.zeros(0, np.bool_) for _ in range(2))  # by row of the last look
        self.shares, self.flow_level, late_ps = None, None, (behind_ps, ack_ps)
        if byte_ps is not None:
            self.shares = Shares(data_ways, form, byte_ps, tolerance, rtt_ps, late_ps)
            if (drawn := self.audit.stretches).share == 0:
                self.flow_level = FlowLevel(data_ways, all_ways, form, 1 / byte_ps, late_ps, rtt_ps, drawn.seed)
        self.wants_look = False  # flows went on packet by packet that may share what they meet on
        self.counters = LaneCounters()

    def share(self, other: "Lanes") -> None:
        """Write into the array of holders that another one writes into, which models read."""
        other._holder[:] = self._holder
        self._holder = other._holder

    def compile(self, n_column: int) -> None:
        """Compile what finds flows that are alone, or load it from the cache. n_column: of samples."""
        rows = np.zeros((0, n_column), np.int64)
        none = np.zeros(0, np.int64)
        find_alone(none, none, self._start, self._port_of, self._n_data, self._holder, none != 0)
        self._loads.simulated.compile()
        self._paces.compile()
        self.groups.look(0, rows, none, (self._start, self._port_of), self._holder, 1, 0.0)
        if self.shares is not None:
            self.shares.compile()
        if self.flow_level is not None:
            self.flow_level.compile(self._holder)

    def settled_ps(self, flows: np.ndarray) -> np.ndarray:
        """int64[n]: from when on the controls of flows that are alone count as settled."""
        return self._alone_since_ps[flows] + MIN_ROUND_TRIPS * self._rtt_ps

    def look(
        self, now_ps: int, rows: np.ndarray, frozen: np.ndarray, is_frozen: np.ndarray, predicted: np.ndarray
    ) -> tuple[Watched, np.ndarray]:
        """(messages that are over and were alone, which rows are alone and known). rows: of active flows, ascending.

        frozen: int64[], flows that are, which have no rows; is_frozen: of each flow whether it is, 0 or 1. predicted:
        int64[], flows with nothing but messages on lanes; nor have these.
        """
        flows = rows[:, h.FLOW].copy()
        self._note_load(now_ps, flows, frozen, predicted)
        self.is_alone = is_alone = np.zeros(len(rows), np.bool_)
        find_alone(flows, frozen, self._start, self._port_of, self._n_data, self._holder, is_alone)
        over = self._over(rows, flows, is_alone, is_frozen)
        is_known, posted_ps = self._is_known(rows, is_alone), rows[:, h.POSTED_PS]
        since_ps = np.where(is_alone, np.minimum(self._alone_since_ps[flows], now_ps), NEVER)
        is_settled = posted_ps >= since_ps + MIN_ROUND_TRIPS * self._rtt_ps
        self._is_whole = is_alone & is_settled & (rows[:, h.IS_CLEAR] != 0)  # nothing has held it up
        self._alone_since_ps[flows] = since_ps
        self._is_kept = self.audit.keeps(rows)
        begins = self._is_whole & ~is_known & ~self.audit.had(rows) & (self._watched[flows] != rows[:, h.ID])
        self._watched[flows[begins]] = rows[begins, h.ID]
        self._watched_load[flows[begins]] = self._was_loaded[begins]
        self._watched_rows = np.concatenate([self._watched_rows, rows[begins, : h.N_COLUMN]])
        self._last_look_ps = now_ps
        may = is_alone & ~is_known & ~self._is_kept
        may &= (rows[:, h.IS_WHOLE] != 0) & (rows[:, h.DONE] > rows[:, h.MESSAGE_BEGIN])
        self._is_paced = self._paces.look(now_ps, rows, may, np.maximum(since_ps, posted_ps), self._was_loaded)
        return over, np.flatnonzero(is_alone & is_known | self._is_paced)

    def _note_load(self, now_ps: int, flows: np.ndarray, frozen: np.ndarray, predicted: np.ndarray) -> None:
        """Which flows send, and so have acknowledgements on their ways."""
        ports, of_packets = self._loads.update(flows, frozen, predicted)
        self._was_loaded = self._loads.simulated.meets(flows)
        if self.flow_level is not None:
            self.flow_level.note_load(now_ps, of_packets, self._loads.of_packets(of_packets))
        holders = self._holder[ports].astype(np.int64)
        if len(holders):
            self.reloaded = np.unique(np.concatenate([self.reloaded, holders[holders >= 0]]))

    def loads(self) -> tuple[np.ndarray, np.ndarray]:
        """(flows whose lane was opened, or whose load may have changed, since this was asked for; bool[n], whether
        they meet acknowledgements)."""
        flows, self.reloaded = self.reloaded, np.zeros(0, np.int64)
        return flows, self._loads.meets(flows)

    def _is_known(self, rows: np.ndarray, is_alone: np.ndarray) -> np.ndarray:
        """bool[n]: whether the times of the rows' messages are known; those that are alone are derived if possible."""
        keys = self.times.keys(rows)
        is_known = self.times.are_known(keys)
        may = is_alone & ~is_known
        if may.any() and self.times.derive(keys[may], rows[may, h.FLOW]):
            self._note_more()
            is_known = self.times.are_known(keys)
        return is_known

    def _note_more(self) -> None:
        """More times are known."""
        self.counters.known, self.has_news = len(self.times), True

    def withdraw(self, now_ps: int, rows: np.ndarray, may: np.ndarray, frozen_port: np.ndarray) -> np.ndarray:
        """int64[n, N_PREDICTED_COLUMN]: of the rows that may, those with lanes whose messages' rests are known as well.

        So do those that go at flow level when they are alone, and have been simulated so far.
        A message that has just begun takes its time from its posting on. One that is under way goes on at the pace of
        its time if that is its pace by the last two looks. frozen_port: uint8[n_port], 1: frozen; those are left alone.
        In stretches that are drawn all are simulated, see `keep`.
        """
        may = may[~self._is_kept[may]]
        found, n_wait, loads = [], len(may), self._loads.meets(rows[:, h.FLOW].copy())
        may_join = np.zeros(len(rows), np.bool_)
        if self.flow_level is not None:
            may_join[may] = self.flow_level.takes_alone(rows[may, h.FLOW], now_ps)
        for i in may.tolist():
            row, flow = rows[i], int(rows[i, h.FLOW])
            end, done, done_ps = (int(row[k]) for k in (h.MESSAGE_END, h.DONE, h.DONE_PS))
            size = end - int(row[h.MESSAGE_BEGIN])
            times = self.times.of(int(self.times.keys(rows[i : i + 1])[0]))
            if not (self.is_open[flow] or may_join[i]) or row[h.IS_WHOLE] == 0:
                continue
            was_loaded, is_loaded = bool(self._was_loaded[i]), bool(loads[i])
            if times is None:
                span_bytes, span_ps = self._paces.pace(flow)
                longer = self._slowdown.times(flow, span_bytes, span_ps, was_loaded, is_loaded)
                ended_ps = done_ps + int((end - done) * span_ps / span_bytes * longer)
                times = Times(ended_ps - int(self.ack_ps[flow]), ended_ps, 0)  # the difference counts
                is_right = True
            elif done == end - size:
                longer = self._slowdown.times(flow, size, times.ended_ps, False, is_loaded)
                ended_ps = int(row[h.POSTED_PS]) + int(times.ended_ps * longer)
                is_right = self._is_whole[i]
            else:
                message, before, before_ps = self._last[flow].tolist()
                span_ps = times.delivered_ps - int(self.behind_ps[flow])  # for the whole message
                should_ps, longer = (
                    self._slowdown.times(flow, size, span_ps, False, loaded) * span_ps / size
                    for loaded in (was_loaded, is_loaded)
                )
                ended_ps = done_ps + int((end - done) * longer)
                is_right = message == row[h.ID] and done > before > end - size
                should_ps *= done - before
                is_right = is_right and abs(done_ps - before_ps - should_ps) <= self._tolerance * should_ps
            if ended_ps < now_ps + MIN_LEFT_ROUND_TRIPS * self._rtt_ps:
                n_wait -= 1
                continue
            if not is_right:
                continue
            if (frozen_port[self._all_port_of[self._all_start[flow] : self._all_start[flow + 1]]] == 1).any():
                continue
            delivered_ps = ended_ps - (times.ended_ps - times.delivered_ps)
            marked = int(row[h.MARKED]) + times.marked * (end - done) // size
            free_ps = delivered_ps - int(self.behind_ps[flow])
            found.append((flow, row[h.ID], end - done, end, now_ps, delivered_ps, ended_ps, marked, free_ps))
        self._next_look_ps = self._paces.next_look_ps if len(found) == n_wait else now_ps
        self._last[rows[:, h.FLOW]] = rows[:, (h.ID, h.DONE, h.DONE_PS)]
        return np.array(found, np.int64).reshape(-1, N_PREDICTED_COLUMN)

    def keep(self, now_ps: int, rows: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(what `fly` has found and is not simulated, flows of what is, to be compared)"""
        mine = rows[np.searchsorted(rows[:, h.FLOW], predicted[:, PREDICTED_FLOW])]
        posted_ps = mine[:, h.POSTED_PS]
        self.audit.stretches.note(int((predicted[:, PREDICTED_ENDED_PS] - posted_ps).max(initial=0)))
        is_drawn = self.audit.stretches.is_drawn(predicted[:, PREDICTED_FLOW])
        self.counters.converted += int((~is_drawn).sum())
        from_ps = np.maximum(mine[:, h.DONE_PS], posted_ps)
        flow, end, ended_ps = (predicted[:, column] for column in (PREDICTED_FLOW, PREDICTED_END, PREDICTED_ENDED_PS))
        self.audit.follow(np.column_stack([flow, end, posted_ps, from_ps, ended_ps])[is_drawn])
        if self.flow_level is not None:
            predicted = self._without_lanes(now_ps, self.flow_level, predicted, posted_ps)
        return predicted[~is_drawn], flow[is_drawn]

    def _without_lanes(self, now_ps: int, level: FlowLevel, predicted: np.ndarray, posted_ps: np.ndarray) -> np.ndarray:
        """What flies, but for those without a lane, which go on at flow level, and end as is said there."""
        joins = ~self.is_open[predicted[:, PREDICTED_FLOW]]
        if not joins.any():
            return predicted
        predicted = predicted.copy()
        is_loaded = self._loads.meets(predicted[joins, PREDICTED_FLOW])
        predicted[joins] = level.take_alone(now_ps, self._holder, predicted[joins], posted_ps[joins], is_loaded)
        self.counters.at_shares += int(joins.sum())
        return predicted

    def resume(self, now_ps: int, rows: np.ndarray, flows: np.ndarray, frozen_port: np.ndarray) -> np.ndarray:
        """A stretch that was drawn is over for these flows: what was simulated goes on as it would have from the
        beginning, rows of PREDICTED_*, and is not followed any more. See `fly`."""

        def is_free(predicted: np.ndarray) -> bool:
            return not (frozen_port[self.all_ports(predicted[:, PREDICTED_FLOW])] == 1).any()

        least_ps = now_ps + MIN_LEFT_ROUND_TRIPS * self._rtt_ps
        rests = self.audit.rests(now_ps, rows, flows, least_ps, self.behind_ps, self.ack_ps)
        found = [row for row in np.split(rests, len(rests)) if is_free(row)] if len(rests) else []
        self.counters.converted += len(found)
        for number in self.audit.groups_of(flows):
            predicted = self.audit.group_rests(number, now_ps, rows, least_ps)
            if predicted is not None and is_free(predicted):
                self.counters.shared += len(predicted)
                found.append(predicted)
            else:
                self.leave_group(number)
            self.audit.end_group(number, now_ps, None)
        self.audit.let_go(flows)
        return np.concatenate([np.zeros((0, N_PREDICTED_COLUMN), np.int64), *found])

    @property
    def next_look_ps(self) -> int:
        """When it wants to see how messages under way get on."""
        return min(self._next_look_ps, self.groups.next_look_ps, self.audit.next_look_ps)

    def withdraw_together(
        self, now_ps: int, rows: np.ndarray, frozen: np.ndarray, frozen_port: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """The same of flows that share ports, all of which go on evenly, or at shares that are known: up to the instant
        at which the first of them has sent its last byte. frozen: see `look`. In stretches that are drawn groups begin
        too, and are simulated: `lane_audit`.
        """
        found: list[tuple[int, ...]] = []
        ways = self._start, self._port_of
        self.wants_look = False
        for mine in self.groups.look(now_ps, rows, frozen, ways, self._holder, self._rtt_ps, self._tolerance):
            paces = [self.groups.pace(flow) for flow in rows[mine, h.FLOW].tolist()]
            flows = rows[mine, h.FLOW].copy()
            if self.shares is not None:
                self.shares.learn(flows, np.array(paces), rows[mine, h.SENT] - rows[mine, h.DONE])
            predicted = [self._at_pace(now_ps, rows[i], *pace) for i, pace in zip(mine.tolist(), paces, strict=True)]
            if min(each[PREDICTED_FREE_PS] for each in predicted) >= now_ps + MIN_LEFT_ROUND_TRIPS * self._rtt_ps:
                found += self._go_together(now_ps, rows, mine, predicted, frozen_port, 0.0)
        if self.shares is not None:
            for mine in self.groups.whole(len(rows)):
                if rows[mine[0], h.FLOW] not in self.groups.of_flow:
                    found += self._go_at_shares(self.shares, now_ps, rows, mine, frozen_port)
        self.counters.shared += len(found)
        return np.array(found, np.int64).reshape(-1, N_PREDICTED_COLUMN)

    def _go_at_shares(
        self, shares: Shares, now_ps: int, rows: np.ndarray, mine: np.ndarray, frozen_port: np.ndarray
    ) -> list[tuple[int, ...]]:
        """Begin a group whose shares are known; its messages. Learn of one whose shares are not."""
        flows = rows[mine, h.FLOW].copy()
        if shares.is_news(flows):
            paces = self.groups.settled(now_ps, flows, self._rtt_ps)
            if len(paces):
                shares.learn(flows, paces, rows[mine, h.SENT] - rows[mine, h.DONE])
            return []
        predicted = shares.rests(now_ps, rows[mine])
        if self.flow_level is None:
            predicted = self._go_together(now_ps, rows, mine, predicted, frozen_port, self._tolerance / 2)
        else:
            given, is_blocked = shares.rates(flows), (frozen_port[self.all_ports(flows)] == 1).any()
            if not predicted or given is None or is_blocked:
                return []
            predicted = self.flow_level.take(now_ps, self._holder, predicted, given, rows[mine, h.POSTED_PS])
        self.counters.at_shares += len(predicted)
        return predicted

    def _go_together(
        self, now_ps: int, rows: np.ndarray, mine: np.ndarray, predicted: list[tuple[int, ...]],
        frozen_port: np.ndarray, slack: float,
    ) -> list[tuple[int, ...]]:  # fmt: skip
        """Begin a group, unless a port of its ways is frozen; its messages, none if they are simulated all the same.

        mine: its rows. slack: part of the time that the last of its messages takes by which ends may be taken for
        simultaneous; 0: none are.
        """
        flows = np.array([each[PREDICTED_FLOW] for each in predicted], np.int64)
        if len(flows) == 0 or (frozen_port[self.all_ports(flows)] == 1).any():
            return []
        free_ps, slack_ps = np.array([each[PREDICTED_FREE_PS] for each in predicted], np.int64), 0
        if slack > 0:
            free_ps = np.maximum(free_ps, now_ps + self._rtt_ps // 2)
            slack_ps = max(self._rtt_ps // 2, int(slack * (free_ps.max() - now_ps)))
        number = self.groups.begin(flows, free_ps, slack_ps)
        n_port = self._start[flows + 1] - self._start[flows]
        self._holder[ports_of(flows, self._start, self._port_of)] = np.repeat(flows, n_port)  # the last one that has it
        self.audit.stretches.note(self.groups.end_ps(number) - now_ps)
        if not self.audit.stretches.is_drawn(flows[:1])[0]:
            return predicted
        self.audit.follow_group(number, rows[mine], np.array(predicted), now_ps)
        return []

    def go_on(self, flows: np.ndarray, base: np.ndarray, at_ps: int) -> None:
        """Flows go on packet by packet: what had left by at_ps."""
        if len(flows):
            self._next_look_ps = min(self._next_look_ps, at_ps)  # even if nothing is posted meanwhile
        if self.shares is not None:
            self.shares.go_on(flows, base, at_ps)
            self.wants_look |= self.shares.n_known > 0

    def _at_pace(self, now_ps: int, row: np.ndarray, span_bytes: int, span_ps: int) -> tuple[int, ...]:
        """A row of PREDICTED_* for a message that goes on by so many bytes in so much time."""
        flow, end, done, done_ps = (int(row[k]) for k in (h.FLOW, h.MESSAGE_END, h.DONE, h.DONE_PS))
        ended_ps = done_ps + (end - done) * span_ps // span_bytes
        delivered_ps = ended_ps - int(self.ack_ps[flow])
        free_ps = delivered_ps - int(self.behind_ps[flow])
        return flow, int(row[h.ID]), end - done, end, now_ps, delivered_ps, ended_ps, int(row[h.MARKED]), free_ps

    def forget(self, flows: np.ndarray) -> None:
        """Flows go on packet by packet that were not alone."""
        self._alone_since_ps[flows] = NEVER

    def leave_group(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """A group is over: its flows, and when each would have sent all that it has."""
        flows, free_ps = self.groups.end(number)
        self._holder[ports_of(flows, self._start, self._port_of)] = -1
        self.forget(flows)
        return flows, free_ps

    def watched_of(self, rows: np.ndarray, predicted: np.ndarray) -> tuple[Watched, Ended]:
        """Of messages that take lanes at their own pace, those that were watched, and how they will end; they are not
        watched any more."""
        at = np.searchsorted(rows[:, h.FLOW], predicted[:, PREDICTED_FLOW])
        is_mine = self._is_paced[at] & (self._watched[predicted[:, PREDICTED_FLOW]] == predicted[:, PREDICTED_ID])
        mine, predicted = rows[at[is_mine]], predicted[is_mine]
        self._watched[predicted[:, PREDICTED_FLOW]] = -1
        rest = self._watched_rows
        self._watched_rows = rest[self._watched[rest[:, h.FLOW]] == rest[:, h.ID]]
        over = self._as_watched(mine, self._loads.meets(mine[:, h.FLOW].copy()))
        columns = (PREDICTED_END, PREDICTED_ENDED_PS, PREDICTED_MARKED, PREDICTED_DELIVERED_PS)
        return over, Ended(*(predicted[:, column].copy() for column in columns))

    def _over(self, rows: np.ndarray, flows: np.ndarray, is_alone: np.ndarray, is_frozen: np.ndarray) -> Watched:
        """Of the messages that are watched those that are over; those that are alone no more are given up."""
        mine = self._watched_rows
        is_skipped = is_frozen[mine[:, h.FLOW]] != 0
        if len(flows):
            at = np.minimum(np.searchsorted(flows, mine[:, h.FLOW]), len(flows) - 1)
            goes_on = (flows[at] == mine[:, h.FLOW]) & (rows[at, h.ID] == mine[:, h.ID])
            is_good = is_skipped | is_alone[at] & (self._was_loaded[at] == self._watched_load[mine[:, h.FLOW]])
        else:
            goes_on, is_good = np.zeros(len(mine), np.bool_), is_skipped
        goes_on |= is_skipped
        over = mine[~goes_on]
        self._watched[over[:, h.FLOW]] = -1
        self._watched_rows = mine[goes_on & is_good]  # one that is given up is not watched again
        return self._as_watched(over, self._watched_load[over[:, h.FLOW]])

    def _as_watched(self, rows: np.ndarray, is_loaded: np.ndarray) -> Watched:
        flows, ends, posted_ps = (rows[:, column].copy() for column in (h.FLOW, h.MESSAGE_END, h.POSTED_PS))
        return Watched(flows, ends, self.times.keys(rows), posted_ps, is_loaded)

    def learn(self, over: Watched, ended: Ended) -> bool:
        """Note how long messages took that were alone; whether more is known now."""
        new = self.times.learn(over, ended)
        for flow, size, times in new:
            self.audit.stretches.note(times.ended_ps)
            if self.flow_level is not None:
                longer = self._slowdown.times(flow, size, times.ended_ps, False, True)
                self.flow_level.note_alone(flow, size, times.delivered_ps - int(self.behind_ps[flow]), longer)
        if new:
            self._note_more()
        return bool(new)

    def learn_episode(self, rows: np.ndarray, delivered_ps: np.ndarray) -> None:
        """Learn of flows that met from their first posting to their last end, whose samples these are. The first
        message of a queue pair begins at line rate, and says nothing of those behind it."""
        if self.shares is not None and (rows[:, h.MESSAGE_BEGIN] > 0).all():
            self.shares.learn_episode(rows, delivered_ps)

    def open(self, flows: np.ndarray) -> np.ndarray:
        """Of flows that are alone and known, those that get a lane now."""
        new = flows[~self.is_open[flows] & (self._not_before_ps[flows] <= self._last_look_ps)]
        if self.flow_level is not None:
            new = new[~self.flow_level.knows_alone(new)]
        for flow in new.tolist():
            self._holder[self._port_of[self._start[flow] : self._start[flow + 1]]] = flow
        self.is_open[new] = True
        self.reloaded = np.union1d(self.reloaded, new)
        self.counters.opened += len(new)
        return new

    def longer_ps(self, flow: int, size: int, ended_ps: int) -> int:
        """How much longer a known message of a flow takes where it meets acknowledgements."""
        return int(ended_ps * (self._slowdown.times(flow, size, ended_ps, False, True) - 1))

    @property
    def n_port_of(self) -> np.ndarray:
        """int64[n_flow]: ports of each flow's way and its acknowledgements'."""
        return np.diff(self._all_start)

    def all_ports(self, flows: np.ndarray) -> np.ndarray:
        """Ports of flows' ways and their acknowledgements'."""
        return ports_of(flows, self._all_start, self._all_port_of)

    def disturbed(self, flows: list[int]) -> np.ndarray:
        """Flows with lanes through ports of these flows' ways, ascending."""
        found = set(self._holder[ports_of(np.array(flows, np.int64), self._start, self._port_of)].tolist())
        return np.array(sorted(flow for flow in found - set(flows) if flow >= 0), np.int64)

    def disturbed_groups(self, flows: list[int]) -> list[int]:
        """Numbers of groups with ports of these flows' ways, ascending."""
        if self.groups.n_flow == 0 or not flows:
            return []
        found = set(self._holder[ports_of(np.array(flows, np.int64), self._start, self._port_of)].tolist())
        return sorted({self.groups.of_flow[flow] for flow in found if flow in self.groups.of_flow})

    def close(self, now_ps: int, flows: np.ndarray, n_message: np.ndarray) -> None:
        """Lanes are closed. n_message: that each had."""
        for flow, n in zip(flows.tolist(), n_message.tolist(), strict=True):
            self._holder[self._port_of[self._start[flow] : self._start[flow + 1]]] = -1
            self._n_vain[flow] = 0 if n >= WORTH_MESSAGES else min(self._n_vain[flow] + 1, MAX_BACKOFF)
            self._not_before_ps[flow] = now_ps + (MIN_ROUND_TRIPS * self._rtt_ps << int(self._n_vain[flow]))
        self.is_open[flows] = False
        self._alone_since_ps[flows] = NEVER
        self.counters.closed += len(flows)

    @property
    def n_open(self) -> int:
        """How many are open, flows in groups included."""
        is_used = self.flow_level is not None and self.flow_level.is_used
        return self.counters.opened - self.counters.closed + self.groups.n_flow + is_used

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of them."""
        return dict(vars(self.counters))
