"""Waves: flows that share ports and are posted at about the same time, from the beginning to the last one's end.

An all-to-all is one: dozens of flows that begin together, get in each other's way, and end one by one. Hardly anything
of that is steady, and no two of them are in the same packet state. So under a tolerance a wave whose flows have the
ways and sizes of an earlier one's, and were posted in about the same order of time, is taken to go as that one did:
each flow ends as long after the first posting as its counterpart did, packet by packet nothing is simulated. This is
Wormhole's memo (section 4) with whole episodes for values: deviations are that an episode goes on over the ends of its
flows, and that rates are no part of the key, but the times of posting are.

How alike two waves are is the largest difference between the times at which counterparts were posted, against the time
that the wave lasts, and how far apart they have come by the time of comparison, as a share of their sizes; the sum must
stay within the tolerance. Congestion controls begin in different states; that matters for some round trips, so a wave
is only taken for another if it lasts for at least MIN_ROUND_TRIPS.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel, step_kernel
from pdes.engine.rng import PURPOSE_AUDIT, uniform_plain
from pdes.engine.time_index import NEVER
from pdes.wormhole import history as h

MIN_ROUND_TRIPS = 8
MAX_ENTRIES = 256  # of one key
BUSY = 0.8  # of the time that what is on its way takes at another port: then flows do not wait for each other
LOOKS = 16  # at the least, at a wave
AUDIT_STREAM = 1
BIT_PS = 8e12  # bits per byte x ps per second


@loop_kernel
def interpolate(at_ps, posted_ps, ended_ps, curve_ps, curve, size_bytes, done):
    """Write what flows have got done at an instant: straight from 0 when posted, through the curve, to the end."""
    for i in range(done.size):
        from_ps, from_byte, to_ps, to_byte = posted_ps[i], np.int64(0), ended_ps[i], size_bytes[i]
        for k in range(curve_ps.size):
            if curve_ps[k] >= ended_ps[i]:
                break
            if curve_ps[k] > at_ps:
                to_ps, to_byte = curve_ps[k], curve[k, i]
                break
            from_ps, from_byte = curve_ps[k], curve[k, i]
        share = min(max(at_ps - from_ps, 0), to_ps - from_ps) / max(to_ps - from_ps, 1)
        done[i] = from_byte + np.int64((to_byte - from_byte) * share)


@dataclass(frozen=True)
class WaveEntry:
    """What a wave came to. Arrays have one element per flow, in the order of ids; times are since the first posting."""

    posted_ps: np.ndarray
    delivered_ps: np.ndarray
    ended_ps: np.ndarray
    marked: np.ndarray
    curve_ps: np.ndarray  # int64[k]
    curve: np.ndarray  # int64[k, n_flow]  bytes of each message that were acknowledged by then
    words: np.ndarray  # the state of both ends of every queue pair when all was over

    @property
    def duration_ps(self) -> int:
        """To the last end."""
        return int(self.ended_ps.max())

    def done_bytes(self, at_ps: int, size_bytes: np.ndarray) -> np.ndarray:
        """Bytes of each message that are acknowledged at an instant, straight between those that are known."""
        done = np.empty(len(size_bytes), np.int64)
        interpolate(at_ps, self.posted_ps, self.ended_ps, self.curve_ps, self.curve, size_bytes, done)
        return done


class Entries:
    """Those of one key, with what they are compared by side by side."""

    def __init__(self) -> None:
        self.all: list[WaveEntry] = []
        self._posted_ps, self._facts = np.zeros((0, 0), np.int64), np.zeros((0, 2), np.int64)

    def add(self, entry: WaveEntry) -> None:
        """Have one more, while there is room."""
        if len(self.all) < MAX_ENTRIES:
            self.all.append(entry)
            self._posted_ps = np.array([each.posted_ps for each in self.all])
            self._facts = np.array([(each.duration_ps, each.delivered_ps.min()) for each in self.all])

    def near(self, posted_ps: np.ndarray, within: float, least_ps: int, age_ps: int) -> list[tuple[float, WaveEntry]]:
        """Entries of which no posting is further away than that part of their time, the nearest first.

        least_ps: that they lasted, at least. age_ps: none of their messages had come across by then.
        """
        if not self.all:
            return []
        duration_ps, delivered_ps = self._facts.T
        off = np.abs(self._posted_ps - posted_ps).max(axis=1) / duration_ps
        may = np.flatnonzero((off <= within) & (duration_ps >= least_ps) & (delivered_ps > age_ps))
        return [(float(off[i]), self.all[i]) for i in may[np.argsort(off[may], kind="stable")].tolist()]


NO_ENTRIES = Entries()


@dataclass(frozen=True)
class Candidate:
    """Flows that share ports, all of them under way. rows: their samples."""

    pairs: np.ndarray
    ports: np.ndarray
    held: np.ndarray  # of the ports, those that nobody else may use while it is replayed
    open: np.ndarray  # and the others
    rows: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each message."""
        return self.rows[:, h.MESSAGE_END] - self.rows[:, h.MESSAGE_BEGIN]

    @property
    def first_ps(self) -> int:
        """When the first of them was posted."""
        return int(self.rows[:, h.POSTED_PS].min())


