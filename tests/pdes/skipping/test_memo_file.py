"""Claims about `[wormhole] memo`: what runs share, what they leave alone, and that it changes no flow."""

import fcntl
import json
import multiprocessing
import struct
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import pdes
from pdes.cli import main
from pdes.config import load_config
from pdes.errors import ConfigError, SimError
from pdes.skipping.replay.memo import Entry
from pdes.skipping.replay.memo_file import HEADER, MemoFile, pack, unpack

OURS, THEIRS, LIMIT = b"o" * 32, b"t" * 32, 2**20
CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[network]
congestion_control = "hpcc"
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


def entry(seed: int, is_steady: bool = False, n_word: int = 40) -> Entry:
    """Made-up values; the words cannot be packed much smaller."""
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for field in fields(Entry):
        values[field.name] = int(rng.integers(1, 2**40)) if field.type is int else rng.integers(1, 2**40, 3)
    progress = (int(rng.integers(1, 99)), 7, *rng.integers(1, 2**40, (3, 3))) if is_steady else None
    return Entry(**(values | {"words": rng.integers(-(2**62), 2**62, n_word), "progress": progress}))


def same(one: Entry | None, other: Entry) -> bool:
    if one is None or (one.progress is None) != (other.progress is None):
        return False
    steady = zip(one.progress or (), other.progress or (), strict=True)
    plain = ((getattr(one, f.name), getattr(other, f.name)) for f in fields(Entry) if f.name != "progress")
    return all(np.array_equal(a, b) for a, b in [*steady, *plain])


def key(i: int) -> bytes:
    return struct.pack("<32s", f"key {i}".encode())


def read(path: Path) -> MemoFile:
    file = MemoFile(path, LIMIT)
    file.read()
    return file


@pytest.mark.parametrize("is_steady", [False, True])
def test_an_entry_comes_back_as_it_was(is_steady: bool) -> None:
    for seed in range(20):
        assert same(unpack(pack(OURS, key(seed), entry(seed, is_steady))), entry(seed, is_steady))


def test_entries_of_other_identities_stay_and_are_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.memo"
    assert read(path).sha256 is None
    assert MemoFile(path, LIMIT).add(THEIRS, {key(1): entry(1)}) == 1
    theirs = read(path).records
    assert MemoFile(path, LIMIT).add(OURS, {key(1): entry(2), key(2): entry(3)}) == 2
    assert list(read(path).take(OURS)) == [key(1), key(2)]
    assert read(path).take(THEIRS) == {key(1): theirs[THEIRS, key(1)]}
    assert same(unpack(read(path).take(OURS)[key(1)]), entry(2))


def test_what_others_added_since_the_file_was_read_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.memo"
    one, other = read(path), read(path)
    one.add(OURS, {key(1): entry(1)})
    other.add(OURS, {key(2): entry(2), key(1): entry(3)})
    found = read(path).take(OURS)
    assert list(found) == [key(2), key(1)] and same(unpack(found[key(1)]), entry(3))
    assert sorted(p.name for p in tmp_path.iterdir()) == [".a.memo.lock", "a.memo"]


def _add_many(path: Path, first: int) -> None:
    for i in range(first, first + 10):
        MemoFile(path, LIMIT).add(OURS, {key(i): entry(i)})


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.memo"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_many, args=(path, 10 * i)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert set(read(path).take(OURS)) == {key(i) for i in range(30)}


