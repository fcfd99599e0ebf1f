"""Waves: flows that share ports and are posted at about the same time, from the beginning to the last one's end.

An all-to-all is one: dozens of flows that begin together, get in each other's way, and end one by one. Hardly anything
of that is steady, and no two of them are in the same packet state. So under a tolerance a wave whose flows have the
ways and sizes of earlier ones', and were posted in about the same order of time, is taken to go as those did: each flow
takes as long from its posting on as its counterparts did on average, packet by packet nothing is simulated. This is
Wormhole's memo (section 4) with whole episodes for values: deviations are that an episode goes on over the ends of its
flows, that rates are no part of the key, but the times of posting are, and that one earlier episode is not enough: two
flows of all-to-alls are off from each other by chance, one from a mean by less.

How alike two waves are is the largest difference between the times at which counterparts were posted, against the time
that the wave lasts, and how far apart they have come by the time of comparison, as a share of their sizes; the sum must
stay within the tolerance. Congestion controls begin in different states; that matters for some round trips, so a wave
is only taken for another if it lasts for at least MIN_ROUND_TRIPS, and if the same of its flows are the first of their
queue pairs: these begin at line rate.

Where flow level learns what flows get that share ports (`fluid.shares`), it has taken such flows before a wave of them
is replayed: of 300 M to 14 G packet-hops that jobs need, replays skipped below 20,000. There waves are no forecast, and
only those are followed to their ends that flow level learns from.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.random_plain import PURPOSE_AUDIT, uniform_plain
from pdes.skipping import history as h
from pdes.skipping.holders import Holders
from pdes.skipping.kind_errors import KindErrors
from pdes.skipping.similar.busy_ports import Scratch, find_waves
from pdes.skipping.similar.wave_entries import (
    NO_ENTRIES,
    Candidate,
    Entries,
    Past,
    Wave,
    WaveCounters,
    WaveEntry,
    WaveReplay,
    interpolate,
    mean_of,
)

MIN_ROUND_TRIPS = 8
LEAST_ALIKE, MOST_ALIKE = 2, 3  # earlier waves that one is taken to go as
LOOKS = 16  # at the least, at a wave
AUDIT_STREAM = 1
BIT_PS = 8e12  # bits per byte x ps per second


class Wants(NamedTuple):
    """Which waves somebody learns from."""

    least_flows: int  # it has
    is_wanted: Callable[[np.ndarray], bool]  # by its flows, int64[], ascending


class WaveLinks(NamedTuple):
    """What waves have to know of the network."""

    start: np.ndarray  # int64[n_flow + 1], the ports of flow f are port_of[start[f] : start[f + 1]]
    port_of: np.ndarray
    rate_bps: np.ndarray  # int64[n_port]
    ends: np.ndarray  # int64[n_flow, 4], the first and the last port of each way and of its acknowledgements'


class Waves:
    """Waves that run, waves that are replayed, and what earlier ones came to; alike on every rank."""

    def __init__(
        self, links: WaveLinks, holders: Holders, tolerance: float, rtt_ps: int, known_ps: np.ndarray,
        packet_bytes: int, audit: tuple[float, int] = (0.0, 0),
    ) -> None:  # fmt: skip
        """known_ps: instants that no replay may pass.

        audit: which share of what would be replayed is simulated instead, and the seed by which it is drawn.
        """
        self._start, self._port_of, rate_bps, self._ends = links
        self._tolerance, self._rtt_ps, self._known_ps = tolerance, rtt_ps, known_ps
        self._packet_bytes, self._audit = packet_bytes, audit
        n_flow, n_port = len(self._start) - 1, len(rate_bps)
        self._byte_ps = BIT_PS / rate_bps
        self._scratch = Scratch(
            np.full(n_port, -1, np.int64), np.zeros(n_port), np.full(n_port, np.inf), np.zeros(n_port, np.uint8),
            np.zeros(n_flow), np.zeros(n_flow, np.int64),
        )  # fmt: skip
        self.running: list[Wave] = []
        self.replayed: list[WaveReplay] = []
        self._holders = holders
        self.entries: dict[bytes, Entries] = {}
        self.counters = WaveCounters()
        self.audited = KindErrors()
        self.waits = False  # for some that may not be complete yet
        self._next_look_ps, self._n_match = NEVER, 0
        self._joined: tuple[list[Wave], np.ndarray, np.ndarray] | None = None  # of waves, see `_members_of_running`

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
        find_waves(none, none, self._start, self._port_of, self._ends, self._byte_ps, self._scratch)

    def look(
        self, now_ps: int, rows: np.ndarray, is_frozen: np.ndarray, alone: np.ndarray | None = None,
        wants: Wants | None = None,
    ) -> tuple[list[Wave], list[Candidate]]:  # fmt: skip
        """(those that are over, those that begin). rows: of active flows that are not frozen, ascending.

        is_frozen: of each flow whether it is, 0 or 1.

        alone: bool[n_row], flows that share no port with others' data; they alone are no wave (`fluid.seen`). wants:
        which waves begin; None: all.
        """
        flows, sizes = rows[:, h.FLOW].copy(), rows[:, h.MESSAGE_END] - rows[:, h.MESSAGE_BEGIN]
        n = find_waves(flows, sizes, self._start, self._port_of, self._ends, self._byte_ps, self._scratch)
        part = self._scratch.part[: len(rows)]
        is_taken, over = np.zeros(n, np.bool_), []
        if self.running:
            is_taken, over = self._see_running(now_ps, rows, part, n, is_frozen)
        if alone is not None:
            is_taken |= np.bincount(part, ~alone, minlength=n) == 0
        found = self._beginning(now_ps, rows, part, is_taken, wants)
        old_ps = [
            (now_ps - wave.of.first_ps) // LOOKS for wave in self.running
        ]  # noticed late by a small part of its time
        self._next_look_ps = now_ps + (0 if self.waits or found else min(old_ps, default=NEVER - now_ps))
        return over, found

    def _see_running(
        self, now_ps: int, rows: np.ndarray, part: np.ndarray, n: int, is_frozen: np.ndarray
    ) -> tuple[np.ndarray, list[Wave]]:
        """(bool[n], parts that waves that go on are of; waves that are over). part: of n, of each row."""
        members, cut = self._members_of_running()
        flows, first = members[:, 0], cut[:-1]
        if len(rows):
            at = np.minimum(np.searchsorted(rows[:, h.FLOW].copy(), flows), len(rows) - 1)
            is_active = rows[at, h.FLOW] == flows
            is_same = is_active & (rows[at, h.ID] == members[:, 1])
        else:
            at, is_active, is_same = flows, np.zeros(len(flows), np.bool_), np.zeros(len(flows), np.bool_)
        wave_of = np.repeat(np.arange(len(first)), np.diff(cut))
        mine, own = at[is_same], wave_of[is_same]
        of = part[mine]
        owner = np.full(n, -1, np.int64)
        owner[of] = own
        is_whole = np.bincount(of, minlength=n) == np.bincount(part, minlength=n)
        is_whole[of[owner[of] != own]] = False  # rows of two waves are in it
        is_broken = np.bincount(own, ~is_whole[of], len(first)) > 0
        others = (is_active & ~is_same) | (is_frozen[flows] != 0)
        is_broken |= np.add.reduceat(others, first, dtype=np.int64) > 0
        goes_on = np.bincount(own, minlength=len(first)) > 0
        done = members[:, 2].copy()
        done[is_same] = rows[mine, h.DONE] - rows[mine, h.MESSAGE_BEGIN]
        over, going = [], []
        for i, wave in enumerate(self.running):
            if is_broken[i]:
                self._break(wave)
            elif goes_on[i]:
                wave.curve_ps.append(now_ps - wave.of.first_ps)
                wave.curve.append(done[cut[i] : cut[i + 1]])
                going.append(wave)
            else:
                over.append(wave)
        self.running = going
        is_taken = np.zeros(n, np.bool_)
        is_taken[of[~is_broken[own]]] = True
        return is_taken, over

    def _members_of_running(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64[n, 3], flow, message and size of all messages of the waves that run; where each wave's begin)."""
        waves, known = self.running, self._joined
        if (
            known is None
            or len(known[0]) != len(waves)
            or any(a is not b for a, b in zip(known[0], waves, strict=True))
        ):
            members = [np.column_stack([w.of.pairs, w.of.rows[:, h.ID], w.of.sizes]) for w in waves]
            cut = np.concatenate([[0], np.cumsum([len(each) for each in members])])
            known = self._joined = (list(waves), np.concatenate(members), cut)
        return known[1], known[2]

    def _beginning(
        self, now_ps: int, rows: np.ndarray, part: np.ndarray, is_taken: np.ndarray, wants: Wants | None
    ) -> list[Candidate]:
        """Flows that share ports, all of which are under way, with nothing done but what is known of them."""
        n = len(is_taken)
        self.waits = False
        if n == 0 or is_taken.all():
            return []
        is_ready = (rows[:, h.IS_WHOLE] != 0) & (rows[:, h.SENT] < rows[:, h.MESSAGE_END])
        newest_ps = np.zeros(n, np.int64)
        np.maximum.at(newest_ps, part, rows[:, h.POSTED_PS])
        may = ~is_taken & (np.bincount(part, ~is_ready, n) == 0)
        if wants is not None:
            may &= np.bincount(part, minlength=n) >= wants.least_flows
        is_new = newest_ps > now_ps - self._rtt_ps // 2
        self.waits = bool((may & is_new).any())
        found = []
        for i in np.flatnonzero(may & ~is_new).tolist():
            mine = rows[part == i]
            pairs = mine[:, h.FLOW].copy()
            if wants is not None and not wants.is_wanted(pairs):
                continue
            ports = np.unique(self._ports(pairs))
            is_held = self._scratch.is_busy[ports] != 0
            found.append(Candidate(pairs, ports, ports[is_held], ports[~is_held], mine))
        return found

    def _ports(self, flows: np.ndarray) -> np.ndarray:
        return np.concatenate([self._port_of[self._start[f] : self._start[f + 1]] for f in flows.tolist()]).astype(
            np.int64
        )

    def follow(self, now_ps: int, found: list[Candidate]) -> None:
        """Simulate those that begin, for who wants to learn from them."""
        for candidate in found:
            done = candidate.rows[:, h.DONE] - candidate.rows[:, h.MESSAGE_BEGIN]
            self.running.append(Wave(b"", candidate, [now_ps - candidate.first_ps], [done]))

    def begin(self, now_ps: int, found: list[Candidate], forms: list[bytes]) -> list[WaveReplay]:
        """Of those that begin, what need not be simulated; the others are. forms: what their ways are."""
        new = []
        for candidate, form in zip(found, forms, strict=True):
            is_first = candidate.rows[:, h.MESSAGE_BEGIN] == 0
            key = form + candidate.sizes.tobytes() + is_first.tobytes()
            entry = self._match(now_ps, candidate, self.entries.get(key, NO_ENTRIES))
            if entry is not None and not self._is_drawn():
                new.append(WaveReplay(candidate, entry, now_ps))
                self.counters.replayed += 1
                continue
            done = candidate.rows[:, h.DONE] - candidate.rows[:, h.MESSAGE_BEGIN]
            self.running.append(Wave(key, candidate, [now_ps - candidate.first_ps], [done], entry))
            self.audited.n_audited += entry is not None
        self.replayed += new
        for replay in new:
            self._holders.hold(replay.held)
        return new

    def _is_drawn(self) -> bool:
        """Whether a wave is simulated though it need not be."""
        share, seed = self._audit
        self._n_match += 1
        return share > 0 and uniform_plain(seed, self._n_match, PURPOSE_AUDIT, AUDIT_STREAM) < share

    def _match(self, now_ps: int, candidate: Candidate, entries: Entries) -> WaveEntry | None:
        """The mean of those most like it. None: too few are like enough, or messages of these came across sooner."""
        first_ps, sizes = candidate.first_ps, candidate.sizes
        posted_ps = candidate.rows[:, h.POSTED_PS] - first_ps
        done = candidate.rows[:, h.DONE] - candidate.rows[:, h.MESSAGE_BEGIN]
        i = int(np.searchsorted(self._known_ps, now_ps, side="right"))
        until_ps = int(self._known_ps[i]) if i < len(self._known_ps) else NEVER
        alike: list[tuple[float, WaveEntry]] = []  # the nearest first
        near = entries.near(posted_ps, self._tolerance, MIN_ROUND_TRIPS * self._rtt_ps, now_ps - first_ps)
        for off, entry in near:
            if len(alike) == MOST_ALIKE and off > alike[-1][0]:
                break
            off += float((np.abs(done - entry.done_bytes(now_ps - first_ps, sizes)) / sizes).mean())
            if off <= self._tolerance and first_ps + 2 * entry.duration_ps <= until_ps:
                alike = sorted([*alike, (off, entry)], key=itemgetter(0))[:MOST_ALIKE]
        if len(alike) < LEAST_ALIKE:
            return None
        mean = mean_of([entry for _, entry in alike])
        across_ps = posted_ps + (mean.delivered_ps - mean.posted_ps)
        return mean if across_ps.min() > now_ps - first_ps else None

    def finish(self, wave: Wave, past: Past, is_noted: bool = True) -> bool:
        """A wave is over: note what it came to, if it is_noted; whether it has gone on by itself."""
        first_ps, rows = wave.of.first_ps, wave.of.rows
        if (past.end_byte != rows[:, h.MESSAGE_END]).any():
            self._break(wave)
            return False
        if not is_noted:
            self.counters.waves += 1
            return True
        entry = WaveEntry(
            rows[:, h.POSTED_PS] - first_ps, past.delivered_ps - first_ps, past.ended_ps - first_ps, past.marked,
            np.array(wave.curve_ps, np.int64), np.array(wave.curve, np.int64), past.words,
        )  # fmt: skip
        self.entries.setdefault(wave.key, Entries()).add(entry)
        self.counters.waves += 1
        if wave.expected is not None:
            self.counters.audited += 1
            took_ps = entry.ended_ps - entry.posted_ps
            expected_ps = np.maximum(wave.expected.ended_ps - wave.expected.posted_ps, 1)
            self.audited.add(expected_ps, took_ps, np.zeros_like(took_ps), self.counters.audited)
        return True

    def _break(self, wave: Wave) -> None:
        """A wave that is simulated has not gone on by itself."""
        self.counters.broken += 1
        self.audited.n_void += wave.expected is not None

    def disturbed(self, interrupts: dict[int, int]) -> list[tuple[WaveReplay, int]]:
        """Replays that somebody has come to, and when first. interrupts: flow -> instant.

        Flows of such a replay are somebody themselves: others may hold ports that it has left open.
        """
        if not (self.replayed and interrupts):
            return []
        by_holder = {self._holders.at(replay.held[0]): replay for replay in self.replayed}  # hosts' ports are held
        first: dict[int, int] = {}  # by holder
        coming = [(at_ps, flow) for flow, at_ps in interrupts.items()]
        heapify(coming)
        while coming:
            at_ps, flow = heappop(coming)
            for holder in self._holders.of(self._port_of[self._start[flow] : self._start[flow + 1]]):
                if holder in by_holder and holder not in first:
                    first[holder] = at_ps
                    for pair in by_holder[holder].pairs.tolist():
                        heappush(coming, (at_ps, pair))
        found = [(replay, first[holder]) for holder, replay in by_holder.items() if holder in first]
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
            self._holders.free(replay.held)
        if replays:
            self.replayed = [r for r in self.replayed if all(r is not gone for gone in replays)]

    def facts(self) -> dict[str, Any]:
        """What `result.json` says of it."""
        audited = self.audited.facts()
        return vars(self.counters) | {name: audited[name] for name in ("mean_fct_error", "p99_fct_error")}
