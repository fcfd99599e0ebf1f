"""Which network partitions are frozen, from when to when: decided alike on every rank, from the same samples.

Knows resources (ports) and activities (flows) by number alone. The model samples, freezes and thaws.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.wormhole import history as h
from pdes.wormhole.audit import Audit
from pdes.wormhole.criterion import Criterion
from pdes.wormhole.memo import Entry, Episode, Memo, Replay
from pdes.wormhole.partitions import canonical, follow, make_partitions
from pdes.wormhole.steady import Verdict

MAX_CYCLE_PACKETS = 4096
LEAST_REPLAY = 1  # samples that a message must last for the memo
AHEAD = 32  # part of a period by which flows may get ahead of their mean rates in it
MAX_INTERVAL = 32  # between two looks, in samples
PATIENCE = 48  # looks at which nothing changes before they become half as frequent
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


@dataclass(frozen=True)
class Fresh:
    """A network partition that wants a key."""

    label: int
    version: int
    pairs: np.ndarray
    ports: np.ndarray
    rows: np.ndarray


@dataclass
class Counters:
    """What happened, for the results."""

    freezes: int = 0
    refused: int = 0
    flow_freezes: int = 0  # of each flow, also where a state was taken over
    thaws_planned: int = 0
    thaws_interrupted: int = 0
    looks: int = 0
    partitions: int = 0


class Controller:
    """Network partitions of the active flows, their histories, and what is frozen."""

    def __init__(
        self, port_start: np.ndarray, port_of: np.ndarray, n_port: int, criterion: Criterion, known_ps: np.ndarray
    ) -> None:
        """Controller of flows that use port_of[port_start[flow] : port_start[flow + 1]].

        criterion: says which of them are steady. known_ps: instants, ascending, that no skip may pass.
        """
        n_flow = len(port_start) - 1
        self._partitions = make_partitions(port_start, port_of, n_port)
        self._is_frozen = np.zeros(n_flow, np.bool_)
        self.criterion, self._settings = criterion, criterion.settings
        self._frozen: dict[int, Freeze | Replay] = {}  # by numbers that never come again, in their order
        self._n_frozen, self._n_frozen_flow, self._n_active, self._is_followed = 0, 0, 0, False
        self.stranded: list[Replay] = []
        self._frozen_of_port = np.full(n_port, -1, np.int64)
        self._members = np.zeros(n_flow, np.int64)
        self.counters = Counters()
        self.next_look_ps = self._settings.look_ps
        self._known_ps = known_ps
        self._interval, self._n_same = 1, 0
        self._seen_version = np.full(n_flow, -1, np.int64)
        self.memo: Memo | None = None
        self.audit: Audit | None = None
        self.skips_steady = True
        self._fresh: list[Fresh] = []

    @property
    def first_thaw_ps(self) -> int:
        """The first planned end of what is frozen, NEVER if nothing is."""
        return min((freeze.end_ps for freeze in self._frozen.values()), default=NEVER)

    @property
    def first_end_ps(self) -> int:
        """The first planned end of what is frozen, or could be but is audited; NEVER if there is none."""
        checks = [] if self.memo is None else [self._check_ps(episode) for episode in self.memo.running.values()]
        audited = [] if self.audit is None else [self.audit.first_end_ps]
        return min([self.first_thaw_ps, *checks, *audited])

    def ends(self, now_ps: int, interrupts: dict[int, int]) -> Iterator[tuple[Freeze | Replay, int]]:
        """What thaws now, each with the instant up to which it has gone on. interrupts: flow -> instant."""
        thaw: dict[int, int] = {}
        for flow, at_ps in sorted(interrupts.items()):
            ports = self._ports(np.array([flow]))
            for i in np.unique(self._frozen_of_port[ports]).tolist():
                if i >= 0:
                    thaw[i] = min(thaw.get(i, NEVER), at_ps)
            for replay in self._followers_disturbed(ports):
                thaw[int(self._frozen_of_port[replay.ports[0]])] = at_ps
        for i, freeze in self._frozen.items():
            if freeze.end_ps <= now_ps and isinstance(freeze, Freeze):
                thaw[i] = min(thaw.get(i, NEVER), freeze.end_ps)
        for i in sorted(thaw):
            freeze = self._frozen[i]
            self._drop(freeze)
            self._n_same = 0
            self.criterion.thawed(freeze.pairs, freeze.progress(thaw[i])[0])
            self.counters.thaws_planned += thaw[i] == freeze.end_ps
            self.counters.thaws_interrupted += thaw[i] < freeze.end_ps
            self._let_go(freeze)
            yield freeze, thaw[i]

    def decide(
        self, now_ps: int, rows: np.ndarray, allows: Callable[[list[Freeze], int], list[bool]] | None = None
    ) -> list[Freeze]:
        """What is to be frozen now. rows: a sample of every active flow that is not frozen, ascending.

        allows: which of some freezes that may begin now the model can bear.
        """
        self.counters.looks += 1
        is_long, self._fresh = self._is_long(rows), []
        is_led = self.memo is not None and (len(self.memo.running) > 0 or self._may_replay(rows).any())
        is_audited = self.audit is not None and len(self.audit.running) > 0
        goes_on = is_long.any() or len(rows) == 0 or is_led or is_audited
        self._is_followed, self._n_active = bool(goes_on), len(rows) + self._n_frozen_flow
        labels = self._follow(rows[:, h.FLOW]) if goes_on else np.zeros(0, np.int64)
        if self.audit is not None:
            self.audit.look(now_ps, rows, self._partitions.version)
        self._pace(now_ps, rows, is_long if self.memo is None else self._may_replay(rows), labels)
        new = self._skip_steady(now_ps, rows, labels, is_long, allows) if is_long.any() else []
        if self.memo is not None and len(labels):
            may = self._only_long(labels, self._may_replay(rows))
            self._find_fresh(rows[may], labels[may])
        return new

    def census(self, now_ps: int) -> tuple[int, ...]:
        """A row of `partition_series`, when a look is over."""
        n_steady = sum(isinstance(freeze, Freeze) for freeze in self._frozen.values())
        n_partition = int(self._partitions.n_partition[0]) if self._is_followed else -1
        return now_ps, n_partition, n_steady, len(self._frozen) - n_steady, self._n_active, self._n_frozen_flow

    def _skip_steady(
        self, now_ps: int, rows: np.ndarray, labels: np.ndarray, is_long: np.ndarray,
        allows: Callable[[list[Freeze], int], list[bool]] | None,
    ) -> list[Freeze]:  # fmt: skip
        """Freeze network partitions that are steady."""
        may = self._only_long(labels, is_long) | self.criterion.judges_all
        rows, labels = rows[may], labels[may]
        if len(rows) == 0:
            return []
        self.criterion.add(now_ps, rows, np.stack([labels, self._partitions.version[labels]], axis=1))
        verdict = self.criterion.judge(now_ps, rows)
        steady = self._steady(verdict, labels) if self.skips_steady else []
        planned = [(label, freeze) for label in steady if (freeze := self._plan(now_ps, label, rows, verdict))]
        if allows is not None and planned:
            may = allows([freeze for _, freeze in planned], now_ps)
            self.counters.refused += len(may) - sum(may)
            planned = [plan for plan, is_allowed in zip(planned, may, strict=True) if is_allowed]
        new = [freeze for label, freeze in planned if not self._is_drawn(label, freeze, rows)]
        for freeze in new:
            self._hold(freeze)
            self._n_same = 0
        self.counters.freezes += len(new)
        self.counters.flow_freezes += sum(len(freeze.pairs) for freeze in new)
        return new

    def _is_drawn(self, label: int, freeze: Freeze, rows: np.ndarray) -> bool:
        """Whether a skip is simulated and compared with its plan, see `audit`."""
        version = int(self._partitions.version[label])
        return self.audit is not None and self.audit.takes(freeze, label, version, rows)

    # What follows is about the memo: see `memo`.

    def _find_fresh(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Network partitions that have not been keyed as they are, and whose flows are all under way."""
        assert self.memo is not None
        version = self._partitions.version
        for label in np.unique(labels).tolist():
            mine = rows[labels == label]
            is_free = self.audit is None or label not in self.audit.running
            is_ready = is_free and mine[:, h.IS_PLAIN].all() and not self._is_frozen[mine[:, h.FLOW]].any()
            if is_ready and self.memo.is_fresh(label, int(version[label]), mine):
                pairs = mine[:, h.FLOW].copy()
                if len(pairs) == self._partitions.n_flow_of[label]:
                    self._fresh.append(Fresh(label, int(version[label]), pairs, np.unique(self._ports(pairs)), mine))

    @property
    def fresh(self) -> list["Fresh"]:
        """Network partitions that want a key, found by the last `decide`."""
        return self._fresh

    def keyed(self, now_ps: int, keys: list[tuple[bytes, int, np.ndarray]]) -> list[Replay]:
        """Of those that wanted a key, what need not be simulated.

        keys: with each how many random numbers were drawn, and what the ports have sent.
        """
        assert self.memo is not None
        new = []
        for f, (key, n_draw, sent) in zip(self._fresh, keys, strict=True):
            replay = self.memo.begin(key, f.label, f.version, f.pairs, f.ports, now_ps, f.rows, n_draw, sent)
            if replay is not None and (replay.entry is None or replay.end_ps <= self._until_ps(now_ps)):
                self._hold(replay)
                new.append(replay)
        return new

    def over(self, now_ps: int, rows: np.ndarray) -> list[tuple[Episode, Freeze | None, np.ndarray]]:
        """Episodes that are over, each with how it is frozen, if it is, and its flows' samples.

        Those that were disturbed are dropped, and their followers thaw: see `stranded`.
        """
        over = []
        for episode in [] if self.memo is None else list(self.memo.running.values()):
            frozen = self._frozen.get(int(self._frozen_of_port[episode.ports[0]]))
            at = np.searchsorted(rows[:, h.FLOW], episode.pairs)
            mine = rows[np.minimum(at, len(rows) - 1)] if len(rows) else rows
            is_same = self._partitions.version[episode.label] == episode.version and len(mine) == len(episode.pairs)
            if not is_same or (mine[:, h.FLOW] != episode.pairs).any() or not mine[:, h.IS_PLAIN].all():
                self._strand(episode)
            elif isinstance(frozen, Freeze):
                over.append((episode, frozen, mine))
            elif self._check_ps(episode) <= now_ps:
                episode.check_ps = self.memo.check_ps(now_ps, mine) if self.memo else NEVER
                if self._check_ps(episode) <= now_ps:
                    over.append((episode, None, mine))
        return over

    def _check_ps(self, episode: Episode) -> int:
        """When an episode is looked at: before a message can end, and, for its followers, where no skip may pass."""
        return min(episode.check_ps, self._until_ps(episode.begin_ps)) if episode.followers else episode.check_ps

    def give_up(self, now_ps: int) -> None:
        """Drop episodes that should be looked at now, where nothing can be."""
        for episode in [] if self.memo is None else list(self.memo.running.values()):
            if self._check_ps(episode) <= now_ps:
                self._strand(episode)

    def _strand(self, episode: Episode) -> None:
        """An episode was disturbed: its followers have nothing to wait for."""
        assert self.memo is not None
        self.memo.end(episode, None)
        self.stranded += episode.followers

    def _followers_disturbed(self, ports: np.ndarray) -> list[Replay]:
        """Followers of episodes that have one of these ports."""
        found: list[Replay] = []
        if self.memo is not None:
            for episode in [e for e in self.memo.running.values() if np.isin(ports, e.ports).any()]:
                found += episode.followers
                self.memo.end(episode, None)
        return found

    def _let_go(self, freeze: "Freeze | Replay") -> None:
        """Something frozen thaws: nobody leads it any more, and it may lead or follow again."""
        if self.memo is not None:
            self.memo.forget(int(self._partitions.label_of_flow[freeze.pairs[0]]))
        for episode in [] if self.memo is None else self.memo.running.values():
            episode.followers = [follower for follower in episode.followers if follower is not freeze]

    def replace(self, replay: Replay, freeze: Freeze | None) -> None:
        """A replay is over: it is frozen in another way, or goes on."""
        self._drop(replay)
        if freeze is None:
            self.criterion.thawed(replay.pairs, 0)
        else:
            self._hold(freeze)
            self.counters.flow_freezes += len(freeze.pairs)
            rate = freeze.done_packets * self._settings.packet_bytes / freeze.done_ps
            self.criterion.frozen(freeze.pairs, rate, freeze.begin_ps)

    def due(self, now_ps: int) -> list[Replay]:
        """Replays of entries that have come to their ends."""
        ended = [f for f in self._frozen.values() if f.end_ps <= now_ps]
        return [f for f in ended if isinstance(f, Replay) and f.entry is not None]

    def steady_after(self, replay: Replay, entry: Entry, now_ps: int) -> Freeze | None:
        """How a replay is frozen whose entry ended steady, if that is worth it."""
        if entry.progress is None:
            return None
        period_ps, may_n_period, packets, done_ps, marked = entry.progress
        assert self.memo is not None
        guard_bytes = self._settings.guard_packets * self._settings.packet_bytes
        left = replay.left_after(entry, self.memo.is_binned) - guard_bytes
        packet_bytes = self._settings.packet_bytes
        each = [n * t // (p * packet_bytes) for n, t, p in
                zip(left.tolist(), done_ps.tolist(), packets.tolist(), strict=True)]  # fmt: skip
        n_period = min(may_n_period, min(min(each), self._until_ps(now_ps) - now_ps) // period_ps)
        if n_period * period_ps < self._least_ps:
            return None
        return Freeze(replay.pairs, replay.ports, now_ps, period_ps, n_period, packets, done_ps, marked)

    def _hold(self, freeze: "Freeze | Replay") -> None:
        """Something is frozen from now on."""
        self._is_frozen[freeze.pairs] = True
        self._frozen[self._n_frozen] = freeze
        self._frozen_of_port[freeze.ports] = self._n_frozen
        self._n_frozen += 1
        self._n_frozen_flow += len(freeze.pairs)

    def _drop(self, freeze: "Freeze | Replay") -> None:
        """It is not any more."""
        i = int(self._frozen_of_port[freeze.ports[0]])
        assert self._frozen[i] is freeze
        del self._frozen[i]
        self._is_frozen[freeze.pairs] = False
        self._n_frozen_flow -= len(freeze.pairs)
        self._frozen_of_port[freeze.ports] = -1

    def _is_long(self, rows: np.ndarray) -> np.ndarray:
        """Which messages of a sample have enough before them for a skip to be worth finding out."""
        worth_ps = (self._settings.looks_ahead + self._settings.least_looks) * self._settings.look_ps
        return (rows[:, h.MESSAGE_END] - rows[:, h.SENT]) * 8.0 * PS_PER_S > rows[:, h.RATE] * float(worth_ps)

    def _may_replay(self, rows: np.ndarray) -> np.ndarray:
        """Which messages of a sample have enough before them for the memo."""
        worth_ps = LEAST_REPLAY * self._settings.look_ps
        return (rows[:, h.MESSAGE_END] - rows[:, h.SENT]) * 8.0 * PS_PER_S > rows[:, h.RATE] * float(worth_ps)

    def _only_long(self, labels: np.ndarray, is_long: np.ndarray) -> np.ndarray:
        """Which flows are in network partitions of long messages alone."""
        with_short = np.zeros(len(self._partitions.version), np.bool_)
        with_short[labels[~is_long]] = True
        return ~with_short[labels]

    def _pace(self, now_ps: int, rows: np.ndarray, is_long: np.ndarray, labels: np.ndarray) -> None:
        """Choose the next look.

        Soon, if some network partition has only long messages and stays as it is, or if all is quiet; the longer that
        has been so without anything having changed, the later. Else in twice the time that it was, so that traffic
        that never settles is hardly looked at.
        """
        is_calm, is_same = len(rows) == 0, True
        if len(labels):
            version = self._partitions.version[labels]
            stays = self._seen_version[labels] == version
            is_same = bool(stays.all())
            is_calm |= bool((self._only_long(labels, is_long) & stays).any())
            self._seen_version[labels] = version
        self._n_same = self._n_same + 1 if is_same and len(rows) else 0
        if is_calm:
            self._interval = min(1 << (self._n_same // PATIENCE), MAX_INTERVAL)
        else:
            self._interval = min(2 * self._interval, MAX_INTERVAL)
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
        audited = () if self.audit is None else self.audit.running
        found = np.unique(labels).tolist()
        return [label for label in found if least[label] >= self._least_ps and label not in audited]

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
        period_ps, is_exact = _period_ps(span_ps, packets, verdict.last_ps[at], cycle_packets)
        ahead_ps = 0 if is_exact else period_ps // AHEAD
        n_period = min(int(verdict.may_ps[at].min()) - ahead_ps, self._until_ps(now_ps) - now_ps) // period_ps
        if n_period * period_ps < self._least_ps:
            return None
        self.criterion.frozen(pairs, verdict.done_bytes[at] / span_ps, now_ps)
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


def _period_ps(
    span_ps: np.ndarray, packets: np.ndarray, last_ps: np.ndarray, cycle_packets: np.ndarray
) -> tuple[int, bool]:
    """The time in which everything repeats itself, and whether it does so to the ps.

    If all flows send at one and the same pace, it is some packets' time: as many as their controls need for one turn,
    which they take once per round trip (cycle_packets: a multiple of that for each flow, 0: none).
    """
    gap_ps = span_ps // packets
    if (gap_ps * packets == span_ps).all() and (gap_ps == gap_ps[0]).all():
        together = int(np.lcm.reduce(np.maximum(cycle_packets, 1)))
        if together <= MAX_CYCLE_PACKETS:
            return together * int(gap_ps[0]), True
    return int(last_ps[0]), False
