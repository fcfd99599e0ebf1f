"""Claims about entries of `[wormhole] memo` that no run has found: they are named, not used, and change no flow."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from models.network.skip.snapshot import EGRESS_SIDE, LINK, RECEIVER, SENDER
from models.network.skip.state_words import PACKET_WORDS
from models.network.verify.entry_trial import EntryTrial
from pdes.config import load_config
from pdes.skipping.replay.blocks import HEADER_WORDS, blocks
from pdes.skipping.replay.memo import Entry
from pdes.skipping.replay.memo_file import MemoFile, unpack

LIMIT = 2**24
N_DAMAGE = 12  # of each kind; the tier `all` has so many
N_SENDER = 12  # words before the control's
NEXT_SEND, DEADLINE, CHECK = 2, 10, 11  # instants among them
SEQUENCE, PATH, SIZE, BITS, QUEUE, WHERE = range(1, 7)  # words of a packet behind its flow's row
SENT_PS, N_HOP, FIRST_HOP, HOP_WORDS = 0, 1, 2, 4  # of what it carries
CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[workload]
kind = "flows"
file = "flows.csv"
[wormhole]
mode = "exact"
paper.forecasts = ["replay"]
"""
FLOWS = """\
src,dst,size_bytes,start_ps
0,2,4000000,0
1,2,4500000,0
8,10,4000000,1000000000
9,10,4500000,1000000000
"""
PRIORITIES = """\
src,dst,size_bytes,start_ps,priority
0,2,4000000,0,3
1,2,4500000,0,5
8,10,4000000,1000000000,3
9,10,4500000,1000000000,5
"""


@dataclass
class Case:
    """A network with a memo that an earlier run has found."""

    folder: Path
    sets: tuple[str, ...]
    content: bytes = b""
    flows: tuple[bytes, ...] = ()  # the tables that are right: as simulated, and with the true memo

    @property
    def path(self) -> Path:
        """The memo's file."""
        return self.folder / "a.memo"

    def run(self, name: str, *sets: str) -> tuple[bytes, dict[str, Any]]:
        """(flows.parquet, what run.json says of the memo)."""
        out = self.folder / name
        pdes.simulate(load_config(self.folder / "config.toml", [*self.sets, *sets, f'output.dir="{out}"']))
        return (out / "flows.parquet").read_bytes(), json.loads((out / "run.json").read_text()).get("memo", {})

    def run_with_memo(self, name: str = "with") -> tuple[bytes, dict[str, Any]]:
        """The same with what the file has."""
        return self.run(name, f'wormhole.memo="{self.path}"')

    def found(self) -> list[tuple[bytes, bytes, Entry]]:
        """(identity, key, entry) of what the earlier run has found."""
        self.path.write_bytes(self.content)
        file = MemoFile(self.path, LIMIT)
        file.read()
        entries = [(*name, unpack(record)) for name, record in file.records.items()]
        return [(identity, key, entry) for identity, key, entry in entries if entry is not None]

    def run_with(self, change: Callable[[Entry], Entry], i: int) -> tuple[bytes, dict[str, Any], bytes]:
        """What comes of it if the i-th entry is another, with a checksum that is right; and that entry's key."""
        found = self.found()
        self.path.unlink()
        entries = {key: change(entry) if j == i else entry for j, (_, key, entry) in enumerate(found)}
        MemoFile(self.path, LIMIT).add(found[0][0], entries)
        return *self.run_with_memo(), found[i][1]


def make_case(folder: Path, *sets: str, flows: str = FLOWS) -> Case:
    (folder / "config.toml").write_text(CONFIG)
    (folder / "flows.csv").write_text(flows)
    case = Case(folder, sets)
    without, _ = case.run("without")
    case.run_with_memo("first")
    case.content = case.path.read_bytes()
    true, facts = case.run_with_memo("true")
    assert facts["counters"]["hits_read"] > 0 and facts["entries_refused"] == 0
    case.flows = without, true
    return case


