"""What is looked at while a run lasts, samples and deadlocks, is the same bytes and text on any number of ranks."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SAMPLES = ("samples_ports.parquet", "samples_flows.parquet")
FILES = ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet", *SAMPLES)
FAT_TREE = """\
[topology]
kind = "fat-tree"
k = 4
host_delay = "500ns"
[network.buffer]
size = "600kB"
[workload]
kind = "flows"
file = "flows.csv"
[output]
sample_interval = "2us"
"""
RING = """\
[topology]
kind = "file"
file = "topology.txt"
[network]
congestion_control = "none"
window = "none"
paths_file = "paths.txt"
[network.buffer]
size = "150kB"
[workload]
kind = "flows"
file = "flows.csv"
"""


def different(one: Path, other: Path) -> list[str]:
    return [name for name in FILES if (one / name).read_bytes() != (other / name).read_bytes()]


@pytest.fixture(scope="module")
def fat_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("sampled"), random.Random(3)
    rows = [(*draw.sample(range(16), 2), draw.randrange(1, 300_000), draw.randrange(10**7)) for _ in range(300)]
    rows += [(src, 0, 50_000, 2 * 10**7) for src in range(1, 16)]
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in rows)]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    (folder / "config.toml").write_text(FAT_TREE)
    return folder / "config.toml"


def test_samples_are_the_same_bytes_on_any_number_of_ranks(
    fat_tree: Path, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    for limit in ("64MB", "1MB"):
        sets = [f"output.sample_limit={limit}"] + ["output.sample_interval=1ns"] * (limit == "1MB")
        alone = tmp_path / limit
        simulate(1, fat_tree, alone, *sets)
        samples = json.loads((alone / "result.json").read_text())["samples"]
        assert samples["rows"]["ports"] == pq.read_table(alone / SAMPLES[0]).num_rows > 100
        assert samples["rows"]["flows"] == pq.read_table(alone / SAMPLES[1]).num_rows > 100
        for n_rank in rank_counts(2, 3):
            simulate(n_rank, fat_tree, tmp_path / f"{limit}-{n_rank}", *sets, "partition.placement=round-robin")
            assert different(alone, tmp_path / f"{limit}-{n_rank}") == []
    assert samples["interval_ps"] > 1000


def test_round_trip_times_are_the_same_bytes_on_any_number_of_ranks(
    fat_tree: Path, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    """Of the last sender of the incast, whose starts are late by what is drawn."""
    sets = ("output.rtt_of_flow=314", "workload.start_jitter=50ns", 'output.sample=["flows"]')
    files = (*FILES[:4], "rtt.parquet")
    simulate(1, fat_tree, tmp_path / "alone", *sets)
    table = pq.read_table(tmp_path / "alone" / "rtt.parquet").to_pydict()
    result = json.loads((tmp_path / "alone" / "result.json").read_text())
    assert result["rtt"] == {"flow_id": 314, "rows": 50, "is_complete": True}
    assert set(table["flow_id"]) == {314} and table["sequence"] == list(range(0, 50_000, 1000))
    start_ps = pq.read_table(tmp_path / "alone" / "flows.parquet")["start_ps"].to_pylist()[300:]
    assert all(20_000_000 <= start < 20_050_000 for start in start_ps) and len(set(start_ps)) == 15
    assert start_ps[14] <= table["sent_ps"][0] and len(set(table["rtt_ps"])) > 10
    for n_rank in rank_counts(2, 3):
        folder = tmp_path / f"on{n_rank}"
        simulate(n_rank, fat_tree, folder, *sets, "partition.placement=round-robin")
        assert [
            name for name in files if (folder / name).read_bytes() != (tmp_path / "alone" / name).read_bytes()
        ] == []
    simulate(2, fat_tree, tmp_path / "without", *sets[1:])
    for name in FILES[1:4]:
        assert (tmp_path / "without" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert not (tmp_path / "without" / "rtt.parquet").exists()


def test_sampling_changes_no_other_result(fat_tree: Path, tmp_path: Path, simulate: Callable) -> None:
    text = fat_tree.read_text()
    plain = fat_tree.with_name("plain.toml")
    plain.write_text(text[: text.index("[output]")])
    simulate(1, fat_tree, tmp_path / "sampled")
    simulate(1, plain, tmp_path / "plain")
    for name in FILES[1:4]:
        assert (tmp_path / "sampled" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    sampled, plainly = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("sampled", "plain"))
    assert sampled.pop("samples") and sampled == plainly
    assert not any((tmp_path / "plain" / name).exists() for name in SAMPLES)
    simulate(1, plain, tmp_path / "sampled")  # older samples do not stay beside results that are not theirs
    assert not any((tmp_path / "sampled" / name).exists() for name in SAMPLES)


def write_ring(folder: Path, n: int) -> Path:
    """n switches in a ring, a host each that sends to the host two switches on, all clockwise."""
    links = [(i, n + i) for i in range(n)] + [(n + i, n + (i + 1) % n) for i in range(n)]
    switches = " ".join(str(n + i) for i in range(n))
    rows = "".join(f"{a} {b} 100Gbps 1us 0\n" for a, b in links)
    (folder / "topology.txt").write_text(f"{2 * n} {n} {len(links)}\n{switches}\n{rows}")
    flows, paths = ["src,dst,size_bytes,start_ps"], []
    for src in range(n):
        dst = (src + 2) % n
        nodes = [src, *(n + (src + k) % n for k in range(3)), dst]
        there, back = ("-".join(map(str, way)) for way in (nodes, nodes[::-1]))
        for k in range(3):
            flows.append(f"{src},{dst},2000000,0")
            paths.append(f"{src} {dst} {10_000 + k} 100 data {there} ack {back}")
    (folder / "flows.csv").write_text("\n".join(flows) + "\n")
    (folder / "paths.txt").write_text("\n".join(paths) + "\n")
    (folder / "ring.toml").write_text(RING)
    return folder / "ring.toml"


def test_a_deadlock_ends_every_rank_and_keeps_the_results(
    tmp_path: Path, start: Callable, ask: Callable, rank_counts: Callable
) -> None:
    config, sets = write_ring(tmp_path, 4), ("--set", "output.sample_interval=10us")
    texts = []
    for n_rank in rank_counts(1, 2, 3):
        out = tmp_path / str(n_rank)
        done = start(n_rank, "-m", "pdes", config, "--out", out, "--quiet", *sets)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        error = done.stderr[done.stderr.index("the run cannot go on") :].replace(str(out), "OUT")
        texts.append(error.splitlines()[:4])
        assert different(tmp_path / "1", out) == []
    assert len(set(map(tuple, texts))) == 1
    circle = "switch7->switch4 priority 3 waits for switch4->switch5 priority 3, which waits for switch5->switch6"
    assert re.search(rf"PFC deadlock at [\d.]+ ms: {circle}", texts[0][1])
    assert texts[0][2].strip() == "12 flows are unfinished; the results up to here are in OUT"
    result = json.loads((tmp_path / "1" / "result.json").read_text())
    (deadlock,) = result["pfc_deadlock"]
    ports = [queue["port"] for queue in deadlock["circle"]]
    assert ports == ["switch7->switch4", "switch4->switch5", "switch5->switch6", "switch6->switch7"]
    assert result["simulated_time_ps"] == deadlock["time_ps"] and result["flows_finished"] == 0
    assert len(result["pfc_storm"]) == 8 and all(s["paused_ps"] > 2.9 * 10**9 for s in result["pfc_storm"])
    assert pq.read_table(tmp_path / "1" / "flows.parquet")["finish_ps"].null_count == 12
    report = ask(1, "-m", "pdes", "report", tmp_path / "1")
    assert report.returncode == 0 and "Warning: PFC deadlock at " in report.stdout
    assert "Warning: PFC storm: paused for more than half of the time: host0->switch4" in report.stdout


def test_a_ring_with_room_ends_well(tmp_path: Path, ask: Callable) -> None:
    config = write_ring(tmp_path, 4)
    done = ask(1, "-m", "pdes", config, "--out", tmp_path / "out", "--set", "network.buffer.size=32MB")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["pfc_deadlock"], result["pfc_storm"], result["flows_finished"]) == ([], [], 12)
    assert "Warning" not in done.stdout


NS3 = ("--set", "network.compatibility=ns3-hpcc", "--set", "network.pfc.enabled=auto")


@pytest.mark.parametrize("stop", [False, True])
def test_by_ns_3_s_rules_a_deadlock_is_seen_when_nothing_is_left(
    stop: bool, tmp_path: Path, start: Callable, ask: Callable
) -> None:
    """Nothing is timed there. With a stop time the results are what was asked for; without one the run has failed."""
    config = write_ring(tmp_path, 4)
    text = config.read_text().replace('"none"\nwindow', '"dctcp"\nwindow')
    config.write_text(text.replace('"150kB"', '"500kB"'))
    sets = [*NS3, *(("--set", "simulation.stop_time=9ms") if stop else ())]
    texts = []
    for n_rank in (1, 2):
        done = (ask if stop else start)(n_rank, "-m", "pdes", config, "--out", tmp_path / str(n_rank), *sets)
        assert done.returncode == (0 if stop else 1), done.stderr
        texts.append(done.stderr)
        result = json.loads((tmp_path / str(n_rank) / "result.json").read_text())
        assert len(result["pfc_deadlock"]) == 1 and result["flows_finished"] == 0
        assert "Warning: PFC deadlock" in done.stdout
    if not stop:
        assert "the run cannot go on: nothing is left to happen\n  PFC deadlock" in texts[0]
    assert (tmp_path / "1" / "result.json").read_bytes() == (tmp_path / "2" / "result.json").read_bytes()
