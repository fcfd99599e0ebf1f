"""Claims about profiles: what a rank's kernels become, what that takes on a network, and what is refused, and where."""

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdes import simulation
from pdes.cli import main
from pdes.config import load_config
from pdes.convert.profile import kineto
from pdes.convert.profile.groups import all_groups
from pdes.convert.profile.nodes import Node, nodes_of
from pdes.convert.profile.order import in_order
from pdes.convert.profile.seen import Communication, Kernel, RankProfile, StreamWait
from pdes.errors import ConfigError
from pdes.units import PS_PER_US
from reference import made_profiles as made

FOUR = [0, 1, 2, 3]
MILLION = 10**6


def converted(tmp_path: Path, source: Path, *more: str) -> Path:
    """The config of a profile."""
    output = tmp_path / "job.toml"
    assert main(["convert", "kineto", str(source), "-o", str(output), *more]) == 0
    return output


def time_us(tmp_path: Path, events: list[dict], *more: str, n_rank: int = 4) -> float:
    """How long the job of a trace takes here."""
    source = made.write_kineto(tmp_path / "trace.json", events, n_rank=n_rank)
    return run_us(converted(tmp_path, source, *more))


def run_us(config: Path) -> float:
    simulation.simulate(load_config(config, [f"output.dir='{config.parent / 'out'}'"]))
    (time_ps,) = json.loads((config.parent / "out" / "result.json").read_text())["iteration_time_ps"]
    return time_ps / PS_PER_US


def test_computing_around_an_all_reduce_is_the_sum(tmp_path: Path) -> None:
    base = 1_733_000_000_000_000  # of microseconds since 1970 a float keeps a quarter
    alone = time_us(tmp_path, [made.all_reduce(base, 300, MILLION, FOUR)])
    floor_us = 2 * 3 / 4 * 4 * MILLION * 8 / 3.6e12 * 1e6  # a ring at NVLink's rate
    assert floor_us < alone < 1.1 * floor_us + 20
    events = [
        made.kernel("gemm", base + 0.125, 1000),
        made.all_reduce(base + 1000.125, 300, MILLION, FOUR),
        made.kernel("gemm", base + 1300.125, 2000.5),
    ]
    assert time_us(tmp_path, events) == pytest.approx(1000 + alone + 2000.5, abs=1e-6)


def test_what_overlaps_takes_the_longer_of_both(tmp_path: Path) -> None:
    for n_element in (MILLION, 20 * MILLION):
        alone = time_us(tmp_path, [made.all_reduce(0, 300, n_element, FOUR)])
        events = [
            made.all_reduce(0, 300, n_element, FOUR),
            made.kernel("a", 0, 50),
            made.kernel("b", 50, 40),
            made.kernel("c", 90, 10),
        ]
        assert time_us(tmp_path, events) == pytest.approx(max(100, alone), abs=1e-6)
        assert (alone > 100) == (n_element > MILLION)