def test_the_oldest_go_when_the_file_is_full(tmp_path: Path) -> None:
    path = tmp_path / "a.memo"
    size = len(pack(OURS, key(0), entry(0)))
    limit_bytes = HEADER.size + 4 * size + size // 2
    for i in range(6):
        assert MemoFile(path, limit_bytes).add(THEIRS if i == 3 else OURS, {key(i): entry(i)}) == 1
    assert path.stat().st_size <= limit_bytes
    assert [name[1] for name in read(path).records] == [key(i) for i in range(2, 6)]
    assert MemoFile(path, limit_bytes).add(OURS, {key(i): entry(i) for i in range(20, 29)}) == 4
    assert MemoFile(path, HEADER.size + size // 2).add(OURS, {key(9): entry(9)}) == 0


def test_what_a_killed_run_left_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a[1].memo"
    MemoFile(path, LIMIT).add(OURS, {key(1): entry(1)})
    stale = tmp_path / ".a[1].memo.new-1-2"
    stale.write_bytes(b"half")
    MemoFile(path, LIMIT).add(OURS, {key(2): entry(2)})
    assert list(read(path).take(OURS)) == [key(1), key(2)] and not stale.exists()


def test_a_file_that_is_held_too_long_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.memo"
    with (tmp_path / ".a.memo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SimError, match=r"another run has held it for 0.1 s"):
            MemoFile(path, LIMIT, lock_seconds=0.1).add(OURS, {key(1): entry(1)})
    assert not path.exists()


def _cut(content: bytes) -> bytes:
    return content[:-1]


def _flip(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def _renumber(content: bytes) -> bytes:
    return content[:16] + struct.pack("<Q", 1) + content[24:]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (_cut, "is damaged: its checksum does not fit what is in it"),
        (_flip, "is damaged: its checksum does not fit what is in it"),
        (_renumber, "has format 1, and this version knows 2"),
        (lambda _: b"", "is not a memo of this program"),
        (lambda _: b"PK\x03\x04" + bytes(200), "is not a memo of this program"),
    ],
)
def test_a_file_that_is_no_memo_stops_the_run_and_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage, text: str
) -> None:
    path = tmp_path / "a.memo"
    MemoFile(path, LIMIT).add(OURS, {key(1): entry(1)})
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=text):
        read(path)
    with pytest.raises(ConfigError, match=text):
        MemoFile(path, LIMIT).add(OURS, {key(2): entry(2)})
    write_case(tmp_path)
    sets = [f"--set=wormhole.memo={json.dumps(str(path))}", f"--out={tmp_path / 'out'}"]
    assert main([str(tmp_path / "config.toml"), "--quiet", *sets]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"[wormhole] memo: {path}: {text}" in said
    assert path.read_bytes() == before and not (tmp_path / "out").exists()


def test_records_that_lie_are_refused(tmp_path: Path) -> None:
    record = pack(OURS, key(1), entry(1))
    assert unpack(record[:8] + struct.pack("<Q", 2**60) + record[16:]) is None
    assert unpack(record[:8] + struct.pack("<Q", 3) + record[16:]) is None
    assert unpack(record[:-20]) is None


def test_a_folder_that_is_not_there_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[wormhole\] memo: no file can be written in "):
        read(tmp_path / "nowhere" / "a.memo")


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("wormhole.mode=off", 'mode is "off"'),
        ('wormhole.paper.forecasts=["periodic"]', "forecasts below .wormhole.paper. have no replay"),
    ],
)
def test_a_mode_without_a_memo_has_no_file(tmp_path: Path, override: str, found: str) -> None:
    write_case(tmp_path)
    with pytest.raises(ConfigError, match=f"wormhole.memo: is there, but {found}"):
        load_config(tmp_path / "config.toml", [override, "wormhole.memo=a.memo"])


def write_case(folder: Path) -> None:
    (folder / "config.toml").write_text(CONFIG)
    (folder / "flows.csv").write_text(FLOWS)


@pytest.fixture
def simulate(tmp_path: Path):
    """simulate(name, "table.key=value", ...): run CONFIG into the folder `name`; (result.json, run.json)."""
    write_case(tmp_path)

    def run(name: str, *sets: str) -> tuple[dict[str, Any], dict[str, Any]]:
        out = tmp_path / name
        pdes.simulate(load_config(tmp_path / "config.toml", [*sets, f'output.dir="{out}"']))
        return tuple(json.loads((out / f"{kind}.json").read_text()) for kind in ("result", "run"))

    return run


