"""Several jobs end alike on any number of ranks: also one that begins when others end, wherever these are."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reference import made_traces as made

FILES = ("result.json", "flows.parquet", "tasks.parquet", "breakdown.parquet", "ports.parquet")


def several_jobs(_: Path) -> str:
    """A GPT in servers, a ring that shares its rails, and two that wait: for both, on GPUs of theirs; for data."""
    collective = """
        [job.workload]
        kind = "collectives"
        [[job.workload.collective]]
        name = "ring"
        size = "200kB"
    """
    return f"""
        [topology]
        kind = "roft"
        gpus = 32
        gpus_per_server = 4
        servers_per_rail_switch = 4
        [[job]]
        name = "gpt"
        gpus = 16
        placement = "spread"
        iterations = 2
        [job.workload]
        kind = "training"
        [job.workload.model]
        layers = 2
        hidden = 64
        vocabulary = 256
        sequence = 64
        [job.workload.parallel]
        tp = 4
        dp = 2
        pp = 2
        [[job]]
        name = "ring"
        gpus = 12
        placement = "random"
        start = "3us"
        priority = 5
        {collective}        operation = "all-reduce"
        [[job]]
        name = "later"
        gpus = 24
        after = ["gpt", "ring"]
        delay = "10us"
        {collective}        operation = "all-to-all"
        [[job]]
        name = "data"
        start = "2us"
        [job.workload]
        kind = "input"
        hosts = [31, 30]
        to = "beside"
        size = "300kB"
        [[job]]
        name = "beside"
        gpus = 4
        after = ["ring", "data"]
        delay = "15us"
        iterations = 3
        {collective}        operation = "all-gather"
    """


def check_same(folder: Path, counts: Sequence[int]) -> None:
    """Runs on these numbers of ranks, each in a folder of that name, have left the same bytes."""
    for name in FILES:
        first, *others = ((folder / str(n) / name) for n in counts)
        assert [path for path in others if path.exists() != first.exists()] == []
        assert not first.exists() or [path for path in others if path.read_bytes() != first.read_bytes()] == []


@pytest.mark.parametrize("mode", ["off", "auto", "flow"])
def test_jobs_are_the_same_bytes(mode: str, tmp_path: Path, simulate: Callable, rank_counts: Callable) -> None:
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in several_jobs(tmp_path).splitlines()))
    counts = rank_counts(1, 2, 3)
    for n in counts:
        simulate(n, config, tmp_path / str(n), f"wormhole.mode={mode}", "network.scheduler.kind=weighted")
    check_same(tmp_path, counts)
    for n in counts[1:]:
        of_lp = json.loads((tmp_path / str(n) / "run.json").read_text())["rank_of_lp"]
        assert len(set(of_lp)) == n
    jobs = json.loads((tmp_path / "1" / "result.json").read_text())["jobs"]
    assert [job["flows_finished"] for job in jobs] == [job["flows"] for job in jobs]
    assert jobs[0]["shared_ports"] > 0 and jobs[2]["begin_ps"] >= max(job["end_ps"] for job in jobs[:2])


def traced_jobs(folder: Path) -> str:
    """Traces whose sends end at different instants, one behind the other, beside a collective that waits for both."""
    made.hybrid_llama(folder)
    (folder / "ring.goal").write_text(made.GOAL_RING)
    return """
        [topology]
        kind = "leaf-spine"
        leaves = 3
        spines = 2
        hosts_per_leaf = 4
        [[job]]
        name = "llama"
        gpus = 4
        placement = "spread"
        [job.workload]
        kind = "trace"
        format = "chakra"
        file = "llama"
        communicators = "llama.json"
        [[job]]
        name = "goal"
        gpus = 3
        placement = "spread"
        start = "2us"
        [job.workload]
        kind = "trace"
        format = "goal"
        file = "ring.goal"
        [[job]]
        name = "again"
        gpus = 8
        after = ["goal", "llama"]
        delay = "10us"
        [job.workload]
        kind = "trace"
        format = "chakra"
        file = "llama"
        communicators = "llama.json"
        [[job]]
        name = "ring"
        gpus = 12
        after = ["again"]
        delay = "12us"
        [job.workload]
        kind = "collectives"
        [[job.workload.collective]]
        name = "ring"
        operation = "all-reduce"
        size = "200kB"
    """


@pytest.mark.parametrize("mode", ["off", "flow"])
def test_jobs_that_are_traces_are_the_same_bytes(
    mode: str, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in traced_jobs(tmp_path).splitlines()))
    counts = rank_counts(1, 2, 3)
    for n in counts:
        simulate(n, config, tmp_path / str(n), f"wormhole.mode={mode}", "partition.placement=round-robin")
    check_same(tmp_path, counts)
    jobs = json.loads((tmp_path / "1" / "result.json").read_text())["jobs"]
    assert all(job["flows_finished"] == job["flows"] and job["end_ps"] is not None for job in jobs)