@dataclass
class Wave:
    """One that is simulated, to be known afterwards."""

    key: bytes
    of: Candidate
    curve_ps: list[int] = field(default_factory=list)
    curve: list[np.ndarray] = field(default_factory=list)
    expected: WaveEntry | None = None  # audited: what it would have been taken to come to


class Past(NamedTuple):
    """How flows ended. Arrays int64[n]."""

    end_byte: np.ndarray  # of the message that ended last
    delivered_ps: np.ndarray
    ended_ps: np.ndarray
    marked: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class WaveReplay:
    """One that is not simulated: its flows end as an entry says."""

    of: Candidate
    entry: WaveEntry
    begin_ps: int

    @cached_property
    def end_ps(self) -> int:
        """When all of it is over."""
        return int(self.ended_ps.max()) + 1

    @property
    def pairs(self) -> np.ndarray:
        """Its flows, ascending."""
        return self.of.pairs

    @property
    def ports(self) -> np.ndarray:
        """Theirs, ascending."""
        return self.of.ports

    @property
    def held(self) -> np.ndarray:
        """Of the ports, those that nobody else may use meanwhile."""
        return self.of.held

    @property
    def delivered_ps(self) -> np.ndarray:
        """When messages come across: each takes as long as its counterpart did."""
        return self.of.rows[:, h.POSTED_PS] + (self.entry.delivered_ps - self.entry.posted_ps)

    @property
    def ended_ps(self) -> np.ndarray:
        """When they are acknowledged."""
        return self.of.rows[:, h.POSTED_PS] + (self.entry.ended_ps - self.entry.posted_ps)

    def spared_ps(self, at_ps: int) -> np.ndarray:
        """How long each flow was not simulated, if it ends at_ps."""
        return np.minimum(self.ended_ps, at_ps) - self.begin_ps

    def quiet_ps(self, horizon_ps: int) -> int:
        """When all that came across before horizon_ps is acknowledged."""
        return int(np.where(self.delivered_ps < horizon_ps, self.ended_ps, 0).max(initial=0)) + 1

    def state_at(self, at_ps: int, horizon_ps: int, packet_bytes: int) -> tuple[np.ndarray, np.ndarray]:
        """(bytes of the stream that are acknowledged, which flows are over) if it ends at_ps.

        What comes across before horizon_ps has, or will have, come across: some hosts are that far.
        """
        rows, sizes = self.of.rows, self.of.sizes
        is_over = self.delivered_ps < horizon_ps
        done = self.entry.done_bytes(at_ps - self.of.first_ps, sizes) // packet_bytes
        least = (rows[:, h.DONE] - rows[:, h.MESSAGE_BEGIN]) // packet_bytes
        done = np.clip(done, least, (sizes - 1) // packet_bytes) * packet_bytes
        return rows[:, h.MESSAGE_BEGIN] + np.where(is_over, sizes, done), is_over


@dataclass
class WaveCounters:
    """For the results."""

    waves: int = 0  # that were simulated from beginning to end
    replayed: int = 0
    interrupted: int = 0
    broken: int = 0  # simulated, and somebody came, or a queue pair went on to another message
    audited: int = 0


class Waves:
    """Waves that run, waves that are replayed, and what earlier ones came to; alike on every rank."""

    def __init__(
        self, ways: tuple[np.ndarray, np.ndarray], rate_bps: np.ndarray, tolerance: float, rtt_ps: int,
        known_ps: np.ndarray, packet_bytes: int, ends: np.ndarray, audit: tuple[float, int] = (0.0, 0),
    ) -> None:  # fmt: skip
        """ways: ports of flow f are ways[1][ways[0][f] : ways[0][f + 1]]. rate_bps: of each port.

        known_ps: instants that no replay may pass. ends: int64[n_flow, 4], the first and the last port of each way.

        audit: which share of what would be replayed is simulated instead, and the seed by which it is drawn.
        """
        self._start, self._port_of = ways
        self._ends = ends
        self._tolerance, self._rtt_ps, self._known_ps = tolerance, rtt_ps, known_ps
        self._packet_bytes, self._audit = packet_bytes, audit
        n_flow, n_port = len(ways[0]) - 1, len(rate_bps)
        self._byte_ps = BIT_PS / rate_bps
        self._scratch = Scratch(
            np.full(n_port, -1, np.int64), np.zeros(n_port), np.full(n_port, np.inf), np.zeros(n_port, np.uint8),
            np.zeros(n_flow), np.zeros(n_flow, np.int64),
        )  # fmt: skip
        self.running: list[Wave] = []
        self.replayed: list[WaveReplay] = []
        self._holder = np.zeros(len(rate_bps), np.int64)  # id of the replay that holds a port, 0: none
        self.entries: dict[bytes, Entries] = {}
        self.counters = WaveCounters()
        self.errors: list[np.ndarray] = []  # relative, of completion times of audited waves
        self.waits = False  # for some that may not be complete yet
        self._next_look_ps, self._n_match = NEVER, 0

    @property
    def tick_ps(self) -> int:
        """How often it wants to see whether something was posted."""
        return self._rtt_ps

    @property
    def next_look_ps(self) -> int:
        """When it wants to look at what is simulated or may begin, even if nothing is posted."""
        return self._next_look_ps

    @property
    def first_end_ps(self) -> int:
        """The first planned end of what is replayed, NEVER if nothing is."""
        return min((replay.end_ps for replay in self.replayed), default=NEVER)

    def compile(self) -> None:
        """Compile what finds flows that share ports, or load it from the cache."""
        none = np.zeros(0, np.int64)
        interpolate(0, none, none, none, np.zeros((0, 0), np.int64), none, none.copy())
        find_components(none, none, self._start, self._port_of, self._ends, self._byte_ps, self._scratch)

    def look(self, now_ps: int, rows: np.ndarray, is_frozen: np.ndarray) -> tuple[list[Wave], list[Candidate]]:
        """(those that are over, those that begin). rows: of active flows that are not frozen, ascending."""
        flows, sizes = rows[:, h.FLOW].copy(), rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN]
        n = find_components(flows, sizes, self._start, self._port_of, self._ends, self._byte_ps, self._scratch)
        part = self._scratch.part[: len(rows)]
        is_taken, over, going = np.zeros(n, np.bool_), [], []
        n_row = np.bincount(part, minlength=n)
        for wave in self.running:
            at = np.minimum(np.searchsorted(rows[:, h.FLOW], wave.of.pairs), max(len(rows) - 1, 0))
            mine = rows[at] if len(rows) else rows[:0]
            is_active = (mine[:, h.FLOW] == wave.of.pairs) if len(rows) else np.zeros(len(at), np.bool_)
            is_same = is_active & (mine[:, h.ID] == wave.of.rows[:, h.ID]) if len(rows) else is_active
            parts = np.unique(part[at[is_same]]) if len(rows) else np.zeros(0, np.int64)
            is_alone = n_row[parts].sum() == is_same.sum() and not is_frozen[wave.of.pairs].any()
            if not is_alone or (is_active & ~is_same).any():
                self.counters.broken += 1
            elif is_same.any():
                done = wave.of.sizes
                done[is_same] = mine[is_same, h.DONE] - mine[is_same, h.MESSAGE_BEGIN]
                wave.curve_ps.append(now_ps - wave.of.first_ps)
                wave.curve.append(done)
                is_taken[parts] = True
                going.append(wave)
            else:
                over.append(wave)
        self.running = going
        found = self._beginning(now_ps, rows, part, is_taken)
        old_ps = [(now_ps - wave.of.first_ps) // LOOKS for wave in going]  # noticed late by a small part of its time
        self._next_look_ps = now_ps + (0 if self.waits or found else min(old_ps, default=NEVER - now_ps))
        return over, found

    def _beginning(self, now_ps: int, rows: np.ndarray, part: np.ndarray, is_taken: np.ndarray) -> list[Candidate]:
        """Flows that share ports, all of which are under way, with nothing done but what is known of them."""
        n = len(is_taken)
        self.waits = False
        if n == 0 or is_taken.all():
            return []
        is_ready = (rows[:, h.IS_WHOLE] != 0) & (rows[:, h.SENT] < rows[:, h.MESSAGE_END])
        newest_ps = np.zeros(n, np.int64)
        np.maximum.at(newest_ps, part, rows[:, h.POSTED_PS])
        may = ~is_taken & (np.bincount(part, ~is_ready, n) == 0)
        is_new = newest_ps > now_ps - self._rtt_ps // 2
        self.waits = bool((may & is_new).any())
        found = []
        for i in np.flatnonzero(may & ~is_new).tolist():
            mine = rows[part == i]
            pairs = mine[:, h.FLOW].copy()
            ports = np.unique(self._ports(pairs))
            is_held = self._scratch.is_busy[ports] != 0
            found.append(Candidate(pairs, ports, ports[is_held], ports[~is_held], mine))
        return found

    def _ports(self, flows: np.ndarray) -> np.ndarray:
        return np.concatenate([self._port_of[self._start[f] : self._start[f + 1]] for f in flows.tolist()]).astype(
            np.int64
        )

    def begin(self, now_ps: int, found: list[Candidate], forms: list[bytes]) -> list[WaveReplay]:
        """Of those that begin, what need not be simulated; the others are. forms: what their ways are."""
        new = []
        for candidate, form in zip(found, forms, strict=True):
            key = form + candidate.sizes.tobytes()
            entry = self._match(now_ps, candidate, self.entries.get(key, NO_ENTRIES))
            if entry is not None and not self._is_drawn():
                new.append(WaveReplay(candidate, entry, now_ps))
                self.counters.replayed += 1
                continue
            done = candidate.rows[:, h.DONE] - candidate.rows[:, h.MESSAGE_BEGIN]
            self.running.append(Wave(key, candidate, [now_ps - candidate.first_ps], [done], entry))
        self.replayed += new
        for replay in new:
            self._holder[replay.held] = id(replay)
        return new

    def _is_drawn(self) -> bool:
        """Whether a wave is simulated though it need not be."""
        share, seed = self._audit
        self._n_match += 1
        return share > 0 and uniform_plain(seed, self._n_match, PURPOSE_AUDIT, AUDIT_STREAM) < share

    def _match(self, now_ps: int, candidate: Candidate, entries: Entries) -> WaveEntry | None:
        """The entry that is most like it, None if none is like enough."""
        first_ps, sizes = candidate.first_ps, candidate.sizes
        posted_ps = candidate.rows[:, h.POSTED_PS] - first_ps
        done = candidate.rows[:, h.DONE] - candidate.rows[:, h.MESSAGE_BEGIN]
        i = int(np.searchsorted(self._known_ps, now_ps, side="right"))
        until_ps = int(self._known_ps[i]) if i < len(self._known_ps) else NEVER
        best, least = None, self._tolerance
        near = entries.near(posted_ps, least, MIN_ROUND_TRIPS * self._rtt_ps, now_ps - first_ps)
        for off, entry in near:
            if off > least:
                break
            off += float((np.abs(done - entry.done_bytes(now_ps - first_ps, sizes)) / sizes).mean())
            if off <= least and first_ps + 2 * entry.duration_ps <= until_ps:
                best, least = entry, off
        return best

    def finish(self, wave: Wave, past: Past) -> None:
        """A wave is over: note what it came to."""
        first_ps, rows = wave.of.first_ps, wave.of.rows
        if (past.end_byte != rows[:, h.MESSAGE_END]).any():
            self.counters.broken += 1
            return
        entry = WaveEntry(
            rows[:, h.POSTED_PS] - first_ps, past.delivered_ps - first_ps, past.ended_ps - first_ps, past.marked,
            np.array(wave.curve_ps, np.int64), np.array(wave.curve, np.int64), past.words,
        )  # fmt: skip
        self.entries.setdefault(wave.key, Entries()).add(entry)
        self.counters.waves += 1
        if wave.expected is not None:
            self.counters.audited += 1
            took_ps = entry.ended_ps - entry.posted_ps
            self.errors.append(np.abs(wave.expected.ended_ps - entry.posted_ps - took_ps) / took_ps)

    def disturbed(self, interrupts: dict[int, int]) -> list[tuple[WaveReplay, int]]:
        """Replays that somebody has come to, and when first. interrupts: flow -> instant."""
        if not (self.replayed and interrupts):
            return []
        first: dict[int, int] = {}  # by id of a replay
        for flow, at_ps in interrupts.items():
            holders = self._holder[self._port_of[self._start[flow] : self._start[flow + 1]]]
            for i in set(holders.tolist()) - {0}:
                first[i] = min(first.get(i, NEVER), at_ps)
        found = [(replay, first[id(replay)]) for replay in self.replayed if id(replay) in first]
        self._drop([replay for replay, _ in found])
        self.counters.interrupted += len(found)
        return found

    def due(self, now_ps: int) -> list[WaveReplay]:
        """Replays that are over."""
        found = [replay for replay in self.replayed if replay.end_ps <= now_ps]
        self._drop(found)
        return found

    def _drop(self, replays: list[WaveReplay]) -> None:
        for replay in replays:
            self._holder[replay.held] = 0
        if replays:
            self.replayed = [r for r in self.replayed if all(r is not gone for gone in replays)]

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it."""
        errors = np.sort(np.concatenate([np.zeros(0), *self.errors]))
        return {
            **vars(self.counters),
            "mean_fct_error": float(errors.mean()) if len(errors) else None,
            "p99_fct_error": float(errors[-(len(errors) // 100) - 1]) if len(errors) else None,
        }


class Scratch(NamedTuple):
    """What `find_components` needs and leaves as it was. Rows for every port; `part` and `most` for every flow."""

    first_row: np.ndarray  # int64, -1
    load_ps: np.ndarray  # float64, 0
    least_ps: np.ndarray  # float64, inf
    is_busy: np.ndarray  # uint8: what the last call has found of the ports of its flows
    most_ps: np.ndarray  # float64
    part: np.ndarray  # int64


@step_kernel
def _root(part, row):
    while part[row] != row:
        part[row] = part[part[row]]
        row = part[row]
    return row


@step_kernel
def _find_busy(flows, size_bytes, port_start, port_of, byte_ps, s: Scratch):
    """A port is busy unless each of its flows has another on its way that takes much longer for what it has to send."""
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            s.load_ps[port] += size_bytes[row] * byte_ps[port]
    for row in range(flows.size):
        s.most_ps[row] = 0.0
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            s.most_ps[row] = max(s.most_ps[row], s.load_ps[np.uint64(port_of[at])])
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            s.least_ps[port] = min(s.least_ps[port], s.most_ps[row])
    for row in range(flows.size):
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            if s.load_ps[port] > 0.0:
                s.is_busy[port] = s.load_ps[port] > BUSY * s.least_ps[port]
                s.load_ps[port], s.least_ps[port] = 0.0, np.inf


@loop_kernel
def find_components(flows, size_bytes, port_start, port_of, ends, byte_ps, s: Scratch):
    """Write into s.part[row] which flows share busy ports, directly or through others: 0, 1, .. by first row; how many.

    Ports at hosts count as busy. flows, size_bytes: int64[n_row]. ends: int64[n_flow, 4], hosts' ports of each flow.
    byte_ps: float64[n_port], time that a byte takes.
    """
    _find_busy(flows, size_bytes, port_start, port_of, byte_ps, s)
    part = s.part
    for row in range(flows.size):
        for k in range(ends.shape[1]):
            s.is_busy[np.uint64(ends[flows[row], k])] = 1
    for row in range(flows.size):
        part[row] = row
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            port = np.uint64(port_of[at])
            if s.is_busy[port] == 0:
                continue
            if s.first_row[port] < 0:
                s.first_row[port] = row
            else:
                one, other = _root(part, s.first_row[port]), _root(part, np.int64(row))
                part[max(one, other)] = min(one, other)
    n = np.int64(0)
    for row in range(flows.size):  # roots come before the rest of theirs, and have been numbered when these do
        for at in range(port_start[flows[row]], port_start[flows[row] + 1]):
            s.first_row[np.uint64(port_of[at])] = -1
        if part[row] == row:
            part[row] = -1 - n
            n += 1
        else:
            root = part[row]
            while root >= 0 and part[root] >= 0:
                root = part[root]
            part[row] = part[root]
    for row in range(flows.size):
        part[row] = -1 - part[row]
    return n
