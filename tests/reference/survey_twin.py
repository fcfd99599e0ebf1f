"""What a look finds, said plainly: sets of flows, searched from nothing at every look."""

from dataclasses import dataclass, field

from pdes.engine.time_index import NEVER
from pdes.skipping.look.survey import MAX_INTERVAL, PATIENCE


@dataclass(frozen=True)
class Sample:
    """A flow at a look. left_ps: for how long its message goes on."""

    left_ps: int
    end: int
    is_plain: bool


@dataclass
class Part:
    """A network partition as it has been since some look. asked: ends of its messages when a key was asked for."""

    since_ps: int = -1
    asked: dict[int, int] | None = None


@dataclass
class SurveyTwin:
    """ways: the ports of each flow. look_ps: least time between two samples of each."""

    ways: list[set[int]]
    look_ps: list[int]
    active: set[int] = field(default_factory=set)
    parts: dict[frozenset[int], Part] = field(default_factory=dict)
    last_end: dict[int, int] = field(default_factory=dict)

    def part_of(self, flow: int) -> frozenset[int]:
        """The active flows that share ports with a flow, directly or through others."""
        found, waiting = {flow}, [flow]
        while waiting:
            ways = self.ways[waiting.pop()]
            new = {other for other in self.active - found if ways & self.ways[other]}
            found |= new
            waiting += new
        return frozenset(found)

    def look(
        self, now_ps: int, samples: dict[int, Sample], frozen: set[int], needs: tuple[float, float],
        judges_all: bool, must_follow: bool,
    ) -> tuple[set[int], set[int], bool, int]:  # fmt: skip
        """(flows to be judged, flows that may want keys, whether all is calm, how soon to look again)."""
        (n_long, n_memo), nothing = needs, (set(), set(), not samples, NEVER)
        is_any_long = any(s.left_ps > n_long * self.look_ps[flow] for flow, s in samples.items())
        is_any_kept = n_memo >= 0 and any(s.left_ps > n_memo * self.look_ps[flow] for flow, s in samples.items())
        if not (is_any_long or is_any_kept or must_follow or not samples):
            return nothing
        self.active = set(samples) | frozen
        parts = {self.part_of(flow) for flow in self.active}
        before, self.parts = self.parts, {part: self.parts.get(part, Part()) for part in parts}
        judged, fresh, is_calm, soon_ps = nothing
        for part in parts:
            mine = {flow: samples[flow] for flow in part if flow in samples}
            if not mine:
                continue
            every_ps, was_there = max(self.look_ps[flow] for flow in mine), part in before
            is_same = was_there and all(self.last_end.get(flow, 0) == s.end for flow, s in mine.items())
            state = self.parts[part]
            state.since_ps = state.since_ps if is_same and state.since_ps >= 0 else now_ps
            is_long = all(s.left_ps > n_long * every_ps for s in mine.values())
            is_kept = all(s.left_ps > n_memo * every_ps for s in mine.values())
            if is_kept if n_memo >= 0 else is_long:
                is_calm |= was_there
                soon_ps = min(soon_ps, every_ps * slowness((now_ps - state.since_ps) / (PATIENCE * every_ps)))
            if is_any_long and (is_long or judges_all):
                judged |= set(mine)
            is_ready = mine.keys() == part and all(s.is_plain for s in mine.values()) and is_kept
            if n_memo >= 0 and is_ready and state.asked != {flow: s.end for flow, s in mine.items()}:
                fresh |= set(mine)
        self.last_end |= {flow: s.end for flow, s in samples.items()}
        return judged, fresh, is_calm, soon_ps


def slowness(patiences: float) -> int:
    """How many intervals there are between two looks, after so many patiences: twice as many after 1, 3, 7 of them."""
    n = 1
    while n < MAX_INTERVAL and patiences >= 2 * n - 1:
        n *= 2
    return n
