"""What network partitions came to that began in the same state (Wormhole section 4).

An episode begins when a network partition has its present flows, at the first look that finds them all under way. Its
key is the partition's packet state, numbered in the order of ids, so partitions with equal keys behave alike to the ps
until a message ends or somebody comes. The first with a key is simulated and leads; others that begin while it runs
stand still and take over what it has come to: when it is frozen, or just before its first message could end. What has
been found is kept for those that begin later.

Deviations from the paper: the key is the whole state and not a conflict graph of rates (equal graphs do not behave
alike); isomorphism is equality under the numbering that keeps the order in which ports and flows take turns; the value
has the whole state at the end, so that nothing is estimated.
"""

from dataclasses import asdict, dataclass, field

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.wormhole import history as h

BITS_PER_BYTE, PS_PER_S = 8, 10**12
WORD_BYTES = 8
GUARD_PACKETS = 8  # of a leader's message that are still to be sent when its followers are let go


@dataclass(frozen=True)
class Entry:
    """What an episode came to. Arrays have one element per flow (or port), in the order of ids."""

    duration_ps: int
    words: np.ndarray  # int64[]  the state at its end
    done_bytes: np.ndarray
    sent_bytes: np.ndarray
    marked: np.ndarray
    port_bytes: np.ndarray  # that each port has sent on the way
    n_draw: int  # random numbers drawn on the way
    progress: tuple[int, int, np.ndarray, np.ndarray, np.ndarray] | None  # it ended steady: see `Freeze`


@dataclass
class Replay:
    """A network partition that stands still while what it comes to is known, or is being found out."""

    pairs: np.ndarray
    ports: np.ndarray
    begin_ps: int
    rows: np.ndarray  # its flows' samples then
    end_ps: int  # NEVER while its leader runs
    entry: Entry | None = None
    cause: str = "follower"  # or "memo", "memo_file": where its entry comes from

    @property
    def left_bytes(self) -> np.ndarray:
        """Of each message, what is not sent at the beginning."""
        return self.rows[:, h.MESSAGE_END] - self.rows[:, h.SENT]

    def done_byte(self, entry: Entry) -> np.ndarray:
        """What is acknowledged at the end of an entry."""
        return self.rows[:, h.DONE] + entry.done_bytes

    def left_after(self, entry: Entry) -> np.ndarray:
        """Of each message, what is not sent at the end of an entry."""
        return self.left_bytes - entry.sent_bytes

    def shift_ps(self, at_ps: int) -> int:
        """Nothing, see `progress`."""
        return 0

    def progress(self, at_ps: int) -> tuple[int, np.ndarray, np.ndarray]:
        """Nothing: if it is interrupted it goes on from its beginning."""
        none = np.zeros(len(self.pairs), np.int64)
        return 0, none, none


@dataclass
class Episode:
    """A network partition that is simulated, and those that wait for what it comes to."""

    key: bytes
    label: int
    version: int
    pairs: np.ndarray
    ports: np.ndarray
    begin_ps: int
    rows: np.ndarray  # its flows' samples at the beginning
    n_draw: int
    sent: np.ndarray  # bytes that its ports had sent
    followers: list[Replay] = field(default_factory=list)
    check_ps: int = NEVER  # its messages cannot end before

    def entry(
        self, now_ps: int, rows: np.ndarray, words: np.ndarray, n_draw: int, sent: np.ndarray, progress: tuple | None
    ) -> Entry:  # fmt: skip
        """What it has come to, from its flows' samples now."""
        moved = rows - self.rows
        return Entry(
            now_ps - self.begin_ps, words, moved[:, h.DONE], moved[:, h.SENT],
            moved[:, h.MARKED], sent - self.sent, n_draw - self.n_draw, progress,
        )  # fmt: skip


@dataclass
class MemoCounters:
    """For the results."""

    episodes: int = 0
    followed: int = 0
    hits: int = 0
    hits_read: int = 0  # of them, those of entries that an earlier run has found
    misses: int = 0
    broken: int = 0