def test_what_switches_keep_for_pint_comes_back_with_an_entry(tmp_path: Path, simulate) -> None:
    """A port's utilisation is folded from packet to packet: left as it was, flows behind a hit were 1 % too fast."""
    sets = 'network.congestion_control="hpcc-pint"', f'wormhole.memo="{tmp_path / "a.memo"}"'
    simulate("first", *sets)
    _, second = simulate("second", *sets)
    assert second["memo"]["counters"]["hits_read"] > 0
    full, _ = simulate("full", sets[0], 'wormhole.mode="off"')
    tables = {(tmp_path / run / "flows.parquet").read_bytes() for run in ("full", "first", "second")}
    assert len(tables) == 1 and full["flows"] > 0


def test_a_second_run_simulates_less_and_its_flows_are_the_same(tmp_path: Path, simulate) -> None:
    """Of ports only the longest queues differ: those of what was not simulated are not known."""
    path = tmp_path / "a.memo"
    shared = f'wormhole.memo="{path}"'
    without, _ = simulate("without")
    first, first_run = simulate("first", shared)
    assert first_run["memo"]["sha256"] is None and first_run["memo"]["entries_read"] == 0
    n = first_run["memo"]["entries_added"]
    assert n > 0 and first["config"]["wormhole"]["memo_sha256"] is None
    content = path.read_bytes()
    second, second_run = simulate("second", shared)
    facts = second_run["memo"]
    assert facts["entries_read"] == n and facts["counters"]["hits_read"] > 0
    assert len(facts["sha256"]) == 64 and facts["path"] == str(path)
    assert len(second["config"]["wormhole"]["memo_sha256"]) == 64
    assert "memo" not in second["config"]["wormhole"]
    assert second["packet_hops"] < 0.8 * without["packet_hops"]
    assert second["simulated_time_ps"] == without["simulated_time_ps"]
    causes = [result["fast_forward"]["skipped_packet_hops"] for result in (without, first, second)]
    assert [c["memo_file"] > 0 for c in causes] == [False, False, True] and not any(c["steady"] for c in causes)
    assert second["fast_forward"]["memo"]["hits_read"] == facts["counters"]["hits_read"]
    assert second["fast_forward"]["memo"]["entries"] == n + facts["entries_added"]
    for name in ("flows", "tasks"):
        tables = {(tmp_path / run / f"{name}.parquet").read_bytes() for run in ("without", "first", "second")}
        assert len(tables) == 1
    ports = [pq.read_table(tmp_path / run / "ports.parquet") for run in ("without", "second")]
    differing = [c for c in ports[0].column_names if not ports[0][c].equals(ports[1][c])]
    assert set(differing) <= {"max_queue_bytes"}
    path.write_bytes(content)
    again, _ = simulate("again", shared)
    assert again == second


def test_another_seed_shares_entries_and_another_control_does_not(tmp_path: Path, simulate) -> None:
    shared = f'wormhole.memo="{tmp_path / "a.memo"}"'
    _, first = simulate("first", shared)
    _, seed = simulate("seed", shared, "simulation.seed=5")
    n = first["memo"]["entries_added"] + seed["memo"]["entries_added"]
    assert seed["memo"]["counters"]["hits_read"] > 0
    _, other = simulate("other", shared, "network.hpcc.target_utilisation=0.9")
    assert other["memo"]["entries_read"] == 0 and other["memo"]["records"] == n
    _, full = simulate("full", shared, 'wormhole.paper.forecasts=["periodic", "replay"]')
    assert full["memo"]["entries_read"] == 0


def test_a_network_without_a_memo_says_why(tmp_path: Path, simulate) -> None:
    shared = f'wormhole.memo="{tmp_path / "a.memo"}"'
    result, run = simulate("lossy", shared, 'network.buffer.size="16MB"')
    assert "network partition" in run["memo"]["why_not"] and result["config"]["wormhole"]["memo_sha256"] is None
    assert not (tmp_path / "a.memo").exists()


def test_results_do_not_depend_on_whether_the_memo_can_be_written(
    tmp_path: Path, simulate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> int:
        raise SimError("a.memo: cannot be written: No space left on device")

    monkeypatch.setattr(MemoFile, "add", refuse)
    _, run = simulate("run", f'wormhole.memo="{tmp_path / "a.memo"}"')
    assert run["memo"]["entries_added"] == 0 and "No space left" in run["memo"]["why_not_added"]
    assert "warning: nothing was added to the memo" in capsys.readouterr().err
