"""Bad input is one message and status 2, on any number of ranks, before anything is written (design R10)."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

BASE = {
    "topology": 'kind = "fat-tree"\nk = 4',
    "workload": 'kind = "flows"\nfile = "flows.csv"',
    "output": 'dir = "results"',
}
GPT = 'kind = "training"\npreset = "gpt-7b"\n[workload.parallel]\ntp = 3\ndp = 1\npp = 1'
BY_KERNEL = GPT.replace("tp = 3\ndp = 1", "tp = 4\ndp = 4") + '\n[workload.compute]\ngpu = "h100"\nkernels = "k.csv"'
FROM_FILE = 'kind = "file"\nfile = "islands.txt"'
FLOWS = "src,dst,size_bytes,start_ps\n0,1,1000,0\n2,3,1000,0\n"
ISLANDS = "6 2 4\n4 5\n0 4 100Gbps 1us 0\n1 4 100Gbps 1us 0\n2 5 100Gbps 1us 0\n3 5 100Gbps 1us 0\n"
LINE_4, LINE_5 = (re.compile(rf"[:,]( line)? ?{n}: ") for n in (4, 5))

FAULTS: dict[str, tuple[dict[str, str], dict[str, str | None], list[str | re.Pattern[str]]]] = {
    "unknown key": ({"topology": BASE["topology"] + '\nlink_rte = "1Gbps"'}, {}, ["link_rte", '"link_rate"']),
    "unknown table": ({"topolgy": "k = 4"}, {}, ["[topolgy]", "unknown table", '"topology"']),
    "wrong unit": ({"network": 'payload = "1us"'}, {}, ["[network] payload", '"1us"', "kB"]),
    "not TOML": ({"network": "payload = 1000B"}, {}, ["line 10", "is not TOML"]),
    "sizes of parallelism": ({"workload": GPT}, {}, ["[workload] parallel", "tp * dp * pp = 3 * 1 * 1 = 3", "16 GPUs"]),
    "no flow file": ({}, {"flows.csv": None}, ["[workload] file", "there is no file", "flows.csv"]),
    "flow line": ({}, {"flows.csv": FLOWS + "4,5,big,0\n"}, ["flows.csv", LINE_4, "'big'", "a whole number"]),
    "flow of no host": ({}, {"flows.csv": FLOWS + "4,16,1,0\n"}, ["flows.csv", "host 16", "16 hosts"]),
    "link line": (
        {"topology": FROM_FILE},
        {"islands.txt": ISLANDS.replace("2 5 100Gbps", "2 5 fast")},
        ["islands.txt", LINE_5, '"fast"', "100Gbps"],
    ),
    "kernel line": (
        {"workload": BY_KERNEL},
        {"k.csv": "kind,bytes,time_us\nnorm,4096,2\nnorm,8192,3\nnorm,1e4,9\n"},
        ["k.csv", LINE_4, "'1e4'", "whole numbers"],
    ),
    "unreachable": (
        {"topology": FROM_FILE},
        {"islands.txt": ISLANDS, "flows.csv": FLOWS + "1,3,1000,0\n"},
        ["islands.txt", "no path from host1 (node 1) to host3 (node 3)"],
    ),
    "threshold": ({"partition": 'delay_threshold = "0ns"'}, {}, ["[partition] delay_threshold", '"0ns"', "above zero"]),
    "output": ({"output": 'dir = "flows.csv/below/a/file"'}, {}, ["[output] dir", "flows.csv", "--out DIR"]),
}


def write_case(folder: Path, tables: dict[str, str], files: dict[str, str | None]) -> Path:
    """A config of BASE with other tables, beside its input files; None: no such file."""
    for name, text in ({"flows.csv": FLOWS} | files).items():
        if text is not None:
            (folder / name).write_text(text)
    config = folder / "config.toml"
    config.write_text("".join(f"[{name}]\n{text}\n" for name, text in (BASE | tables).items()))
    return config


def tree(folder: Path) -> list[tuple[Path, int]]:
    return sorted((path, path.stat().st_size) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def compiled(simulate: Callable, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The kernels are there: a run that has to compile them says so before it has read all its files."""
    folder = tmp_path_factory.mktemp("compiled")
    simulate(1, write_case(folder, {}, {}), folder / "out")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", FAULTS)
def test_one_message_status_2_and_nothing_written(
    name: str, tmp_path: Path, ask: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, files, expected = FAULTS[name]
    config = write_case(tmp_path, tables, files)
    before = tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    alone, together = (ask(n_rank, "-m", "pdes", config) for n_rank in (1, 2))
    assert (alone.returncode, together.returncode) == (2, 2), alone.stderr + together.stderr
    assert alone.stderr.startswith("pdes-sim: error: ") and alone.stderr.count("\n") == 1
    missing = [p for p in expected if not re.search(p if isinstance(p, re.Pattern) else re.escape(p), alone.stderr)]
    assert missing == [], alone.stderr
    assert together.stderr == alone.stderr and together.stdout == alone.stdout == ""
    assert tree(tmp_path) == before


def test_all_faults_are_reported_at_once(tmp_path: Path, start: Callable) -> None:
    tables = {"topology": BASE["topology"].replace("4", "5"), "network": 'payload = "1us"\nwindw = 3'}
    done = start(1, "-m", "pdes", write_case(tmp_path, tables, {}))
    assert done.returncode == 2 and "3 faults" in done.stderr
    assert all(text in done.stderr for text in ("[topology] k", "[network] payload", '"window"'))
