"""Lanes in the packet network: one rank's part of what `pdes.skipping.fluid.lanes` decides."""

from collections.abc import Callable

import numpy as np

from models.network.build.arrays import NetworkState
from models.network.host.visits import list_members
from models.network.link.wire_time import transmission_ps
from models.network.skip.flow_level_states import FlowLevelStates
from models.network.skip.freeze import Hidden
from models.network.skip.lane_ends import (
    BASE_BYTE,
    CLOSED_PAIR,
    N_CLOSED_COLUMN,
    N_MESSAGE,
    close_at_receivers,
    close_at_senders,
    place_predicted,
    take_out,
)
from models.network.skip.place_markers import N_SENT_COLUMN, SENT_BYTES, SENT_PACKETS, count_short
from models.network.state.records import (
    ACK_BYTES,
    HEADER_BYTES,
    LANE_BEHIND_PS,
    LANE_ENDED_PS,
    LANE_FORM,
    LANE_LONGER_PS,
    LANE_MARKED,
    LANE_SIZE,
    N_FREE_PACKET,
    N_FROZEN_PORT,
    N_LANE,
    N_LANE_COLUMN,
    N_LANE_TIME,
    PAYLOAD_BYTES,
)
from models.topology.graph import Topology
from pdes.engine.exchange import World
from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.fluid.flow_table import FAR_PS
from pdes.skipping.fluid.lane_audit import EXPECTED_FLOW
from pdes.skipping.fluid.lanes import Ended, Lanes
from pdes.skipping.prediction import N_PREDICTED_COLUMN, PREDICTED_END, PREDICTED_ENDED_PS, PREDICTED_FLOW

Grow = Callable[[], NetworkState]


def data_ways(state: NetworkState) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_qp + 1], int32[]): the ports of each queue pair's way, without those of its acknowledgements."""
    return _ways(state, "data_path")


def _ways(state: NetworkState, name: str) -> tuple[np.ndarray, np.ndarray]:
    path, first = state.fabric.path_port, state.nic.facts[name].astype(np.int64)
    closed = np.flatnonzero(path < 0)
    end = closed[np.searchsorted(closed, first)]
    start = np.concatenate([[0], np.cumsum(end - first)]).astype(np.int64)
    rows = np.arange(int(start[-1])) + np.repeat(first - start[:-1], end - first)
    return start, path[rows].astype(np.int32)


