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

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.replay.patience import Patience
from pdes.units import BITS_PER_BYTE, PS_PER_S

WORD_BYTES = 8
MAX_WORDS = 2**25  # of what a run has found and keeps: 256 MB
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


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays one behind the other."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def for_each(array: np.ndarray, n_member: int) -> np.ndarray:
    """What is said of one, for each of n_member that are alike."""
    return array if n_member == 1 else np.concatenate([array] * n_member)


def of_members(array: np.ndarray, members: np.ndarray, n_member: int) -> np.ndarray:
    """Of an array that has as many rows of each of n_member, one behind the other, those of some."""
    return array.reshape(n_member, -1, *array.shape[1:])[members].reshape(-1, *array.shape[1:])


@dataclass(frozen=True)
class Fresh:
    """Network partitions that want a key, one behind the other."""

    labels: list[int]
    versions: list[int]
    pairs: np.ndarray
    ports: np.ndarray
    rows: np.ndarray  # their flows' samples
    ends: np.ndarray  # int64[2, n + 1]  where each one's queue pairs and ports begin

    def places(self, members: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(where their queue pairs are, where their ports are) of some that are alike."""
        begin, size = self.ends[:, members], self.ends[:, members[0] + 1] - self.ends[:, members[0]]
        return (begin[0][:, None] + np.arange(size[0])).ravel(), (begin[1][:, None] + np.arange(size[1])).ravel()


@dataclass(frozen=True)
class Keys:
    """What was found of network partitions that wanted one."""

    key: list[bytes]
    n_draw: list[int]  # random numbers drawn so far
    sent: np.ndarray  # int64[]  bytes that their ports have sent so far, one behind the other


@dataclass
class Replay:
    """Network partitions, all alike, that stand still while what they come to is known, or is being found out."""

    pairs: np.ndarray  # of one behind those of the other, as all that follows
    ports: np.ndarray
    begin_ps: int
    rows: np.ndarray  # their flows' samples then
    end_ps: int  # NEVER while its leader runs
    entry: Entry | None = None
    cause: str = "follower"  # or "memo", "memo_file": where its entry comes from
    n_member: int = 1  # network partitions

    def part(self, members: np.ndarray) -> "Replay":
        """Some of them. members: int64[]."""
        pairs, ports, rows = (
            of_members(array, members, self.n_member) for array in (self.pairs, self.ports, self.rows)
        )
        return replace(self, pairs=pairs, ports=ports, rows=rows, n_member=len(members))

    @property
    def left_bytes(self) -> np.ndarray:
        """Of each message, what is not sent at the beginning."""
        return self.rows[:, h.MESSAGE_END] - self.rows[:, h.SENT]

    def done_byte(self, entry: Entry) -> np.ndarray:
        """What is acknowledged at the end of an entry."""
        return self.rows[:, h.DONE] + for_each(entry.done_bytes, self.n_member)

    def left_after(self, entry: Entry) -> np.ndarray:
        """Of each message, what is not sent at the end of an entry."""
        return self.left_bytes - for_each(entry.sent_bytes, self.n_member)

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

    @cached_property
    def port_set(self) -> frozenset[int]:
        """Its ports."""
        return frozenset(self.ports.tolist())

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
    forgotten: int = 0  # entries that were used longest ago, when there was no room for all


class Memo:
    """Episodes that run, and entries of those that are over."""

    def __init__(self, line_bps: np.ndarray, look_ps: int, packet_bytes: int) -> None:
        """line_bps: int64[n_flow], the most that a flow can send."""
        self.entries: dict[bytes, Entry] = {}
        self.running: dict[int, Episode] = {}  # by label
        self.is_shared = False  # with other runs: then what nobody waits for is found out, too
        self._read: dict[bytes, Entry] = {}
        self._untried: dict[bytes, None] = {}  # keys of those that were read and have not been wanted yet
        self._n_word_of: dict[bytes, int] = {}  # of entries that this run has found, the one used longest ago first
        self._n_word = 0  # of all these
        self.n_refused = 0  # of those that were read: they were wrong
        self.counters = MemoCounters()
        self._line_bps, self._look_ps, self._packet_bytes = line_bps, look_ps, packet_bytes
        self.patience = Patience(len(line_bps))

    def start_with(self, entries: dict[bytes, Entry]) -> None:
        """Have entries that earlier runs have found; the same on every rank, before anything runs."""
        self.entries.update(entries)
        self._read, self._untried, self.is_shared = entries, dict.fromkeys(entries), True

    def is_untried(self, key: bytes) -> bool:
        """Whether an entry was read, and nobody has said that it may be used or not."""
        return key in self._untried

    def trust(self, key: bytes) -> None:
        """An entry that was read is a state that its network partition can come to."""
        del self._untried[key]

    def refuse(self, key: bytes) -> None:
        """An entry that was read is wrong: it is as if it had not been."""
        del self._untried[key], self._read[key], self.entries[key]
        self.n_refused += 1

    @property
    def found(self) -> dict[bytes, Entry]:
        """Entries that this run has found."""
        return {key: entry for key, entry in self.entries.items() if self._read.get(key) is not entry}

    def facts(self) -> dict[str, int]:
        """For the results: what happened, and how large it is at the end."""
        n_word = sum(len(entry.words) for entry in self.entries.values())
        return asdict(self.counters) | {"entries": len(self.entries), "entries_bytes": WORD_BYTES * n_word}

    def begin(self, fresh: Fresh, keys: Keys, now_ps: int) -> list[Replay]:
        """Key network partitions; those that need not be simulated."""
        alike: dict[bytes, list[int]] = {}
        for i, key in enumerate(keys.key):
            alike.setdefault(key, []).append(i)
        return [replay for key, members in alike.items() for replay in self._begin(key, members, fresh, keys, now_ps)]

    def _begin(self, key: bytes, members: list[int], fresh: Fresh, keys: Keys, now_ps: int) -> Iterator[Replay]:
        """The same for those with one key."""
        entry, rest = self.entries.get(key), np.arange(len(members))
        if entry is None and len(members) == 1:
            self._lead(key, members[0], fresh, keys, now_ps)
            return
        flows, ports = fresh.places(members)
        every = Replay(fresh.pairs[flows], fresh.ports[ports], now_ps, fresh.rows[flows], NEVER, n_member=len(members))
        if entry is not None and entry.duration_ps > 0 and (entry.done_bytes >= 0).all():
            reaches = (every.left_after(entry) >= self._packet_bytes).reshape(len(members), -1).all(axis=1)
            if reaches.any():
                if key in self._n_word_of:
                    self._n_word_of[key] = self._n_word_of.pop(key)
                is_read = self._read.get(key) is entry
                self.counters.hits += int(reaches.sum())
                self.counters.hits_read += int(reaches.sum()) * is_read
                replay = every.part(rest[reaches])
                replay.entry, replay.end_ps = entry, now_ps + entry.duration_ps
                replay.cause = "memo_file" if is_read else "memo"
                yield replay
                rest = rest[~reaches]
        left = every.left_bytes.reshape(len(members), -1)
        while len(rest):
            first, rest = int(rest[0]), rest[1:]
            episode = self._lead(key, members[first], fresh, keys, now_ps)
            follows = (left[rest] >= left[first]).all(axis=1)
            if episode is None or not follows.any():
                continue
            check_ps = self.check_ps(now_ps, episode.rows)
            if check_ps > now_ps:
                self.counters.followed += int(follows.sum())
                episode.followers.append(every.part(rest[follows]))
                episode.check_ps = check_ps
                yield episode.followers[0]
            rest = rest[~follows]

    def _lead(self, key: bytes, i: int, fresh: Fresh, keys: Keys, now_ps: int) -> Episode | None:
        """Simulate the i-th, for others to follow."""
        (flow, end_flow), (port, end_port) = fresh.ends[:, i : i + 2].tolist()
        rows = fresh.rows[flow:end_flow].copy()
        check_ps = self.check_ps(now_ps, rows) if self.is_shared else NEVER
        if check_ps <= now_ps:
            return None
        self.counters.misses += 1
        self.counters.episodes += 1
        episode = Episode(
            key, fresh.labels[i], fresh.versions[i], fresh.pairs[flow:end_flow].copy(),
            fresh.ports[port:end_port].copy(), now_ps, rows, keys.n_draw[i], keys.sent[port:end_port].copy(),
            check_ps=check_ps,
        )  # fmt: skip
        self.running[episode.label] = episode
        return episode

    def check_ps(self, now_ps: int, rows: np.ndarray) -> int:
        """An instant before which no message of these flows ends, at most now_ps if one may soon."""
        left = rows[:, h.MESSAGE_END] - rows[:, h.SENT] - GUARD_PACKETS * self._packet_bytes
        each = [n * BITS_PER_BYTE * PS_PER_S // int(line) for n, line in
                zip(left.tolist(), self._line_bps[rows[:, h.FLOW]].tolist(), strict=True)]  # fmt: skip
        least_ps = min(each)
        return now_ps + least_ps if least_ps > self._look_ps // 4 else now_ps

    def put_in_place(self, whole: Replay, parts: list[Replay]) -> None:
        """What followed as one does so in parts."""
        for episode in self.running.values():
            others = [follower for follower in episode.followers if follower is not whole]
            if len(others) < len(episode.followers):
                episode.followers = others + parts

    def end(self, episode: Episode, entry: Entry | None) -> None:
        """An episode is over; entry: what it came to, None if it was disturbed."""
        del self.running[episode.label]
        firsts = [episode.pairs[:1], *(f.pairs.reshape(f.n_member, -1)[:, 0] for f in episode.followers)]
        self.patience.note(np.concatenate(firsts), entry is None)
        if entry is None:
            self.counters.broken += 1
        elif entry.n_draw == 0:
            self._keep(episode.key, entry)

    def _keep(self, key: bytes, entry: Entry) -> None:
        """Have one more; those that were used longest ago go if that is more than there is room for."""
        self._n_word -= self._n_word_of.pop(key, 0)
        self.entries[key], self._n_word_of[key] = entry, len(entry.words)
        self._n_word += len(entry.words)
        while self._n_word > MAX_WORDS and len(self._n_word_of) > 1:
            oldest = next(iter(self._n_word_of))
            self._n_word -= self._n_word_of.pop(oldest)
            del self.entries[oldest]
            self.counters.forgotten += 1


def by_entry(due: list[tuple[Replay, Entry]]) -> list[tuple[Entry, list[Replay]]]:
    """Replays that take over the same entry, together, in their order."""
    alike: dict[int, tuple[Entry, list[Replay]]] = {}
    for replay, entry in due:
        alike.setdefault(id(entry), (entry, []))[1].append(replay)
    return list(alike.values())