def test_a_folder_of_equal_ranks_takes_as_long_as_one_of_them(tmp_path: Path) -> None:
    def events(rank: int) -> list[dict]:
        pair = [rank // 2 * 2, rank // 2 * 2 + 1]
        others = [rank % 2, rank % 2 + 2]
        tensor, data = made.words("allreduce", MILLION, pair, "tp"), made.words("_allgather_base", 1000, others, "dp")
        return [
            made.kernel("gemm", 0, 100),
            made.kernel(made.ALL_REDUCE, 100, 20, **tensor),
            made.kernel("gemm", 120, 100),
            made.kernel("ncclDevKernel_AllGather_RING_LL(int)", 220, 20, **data),
        ]

    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in FOUR:
        made.write_kineto(folder / f"{rank}.json", events(rank), rank)
    one = run_us(converted(tmp_path, made.write_kineto(tmp_path / "one.json", events(1), 1)))
    programs = json.loads((tmp_path / "job.profile.json").read_text())
    assert programs["groups"] == {"tp": [[0, 1], [2, 3]], "dp": [[0, 2], [1, 3]]}
    assert run_us(converted(tmp_path, folder)) == one > 200
    (folder / "2.json").unlink()
    assert main(["convert", "kineto", str(folder), "-o", str(tmp_path / "job.toml")]) == 2


def test_an_iteration_is_chosen_and_gaps_before_it_count(tmp_path: Path) -> None:
    events = [
        made.event("user_annotation", f"ProfilerStep#{n}", start, length)
        for n, start, length in ((5, 0, 100), (6, 100, 100), (7, 200, 50))
    ]
    for number, (called, start, length) in enumerate(((10, 20, 50), (110, 130, 200), (210, 331, 7)), 1):
        events += [made.launch(number, called), made.kernel("k", start, length, correlation=number)]
    assert time_us(tmp_path, events) == 1 + 7
    assert time_us(tmp_path, events, "--step", "6") == 60 + 200
    assert time_us(tmp_path, events, "--step", "5") == 50


def kernels_of(rows: Sequence[tuple], is_communication: bool = True) -> list[Kernel]:
    """Kernels of rows of stream, start, end, launch; those of odd streams communicate."""
    one = Communication("all-reduce", 8, (0, 1)) if is_communication else None
    return [Kernel(f"k{n}", s, a, b, c, one if s % 2 else None) for n, (s, a, b, c) in enumerate(rows)]


def ends_of(nodes: list[Node], took: list[int]) -> list[int]:
    """Longest paths, communications taking `took` in their order."""
    ends: list[int] = []
    left = iter(took)
    for node in nodes:
        length = node.time_ps if node.communication is None else next(left)
        ends.append(max((ends[one] for one in node.after), default=0) + length)
    return ends


@st.composite
def profiles(draw: st.DrawFn) -> RankProfile:
    rows = []
    for stream in range(draw(st.integers(1, 4))):
        now = 0
        for _ in range(draw(st.integers(0, 6))):
            start = now + draw(st.integers(0, 5))
            now = start + draw(st.integers(1, 9))
            rows.append((stream, start, now, draw(st.none() | st.integers(-5, start))))
    waits = [
        StreamWait(*draw(st.tuples(st.integers(0, 3), st.integers(-5, 30), st.integers(0, 3), st.integers(-5, 30))))
        for _ in range(draw(st.integers(0, 3)))
    ]
    host = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda t: (min(t), max(t))), max_size=3))
    is_strict = draw(st.booleans())
    return RankProfile(0, 2, "made", 0, kernels_of(rows), waits, host, draw(st.booleans()), "", is_strict)


@given(profiles())
@settings(max_examples=150)
def test_communications_as_long_as_they_were_give_the_profile_again(profile: RankProfile) -> None:
    nodes = nodes_of(profile)
    ordered = [k for k in in_order(profile) if k.communication is not None]
    ends = ends_of(nodes, [k.end_ps - k.start_ps for k in ordered])
    assert max(ends, default=0) == max((k.end_ps for k in profile.kernels), default=0)
    found = [end for node, end in zip(nodes, ends, strict=True) if node.communication is not None]
    assert found == [k.end_ps for k in ordered]
    lanes = [sum(n.time_ps for n in nodes if n.lane == lane and n.communication is None) for lane in range(4)]
    assert sum(lanes) >= sum(k.end_ps - k.start_ps for k in profile.kernels if k.communication is None)


