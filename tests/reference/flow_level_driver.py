"""Drives flows at flow level as a model does, and a fluid twin of what comes of it.

The twin is exact: every port hands out its bytes without a break. Ticks come as a model has them: at multiples of the
tick, where something was posted before or something is due.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import prediction as m
from pdes.skipping.fluid.ack_load import Slowdown
from pdes.skipping.fluid.at_flow_level import FlowLevel
from pdes.skipping.fluid.flow_table import (
    FAR_PS,
    NOBODY,
    SHARED,
    TICKS_AHEAD,
)
from pdes.skipping.fluid.make_table import Links
from pdes.skipping.fluid.shares import LEAST_FLOWS, Known, share_key
from pdes.skipping.fluid.weights import MOST_OF_BURST, NOTHING, Uneven

N_PORT, TICK_PS, BEHIND_PS, ACK_PS, QUEUED_PS = 6, 1000, 70, 30, 40
TOLERANCE, ACK_SHARE = 0.02, 0.05
NONE = np.zeros(0, np.int64)
Ways = list[list[int]]


class Message(NamedTuple):
    flow: int
    size: int
    posted_ps: int


def post(message: Message, name: int, end: int, has_shadow: bool = False) -> tuple[int, ...]:
    """A message as it is posted at flow level."""
    return message.flow, name, message.size, end, message.posted_ps, message.size, int(has_shadow)


def in_order(message: Message) -> tuple[int, int]:
    """What is posted at one instant stays as it is listed."""
    return message.flow, message.posted_ps


def level_of(
    ways: Ways, forms: list[int] | None = None, byte_ps: list[int] | None = None, tick_ps: int = TICK_PS
) -> FlowLevel:
    """Flows by the ports of their ways; byte_ps: time that a byte takes, by port."""
    start = np.cumsum([0, *map(len, ways)])
    port_of = np.array([port for way in ways for port in way], np.int32)
    late_ps = np.full(len(ways), BEHIND_PS), np.full(len(ways), ACK_PS)
    rates, way = 1 / np.array(byte_ps or [1] * N_PORT, np.float64), (start, port_of)
    slowest = np.array([rates[ports].min() for ports in ways])
    links = Links(way, way, np.array(forms or [0] * len(ways), np.int64), rates, *late_ps)
    return FlowLevel(links, TOLERANCE, tick_ps, Slowdown(ACK_SHARE, 1 / slowest), 0)


def know(
    level: FlowLevel, forms: Iterable[int], part: float = 1.0, n_most: int = LEAST_FLOWS, uneven: Uneven = NOTHING
) -> None:
    """Of so many at one port, at least LEAST_FLOWS."""
    n_most = max(n_most, LEAST_FLOWS)
    known = Known(part, n_most, QUEUED_PS, uneven)
    level.note(share_key(np.array(sorted(forms), np.int64), n_most), known)


def by_weight(weights: dict[int, float], ratio: Iterable[Iterable[float]] = ((1.0,),)) -> Uneven:
    """Forms with weights; ratio: of messages in bursts, the same for every form."""
    bursts = [list(burst) for burst in ratio]
    ratios = np.zeros((len(weights), len(bursts), MOST_OF_BURST))
    for b, burst in enumerate(bursts):
        ratios[:, b, : len(burst)] = burst
    n_ratio = np.tile(np.array([len(burst) for burst in bursts]), (len(weights), 1))
    forms = sorted(weights)
    return Uneven(np.array(forms), np.array([weights[form] for form in forms]), ratios, n_ratio)


class Driven:
    """Flows at flow level whose ticks come as a model has them."""

    def __init__(self, level: FlowLevel, n_port: int = N_PORT) -> None:
        self.level, self.holder = level, np.full(n_port, NOBODY, np.int32)
        self.predicted: dict[tuple[int, int], np.ndarray] = {}  # by flow and end
        self.broken: list[int] = []
        self._bytes_of: dict[int, int] = {}

    def tick(self, now_ps: int, messages: Iterable[Message] = (), others: Iterable[int] = ()) -> list[int]:
        """One tick; the flows that it breaks."""
        rows = []
        for k, message in enumerate(sorted(messages, key=in_order)):
            end = self._bytes_of[message.flow] = self._bytes_of.get(message.flow, 0) + message.size
            rows.append(post(message, k, end))
        posts = np.array(rows, np.int64).reshape(-1, m.N_POSTED)
        predicted, broken = self.level.tick(now_ps, self.holder, posts, np.array([*others], np.int64))
        for row in predicted.copy():
            key = int(row[m.FLOW]), int(row[m.END])
            assert key not in self.predicted, "predicted twice"
            assert row[m.DELIVERED_PS] >= now_ps, "earlier than the tick that predicts it"
            assert row[m.ENDED_PS] == row[m.DELIVERED_PS] + ACK_PS
            assert row[m.FREE_PS] <= now_ps + TICKS_AHEAD * self.level.tick_ps
            self.predicted[key] = row
        self.broken += broken.tolist()
        self.check()
        return broken.tolist()

    def check(self) -> None:
        """Ports are held by those whose flows have messages, and all else follows from who these are."""
        t = self.level.table
        active = np.flatnonzero(t.partitions.label_of_flow >= 0)
        assert active.tolist() == np.flatnonzero(t.n_message).tolist() and len(active) == self.level.n_flow
        ports = {int(p) for f in active for p in self.way(int(f))}
        assert self.holder.tolist() == [SHARED if p in ports else NOBODY for p in range(len(self.holder))]
        unknown = [int(t.sent_ps[f]) for f in active if not t.is_predicted[f]]
        assert t.first_ps[1] == min(unknown, default=NEVER)

    def way(self, flow: int) -> list[int]:
        p = self.level.table.partitions
        return p.port_of[p.port_start[flow] : p.port_start[flow + 1]].tolist()

    def run(self, messages: Iterable[Message], every: Callable[[int], None] | None = None) -> None:
        """All ticks until nothing is at flow level. every: called after each, with its instant."""
        tick_ps, left, now_ps = self.level.tick_ps, sorted(messages, key=lambda m: m.posted_ps), -1
        while left or self.level.n_flow:
            posted_ps = (left[0].posted_ps // tick_ps + 1) * tick_ps if left else NEVER
            next_ps = min(posted_ps, self.level.next_ps)
            assert now_ps < next_ps < FAR_PS, "it stands still"
            now_ps = next_ps
            new = [message for message in left if message.posted_ps < now_ps]
            left = left[len(new) :]
            self.tick(now_ps, new)
            if every is not None:
                every(now_ps)

    def sent_ps(self, flow: int) -> list[int]:
        """When the last bytes of a flow's messages leave, in order."""
        return [int(row[m.FREE_PS]) for (f, _), row in sorted(self.predicted.items()) if f == flow]


