"""What is frozen, from when to when. Nothing here costs a visit of everything that is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping.holders import Holders
from pdes.skipping.replay.memo import Replay, for_each, joined, of_members

NO_OVERFLOW = 2**62


@dataclass(frozen=True, slots=True)
class Freeze:
    """Frozen network partitions that are alike, and how each would go on: by whole periods."""

    pairs: np.ndarray  # int64, ascending, of one partition behind those of the other
    ports: np.ndarray  # int64, the same
    begin_ps: int
    period_ps: int
    n_period: int  # until its planned end
    done_packets: np.ndarray  # int64[n_pair of one partition]  measured progress:
    done_ps: np.ndarray  # int64[the same]  packets in a time
    marked: np.ndarray  # int64[the same]  and how many of them were marked
    n_member: int = 1  # partitions

    @property
    def end_ps(self) -> int:
        """When it thaws at the latest."""
        return self.begin_ps + self.n_period * self.period_ps

    def shift_ps(self, at_ps: int) -> int:
        """The time by which it has gone on at_ps, whole periods."""
        return min((at_ps - self.begin_ps) // self.period_ps, self.n_period) * self.period_ps

    def progress(self, at_ps: int) -> tuple[int, np.ndarray, np.ndarray]:
        """(time, packets of each flow, marked ones among them) by which it has gone on at_ps, by whole periods."""
        shift_ps = self.shift_ps(at_ps)
        packets, marked = (_in_proportion(shift_ps, count, self.done_ps) for count in (self.done_packets, self.marked))
        return shift_ps, for_each(packets, self.n_member), for_each(marked, self.n_member)

    def part(self, members: np.ndarray) -> "Freeze":
        """Some of the partitions. members: int64[]."""
        pairs, ports = (of_members(array, members, self.n_member) for array in (self.pairs, self.ports))
        return replace(self, pairs=pairs, ports=ports, n_member=len(members))


def _in_proportion(time_ps: int, count: np.ndarray, count_ps: np.ndarray) -> np.ndarray:
    """What comes to pass in a time, rounded to the nearest, if count does in count_ps; int64[n]."""
    if not count.any():
        return count
    if 2 * time_ps * int(count.max()) < NO_OVERFLOW:
        return (2 * time_ps * count + count_ps) // (2 * count_ps)
    each = zip(count.tolist(), count_ps.tolist(), strict=True)
    return np.array([(2 * time_ps * n + t) // (2 * t) for n, t in each], np.int64)


class FrozenSet:
    """Frozen network partitions by numbers that never come again, in their order."""

    def __init__(self, n_flow: int, n_port: int) -> None:
        self.is_frozen = np.zeros(n_flow, np.bool_)
        self.holders = Holders(n_port)  # whose numbers these are
        self.n_flow = 0  # that are frozen
        self._frozen: dict[int, Freeze | Replay] = {}
        self._freeze_ends: list[tuple[int, int]] = []  # heaps of (planned end, number); some are not frozen any more
        self._replay_ends: list[tuple[int, int]] = []

    def __getitem__(self, number: int) -> Freeze | Replay:
        return self._frozen[number]

    def all(self) -> list[Freeze | Replay]:
        """What is frozen."""
        return list(self._frozen.values())

    def at(self, port: int) -> Freeze | Replay | None:
        """What a port is frozen in."""
        return self._frozen.get(self.holders.at(port))

    def of(self, ports: np.ndarray) -> list[int]:
        """Numbers of what any of these ports are frozen in, ascending."""
        return [number for number in self.holders.of(ports) if number in self._frozen]

    def census(self) -> tuple[int, int]:
        """How many freezes, and how many replays. It visits them all: for who asks for a series."""
        n_steady = sum(freeze.n_member for freeze in self._frozen.values() if isinstance(freeze, Freeze))
        return n_steady, sum(freeze.n_member for freeze in self._frozen.values()) - n_steady

    @property
    def first_end_ps(self) -> int:
        """The first planned end, NEVER if there is none."""
        for heap in (self._freeze_ends, self._replay_ends):
            while heap and heap[0][1] not in self._frozen:
                heappop(heap)
        return min((heap[0][0] for heap in (self._freeze_ends, self._replay_ends) if heap), default=NEVER)

    def ended(self, now_ps: int) -> list[int]:
        """Numbers of freezes whose planned ends have come, ascending; they have to be dropped."""
        return self._take(self._freeze_ends, now_ps)

    def replayed(self, now_ps: int) -> list[Replay]:
        """Replays of entries that have come to their ends, in their order; they have to be dropped."""
        found = [self._frozen[number] for number in self._take(self._replay_ends, now_ps)]
        return [replay for replay in found if isinstance(replay, Replay) and replay.entry is not None]

    def _take(self, heap: list[tuple[int, int]], now_ps: int) -> list[int]:
        found = []
        while heap and heap[0][0] <= now_ps:
            number = heappop(heap)[1]
            if number in self._frozen:
                found.append(number)
        return sorted(found)

    def split(self, number: int, ports: np.ndarray) -> tuple[list[Freeze | Replay], list[Freeze | Replay]]:
        """Part those under a number that have one of these ports from those that have none: (some, the others)."""
        whole = self._frozen[number]
        if whole.n_member == 1:
            return [whole], []
        n_port = len(whole.ports) // whole.n_member
        has_port = np.isin(whole.ports, ports).reshape(whole.n_member, n_port).any(axis=1)
        if has_port.all():
            return [whole], []
        some, others = whole.part(np.flatnonzero(has_port)), whole.part(np.flatnonzero(~has_port))
        self.drop([whole])
        self.hold([some, others])
        return [some], [others]

    def number(self, freeze: Freeze | Replay) -> int:
        """That of something frozen."""
        return self.holders.at(freeze.ports[0])

    def hold(self, new: Sequence[Freeze | Replay]) -> None:
        """These are frozen from now on."""
        for freeze in new:
            number = self.holders.hold(freeze.ports)
            self._frozen[number] = freeze
            if freeze.end_ps < NEVER:
                heap = self._freeze_ends if isinstance(freeze, Freeze) else self._replay_ends
                heappush(heap, (freeze.end_ps, number))
            self.n_flow += len(freeze.pairs)
        if new:
            self.is_frozen[joined([freeze.pairs for freeze in new])] = True

    def drop(self, old: Sequence[Freeze | Replay]) -> None:
        """These are not any more."""
        for freeze in old:
            number = self.number(freeze)
            assert self._frozen[number] is freeze
            del self._frozen[number]
            self.n_flow -= len(freeze.pairs)
        if old:
            self.is_frozen[joined([freeze.pairs for freeze in old])] = False
            self.holders.free(joined([freeze.ports for freeze in old]))


def each_of(freeze: Freeze) -> list[Freeze]:
    """Frozen network partitions that are alike, one by one."""
    return [freeze] if freeze.n_member == 1 else [freeze.part(np.array([i])) for i in range(freeze.n_member)]
