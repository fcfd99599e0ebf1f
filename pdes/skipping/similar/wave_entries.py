"""Waves that begin, that are simulated and that are replayed, and what those came to that are over (`waves`)."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pdes.engine.jit import loop_kernel
from pdes.skipping import history as h
from pdes.skipping import prediction as m

MAX_ENTRIES = 256  # of one key


@dataclass
class WaveCounters:
    """For the results."""

    waves: int = 0  # that were simulated from beginning to end
    replayed: int = 0
    interrupted: int = 0
    broken: int = 0  # simulated, and somebody came, or a queue pair went on to another message
    audited: int = 0


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


def mean_of(entries: list[WaveEntry]) -> WaveEntry:
    """As the first of them, but every message takes as long, from its posting on, as it does on average."""
    nearest = entries[0]
    delivered_ps = sum(each.delivered_ps - each.posted_ps for each in entries) // len(entries)
    ended_ps = sum(each.ended_ps - each.posted_ps for each in entries) // len(entries)
    return replace(nearest, delivered_ps=nearest.posted_ps + delivered_ps, ended_ps=nearest.posted_ps + ended_ps)


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

    @cached_property
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
        """When messages come across: each takes as long as its counterparts did."""
        return self.of.rows[:, h.POSTED_PS] + (self.entry.delivered_ps - self.entry.posted_ps)

    @property
    def ended_ps(self) -> np.ndarray:
        """When they are acknowledged."""
        return self.of.rows[:, h.POSTED_PS] + (self.entry.ended_ps - self.entry.posted_ps)

    @property
    def predictions(self) -> np.ndarray:
        """How its messages end, see `prediction`."""
        rows, found = self.of.rows, np.zeros((len(self.pairs), m.N_COLUMN), np.int64)
        found[:, m.FLOW], found[:, m.ID], found[:, m.END] = self.pairs, rows[:, h.ID], rows[:, h.MESSAGE_END]
        found[:, m.POSTED_PS], found[:, m.WHOLE] = rows[:, h.POSTED_PS], self.of.sizes
        found[:, m.SIZE], found[:, m.BEGIN_PS] = rows[:, h.MESSAGE_END] - rows[:, h.DONE], self.begin_ps
        found[:, m.DELIVERED_PS], found[:, m.ENDED_PS] = self.delivered_ps, self.ended_ps
        found[:, m.MARKED] = self.entry.marked
        return found

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
