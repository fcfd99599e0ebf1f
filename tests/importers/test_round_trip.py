"""Claims about exports: our workload through Chakra and back is the same bytes; others read it; GOAL runs; fct.txt."""

from pathlib import Path

import pytest

from models.workload.importers import wire
from models.workload.importers.formats import TraceSource, read_trace
from models.workload.trace.graph import COLLECTIVE, COMPUTE, RECEIVE, SEND
from pdes import simulation
from pdes.cli import main
from pdes.config import load_config
from pdes.errors import ConfigError

TABLES = ("flows.parquet", "tasks.parquet", "ports.parquet")
TOPOLOGY = '[topology]\nkind = "roft"\ngpus = 8\ngpus_per_server = 4\n'
TRAINING = """\
[workload]
kind = "training"
[workload.model]
layers = 4
hidden = 256
vocabulary = 1024
sequence = 256
experts = 4
[workload.parallel]
tp = 2
dp = 2
pp = 2
ep = 2
"""
COMPILED = """\
[workload]
kind = "training"
global_batch = 8
overlap_gradients = true
overlap_parameters = true
zero = 2
[workload.model]
layers = 4
hidden = 512
heads = 8
vocabulary = 1024
sequence = 256
[workload.parallel]
tp = 2
dp = 2
pp = 2
vpp = 2
[workload.compute]
gpu = "h100"
jitter = 0.02
"""
COLLECTIVES = """\
[workload]
kind = "collectives"
[[workload.collective]]
name = "a"
operation = "all-reduce"
size = "1MB"
[[workload.collective]]
name = "b"
operation = "all-to-all"
size = "100kB"
gpus = [0, 2, 4]
after = ["a"]
[[workload.collective]]
name = "c"
operation = "point-to-point"
size = "300kB"
gpus = [0, 5]
start = "3us"
[[workload.collective]]
name = "d"
operation = "all-gather"
size = "300kB"
gpus = [5, 0, 1]
after = ["c", "b"]
"""
TRACE = '[workload]\nkind = "trace"\nformat = "chakra"\nfile = "trace"\n'


def write(folder: Path, workload: str, iterations: int = 1, name: str = "config.toml") -> Path:
    path = folder / name
    path.write_text(f"{TOPOLOGY}[simulation]\niterations = {iterations}\n{workload}")
    return path


def run(config: Path, out: Path) -> Path:
    simulation.simulate(load_config(config, [f"output.dir={out}"]))
    return out


@pytest.mark.parametrize(
    ("workload", "iterations"), [(TRAINING, 1), (TRAINING, 3), (COMPILED, 2), (COLLECTIVES, 1), (COLLECTIVES, 2)]
)
def test_through_chakra_and_back_is_the_same_bytes(workload: str, iterations: int, tmp_path: Path) -> None:
    config = write(tmp_path, workload, iterations)
    assert main(["export", "chakra", str(config), "-o", str(tmp_path / "trace")]) == 0
    back = write(tmp_path, TRACE, iterations, "back.toml")
    first, second = run(config, tmp_path / "1"), run(back, tmp_path / "2")
    tables = [*TABLES, *(["breakdown.parquet"] if workload is not COLLECTIVES else [])]
    assert [name for name in tables if (first / name).read_bytes() != (second / name).read_bytes()] == []


def without_own(path: Path) -> bytes:
    """A trace as a tool would leave it that keeps no attributes but Chakra's."""
    parts = []
    for data, begin, end in wire.read_messages(path):
        content = b""
        for number, kind, value, behind in wire.fields(data, begin, end):
            body = data[value:behind] if kind == wire.BYTES else b""
            if b"pdes_" not in body:
                content += wire.bytes_field(number, body) if kind == wire.BYTES else wire.number_field(number, value)
        parts.append(wire.message(content))
    return b"".join(parts)


def test_other_tools_find_what_the_workload_does(tmp_path: Path) -> None:
    config = write(tmp_path, TRAINING)
    assert main(["export", "chakra", str(config), "-o", str(tmp_path / "trace")]) == 0
    for path in tmp_path.glob("trace.*.et"):
        path.write_bytes(without_own(path))
    source = TraceSource("chakra", tmp_path / "trace", tmp_path / "trace.json")
    graph, _ = read_trace(source, 8)
    kinds = graph.kind.tolist()
    assert graph.n_rank == 8 and kinds.count(SEND) == kinds.count(RECEIVE) > 0
    assert kinds.count(COMPUTE) > 0 and kinds.count(COLLECTIVE) > 0
    groups = set(graph.communicators)
    assert {(0, 1), (2, 3)} <= groups and all(len(ranks) == 2 for ranks in groups)
    back = write(tmp_path, TRACE + 'communicators = "trace.json"\n', name="back.toml")
    assert run(back, tmp_path / "2").is_dir()


def test_a_trace_that_was_changed_is_refused(tmp_path: Path) -> None:
    config = write(tmp_path, COLLECTIVES)
    assert main(["export", "chakra", str(config), "-o", str(tmp_path / "trace")]) == 0
    path = tmp_path / "trace.0.et"
    parts = [data[begin:end] for data, begin, end in wire.read_messages(path)]
    parts[1] += wire.packed_field(5, [3])
    path.write_bytes(b"".join(map(wire.message, parts)))
    with pytest.raises(ConfigError, match=r"trace\.0\.et, rank 0, node 1: dependencies that are not those of its pdes"):
        run(write(tmp_path, TRACE, name="back.toml"), tmp_path / "2")
    with pytest.raises(ConfigError, match=r"\[simulation\] iterations: 2, and the trace"):
        run(write(tmp_path, TRACE, 2, name="back.toml"), tmp_path / "2")


def test_goal_says_the_same_messages(tmp_path: Path) -> None:
    config = write(tmp_path, COLLECTIVES)
    assert main(["export", "goal", str(config), "-o", str(tmp_path / "x.goal")]) == 0
    graph, _ = read_trace(TraceSource("goal", tmp_path / "x.goal"), 8)
    sends = graph.kind == SEND
    assert int(sends.sum()) == 8 * 14 + 3 * 2 + 1 + 3 * 2 == int((graph.kind == RECEIVE).sum())
    back = write(tmp_path, '[workload]\nkind = "trace"\nformat = "goal"\nfile = "x.goal"\n', name="back.toml")
    run(back, tmp_path / "2")


def test_flows_in_ns3_s_columns(tmp_path: Path) -> None:
    config = write(tmp_path, COLLECTIVES)
    out = run(config, tmp_path / "1")
    assert main(["export", "fct", str(out), "-o", str(tmp_path / "fct.txt")]) == 0
    rows = [line.split() for line in (tmp_path / "fct.txt").read_text().splitlines()]
    assert len(rows) == 8 * 14 + 3 * 2 + 1 + 3 * 2 and {len(row) for row in rows} == {8}
    (row,) = [row for row in rows if row[4] == "300000"]
    assert (row[0], row[1], row[3]) == ("0b000001", "0b000501", "100")
    assert int(row[5]) == 3000 and int(row[6]) >= int(row[7]) > 0
    ends = [int(row[5]) + int(row[6]) for row in rows]
    assert all(b >= a - 1 for a, b in zip(ends, ends[1:], strict=False))  # in the order of their ends, cut to ns


@pytest.mark.parametrize("argv", [["chakra", "none.toml"], ["fct", "none"], ["goal", "none.toml"]])
def test_a_missing_input_is_status_2(argv: list[str], tmp_path: Path) -> None:
    assert main(["export", argv[0], str(tmp_path / argv[1]), "-o", str(tmp_path / "x")]) == 2