def max_min(
    ways: dict[int, list[int]], line: list[Fraction], weight: Sequence[Fraction] | None = None
) -> dict[int, Fraction]:
    """Progressive filling: all rates rise together, each as fast as its weight says, until a port is full, and those
    who use it stop."""
    rates: dict[int, Fraction] = {}
    w = dict.fromkeys(ways, Fraction(1)) if weight is None else {f: weight[f] for f in ways}
    while len(rates) < len(ways):
        active = [f for f in ways if f not in rates]
        n_at = [sum((w[f] for f in active if p in ways[f]), Fraction(0)) for p in range(len(line))]
        left = [line[p] - sum((rates[f] for f in rates if p in ways[f]), Fraction(0)) for p in range(len(line))]
        level = min(left[p] / n_at[p] for p in range(len(line)) if n_at[p])
        full = {p for p in range(len(line)) if n_at[p] and left[p] / n_at[p] == level}
        rates |= {f: level * w[f] for f in active if full & set(ways[f])}
    return rates


def fluid(
    ways: Ways, line: list[Fraction], part: Fraction, messages: Iterable[Message],
    weight: Sequence[Fraction] | None = None,
) -> dict[int, list[Fraction]]:  # fmt: skip
    """When the last bytes of each flow's messages leave: event by event, without ticks, with exact numbers."""
    sent: dict[int, list[Fraction]] = {f: [] for f in range(len(ways))}
    queue: dict[int, list[Message]] = {f: [m for m in sorted(messages, key=in_order) if m.flow == f] for f in sent}
    left: dict[int, Fraction] = {}
    now = Fraction(0)
    while left or any(queue.values()):
        for f in sent:
            if f not in left and queue[f] and queue[f][0].posted_ps <= now:
                left[f] = Fraction(queue[f].pop(0).size)
        rates = {f: part * rate for f, rate in max_min({f: ways[f] for f in left}, line, weight).items()}
        posts = [Fraction(queue[f][0].posted_ps) for f in sent if f not in left and queue[f]]
        next_time = min([now + left[f] / rates[f] for f in left] + posts)
        for f in [*left]:
            left[f] -= rates[f] * (next_time - now)
            if left[f] == 0:
                del left[f]
                sent[f].append(next_time)
        now = next_time
    return sent