class Memo:
    """Episodes that run, and entries of those that are over."""

    def __init__(self, line_bps: np.ndarray, look_ps: int, packet_bytes: int) -> None:
        """line_bps: int64[n_flow], the most that a flow can send."""
        self.entries: dict[bytes, Entry] = {}
        self.running: dict[int, Episode] = {}  # by label
        self.is_shared = False  # with other runs: then what nobody waits for is found out, too
        self._read: dict[bytes, Entry] = {}
        self.counters = MemoCounters()
        self._line_bps, self._look_ps, self._packet_bytes = line_bps, look_ps, packet_bytes
        self._keyed: dict[int, tuple[int, ...]] = {}  # version and messages of a label when it was keyed last

    def start_with(self, entries: dict[bytes, Entry]) -> None:
        """Have entries that earlier runs have found; the same on every rank, before anything runs."""
        self.entries.update(entries)
        self._read, self.is_shared = entries, True

    @property
    def found(self) -> dict[bytes, Entry]:
        """Entries that this run has found."""
        return {key: entry for key, entry in self.entries.items() if self._read.get(key) is not entry}

    def facts(self) -> dict[str, int]:
        """For the results: what happened, and how large it is at the end."""
        n_word = sum(len(entry.words) for entry in self.entries.values())
        return asdict(self.counters) | {"entries": len(self.entries), "entries_bytes": WORD_BYTES * n_word}

    def is_fresh(self, label: int, version: int, rows: np.ndarray) -> bool:
        """Whether a network partition has not been keyed yet as it is, with these messages."""
        return self._keyed.get(label) != (version, *rows[:, h.MESSAGE_END].tolist())

    def forget(self, label: int) -> None:
        """Let a network partition be keyed again as it is: it has been frozen in the meantime."""
        self._keyed.pop(label, None)

    def begin(
        self, key: bytes, label: int, version: int, pairs: np.ndarray, ports: np.ndarray, now_ps: int, rows: np.ndarray,
        n_draw: int, sent: np.ndarray,
    ) -> Replay | None:  # fmt: skip
        """Key a network partition; what it becomes if it need not be simulated.

        rows: its flows' samples. sent: bytes, by its ports.
        """
        self._keyed[label] = (version, *rows[:, h.MESSAGE_END].tolist())
        left = rows[:, h.MESSAGE_END] - rows[:, h.SENT]
        replay = Replay(pairs, ports, now_ps, rows.copy(), NEVER)
        entry = self.entries.get(key)
        if entry is not None and (replay.left_after(entry) >= self._packet_bytes).all():
            end_ps = now_ps + entry.duration_ps
            is_ahead = (replay.done_byte(entry) >= rows[:, h.DONE]).all()
            if end_ps > now_ps and is_ahead:
                self.counters.hits += 1
                self.counters.hits_read += self._read.get(key) is entry
                replay.entry, replay.end_ps = entry, end_ps
                replay.cause = "memo_file" if self._read.get(key) is entry else "memo"
                return replay
        for episode in self.running.values():
            leader_left = episode.rows[:, h.MESSAGE_END] - episode.rows[:, h.SENT] if episode.key == key else None
            if leader_left is not None and episode.begin_ps == now_ps and (left >= leader_left).all():
                check_ps = episode.check_ps if episode.followers else self.check_ps(now_ps, episode.rows)
                if check_ps <= now_ps:
                    return None
                self.counters.followed += 1
                episode.followers.append(replay)
                episode.check_ps = check_ps
                return replay
        check_ps = self.check_ps(now_ps, rows) if self.is_shared else NEVER
        if check_ps > now_ps:
            self.counters.misses += 1
            self.counters.episodes += 1
            self.running[label] = Episode(
                key, label, version, pairs, ports, now_ps, rows.copy(), n_draw, sent, check_ps=check_ps
            )
        return None

    def check_ps(self, now_ps: int, rows: np.ndarray) -> int:
        """An instant before which no message of these flows ends, at most now_ps if one may soon."""
        left = rows[:, h.MESSAGE_END] - rows[:, h.SENT] - GUARD_PACKETS * self._packet_bytes
        each = [n * BITS_PER_BYTE * PS_PER_S // int(line) for n, line in
                zip(left.tolist(), self._line_bps[rows[:, h.FLOW]].tolist(), strict=True)]  # fmt: skip
        least_ps = min(each)
        return now_ps + least_ps if least_ps > self._look_ps // 4 else now_ps

    def end(self, episode: Episode, entry: Entry | None) -> None:
        """An episode is over; entry: what it came to, None if it was disturbed."""
        del self.running[episode.label]
        if entry is None:
            self.counters.broken += 1
        elif entry.n_draw == 0:
            self.entries[episode.key] = entry