def test_who_waits_across_streams() -> None:
    """A kernel behind a communication that ended while its stream was idle; what the CPU was late for does not wait."""

    def after(rows: list[tuple], **more: object) -> list[str]:
        nodes = nodes_of(RankProfile(0, 2, "made", 0, kernels_of(rows), **more))  # type: ignore[arg-type]
        return [nodes[one].name for one in nodes[-1].after]

    exposed = [(0, 0, 10, 0), (1, 10, 30, 1), (0, 30, 40, 2)]
    assert after(exposed) == ["k0", "k1"]
    late = [*exposed[:2], (0, 34, 40, 32)]
    assert after(late) == ["k0"]
    assert after(late, host_waits=[(5, 31)]) == ["k0", "k1"]
    hidden = [(0, 0, 10, 0), (1, 0, 30, 1), (0, 10, 50, 2), (0, 50, 60, 3)]
    assert after(hidden) == []  # the communication: all else is one stretch of computing
    assert after([*hidden[:3], (0, 50, 60, 3)], waits_for_all=True) == ["k0 and 1 more", "k1"]
    told = {"stream_waits": [StreamWait(0, 2, 1, 2), StreamWait(0, 3, 1, 3)], "has_stream_waits": True}
    assert after(hidden, **told) == ["k0 and 1 more", "k1"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_groups_of_all_ranks_are_the_digits_that_one_group_has(bases: list[int], data: st.DataObject) -> None:
    n_rank = 1
    strides = []
    for base in bases:
        strides.append(n_rank)
        n_rank *= base
    chosen = data.draw(st.sets(st.sampled_from(range(len(bases)))))
    fixed = [k for k in range(len(bases)) if k not in chosen]
    expected: dict[tuple, list[int]] = {}
    for rank in range(n_rank):
        expected.setdefault(tuple(rank // strides[k] % bases[k] for k in fixed), []).append(rank)
    one = data.draw(st.sampled_from(sorted(expected)))
    assert sorted(all_groups(tuple(expected[one]), n_rank, "x")) == sorted(expected.values())


@pytest.mark.parametrize(("ranks", "n_rank"), [((0, 1, 3), 4), ((1, 2), 4), ((0, 3), 4), ((0, 1, 2), 4), ((0, 12), 16)])
def test_groups_without_a_pattern_are_refused(ranks: tuple[int, ...], n_rank: int) -> None:
    with pytest.raises(ConfigError, match="a folder with one trace per rank"):
        all_groups(ranks, n_rank, "x")


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("pdes-sim: error") == 1 and "Traceback" not in said and len(said) < 2000, said[:2000]
    return said


AR = made.words("allreduce", 8, FOUR)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([], "no kernel of a GPU"),
        ([made.kernel("k", 0, 1), made.event("kernel", "k", 0, 1, device=1, stream=7)], "kernels of 2 GPUs"),
        ([made.event("kernel", "k", "x", 1, device=0, stream=7)], "event 0 (k), ts: found"),
        ([made.event("kernel", "k", 1, -1, device=0, stream=7)], "event 0 (k), dur: found -1"),
        ([made.event("kernel", "k", 1e300, 1, device=0, stream=7)], "event 0 (k), ts: found"),
        ([made.event("kernel", "k", 1, 1, device=0, stream="7")], 'stream "7"'),
        ([made.kernel("n", 0, 1, **AR | {"Collective name": "fold"})], 'event 0 (n): Collective name "fold"'),
        ([made.kernel("n", 0, 1, **AR | {"dtype": "Fraction"})], 'dtype "Fraction"'),
        ([made.kernel("n", 0, 1, **{k: v for k, v in AR.items() if k != "Group size"})], 'no "Group size"'),
        ([made.kernel("n", 0, 1, **{k: v for k, v in AR.items() if k != "In msg nelems"})], 'no "In msg nelems"'),
        ([made.kernel("n", 0, 1, **AR | {"In msg nelems": -4})], '"In msg nelems" -4'),
        ([made.kernel("n", 0, 1, **AR | {"In msg nelems": 2**60})], "bytes. Accepted: at most"),
        ([made.kernel("n", 0, 1, **AR | {"Process Group Ranks": "[0, 1, ..., 3]", "Group size": 9})], "rank 8 of 4"),
        ([made.kernel("n", 0, 1, **AR | {"Process Group Ranks": "[0, 1, 2]"})], '"Process Group Ranks"'),
        ([made.kernel("n", 0, 1, **made.words("allreduce", 8, [1, 2]))], "without rank 0"),
        ([made.kernel("n", 0, 1, **made.words("send", 8, FOUR))], 'no "Dst Rank"'),
        ([made.kernel("n", 0, 1, **made.words("send", 8, FOUR, **{"Dst Rank": 0}))], "Dst Rank 0 of rank 0"),
        ([made.kernel("n", 0, 1, **made.words("send", 8, FOUR, **{"Dst Rank": 1}))], "a folder with one trace"),
        (
            [
                made.kernel("n", 0, 1, **made.words("recv", 8, FOUR, **{"Src Rank": 3})),
                made.kernel("n", 1, 1, **made.words("send", 8, FOUR, **{"Dst Rank": 1})),
            ],
            "receives that every rank would wait for before it sends",
        ),
        ([made.kernel("k", 0, 1), made.event("user_annotation", "ProfilerStep#3", 5, 9)], "no kernels in any marked"),
        ([{"ph": "X", "cat": "kernel", "name": ["k"]}], 'event 0: name'),
    ],
)  # fmt: skip
def test_events_that_are_wrong_are_refused_with_their_place(
    events: list[dict], found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = made.write_kineto(tmp_path / "trace.json", events)
    said = refused(["convert", "kineto", str(source), "-o", str(tmp_path / "job.toml")], capsys)
    assert found in said and (str(source) in said) and not (tmp_path / "job.toml").exists()


def test_a_barrier_and_odd_waits(tmp_path: Path) -> None:
    """A barrier has no elements; waits that name nothing are none."""
    barrier = {k: v for k, v in made.words("barrier", 0, FOUR).items() if "nelems" not in k and k != "dtype"}
    odd = made.event("cuda_sync", "Stream Wait Event", 0, 1, stream=7, wait_on_stream=[], correlation=[1])
    events = [made.kernel("k", 0, 5), made.kernel("n", 5, 9, made.NCCL_STREAM, **barrier), odd, made.kernel("k", 14, 5)]
    time = time_us(tmp_path, events)
    assert 10 < time < 20


def test_ring_attention_is_a_shift_that_every_rank_does(tmp_path: Path) -> None:
    send, receive = (
        made.words("send", MILLION, FOUR, **{"Dst Rank": 1}),
        made.words("recv", MILLION, FOUR, **{"Src Rank": 3}),
    )
    events = [made.kernel("n", 0, 9, 20, **send), made.kernel("n", 0, 9, 21, **receive), made.kernel("k", 0, 3)]
    time = time_us(tmp_path, events)
    assert 9 < time < 20  # 4 MB at 3.6 Tbps are 9 us


def test_files_that_are_no_traces_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said_of(content: bytes, name: str = "t.json") -> str:
        (tmp_path / name).write_bytes(content)
        return refused(["convert", "kineto", str(tmp_path / name), "-o", str(tmp_path / "job.toml")], capsys)

    assert "line 2, column 1: is not JSON" in said_of(b'{"traceEvents":\n')
    assert "is nested more than" in said_of(b'{"traceEvents": ' + b"[" * 20000)
    assert "is nested more than" in said_of(b'{"traceEvents": ' + b"[" * 90 + b"]" * 90 + b"}")
    assert "holds no traceEvents" in said_of(b"3") and "holds no traceEvents" in said_of(b'{"traceEvents": 3}')
    assert "is not UTF-8" in said_of(b"\xff\xfe")
    assert "is not whole as gzip" in said_of(b"\x1f\x8b garbage of all kinds, more than ten bytes", "t.json.gz")
    assert "is not whole as gzip" in said_of(gzip.compress(os.urandom(1000))[:500], "t.json.gz")
    assert "rank 4 of world_size 4" in said_of(b'{"traceEvents": [], "distributedInfo": {"rank": 4, "world_size": 4}}')
    monkeypatch.setattr(kineto, "MOST_BYTES", 10**6)
    assert "holds more than 1000000 bytes" in said_of(gzip.compress(b"[" + b" " * 10**7), "t.json.gz")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    for name, found in (("pipe", "may never end"), ("empty", "no such file in the folder"), ("none", "cannot be read")):
        assert found in refused(["convert", "kineto", str(tmp_path / name), "-o", str(tmp_path / "job.toml")], capsys)


def test_communications_without_bytes_take_what_is_given_or_what_they_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [made.kernel(made.ALL_REDUCE, 0, 50, made.NCCL_STREAM)]
    assert time_us(tmp_path, events) == 50
    assert "all-reduce: its bytes are not in the profile" in capsys.readouterr().err
    known = time_us(tmp_path, [made.all_reduce(0, 50, MILLION, FOUR)])
    assert time_us(tmp_path, events, "--bytes", "ncclAllReduce=4MB") == known != 50
    source = made.write_kineto(tmp_path / "t.json", events)
    argv = ["convert", "kineto", str(source), "-o", str(tmp_path / "job.toml"), "--bytes"]
    for word in ("AllReduce", "fold=3MB", "AllReduce=much"):
        assert "--bytes" in refused([*argv, word], capsys)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"form": 2}, "no profile of this form"),
        ({"ranks": 0}, "ranks 0"),
        ({"groups": {"g": [[0, 9]]}}, "group g: found"),
        ({"groups": {"g": [[0, 0]]}}, "rank 0 twice"),
        ({"groups": {}}, "rank 0, node 1: group"),
        ({"programs": []}, "none of rank 0"),
        ({"programs": [{"rank": 1, "nodes": []}]}, "none of rank 0"),
        ({"programs": [{"rank": None, "nodes": [{"time_ps": -1}]}]}, "node 0: time_ps -1"),
        ({"programs": [{"rank": None, "nodes": [{"time_ps": 1, "after": [7]}]}]}, "waits for node 7"),
        ({"programs": [{"rank": None, "nodes": [{"collective": "fold", "group": "g"}]}]}, 'collective "fold"'),
        ({"programs": [{"rank": None, "nodes": [{"send": 1, "group": "g", "shift": 9}]}]}, "shift 9"),
        ({"programs": [{"rank": None, "nodes": [{"send": 1, "time_ps": 1}]}]}, "a node with one of"),
    ],
)
def test_a_written_profile_that_was_changed_is_refused(
    change: dict, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "form": 1, "ranks": 2, "groups": {"g": [[0, 1]]},
        "programs": [{"rank": None, "nodes": [{"time_ps": 5}, {"collective": "all-reduce", "bytes": 8, "group": "g"}]}],
    }  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(content | change))
    config = tmp_path / "c.toml"
    config.write_text(
        '[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\n'
        '[workload]\nkind = "trace"\nformat = "profile"\nfile = "p.json"\n'
    )
    assert found in refused(["plan", str(config)], capsys)
