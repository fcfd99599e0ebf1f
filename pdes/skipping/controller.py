"""Which network partitions are frozen, from when to when: decided alike on every rank, from the same samples.

Knows resources (ports) and activities (flows) by number alone. The model samples, freezes and thaws.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.audit import Audit
from pdes.skipping.criterion import Criterion
from pdes.skipping.flow_ports import PortsOfGroups, ports_of
from pdes.skipping.frozen import Freeze, FrozenSet, joined
from pdes.skipping.holders import Holders
from pdes.skipping.look.assess import MOST_PARTITIONS, N_LOOK, N_STEADY
from pdes.skipping.look.looks import Looks
from pdes.skipping.look.survey import IS_FOLLOWED, N_FRESH, ask, thawed
from pdes.skipping.partitions import canonical, make_partitions
from pdes.skipping.periodic import Periodic
from pdes.skipping.replay.memo import Episode, Fresh, Keys, Memo, Replay, for_each


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
        self, port_start: np.ndarray, port_of: np.ndarray, n_port: int, criterion: Criterion, known_ps: np.ndarray,
        look_ps: np.ndarray,
    ) -> None:  # fmt: skip
        """Controller of flows that use port_of[port_start[flow] : port_start[flow + 1]].

        criterion: says which of them are steady. known_ps: instants, ascending, that no skip may pass. look_ps:
        int64[n_flow], least time between two samples of a flow.
        """
        n_flow = len(port_start) - 1
        self._partitions = make_partitions(port_start, port_of, n_port)
        self.criterion, self.periodic = criterion, Periodic(self._partitions, criterion, known_ps)
        self._frozen = FrozenSet(n_flow, n_port)
        self.looks = Looks(self._partitions, self._frozen.is_frozen, criterion, look_ps)
        self._survey = self.looks.survey
        self._n_active, self._is_followed, self._has_frozen = 0, False, False
        self.stranded: list[Replay] = []
        self._counters = Counters()
        self._ports_of_groups = PortsOfGroups(self._partitions.port_start, self._partitions.port_of, n_port)
        self.memo: Memo | None = None
        self.audit: Audit | None = None
        self.skips_steady = True
        self._fresh: Fresh | None = None

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        words = self.looks.words
        self._counters.looks, self._counters.partitions = int(words[N_LOOK]), int(words[MOST_PARTITIONS])
        return self._counters

    def carry_on(self, before: "Controller") -> "Controller":
        """Take over what was counted by one that knew flows by other ways, when nothing is frozen; itself."""
        self._counters = before._counters
        for word in (N_LOOK, MOST_PARTITIONS):
            self.looks.words[word] = before.looks.words[word]
        return self

    @property
    def holders(self) -> Holders:
        """Who holds ports."""
        return self._frozen.holders

    @property
    def next_look_ps(self) -> int:
        """When the next look is due, whatever is frozen."""
        return self.looks.next_ps

    @property
    def first_thaw_ps(self) -> int:
        """The first planned end of what is frozen, NEVER if nothing is."""
        return self._frozen.first_end_ps

    @property
    def first_end_ps(self) -> int:
        """The first planned end of what is frozen, or could be but is audited; NEVER if there is none."""
        checks = [] if self.memo is None else [self._check_ps(episode) for episode in self.memo.running.values()]
        audited = [] if self.audit is None else [self.audit.first_end_ps]
        return min([self.first_thaw_ps, *checks, *audited])

    def frozen(self) -> list[Freeze | Replay]:
        """What is frozen now."""
        return self._frozen.all()

    def ends(self, now_ps: int, interrupts: dict[int, int]) -> list[tuple[Freeze | Replay, int]]:
        """What thaws now, each with the instant up to which it has gone on. interrupts: flow -> instant."""
        thaw: dict[int, int] = {}
        for flow, at_ps in sorted(interrupts.items()) if self._is_met(interrupts) else []:
            ports = self._ports(np.array([flow]))
            for i in self._frozen.of(ports):
                self._interrupt(i, ports, at_ps, thaw)
            for replay in self._followers_disturbed(ports):
                thaw[self._frozen.number(replay)] = at_ps
        for i in self._frozen.ended(now_ps):
            thaw[i] = min(thaw.get(i, NEVER), self._frozen[i].end_ps)
        if not thaw:
            return []
        found = [(self._frozen[i], at_ps) for i, at_ps in sorted(thaw.items())]
        self._frozen.drop([freeze for freeze, _ in found])
        shift_ps = np.repeat([freeze.shift_ps(at_ps) for freeze, at_ps in found], [len(f.pairs) for f, _ in found])
        self.criterion.thawed(joined([freeze.pairs for freeze, _ in found]), shift_ps)
        n_planned = sum(freeze.n_member for freeze, at_ps in found if at_ps == freeze.end_ps)
        self._counters.thaws_planned += n_planned
        self._counters.thaws_interrupted += sum(freeze.n_member for freeze, _ in found) - n_planned
        self._let_go([freeze for freeze, _ in found])
        return found

    def _is_met(self, interrupts: dict[int, int]) -> bool:
        """Whether any of these flows has a port of what is frozen, or might have one of what others wait for."""
        ports = self._ports(np.array(list(interrupts), np.int64))
        return bool(self._frozen.of(ports)) or (self.memo is not None and bool(self.memo.running))

    def _interrupt(self, number: int, ports: np.ndarray, at_ps: int, thaw: dict[int, int]) -> None:
        """Enter those of what is frozen under a number that have one of these ports into what thaws, and when."""
        whole, known_ps = self._frozen[number], thaw.pop(number, NEVER)
        some, others = self._frozen.split(number, ports)
        if others and isinstance(whole, Replay) and self.memo is not None:
            self.memo.put_in_place(whole, [replay for replay in [*some, *others] if isinstance(replay, Replay)])
        for freeze in some:
            thaw[self._frozen.number(freeze)] = min(known_ps, at_ps)
        if known_ps < NEVER:
            thaw |= {self._frozen.number(freeze): known_ps for freeze in others}

    def prepare(self) -> None:
        """Say what the next look has to know."""
        led = {} if self.memo is None else self.memo.running
        is_audited = self.audit is not None and bool(self.audit.running)
        self.looks.prepare(self.memo is not None, is_audited, self.skips_steady, led.values())

    def decide(
        self, now_ps: int, rows: np.ndarray, allows: Callable[[list[Freeze], int], list[bool]] | None = None,
        is_assessed: bool = False,
    ) -> list[Freeze]:  # fmt: skip
        """What is to be frozen now. rows: a sample of every active flow that is not frozen, ascending.

        allows: which of some freezes that may begin now the model can bear. is_assessed: `assess` has looked at it.
        """
        if not is_assessed:
            self.prepare()
            self.looks.look(now_ps, rows)
        self._fresh, s, version = None, self._survey, self._partitions.version
        if self.audit is not None:
            self.audit.look(now_ps, rows, version)
        self._is_followed, self._n_active = bool(s.found[IS_FOLLOWED]), len(rows) + self._frozen.n_flow
        self._has_frozen = bool(new := self._skip_steady(now_ps, allows) if self.looks.words[N_STEADY] else [])
        if s.found[N_FRESH]:
            may = s.fresh[: s.found[N_FRESH]]
            self._find_fresh(rows, may, s.label[may])
        return new

    def census(self, now_ps: int) -> tuple[int, ...]:
        """A row of `partition_series`, when a look is over."""
        n_partition = int(self._partitions.n_partition[0]) if self._is_followed else -1
        n_steady, n_replayed = self._frozen.census()
        return now_ps, n_partition, n_steady, n_replayed, self._n_active, self._frozen.n_flow

    def _skip_steady(self, now_ps: int, allows: Callable[[list[Freeze], int], list[bool]] | None) -> list[Freeze]:
        """Freeze network partitions that are steady."""
        steady, (rows, verdict) = self.looks.steady, self.looks.judged
        if self.audit is not None:
            steady = [label for label in steady if label not in self.audit.running]
        planned = [(label, freeze) for label in steady if (freeze := self.periodic.plan(now_ps, label, rows, verdict))]
        if allows is not None and planned:
            may = allows([freeze for _, freeze in planned], now_ps)
            self._counters.refused += len(may) - sum(may)
            planned = [plan for plan, is_allowed in zip(planned, may, strict=True) if is_allowed]
        new = [freeze for label, freeze in planned if not self._is_drawn(label, freeze, rows)]
        if new:
            self._frozen.hold(new)
            self._counters.freezes += len(new)
            self._counters.flow_freezes += sum(len(freeze.pairs) for freeze in new)
        return new

    def _is_drawn(self, label: int, freeze: Freeze, rows: np.ndarray) -> bool:
        """Whether a skip is simulated and compared with its plan, see `audit`."""
        version = int(self._partitions.version[label])
        return self.audit is not None and self.audit.takes(freeze, label, version, rows)

    # What follows is about the memo: see `memo`.

    def _find_fresh(self, rows: np.ndarray, may: np.ndarray, labels: np.ndarray) -> None:
        """Network partitions that have not been keyed as they are, and whose flows are all under way.

        may: which rows are theirs; labels: of each of these.
        """
        assert self.memo is not None
        version = self._partitions.version
        is_free = ~self._frozen.is_frozen[rows[may, h.FLOW]]  # it may have been frozen in this very look
        if self.audit is not None and self.audit.running:
            is_free &= ~np.isin(labels, list(self.audit.running))
        may, labels = may[is_free], labels[is_free]
        if len(may) == 0:
            return
        order = np.argsort(labels, kind="stable")
        labels, rows = labels[order], rows[may[order]]
        begin = np.flatnonzero(np.diff(labels, prepend=-1))
        labels, size = labels[begin], np.diff(begin, append=len(rows))
        ask(self._survey, labels, version[labels], rows)
        takes = self.memo.patience.takes(rows[begin, h.FLOW])
        rows, labels, size = rows[np.repeat(takes, size)], labels[takes], size[takes]
        if len(rows) == 0:
            return
        pairs, versions, cut = rows[:, h.FLOW].copy(), version[labels], np.append(0, np.cumsum(size))
        ports, end = self._ports_of_groups.of(pairs, cut)
        self._fresh = Fresh(labels.tolist(), versions.tolist(), pairs, ports, rows, np.stack([cut, end]))

    @property
    def fresh(self) -> Fresh | None:
        """Network partitions that want a key, found by the last `decide`; None: there are none."""
        return self._fresh

    def keyed(self, now_ps: int, keys: Keys) -> list[Replay]:
        """Of those that wanted a key, what need not be simulated."""
        assert self.memo is not None and self._fresh is not None
        new = self.memo.begin(self._fresh, keys, now_ps)
        new = [replay for replay in new if replay.entry is None or replay.end_ps <= self.periodic.until_ps(now_ps)]
        self._frozen.hold(new)
        return new

    def over(self, now_ps: int, rows: np.ndarray) -> list[tuple[Episode, Freeze | None, np.ndarray]]:
        """Episodes that are over, each with how it is frozen, if it is, and its flows' samples.

        Those that were disturbed are dropped, and their followers thaw: see `stranded`.
        """
        over, running = [], [] if self.memo is None else list(self.memo.running.values())
        if not (self._has_frozen or self.looks.is_led_disturbed):
            running = [episode for episode in running if self._check_ps(episode) <= now_ps]
        for episode in running:
            frozen = self._frozen.at(episode.ports[0])
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
        until_ps = self.periodic.until_ps(episode.begin_ps) if episode.followers else NEVER
        return min(episode.check_ps, until_ps)

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
        if self.memo is not None and self.memo.running:
            mine = set(ports.tolist())
            for episode in [e for e in self.memo.running.values() if not mine.isdisjoint(e.port_set)]:
                found += episode.followers
                self.memo.end(episode, None)
        return found

    def _let_go(self, ended: "list[Freeze | Replay]") -> None:
        """Something frozen thaws: nobody leads it any more, and it may lead or follow again."""
        firsts = [freeze.pairs[:: len(freeze.pairs) // freeze.n_member] for freeze in ended]
        thawed(self._survey, self._partitions.label_of_flow[joined(firsts)])
        waits = {id(freeze) for freeze in ended if isinstance(freeze, Replay)}
        for episode in self.memo.running.values() if self.memo is not None and waits else []:
            episode.followers = [follower for follower in episode.followers if id(follower) not in waits]

    def replace(self, replays: list[Replay], over: list[tuple[Replay, Freeze | None]]) -> None:
        """Replays are over: they are, each part of them, frozen in another way, or go on."""
        self._frozen.drop(replays)
        frozen = [freeze for _, freeze in over if freeze is not None]
        self._frozen.hold(frozen)
        self._counters.flow_freezes += sum(len(freeze.pairs) for freeze in frozen)
        if len(frozen) < len(over):
            self.criterion.thawed(joined([replay.pairs for replay, freeze in over if freeze is None]), 0)
        if frozen:
            packet_bytes = self.criterion.settings.packet_bytes
            rates = [for_each(f.done_packets * packet_bytes / f.done_ps, f.n_member) for f in frozen]
            self.criterion.frozen(joined([freeze.pairs for freeze in frozen]), joined(rates), frozen[0].begin_ps)

    def due(self, now_ps: int) -> list[Replay]:
        """Replays of entries that have come to their ends."""
        return self._frozen.replayed(now_ps)

    def _ports(self, flows: np.ndarray) -> np.ndarray:
        return ports_of(flows, self._partitions.port_start, self._partitions.port_of)


def compile_partitions() -> None:
    """Compile what follows network partitions, or load it from the cache."""
    one = make_partitions(np.array([0, 1], np.int64), np.zeros(1, np.int32), 1)
    canonical(one, 0, np.zeros(1, np.int64))
    PortsOfGroups(one.port_start, one.port_of, 1).of(np.zeros(0, np.int64), np.zeros(1, np.int64))