@pytest.fixture(scope="module", params=["hpcc", "dcqcn"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp(request.param), f"network.congestion_control={request.param}")


def body(words: np.ndarray, *kinds: int) -> list[tuple[int, int]]:
    """(begin, end) of what is in blocks of some kinds."""
    return [(begin + HEADER_WORDS, end) for kind, _, begin, end in blocks(words) if kind in kinds]


def chains(words: np.ndarray) -> Iterator[tuple[int, list[int], bool]]:
    """(place of its count, places of its packets, whether it is on a wire) of each chain. Switches are plain here."""
    for kind in (LINK, EGRESS_SIDE):
        for begin, end in body(words, kind):
            at = begin + (0 if kind == LINK else 2)
            while at < end:
                n = int(words[at])
                size = packet_size(words)
                yield at, [at + 1 + k * size for k in range(n)], kind == LINK
                at += 1 + n * size


def packet_size(words: np.ndarray) -> int:
    """Words of a packet, from a link that has some and nothing else."""
    return next((end - begin - 1) // int(words[begin]) for begin, end in body(words, LINK) if words[begin])


def packets(words: np.ndarray) -> list[tuple[int, bool]]:
    """(place, whether it is on a wire) of each packet."""
    return [(at, is_wire) for _, places, is_wire in chains(words) for at in places]


def big(rng: random.Random) -> int:
    return rng.randrange(2 ** rng.randrange(20, 62))


def with_word(entry: Entry, at: int, value: int) -> Entry:
    words = entry.words.copy()
    words[at] = max(-(2**63), min(2**63 - 1, value))
    return replace(entry, words=words)


def wrong_count(rng: random.Random, entry: Entry) -> Entry:
    """How many packets a chain has, or how long a block is."""
    lengths = [begin - 1 for begin, _ in body(entry.words, SENDER, RECEIVER, EGRESS_SIDE, LINK)]
    at = rng.choice([*(place for place, _, _ in chains(entry.words)), *lengths])
    return with_word(entry, at, int(entry.words[at]) + rng.choice([1, -1, 5, big(rng) + 1, -1 - big(rng)]))


def wrong_length(rng: random.Random, entry: Entry) -> Entry:
    """Words are missing, or too many."""
    at, n = rng.randrange(len(entry.words)), rng.randrange(1, 30)
    cut = rng.choice([entry.words[:at], np.delete(entry.words, slice(at, at + n)), np.insert(entry.words, at, 1)])
    return replace(entry, words=cut)


def wrong_size(rng: random.Random, entry: Entry) -> Entry:
    """It is of another number of flows or ports."""
    if rng.random() < 0.5:
        return replace(entry, port_bytes=entry.port_bytes[:-1])
    columns = {name: np.append(getattr(entry, name), 0) for name in ("done_bytes", "sent_bytes", "marked")}
    return replace(entry, **columns, progress=None)


def wrong_index(rng: random.Random, entry: Entry) -> Entry:
    """A row of a flow or port, or where a packet is on its way."""
    rows = [begin - 2 for begin, _ in body(entry.words, SENDER, RECEIVER, EGRESS_SIDE, LINK)]
    at, _ = rng.choice(packets(entry.words))
    place = rng.choice([at, at + PATH, at + WHERE, rng.choice(rows)])
    return with_word(entry, place, rng.choice([-1, 1000, 2**31, -(2**31), big(rng) + 100, -big(rng) - 1]))


def wrong_packet(rng: random.Random, entry: Entry) -> Entry:
    """What a packet is: its bytes, its kind, its class."""
    at, _ = rng.choice(packets(entry.words))
    word = rng.choice([SEQUENCE, SIZE, BITS, QUEUE])
    change = rng.choice([1, 4, 8, 32, 64, 256]) if word == BITS else rng.choice([1, -1, 60, 1000, 2**20, -(2**40)])
    value = int(entry.words[at + word])
    return with_word(entry, at + word, value ^ change if word == BITS else value + change)


def wrong_instant(rng: random.Random, entry: Entry) -> Entry:
    """An instant that has passed, or lies beyond all that can happen."""
    senders, egress = body(entry.words, SENDER), body(entry.words, EGRESS_SIDE)
    on_wires = [at + WHERE for at, is_wire in packets(entry.words) if is_wire]
    begin, end = rng.choice(senders)
    words = [begin + NEXT_SEND, begin + DEADLINE, begin + CHECK, rng.choice(egress)[0], rng.choice(on_wires)]
    if rng.random() < 0.2:
        return with_word(entry, end - 2, 1 + big(rng))  # when the last acknowledgement came
    return with_word(entry, rng.choice(words), rng.choice([-1, -1 - big(rng), 10**13 + big(rng), 2**62 + 1]))


def wrong_bytes(rng: random.Random, entry: Entry) -> Entry:
    """What is sent, received, acknowledged: by ends, ports, in all."""
    change = rng.choice([1, -1, 1000, -1000, 2**33, -(2**33)])
    at = rng.choice([begin for begin, _ in body(entry.words, SENDER, RECEIVER)])
    name = rng.choice(["words", "done_bytes", "sent_bytes", "port_bytes"])
    if name == "words":
        return with_word(entry, at, int(entry.words[at]) + change)
    column = getattr(entry, name).copy()
    column[rng.randrange(len(column))] += change
    return replace(entry, **{name: column})


def wrong_fact(rng: random.Random, entry: Entry) -> Entry:
    """What is said of it as a whole."""
    if rng.random() < 0.3:
        return replace(entry, n_draw=rng.choice([1, -1, big(rng) + 1]))
    if rng.random() < 0.5:
        return replace(entry, duration_ps=rng.choice([0, 1, -1, 2**45 + big(rng), 2**63 - 1]))
    return replace(entry, marked=entry.marked + rng.choice([1, -(2**40), big(rng) + 1]))


def wrong_sender(rng: random.Random, entry: Entry) -> Entry:
    """A sender's rate, window, and what never changes of it and its control."""
    begin, _ = rng.choice(body(entry.words, SENDER))
    return with_word(entry, begin + rng.choice([*range(3, 10), *range(N_SENDER, N_SENDER + 6)]), -big(rng) - 1)


def wrong_negative(rng: random.Random, entry: Entry) -> Entry:
    """A big negative number anywhere but in the control's own state."""
    words, senders = entry.words, body(entry.words, SENDER)
    while True:
        at = rng.randrange(len(words))
        if not any(begin + N_SENDER + 6 <= at < end - 1 for begin, end in senders):
            return with_word(entry, at, -(2 ** rng.randrange(45, 64)))


def wrong_stamp(rng: random.Random, entry: Entry) -> Entry:
    """What a packet carries of its way."""
    if packet_size(entry.words) <= PACKET_WORDS + N_HOP:
        return wrong_packet(rng, entry)
    at = rng.choice([at for at, _ in packets(entry.words) if entry.words[at + PACKET_WORDS + N_HOP] > 0])
    extra = at + PACKET_WORDS
    word = extra + rng.choice([SENT_PS, N_HOP, *(FIRST_HOP + k for k in range(HOP_WORDS))])
    return with_word(entry, word, rng.choice([-(2**50) - big(rng), 2**33 + big(rng)]))


KINDS = [
    wrong_count, wrong_length, wrong_size, wrong_index, wrong_packet, wrong_instant, wrong_bytes, wrong_fact,
    wrong_sender, wrong_negative, wrong_stamp,
]  # fmt: skip


@pytest.mark.parametrize("damage", KINDS)
def test_an_entry_that_cannot_be_changes_no_flow(
    case: Case,
    damage: Callable[[random.Random, Entry], Entry],
    share: Callable[[int], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    n_found = len(case.found())
    for seed in range(share(N_DAMAGE)):
        rng = random.Random(f"{damage.__name__} {seed}")
        flows, facts, key = case.run_with(lambda entry, rng=rng: damage(rng, entry), seed % n_found)
        said = capsys.readouterr().err
        assert flows in case.flows, f"{damage.__name__}, seed {seed}"
        assert facts["entries_refused"] == 1, f"{damage.__name__}, seed {seed}"
        assert said.count(f"warning: [wormhole] memo: {case.path}: ") == 1, said
        if facts["entries_read"] == n_found:
            assert f"entry {key.hex()[:16]} is wrong and not used, what it stands for is simulated: " in said


def test_whatever_a_word_is_the_run_comes_to_its_end(case: Case, share: Callable[[int], int]) -> None:
    """What an entry could say just as well may move flows, and no more."""
    n_found, wanted = len(case.found()), pq.read_table(case.folder / "without" / "flows.parquet")
    for seed in range(share(60)):
        rng = random.Random(seed)

        def change(entry: Entry, rng: random.Random = rng) -> Entry:
            at = rng.randrange(len(entry.words))
            word = int(entry.words[at])
            near = word + rng.randrange(-(10**6), 10**6)
            return with_word(entry, at, rng.choice([near, -word, 0, big(rng), -big(rng)]))

        case.run_with(change, seed % n_found)
        flows = pq.read_table(case.folder / "with" / "flows.parquet")
        assert flows["flow_id"].equals(wanted["flow_id"]) and flows["size_bytes"].equals(wanted["size_bytes"])


def test_the_run_that_finds_an_entry_wrong_puts_it_right(case: Case) -> None:
    true = {key: entry for _, key, entry in case.found()}
    _, facts, key = case.run_with(lambda entry: replace(entry, port_bytes=-entry.port_bytes), 0)
    assert facts["entries_refused"] == 1 and facts["entries_added"] >= 1
    file = MemoFile(case.path, LIMIT)
    file.read()
    entry = next(unpack(record) for name, record in file.records.items() if name[1] == key)
    assert entry is not None and np.array_equal(entry.port_bytes, true[key].port_bytes)
    flows, facts = case.run_with_memo()
    assert facts["entries_refused"] == 0 and flows in case.flows


TRUE = {
    "hpcc": (), "dctcp": (), "dcqcn": (), "timely": (), "swift": (), "hpcc-pint": (), "none": (), "fixed-window": (),
    "timeouts": ("network.transport.ack_every=4",),
    "queues": ("network.scheduler.kind=weighted",),
}  # fmt: skip


@pytest.mark.parametrize("forecasts", ['["replay"]', '["periodic", "replay"]'])
@pytest.mark.parametrize("name", TRUE)
def test_true_entries_are_used_as_if_they_were_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, forecasts: str
) -> None:
    control = name if name not in ("timeouts", "queues") else "dctcp"
    flows = PRIORITIES if name == "queues" else FLOWS
    case = make_case(
        tmp_path,
        f"network.congestion_control={control}",
        f"wormhole.paper.forecasts={forecasts}",
        *TRUE[name],
        flows=flows,
    )
    case.path.write_bytes(case.content)
    _, tried = case.run_with_memo()
    monkeypatch.setattr(EntryTrial, "__call__", lambda *_: None)
    case.path.write_bytes(case.content)
    _, untried = case.run_with_memo()
    assert tried == untried and tried["counters"]["hits_read"] > 0