def forms_of(topology: Topology, state: NetworkState) -> np.ndarray:
    """int64[n_qp]: equal for queue pairs whose ways, there and back, have the same rates and delays in order."""
    path, table = state.fabric.path_port, state.nic.facts
    n_row = len(path)
    kinds = np.unique(np.stack([topology.port_rate_bps, topology.port_delay_ps], axis=1), axis=0, return_inverse=True)
    kind = np.where(path >= 0, kinds[1].ravel()[path] + 1, 0)
    closed = np.flatnonzero(path < 0)
    first = [table[name].astype(np.int64) for name in ("data_path", "ack_path")]
    length = [closed[np.searchsorted(closed, row)] - row for row in first]
    most = max((int(n.max(initial=0)) for n in length), default=0)
    words = [table["queue"].astype(np.int64), table["max_window_bytes"].astype(np.int64)]
    for row, n in zip(first, length, strict=True):
        for k in range(most):
            words.append(np.where(k < n, kind[np.minimum(row + k, n_row - 1)], 0))
    return np.unique(np.stack(words, axis=1), axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def latencies_ps(topology: Topology, state: NetworkState) -> tuple[np.ndarray, np.ndarray]:
    """int64[n_qp] twice, on idle ways: from a full packet's last byte leaving the NIC to its arrival, and from there to
    the arrival of its acknowledgement."""
    constants, nic_port = state.fabric.constants, state.nic.facts["port"]
    full_bytes, ack_bytes = int(constants[PAYLOAD_BYTES] + constants[HEADER_BYTES]), int(constants[ACK_BYTES])
    data_ps, wire_ps = _on_way_ps(topology, _ways(state, "data_path"), full_bytes)
    return data_ps - wire_ps[nic_port], _on_way_ps(topology, _ways(state, "ack_path"), ack_bytes)[0]


def slack_ps(topology: Topology, state: NetworkState, behind_ps: np.ndarray) -> np.ndarray:
    """int64[n_qp]: how much later than a full packet's last byte the smallest packet must begin to leave the NIC, so as
    not to arrive sooner. behind_ps: of the full one, from `latencies_ps`."""
    least_bytes = int(state.fabric.constants[HEADER_BYTES]) + 1
    return np.maximum(behind_ps + 1 - _on_way_ps(topology, _ways(state, "data_path"), least_bytes)[0], 0)


def _on_way_ps(topology: Topology, ways: tuple[np.ndarray, np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n_qp]: how long a packet takes over idle ways, int64[n_port]: to be put on a wire)"""
    start, port_of = ways
    rates, kind = np.unique(topology.port_rate_bps, return_inverse=True)
    wire_ps = np.array([int(transmission_ps(size, int(rate), 0)) for rate in rates], np.int64)[kind]
    total = np.concatenate([[0], np.cumsum((wire_ps + topology.port_delay_ps)[port_of])])
    return total[start[1:]] - total[start[:-1]], wire_ps


class LaneStates:
    """One rank's part."""

    def __init__(
        self, topology: Topology, world: World, hidden: Hidden, state: NetworkState, lanes: Lanes, n_column: int
    ) -> None:  # fmt: skip
        """n_column: of samples."""
        self._world, self._hidden, self.lanes = world, hidden, lanes
        table, here = state.nic.facts, hidden.here.astype(np.bool_)
        self._sends_here, self._receives_here = here[table["node"]], here[table["receiver"]]
        self._twice = np.zeros((topology.n_port, N_SENT_COLUMN), np.int64)  # by ports; of this rank's packets
        self._frozen, self._on_lanes = (np.zeros(len(table), np.int64) for _ in range(2))  # queue pairs that are
        self._n_column = n_column
        self.flow_level = None if lanes.flow_level is None else FlowLevelStates(self, world, hidden, lanes.flow_level)

    def compile(self, state: NetworkState) -> None:
        """Compile what closes lanes, or load it from the cache."""
        none, rows = np.zeros(0, np.int64), np.zeros((0, N_CLOSED_COLUMN), np.int64)
        self.lanes.compile(self._n_column)
        list_members(state.nic.frozen, len(self._frozen), self._frozen)
        close_at_senders(state.fabric, state.buffers, state.nic, self._hidden, none, 0, 0, rows)
        close_at_receivers(state.fabric, state.buffers, state.nic, self._hidden, rows)
        count_short(state.fabric, state.nic, none, none, np.zeros(len(self._twice), np.int64))
        parts = (state.fabric, state.buffers, state.nic, self._hidden)
        take_out(*parts, none, none, none, none, none, self._twice)
        place_predicted(*parts, np.zeros((0, N_PREDICTED_COLUMN), np.int64))
        if self.flow_level is not None:
            self.flow_level.compile(state)

    def look(
        self, state: NetworkState, rows: np.ndarray, now_ps: int, grow: Grow
    ) -> tuple[NetworkState, np.ndarray, np.ndarray]:
        """Learn of messages that are over, open lanes, and take to them what is under way; (the network's state,
        samples in which that is not plain any more, which rows are alone)."""
        nic, n = state.nic, 0
        self._follow_audited(state, rows)
        if state.fabric.counters[N_FROZEN_PORT] > 0:
            n = list_members(nic.frozen, len(nic.is_frozen), self._frozen)
        over, may = self.lanes.look(now_ps, rows, self._frozen[:n], nic.is_frozen, self._withdrawn(state))
        if len(over.flows):
            self.lanes.learn(over, self._ended(state, over.flows))
        if len(may):
            new = self.lanes.open(rows[may, h.FLOW].copy())
            state.nic.lanes["is_open"][new] = 1
            state.nic.lanes["settled_ps"][new] = self.lanes.settled_ps(new)
            state.fabric.counters[N_LANE] = self.lanes.n_open
        reloaded, is_loaded = self.lanes.loads()
        state.nic.lanes["is_loaded"][reloaded] = is_loaded
        predicted = self.lanes.withdraw(now_ps, rows, may, state.nic.frozen_port)
        if len(predicted):
            watched, ended = self.lanes.watched_of(rows, predicted)
            if len(watched.flows):
                self.lanes.learn(watched, ended)
        if self.lanes.has_news:
            self._write_times(state)
        predicted, kept = self.lanes.keep(now_ps, rows, predicted)
        state.nic.lanes["n_message"][kept] += self._sends_here[kept]
        shared = self.lanes.withdraw_together(now_ps, rows, self._frozen[:n], state.nic.frozen_port)
        if self.flow_level is not None:
            self.flow_level.note_news(state)
        state.fabric.counters[N_LANE] = self.lanes.n_open
        if len(shared):
            predicted = np.concatenate([predicted, shared])
            predicted = predicted[np.argsort(predicted[:, PREDICTED_FLOW], kind="stable")]
        if len(predicted):
            state = self._withdraw(state, predicted, rows, now_ps, grow)
        return state, self._kept_apart(state, rows, predicted), self.lanes.is_alone

    def _kept_apart(self, state: NetworkState, rows: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Samples in which what flies is not plain any more, nor what is simulated to be compared."""
        audit = self.lanes.audit
        self._count_audited(state)
        is_apart = audit.in_groups(rows[:, h.FLOW]) if audit.groups else np.zeros(len(rows), np.bool_)
        is_apart[np.searchsorted(rows[:, h.FLOW], predicted[:, PREDICTED_FLOW])] = True
        is_audited = audit.n_followed[rows[:, h.FLOW]] > 0
        if is_apart.any() or is_audited.any():
            rows = rows.copy()
            rows[is_apart, h.IS_WHOLE] = 0  # more may wait behind what flies: so nothing around it is frozen
            rows[is_apart | is_audited, h.IS_PLAIN] = 0
        return rows

    def _follow_audited(self, state: NetworkState, rows: np.ndarray) -> None:
        """Compare messages that are over with what was said of them, and follow those that were posted since."""
        if self.lanes.audit.stretches.share > 0:
            self._end_audited(state, self.lanes.audit.over(rows))
            self._follow_drawn(state, rows[:, h.FLOW].copy())

    @property
    def stretch_end_ps(self) -> int:
        """When another stretch of time begins, in which other messages are simulated to be compared."""
        return self.lanes.audit.stretches.end_ps

    def begin_stretch(self, state: NetworkState, now_ps: int, sample: Callable[[], np.ndarray], grow: Grow) -> None:
        """Another stretch of time begins: what is not to be simulated any more goes on as was said of it.

        sample: of all active queue pairs, ascending.
        """
        stretches, every = self.lanes.audit.stretches, np.arange(len(state.nic.queue_pairs))
        self._follow_drawn(state, every)
        is_over = stretches.go_on(now_ps, self._quiet_ps(state, stretches.component))
        pairs = np.flatnonzero(is_over[stretches.component])
        if len(pairs):
            rows, over = sample(), self.lanes.audit.of(pairs)
            predicted = self.lanes.resume(now_ps, rows, pairs, state.nic.frozen_port)
            self._end_audited(state, over)
            self._count_audited(state)
            if len(predicted):
                predicted = predicted[np.argsort(predicted[:, PREDICTED_FLOW], kind="stable")]
                state = self._withdraw(state, predicted, rows, now_ps, grow)
            state.fabric.counters[N_LANE] = self.lanes.n_open
        state.nic.lanes["is_audited"] = stretches.is_drawn(every)

    def _quiet_ps(self, state: NetworkState, component: np.ndarray) -> np.ndarray:
        """int64[n_component]: when all that is on lanes, and in groups, is acknowledged, if nobody comes; the same on
        every rank. component: int64[n_qp]."""
        own = self._on_lanes[: list_members(state.nic.withdrawn, len(self._on_lanes), self._on_lanes)]
        ended_ps = state.nic.lanes["free_ps"][own] + self.lanes.behind_ps[own] + self.lanes.ack_ps[own]
        quiet_ps = np.zeros(int(component.max(initial=-1)) + 1, np.int64)
        np.maximum.at(quiet_ps, component[own], ended_ps)
        return np.max(self._world.gather_parts(quiet_ps), axis=0)

    def _follow_drawn(self, state: NetworkState, pairs: np.ndarray) -> None:
        """Follow what was drawn as it was posted on one of these queue pairs."""
        lanes = state.nic.lanes
        own = pairs[(lanes["is_drawn"][pairs] != 0) & self._sends_here[pairs]]
        names = ("drawn_end", "drawn_posted_ps", "drawn_begin_ps", "drawn_ended_ps")
        drawn = self._world.gather_rows(np.column_stack([own, *(lanes[name][own] for name in names)]))
        lanes["is_drawn"][own] = 0
        if len(drawn):
            drawn = drawn[np.argsort(drawn[:, EXPECTED_FLOW], kind="stable")]
            self.lanes.audit.follow(drawn)
            self._count_audited(state)

    def _end_audited(self, state: NetworkState, over: np.ndarray) -> None:
        """Follow messages no more, and compare those that have ended."""
        if len(over):
            self.lanes.audit.end(over, *self._ended(state, over[:, EXPECTED_FLOW])[:2])
            self._count_audited(state)

    def _end_audited_group(self, state: NetworkState, number: int, at_ps: int, is_void: bool) -> None:
        """A group that was simulated is over: compare what its flows have got done."""
        nic, found = state.nic, None
        if not is_void:
            pairs = self.lanes.audit.groups[number].flows
            facts = np.column_stack([nic.queue_pairs["acked_byte"][pairs], nic.acked_ps[pairs], nic.ended[pairs, :2]])
            found = self._world.gather_sum(facts * self._sends_here[pairs][:, None])
        self.lanes.audit.end_group(number, at_ps, found)
        self._count_audited(state)

    def _count_audited(self, state: NetworkState) -> None:
        """Tell samples which queue pairs have messages that are simulated to be compared."""
        pairs = self.lanes.audit.changed()
        state.nic.lanes["n_audited"][pairs] = self.lanes.audit.n_followed[pairs]

    def settle_audit(self, state: NetworkState) -> None:
        """The run is over: compare what is still followed, if it has ended."""
        if self.lanes.audit.stretches.share > 0:
            self._follow_drawn(state, np.arange(len(state.nic.queue_pairs)))
            self._end_audited(state, self.lanes.audit.running)
            for number in sorted(self.lanes.audit.groups):
                self._end_audited_group(state, number, NEVER, False)  # its flows have ended sooner than was said

    def _withdrawn(self, state: NetworkState) -> np.ndarray:
        """int64[]: queue pairs with messages on lanes, on any rank."""
        if state.fabric.counters[N_LANE] == 0:
            return np.zeros(0, np.int64)
        own = self._on_lanes[: list_members(state.nic.withdrawn, len(self._on_lanes), self._on_lanes)]
        return self._world.gather_rows(own)

    def _withdraw(
        self, state: NetworkState, predicted: np.ndarray, rows: np.ndarray, now_ps: int, grow: Grow
    ) -> NetworkState:
        """Take what is in flight of messages out of the network, and have them end as `predicted` says."""
        pairs = predicted[:, PREDICTED_FLOW].copy()
        ports = np.unique(self.lanes.all_ports(pairs))
        base = rows[np.searchsorted(rows[:, h.FLOW], pairs), h.DONE].copy()
        take_out(
            state.fabric, state.buffers, state.nic, self._hidden, pairs, ports, base,
            predicted[:, PREDICTED_END].copy(), predicted[:, PREDICTED_ENDED_PS] - now_ps, self._twice,
        )  # fmt: skip
        if self.flow_level is not None:
            taken = pairs[predicted[:, PREDICTED_ENDED_PS] >= now_ps + FAR_PS]
            if len(taken):
                predicted = np.concatenate([predicted, self.flow_level.follow(state, taken, now_ps)])
        while state.fabric.counters[N_FREE_PACKET] < 2 * len(predicted):
            state = grow()
        place_predicted(state.fabric, state.buffers, state.nic, self._hidden, predicted)
        return state

    def _ended(self, state: NetworkState, pairs: np.ndarray) -> Ended:
        """How queue pairs' last messages have ended, the same on every rank."""
        nic = state.nic
        own = np.column_stack([
            nic.ended[pairs] * self._sends_here[pairs][:, None],
            nic.delivered_ps[nic.receiver_row[pairs]] * self._receives_here[pairs],
        ])  # fmt: skip
        return Ended(*self._world.gather_sum(own).T)

    def _write_times(self, state: NetworkState) -> None:
        """What is known, for those who post messages."""
        known, nic = self.lanes.times.table(), state.nic
        self.lanes.has_news = False
        known = known[: len(nic.lane_times)]
        form = nic.lanes["form"].astype(np.int64)
        pair_of_form = np.zeros(int(form.max(initial=0)) + 1, np.int64)
        pair_of_form[form] = np.arange(len(form))
        rows = np.zeros((len(known), N_LANE_COLUMN), np.int64)
        rows[:, : LANE_MARKED + 1] = known
        for row, pair in zip(rows, pair_of_form[rows[:, LANE_FORM]].tolist(), strict=True):
            row[LANE_LONGER_PS] = self.lanes.longer_ps(pair, int(row[LANE_SIZE]), int(row[LANE_ENDED_PS]))
        rows[:, LANE_BEHIND_PS] = self.lanes.behind_ps[pair_of_form[rows[:, LANE_FORM]]]
        nic.lane_times[: len(rows)] = rows
        state.fabric.counters[N_LANE_TIME] = len(rows)

    def close(self, state: NetworkState, interrupts: dict[int, int], horizon_ps: int) -> dict[int, int]:
        """Close the lanes that somebody has come to, as of the first of these instants, and groups that are over; queue
        pairs that have to send packets again, with their instants."""
        again = self._end_groups(state, interrupts, horizon_ps)
        if self.flow_level is not None and interrupts:
            again |= self.flow_level.interrupt(state, interrupts, horizon_ps)
        pairs = self.lanes.disturbed(list(interrupts)) if interrupts else np.zeros(0, np.int64)
        if len(pairs):
            at_ps = min(interrupts.values())
            if self.lanes.audit.stretches.share > 0:
                self._follow_drawn(state, pairs)
                self._end_audited(state, self.lanes.audit.of(pairs))
            state.nic.lanes["is_open"][pairs] = 0
            rows = self.close_at(state, pairs, at_ps, horizon_ps)
            self.lanes.close(horizon_ps, rows[:, CLOSED_PAIR], rows[:, N_MESSAGE])
            again |= dict.fromkeys(rows[rows[:, BASE_BYTE] >= 0, CLOSED_PAIR].tolist(), at_ps)
        state.fabric.counters[N_LANE] = self.lanes.n_open
        return again

    def _end_groups(self, state: NetworkState, interrupts: dict[int, int], horizon_ps: int) -> dict[int, int]:
        """End groups whose time has come, or that somebody has come to: those that have not sent all go on."""
        first_ps, ends = min(interrupts.values(), default=horizon_ps), dict.fromkeys(self.lanes.groups.due(horizon_ps))
        over: dict[int, list[int]] = {}  # flows by instant
        for number in sorted({*ends, *self.lanes.disturbed_groups(list(interrupts))}):
            flows, free_ps = self.lanes.leave_group(number)
            end_ps = int(free_ps.min())
            at_ps = min(end_ps, horizon_ps if number in ends else first_ps)
            if number in self.lanes.audit.groups:  # a flow of its own has ended sooner than was said
                is_void = number not in ends and not set(interrupts).intersection(flows.tolist())
                self._end_audited_group(state, number, at_ps, is_void)
                continue
            over.setdefault(at_ps, []).extend(flows[free_ps > (end_ps if number in ends else at_ps)].tolist())
        again: dict[int, int] = {}
        for at_ps, flows in sorted(over.items()):
            rows = self.close_at(state, np.array(sorted(flows), np.int64), at_ps, horizon_ps)
            again |= dict.fromkeys(rows[rows[:, BASE_BYTE] >= 0, CLOSED_PAIR].tolist(), at_ps)
        return again

    def close_at(self, state: NetworkState, pairs: np.ndarray, at_ps: int, horizon_ps: int) -> np.ndarray:
        """Have queue pairs go on packet by packet as of an instant; what all senders say, by queue pair."""
        fabric, nic, own = state.fabric, state.nic, np.zeros((len(pairs), N_CLOSED_COLUMN), np.int64)
        n_row = close_at_senders(fabric, state.buffers, nic, self._hidden, pairs, at_ps, horizon_ps, own)
        rows = self._world.gather_rows(own[:n_row])
        rows = rows[np.argsort(rows[:, CLOSED_PAIR], kind="stable")]
        close_at_receivers(fabric, state.buffers, nic, self._hidden, rows)
        goes_on = rows[rows[:, BASE_BYTE] >= 0]
        self.lanes.go_on(goes_on[:, CLOSED_PAIR], goes_on[:, BASE_BYTE], at_ps)
        return rows

    @property
    def first_end_ps(self) -> int:
        """When the first group is over, NEVER: there is none."""
        return self.lanes.groups.first_end_ps

    def totals(self, state: NetworkState) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(queue pairs that had lanes, packets that were not simulated, bytes that these lack to be full ones, time);
        the same on every rank."""
        lanes, sends = state.nic.lanes, self._sends_here
        own = np.stack([lanes[name] for name in ("packets", "short_bytes", "spared_ps")]) * sends
        packets, short_bytes, spared_ps = np.sum(self._world.allgather(own), axis=0)
        pairs = np.flatnonzero(packets)
        return pairs, packets[pairs], short_bytes[pairs], spared_ps[pairs]

    def hops_so_far(self, state: NetworkState) -> int:
        """Packet-hops that lanes have spared this rank so far: for progress; `totals` has them exactly."""
        carried = int((state.nic.lanes["packets"] * self._sends_here) @ self.lanes.n_port_of)
        return carried - int(self._twice[:, SENT_PACKETS].sum())

    def go_on(self, lanes: Lanes, twice: np.ndarray | int) -> None:
        """Take over what a checkpoint has: `lanes`, and what this rank's packets count twice."""
        lanes.share(self.lanes)
        if self.flow_level is not None and lanes.flow_level is not None:
            self.flow_level.level = lanes.flow_level
        self.lanes, self._twice[:] = lanes, twice

    def twice(self) -> tuple[np.ndarray, int]:
        """Of packets that were taken out of the network: (int64[n_port], bytes that ports have counted; packet-hops of
        this rank's packets)."""
        of_all = np.sum(self._world.allgather(self._twice), axis=0)
        return of_all[:, SENT_BYTES], int(self._twice[:, SENT_PACKETS].sum())
