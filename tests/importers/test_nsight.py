"""Claims about Nsight Systems' recordings: NCCL's bytes and ranks where they are said, else measured time; faults."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pdes import simulation
from pdes.cli import main
from pdes.config import load_config
from pdes.units import PS_PER_US
from reference import made_profiles as made

NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
WORLD, PAIR = 0xAB, 0xCD00


def convert(tmp_path: Path, source: Path, *more: str) -> int:
    return main(["convert", "nsight", str(source), "-o", str(tmp_path / "job.toml"), *more])


def time_us(tmp_path: Path, source: Path, *more: str) -> float:
    """How long the job of a recording takes here."""
    assert convert(tmp_path, source, *more) == 0
    simulation.simulate(load_config(tmp_path / "job.toml", [f"output.dir='{tmp_path / 'out'}'"]))
    (time_ps,) = json.loads((tmp_path / "out" / "result.json").read_text())["iteration_time_ps"]
    return time_ps / PS_PER_US


def nodes(tmp_path: Path) -> list[dict]:
    return json.loads((tmp_path / "job.profile.json").read_text())["programs"][0]["nodes"]


def step(file: made.NsightFile, process: int = 1, rank: int = 0, n: int = 4, says: bool = True, base: int = 0) -> None:
    """Compute 100 us, all-reduce 4 MB, compute 200 us."""
    file.range("ncclCommInitRank", base, 1, process, 2, comm=WORLD, n=n, rank=rank)
    for correlation, called in ((1, 2), (2, 4), (3, 6)):
        file.call(base + correlation, base + called, process=process)
    if says:
        file.range("ncclAllReduce", base + 3, 3, process, 1, comm=WORLD, size=4_000_000)
    file.kernel("gemm", base + 10, 100, process, correlation=base + 1)
    file.kernel(NAME, base + 110, 50, process, correlation=base + 2, stream=made.NCCL_STREAM)
    file.kernel("gemm", base + 160, 200, process, correlation=base + 3)


def alone_us(tmp_path: Path) -> float:
    """The all-reduce by itself."""
    file = made.NsightFile(tmp_path / "alone.sqlite")
    file.range("ncclCommInitRank", 0, 1, 1, 2, comm=WORLD, n=4, rank=0)
    file.call(2, 4)
    file.range("ncclAllReduce", 3, 3, 1, 1, comm=WORLD, size=4_000_000)
    file.kernel(NAME, 110, 50, correlation=2)
    return time_us(tmp_path, file.close())


def test_computing_around_an_all_reduce_is_the_sum(tmp_path: Path) -> None:
    alone = alone_us(tmp_path)
    file = made.NsightFile(tmp_path / "one.sqlite")
    step(file)
    assert time_us(tmp_path, file.close()) == pytest.approx(300 + alone, abs=1e-6)
    file = made.NsightFile(tmp_path / "all.sqlite")
    for rank in range(4):  # a recording of four processes: each has its own program
        step(file, process=9 - rank, rank=rank)
    assert time_us(tmp_path, file.close()) == pytest.approx(300 + alone, abs=1e-6)
    programs = json.loads((tmp_path / "job.profile.json").read_text())["programs"]
    assert [program["rank"] for program in programs] == [0, 1, 2, 3]


def test_bytes_that_are_not_said_are_given_or_the_time_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = alone_us(tmp_path)
    file = made.NsightFile(tmp_path / "silent.sqlite")
    step(file, says=False)
    source = file.close()
    capsys.readouterr()
    assert time_us(tmp_path, source) == 350
    assert "all-reduce: its bytes are not in the profile, so the time" in capsys.readouterr().err
    assert time_us(tmp_path, source, "--bytes", "ncclAllReduce=4MB") == pytest.approx(300 + alone, abs=1e-6)
    assert "not in the profile" not in capsys.readouterr().err


def test_json_says_the_same_and_shares_are_whole_buffers(tmp_path: Path) -> None:
    file = made.NsightFile(tmp_path / "json.sqlite")
    file.range("ncclCommInitRank", 0, 1, 1, 2, comm=WORLD, n=4, rank=0)
    said = json.dumps({"NCCL communicator ID": WORLD, "Message size [bytes]": 1000})
    for number, name in enumerate(("AllGather", "ReduceScatter", "Broadcast", "AllReduce")):
        file.call(number, 10 * number + 2)
        file.range(f"nccl{name}", 10 * number + 1, 5, json=said)
        file.kernel(f"ncclDevKernel_{name}_RING_LL(x)", 10 * number + 4, 2, correlation=number)
    assert convert(tmp_path, file.close()) == 0
    found = [(node["collective"], node["bytes"]) for node in nodes(tmp_path) if "collective" in node]
    assert found == [("all-gather", 4000), ("reduce-scatter", 4000), ("broadcast", 1000), ("all-reduce", 1000)]


def test_a_group_of_calls_is_their_sum_once(tmp_path: Path) -> None:
    file = made.NsightFile(tmp_path / "group.sqlite")
    file.range("ncclCommInitRank", 0, 1, 1, 2, comm=WORLD, n=2, rank=0)
    file.range("ncclAllReduce", 2, 1, 1, 1, comm=WORLD, size=1)  # another one, before the group
    file.range("ncclGroupStart", 4, 1)
    for start, size in ((6, 3000), (8, 5000)):
        file.range("ncclAllReduce", start, 1, 1, 1, comm=WORLD, size=size)
    file.range("ncclGroupEnd", 10, 9)
    for correlation in (1, 2):
        file.call(correlation, 12 + correlation)
        file.kernel(NAME, 20 + correlation, 1, correlation=correlation)
    assert convert(tmp_path, file.close()) == 0
    assert [node["bytes"] for node in nodes(tmp_path)] == [8000, 0]


def test_communicators_of_some_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Known if all of their ranks are in the recording."""

    def recording(name: str, ranks: list[int]) -> Path:
        file = made.NsightFile(tmp_path / name)
        for rank in ranks:
            file.range("ncclCommInitRank", 0, 1, rank + 1, 2, comm=WORLD, n=4, rank=rank)
            file.range("ncclCommInitRank", 1, 1, rank + 1, 2, comm=PAIR + rank % 2, n=2, rank=rank // 2)
            file.call(1, 4, process=rank + 1)
            file.range("ncclAllReduce", 3, 3, rank + 1, 1, comm=PAIR + rank % 2, size=4000)
            file.kernel(NAME, 10, 5, rank + 1, correlation=1)
        return file.close()

    assert convert(tmp_path, recording("all.sqlite", [0, 1, 2, 3])) == 0
    groups = json.loads((tmp_path / "job.profile.json").read_text())["groups"]
    assert groups == {"cd00": [[0, 2]], "cd01": [[1, 3]]} and capsys.readouterr().err.count("\n") == 1
    assert convert(tmp_path, recording("some.sqlite", [0, 1])) == 0
    assert "ranks of its communicator are not in the profile" in capsys.readouterr().err
    assert nodes(tmp_path) == [{"name": NAME, "lane": 0, "time_ps": 5 * PS_PER_US}]


def test_an_iteration_and_waits_of_the_cpu(tmp_path: Path) -> None:
    file = made.NsightFile(tmp_path / "steps.sqlite")
    for number in (1, 2):
        file.range(f"iteration {number}", number * 1000, 900)
        step(file, base=number * 1000)
    source = file.close()
    assert convert(tmp_path, source) == 0
    assert nodes(tmp_path)[0] == {"name": "gemm", "lane": 0, "time_ps": 750 * PS_PER_US}  # what is before it counts
    assert convert(tmp_path, source, "--step", "1") == 0
    assert nodes(tmp_path)[0]["time_ps"] == 100 * PS_PER_US
    assert convert(tmp_path, source, "--step", "7") == 2


def refused(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert convert(tmp_path, source) == 2
    said = capsys.readouterr().err
    assert said.count("pdes-sim: error") == 1 and "Traceback" not in said and str(source) in said and len(said) < 2000
    return said


KERNELS = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "no table CUPTI_ACTIVITY_KIND_KERNEL"),
        ("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN streamId", "KIND_KERNEL: no column streamId"),
        ("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", "no kernel of a GPU"),
        (KERNELS + "(5, 3, 0, 7, 0, 0, 0, 0)", "KIND_KERNEL, row 2: start 5, end 3"),
        (KERNELS + "('x', 3, 0, 7, 0, 0, 0, 0)", 'row 2: found "x"'),
        (KERNELS + "(1.5, 3, 0, 7, 0, 0, 0, 0)", "row 2: found 1.5"),
        (KERNELS + "(NULL, 3, 0, 7, 0, 0, 0, 0)", "row 2: found"),
        (KERNELS + "(-1, 3, 0, 7, 0, 0, 0, 0)", "row 2: found -1"),
        (KERNELS + "(1, 9223372036854775807, 0, 7, 0, 0, 0, 0)", "row 2: found 9223372036854775807"),
        ("INSERT INTO NVTX_EVENTS VALUES ('a', 1, 1, 'x', 1, '', '')", 'NVTX_EVENTS, row 1: found "a"'),
        (
            "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE r(x) AS "
            "(SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r",
            "no table CUPTI_ACTIVITY_KIND_KERNEL",
        ),
    ],
)
def test_tables_that_are_wrong_are_refused(
    sql: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = made.NsightFile(tmp_path / "bad.sqlite")
    file.kernel("gemm", 0, 1)
    file.base.executescript(sql)
    assert found in refused(tmp_path, file.close(), capsys)


@pytest.mark.parametrize(
    "damage", [lambda b: b"SQLite format 3\0" + b"x" * 5000, lambda b: b[: len(b) // 2], lambda b: b"{}" * 99]
)
def test_files_that_are_no_recordings_are_refused(
    damage: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = made.NsightFile(tmp_path / "whole.sqlite")
    for start in range(2000):
        file.kernel(f"kernel {start}", start, 1)
    (tmp_path / "bad.sqlite").write_bytes(damage(file.close().read_bytes()))
    assert "is no recording" in refused(tmp_path, tmp_path / "bad.sqlite", capsys)


def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "may never end" in refused(tmp_path, tmp_path / "pipe", capsys)
    assert "cannot be read" in refused(tmp_path, tmp_path / "none", capsys)


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, b"\0" * 200])
def test_payloads_that_are_no_payloads_say_nothing(content: bytes, tmp_path: Path) -> None:
    file = made.NsightFile(tmp_path / "odd.sqlite")
    step(file, says=False)
    file.base.execute(
        "INSERT INTO NVTX_EVENTS VALUES (3000, 6000, ?, 'ncclAllReduce', 0, '[', ?)", ((1 << 24) + 7, content)
    )
    assert convert(tmp_path, file.close()) == 0
    assert not any("collective" in node for node in nodes(tmp_path))
    with sqlite3.connect(tmp_path / "odd.sqlite") as base:  # it was only read
        assert base.execute("SELECT count(*) FROM NVTX_EVENTS").fetchone() == (2,)
    base.close()
