"""The forecast "periodic": a network partition that has settled goes on by whole periods (Wormhole section 5).

How long it is frozen is up to what its criterion allows, the ends of its messages, and instants that no skip may pass.
"""

from bisect import bisect_right
from math import lcm

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.criterion import Criterion
from pdes.skipping.flow_ports import ports_of
from pdes.skipping.frozen import Freeze
from pdes.skipping.partitions import Partitions, canonical
from pdes.skipping.replay.memo import Entry, Replay
from pdes.skipping.steady import Verdict

MAX_CYCLE_PACKETS = 4096
AHEAD = 32  # part of a period by which flows may get ahead of their mean rates in it
MAX_KEPT = 2**14  # sets of flows whose ports are kept


class Periodic:
    """Plans freezes; alike on every rank."""

    def __init__(self, partitions: Partitions, criterion: Criterion, known_ps: np.ndarray) -> None:
        """criterion: is told of what was found steady. known_ps: instants, ascending, that no skip may pass."""
        self._partitions, self._criterion, self._settings = partitions, criterion, criterion.settings
        self._known_ps = known_ps.tolist()
        self._members = np.zeros(len(partitions.label_of_flow), np.int64)
        self._ports_of: dict[bytes, np.ndarray] = {}  # by flows

    def until_ps(self, now_ps: int) -> int:
        """The next instant that no skip may pass, NEVER if there is none."""
        i = bisect_right(self._known_ps, now_ps)
        return self._known_ps[i] if i < len(self._known_ps) else NEVER

    @property
    def _least_ps(self) -> int:
        """No skip is shorter."""
        return self._settings.least_looks * self._settings.look_ps

    def plan(self, now_ps: int, label: int, rows: np.ndarray, verdict: Verdict) -> Freeze | None:
        """How a network partition is frozen that has settled; None: not worth it. rows, verdict: what was judged."""
        n = canonical(self._partitions, label, self._members)
        pairs = self._members[:n].copy()
        at = np.searchsorted(rows[:, h.FLOW], pairs)
        span_ps, packets = verdict.span_ps[at], verdict.done_bytes[at] // self._settings.packet_bytes
        cycle_packets = verdict.cycle_bytes[at] // self._settings.packet_bytes
        period_ps, is_exact = _period_ps(span_ps, packets, verdict.last_ps[at], cycle_packets)
        ahead_ps = 0 if is_exact else period_ps // AHEAD
        n_period = min(int(verdict.may_ps[at].min()) - ahead_ps, self.until_ps(now_ps) - now_ps) // period_ps
        if n_period * period_ps < self._least_ps:
            return None
        self._criterion.frozen(pairs, verdict.done_bytes[at] / span_ps, now_ps)
        return Freeze(pairs, self._own_ports(pairs), now_ps, period_ps, n_period, packets, span_ps, verdict.marked[at])

    def steady_after(self, replay: Replay, entry: Entry, now_ps: int) -> list[tuple[Replay, Freeze | None]]:
        """How each part of a replay is frozen whose entry ended steady; None: it is not worth it."""
        if entry.progress is None:
            return [(replay, None)]
        period_ps, may_n_period, packets, done_ps, marked = entry.progress
        guard_bytes, packet_bytes = (
            self._settings.guard_packets * self._settings.packet_bytes,
            self._settings.packet_bytes,
        )
        left = (replay.left_after(entry) - guard_bytes).reshape(replay.n_member, -1)
        measured = list(zip(done_ps.tolist(), packets.tolist(), strict=True))
        parts: dict[int, list[int]] = {}  # members by the periods that they may be skipped
        is_one = bool((left == left[0]).all())
        for i, mine in enumerate(left[:1].tolist() if is_one else left.tolist()):
            least_ps = min(n * t // (p * packet_bytes) for n, (t, p) in zip(mine, measured, strict=True))
            n_period = min(may_n_period, min(least_ps, self.until_ps(now_ps) - now_ps) // period_ps)
            parts.setdefault(n_period if n_period * period_ps >= self._least_ps else 0, []).append(i)
        found: list[tuple[Replay, Freeze | None]] = []
        for n_period, members in parts.items():
            part, freeze = replay if len(parts) == 1 else replay.part(np.array(members)), None
            if n_period > 0:
                shape = (packets, done_ps, marked, part.n_member)
                freeze = Freeze(part.pairs, part.ports, now_ps, period_ps, n_period, *shape)
            found.append((part, freeze))
        return found

    def _own_ports(self, flows: np.ndarray) -> np.ndarray:
        """The ports of flows, ascending: not to be written, as they are kept for the next time."""
        name = flows.tobytes()
        if name not in self._ports_of:
            if len(self._ports_of) >= MAX_KEPT:
                self._ports_of.clear()
            self._ports_of[name] = np.unique(ports_of(flows, self._partitions.port_start, self._partitions.port_of))
        return self._ports_of[name]


def _period_ps(
    span_ps: np.ndarray, packets: np.ndarray, last_ps: np.ndarray, cycle_packets: np.ndarray
) -> tuple[int, bool]:
    """The time in which everything repeats itself, and whether it does so to the ps.

    If all flows send at one and the same rate, it is some packets' time: as many as their controls need for one turn,
    which they take once per round trip (cycle_packets: a multiple of that for each flow, 0: none).
    """
    gap_ps = span_ps // packets
    if (gap_ps * packets == span_ps).all() and (gap_ps == gap_ps[0]).all():
        together = lcm(*np.unique(np.maximum(cycle_packets, 1)).tolist())  # of Python's numbers, which have no end
        if together <= MAX_CYCLE_PACKETS:
            return together * int(gap_ps[0]), True
    return int(last_ps[0]), False
