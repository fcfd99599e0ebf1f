"""What network partitions become that want keys at once, against one after the other."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdes.engine.time_index import NEVER
from pdes.skipping import history as h
from pdes.skipping.replay import memo as memo_module
from pdes.skipping.replay.memo import Entry, Fresh, Keys, Memo, Replay

PACKET_BYTES, LINE_BPS, NOW_PS, LOOK_PS = 1000, 10**11, 10**9, 10**7
N_FLOW = 2  # of each network partition
KEYS = (b"a", b"b")


@dataclass(frozen=True)
class Part:
    """One that wants a key, and how many packets each of its messages has left."""

    key: bytes
    left: tuple[int, ...]


def parts() -> st.SearchStrategy[list[Part]]:
    left = st.tuples(*[st.sampled_from([3, 40, 41, 60])] * N_FLOW)
    return st.lists(st.builds(Part, st.sampled_from(KEYS), left), min_size=1, max_size=8)


def fresh_of(found: list[Part]) -> Fresh:
    n = len(found)
    pairs, ports = np.arange(N_FLOW * n), np.arange(3 * n)
    rows = np.zeros((N_FLOW * n, h.N_COLUMN), np.int64)
    rows[:, h.FLOW] = pairs
    rows[:, h.MESSAGE_END] = PACKET_BYTES * np.array([each for part in found for each in part.left])
    ends = np.stack([N_FLOW * np.arange(n + 1), 3 * np.arange(n + 1)])
    return Fresh(list(range(n)), [7] * n, pairs, ports, rows, ends)


def memo_with(packets: int | None, is_shared: bool) -> Memo:
    """A memo that knows of the first key that its flows send so many packets, if any."""
    memo = Memo(np.full(100, LINE_BPS), LOOK_PS, PACKET_BYTES)
    memo.is_shared = is_shared
    if packets is not None:
        sent, none = np.full(N_FLOW, packets * PACKET_BYTES), np.zeros(N_FLOW, np.int64)
        memo.entries[KEYS[0]] = Entry(1000, none, sent, sent, none, np.zeros(3, np.int64), 0, None)
    return memo


def one_by_one(found: list[Part], packets: int | None, is_shared: bool) -> tuple[dict[int, str], list[set[int]]]:
    """(what becomes of each: "hit", "leads", "follows" or "runs"; those that follow each that leads)."""

    def may_end_soon(part: Part) -> bool:
        return (min(part.left) - 8) * PACKET_BYTES * 8 * 10**12 // LINE_BPS <= LOOK_PS // 4

    became, led = {}, {}
    for i, part in enumerate(found):
        if packets is not None and part.key == KEYS[0] and min(part.left) > packets:
            became[i] = "hit"
            continue
        like = [k for k in led if found[k].key == part.key and all(np.array(part.left) >= found[k].left)]
        if like:
            became[i] = "runs" if may_end_soon(found[like[0]]) else "follows"
            led[like[0]] |= {i} if became[i] == "follows" else set()
        elif is_shared and may_end_soon(part):
            became[i] = "runs"
        else:
            became[i], led[i] = "leads", set()
    return became, list(led.values())


@given(parts(), st.none() | st.sampled_from([20, 50]), st.booleans())
def test_those_keyed_at_once_become_what_they_would_one_by_one(found, packets, is_shared: bool) -> None:
    memo, fresh = memo_with(packets, is_shared), fresh_of(found)
    keys = Keys([part.key for part in found], [0] * len(found), np.arange(3 * len(found)))
    became, followers = one_by_one(found, packets, is_shared)
    replays = memo.begin(fresh, keys, NOW_PS)
    hits = [replay for replay in replays if replay.entry is not None]
    assert {int(flow) // N_FLOW for r in hits for flow in r.pairs} == {i for i in became if became[i] == "hit"}
    assert sorted(memo.running) == [i for i in became if became[i] == "leads"]
    led = [{int(flow) // N_FLOW for r in memo.running[i].followers for flow in r.pairs} for i in sorted(memo.running)]
    assert led == followers
    for replay in replays:
        first = replay.pairs[::N_FLOW] // N_FLOW
        assert replay.n_member == len(first) and replay.end_ps == (NEVER if replay.entry is None else NOW_PS + 1000)
        assert replay.ports.tolist() == [3 * i + k for i in first for k in range(3)]
        assert (replay.rows == fresh.rows[replay.pairs]).all()
    for i, episode in memo.running.items():
        assert episode.sent.tolist() == episode.ports.tolist() == [3 * i, 3 * i + 1, 3 * i + 2]
    counters = memo.counters
    names = ("hits", "followed", "misses")
    assert [getattr(counters, name) for name in names] == [
        list(became.values()).count(what) for what in ("hit", "follows", "leads")
    ]


def test_what_was_used_longest_ago_is_forgotten_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of 4 words, room for 14, one read from a file beside them; "a" is used again before the fourth comes."""
    monkeypatch.setattr(memo_module, "MAX_WORDS", 14)
    memo = Memo(np.full(100, LINE_BPS), LOOK_PS, PACKET_BYTES)
    sent, none = np.full(N_FLOW, PACKET_BYTES), np.zeros(N_FLOW, np.int64)
    entry = Entry(1000, np.zeros(4, np.int64), sent, sent, none, np.zeros(3, np.int64), 0, None)
    memo.start_with({b"read": entry})

    def begin(key: bytes) -> list[Replay]:
        return memo.begin(fresh_of([Part(key, (60, 60))]), Keys([key], [0], np.arange(3)), NOW_PS)

    def find_out(key: bytes) -> None:
        assert not begin(key)
        (episode,) = memo.running.values()
        memo.end(episode, entry)

    for key in (b"a", b"b", b"c"):
        find_out(key)
    assert begin(b"a")[0].entry is entry
    find_out(b"d")
    assert set(memo.entries) == {b"read", b"a", b"c", b"d"} and set(memo.found) == {b"a", b"c", b"d"}
    find_out(b"e")
    assert set(memo.entries) == {b"read", b"a", b"d", b"e"}
    assert memo.counters.forgotten == 2 and memo.facts()["entries_bytes"] == 8 * 16
