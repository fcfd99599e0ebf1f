"""Which network partitions are frozen, from when to when: decided alike on every rank, from the same samples.

Knows resources (ports) and activities (flows) by number alone. The model samples, freezes and thaws.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.wormhole import history as h
from pdes.wormhole.history import N_WINDOW
from pdes.wormhole.partitions import canonical, follow, make_partitions
from pdes.wormhole.steady import Settings, Steadiness, Verdict

MAX_CYCLE_PACKETS = 4096
MAX_INTERVAL = 32  # between two looks, in samples
PS_PER_S = 10**12


@dataclass(frozen=True)
class Freeze:
    """A frozen network partition, and how it would go on: by whole periods."""

    pairs: np.ndarray  # int64, ascending
    ports: np.ndarray  # int64, ascending
    begin_ps: int
    period_ps: int
    n_period: int  # until its planned end
    done_packets: np.ndarray  # int64[n_pair]  measured progress:
    done_ps: np.ndarray  # int64[n_pair]  packets in a time
    marked: np.ndarray  # int64[n_pair]  and how many of them were marked

    @property
    def end_ps(self) -> int:
        """When it thaws at the latest."""
        return self.begin_ps + self.n_period * self.period_ps

    def progress(self, at_ps: int) -> tuple[int, np.ndarray, np.ndarray]:
        """(time, packets of each flow, marked ones among them) by which it has gone on at_ps, by whole periods."""
        shift_ps = min((at_ps - self.begin_ps) // self.period_ps, self.n_period) * self.period_ps
        packets, marked = (_in_proportion(shift_ps, count, self.done_ps) for count in (self.done_packets, self.marked))
        return shift_ps, packets, marked


def _in_proportion(time_ps: int, count: np.ndarray, count_ps: np.ndarray) -> np.ndarray:
    """What comes to pass in a time, rounded to the nearest, if count does in count_ps; int64[n]."""
    each = zip(count.tolist(), count_ps.tolist(), strict=True)
    return np.array([(2 * time_ps * n + t) // (2 * t) for n, t in each], np.int64)


@dataclass
class Counters:
    """What happened, for the results."""

    freezes: int = 0
    thaws_planned: int = 0
    thaws_interrupted: int = 0
    looks: int = 0
    partitions: int = 0


class Controller:
    """Network partitions of the active flows, their histories, and what is frozen."""

    def __init__(
        self, port_start: np.ndarray, port_of: np.ndarray, n_port: int, settings: Settings, n_kept: tuple[int, int],
        known_ps: np.ndarray,
    ) -> None:  # fmt: skip
        """Controller of flows that use port_of[port_start[flow] : port_start[flow + 1]].

        n_kept: how many averages, and how many bytes of its stream, a sample has of a flow's control. known_ps:
        instants, ascending, that no skip may pass.
        """
        n_flow = len(port_start) - 1
        self._partitions = make_partitions(port_start, port_of, n_port)
        self._is_frozen = np.zeros(n_flow, np.bool_)
        self._steadiness = Steadiness(n_flow, n_kept, settings)
        self._settings = settings
        self._frozen: list[Freeze] = []
        self._frozen_of_port = np.full(n_port, -1, np.int64)
        self._members = np.zeros(n_flow, np.int64)
        self.counters = Counters()
        self.next_look_ps = settings.look_ps
        self._known_ps = known_ps
        self._interval = 1
        self._seen_version = np.full(n_flow, -1, np.int64)

    @property
    def first_end_ps(self) -> int:
        """The first planned end of what is frozen, NEVER if nothing is."""
        return min((freeze.end_ps for freeze in self._frozen), default=NEVER)

    def ends(self, now_ps: int, interrupts: dict[int, int]) -> Iterator[tuple[Freeze, int]]:
        """What thaws now, each with the instant up to which it has gone on. interrupts: flow -> instant."""
        thaw: dict[int, int] = {}
        for flow, at_ps in sorted(interrupts.items()):
            for i in np.unique(self._frozen_of_port[self._ports(np.array([flow]))]).tolist():
                if i >= 0:
                    thaw[i] = min(thaw.get(i, NEVER), at_ps)
        for i, freeze in enumerate(self._frozen):
            if freeze.end_ps <= now_ps:
                thaw[i] = min(thaw.get(i, NEVER), freeze.end_ps)
        for i in sorted(thaw):
            freeze = self._frozen[i]
            self._is_frozen[freeze.pairs] = False
            self._steadiness.thawed(freeze.pairs, freeze.progress(thaw[i])[0])
            self.counters.thaws_planned += thaw[i] == freeze.end_ps
            self.counters.thaws_interrupted += thaw[i] < freeze.end_ps
            yield freeze, thaw[i]
        self._keep([freeze for i, freeze in enumerate(self._frozen) if i not in thaw])

    def decide(self, now_ps: int, rows: np.ndarray) -> list[Freeze]:
        """What is to be frozen now. rows: a sample of every active flow that is not frozen, ascending."""
        self.counters.looks += 1
        is_long = self._is_long(rows)
        labels = self._follow(rows[:, h.FLOW]) if is_long.any() or len(rows) == 0 else np.zeros(0, np.int64)
        self._pace(now_ps, rows, is_long, labels)
        if not is_long.any():
            return []
        may = self._only_long(labels, is_long)
        rows, labels = rows[may], labels[may]
        if len(rows) == 0:
            return []
        self._steadiness.add(rows, np.stack([labels, self._partitions.version[labels]], axis=1))
        verdict = self._steadiness.judge(now_ps, rows)
        steady = self._steady(verdict, labels)
        new = [freeze for label in steady if (freeze := self._plan(now_ps, label, rows, verdict))]
        for freeze in new:
            self._is_frozen[freeze.pairs] = True
        self.counters.freezes += len(new)
        self._keep(self._frozen + new)
        return new

    def _keep(self, frozen: list[Freeze]) -> None:
        self._frozen = frozen
        self._frozen_of_port[:] = -1
        for i, freeze in enumerate(frozen):
            self._frozen_of_port[freeze.ports] = i

    def _is_long(self, rows: np.ndarray) -> np.ndarray:
        """Which messages of a sample have enough before them for a skip to be worth finding out."""
        worth_ps = (N_WINDOW + self._settings.least_looks) * self._settings.look_ps
        return (rows[:, h.MESSAGE_END] - rows[:, h.SENT]) * 8.0 * PS_PER_S > rows[:, h.RATE] * float(worth_ps)

    def _only_long(self, labels: np.ndarray, is_long: np.ndarray) -> np.ndarray:
        """Which flows are in network partitions of long messages alone."""
        with_short = np.zeros(len(self._partitions.version), np.bool_)
        with_short[labels[~is_long]] = True
        return ~with_short[labels]

    def _pace(self, now_ps: int, rows: np.ndarray, is_long: np.ndarray, labels: np.ndarray) -> None:
        """Choose the next look: soon if some network partition has only long messages and stays as it is, or if all is
        quiet; else in twice the time that it was, so that traffic that never settles is hardly looked at.
        """
        is_calm = len(rows) == 0
        if len(labels):
            version = self._partitions.version[labels]
            is_calm |= bool((self._only_long(labels, is_long) & (self._seen_version[labels] == version)).any())
            self._seen_version[labels] = version
        self._interval = 1 if is_calm else min(2 * self._interval, MAX_INTERVAL)
        self.next_look_ps = now_ps + self._interval * self._settings.look_ps

    def _follow(self, flow: np.ndarray) -> np.ndarray:
        """Let flows that have ended leave their network partitions, and new ones enter; the labels of flows."""
        wanted = self._is_frozen.copy()
        wanted[flow] = True
        follow(self._partitions, wanted)
        self.counters.partitions = max(self.counters.partitions, int(self._partitions.n_partition[0]))
        return self._partitions.label_of_flow[flow].astype(np.int64)

    def _steady(self, verdict: Verdict, labels: np.ndarray) -> list[int]:
        """Labels of network partitions all of whose flows may be skipped for long enough to be worth it."""
        least = np.full(len(self._partitions.version), np.inf)
        np.minimum.at(least, labels, verdict.may_ps)
        return [int(label) for label in np.unique(labels) if least[label] >= self._least_ps]

    def _until_ps(self, now_ps: int) -> int:
        """The next instant that no skip may pass, NEVER if there is none."""
        i = int(np.searchsorted(self._known_ps, now_ps, side="right"))
        return int(self._known_ps[i]) if i < len(self._known_ps) else NEVER

    @property
    def _least_ps(self) -> int:
        return self._settings.least_looks * self._settings.look_ps

    def _plan(self, now_ps: int, label: int, rows: np.ndarray, verdict: Verdict) -> Freeze | None:
        n = canonical(self._partitions, label, self._members)
        pairs = self._members[:n].copy()
        at = np.searchsorted(rows[:, h.FLOW], pairs)
        span_ps, packets = verdict.span_ps[at], verdict.done_bytes[at] // self._settings.packet_bytes
        cycle_packets = verdict.cycle_bytes[at] // self._settings.packet_bytes
        period_ps = _period_ps(span_ps, packets, verdict.last_ps[at], cycle_packets)
        n_period = min(int(verdict.may_ps[at].min()), self._until_ps(now_ps) - now_ps) // period_ps
        if n_period * period_ps < self._least_ps:
            return None
        self._steadiness.frozen(pairs, verdict.done_bytes[at] / span_ps, now_ps)
        ports = np.unique(self._ports(pairs))
        return Freeze(pairs, ports, now_ps, period_ps, n_period, packets, span_ps, verdict.marked[at])

    def _ports(self, flows: np.ndarray) -> np.ndarray:
        start, port_of = self._partitions.port_start, self._partitions.port_of
        return np.concatenate([port_of[start[f] : start[f + 1]] for f in flows.tolist()]).astype(np.int64)


def compile_partitions() -> None:
    """Compile what follows network partitions, or load it from the cache."""
    one = make_partitions(np.array([0, 1], np.int64), np.zeros(1, np.int32), 1)
    follow(one, np.ones(1, np.bool_))
    canonical(one, 0, np.zeros(1, np.int64))


def _period_ps(span_ps: np.ndarray, packets: np.ndarray, last_ps: np.ndarray, cycle_packets: np.ndarray) -> int:
    """The time in which everything repeats itself.

    If all flows send at one and the same pace, it is some packets' time: as many as their controls need for one turn,
    which they take once per round trip (cycle_packets: a multiple of that for each flow, 0: none).
    """
    gap_ps = span_ps // packets
    if (gap_ps * packets == span_ps).all() and (gap_ps == gap_ps[0]).all():
        together = int(np.lcm.reduce(np.maximum(cycle_packets, 1)))
        if together <= MAX_CYCLE_PACKETS:
            return together * int(gap_ps[0])
    return int(last_ps[0])
