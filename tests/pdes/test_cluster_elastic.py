"""Elastic jobs in a config: where their ranges and speeds come from, and what is said of ones that are wrong."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pdes.cli import main

pytest.importorskip("scipy")
ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[cluster]
scheduler = "sia"
jobs = "jobs.csv"
speeds = "speeds.csv"

[[cluster.pool]]
gpu = "A"
servers = 1

[[cluster.pool]]
gpu = "B"
servers = 1

[[cluster.elastic]]
kind = "k"
most_gpus = 8
"""
JOBS = "job,submit_s,steps,gpus,kind,min_gpus,max_gpus\na,0,3600,2,k,,\n"
SPEEDS = "kind,gpus,gpu,steps_per_s\nk,1,A,1\nk,2,A,2\nk,4,A,3\nk,8,A,2.5\nk,1,B,0.5\nk,8,B,4\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "speeds.csv").write_text(SPEEDS)
    return path


def done_s(config: Path, *more: str) -> list[float]:
    out = config.parent / "out"
    assert main([str(config), "--out", str(out), "--quiet", *more]) == 0
    jobs = pq.read_table(out / "jobs.parquet").to_pydict()
    return [(end - start) / 1e6 for start, end in zip(jobs["start_us"], jobs["end_us"], strict=True)]


def test_a_job_takes_its_steps_by_the_rate_that_was_measured_where_it_is(config: Path) -> None:
    """3,600 steps: 4 a second on 8 of B, which is the most; 3 on 4 of A; 2 on the 2 that it asks for."""
    assert done_s(config) == [900]
    assert done_s(config, "--set", "cluster.scheduler=fcfs") == [1800]
    (config.parent / "jobs.csv").write_text("job,submit_s,steps,gpus,kind,gpu_type\na,0,3600,2,k,A\n")
    assert done_s(config) == [1200]


def test_jobs_are_not_stopped_for_each_other_again_and_again(tmp_path: Path) -> None:
    """Eight times the jobs that there is room for: a job that waits is as dear as what its restart takes, so Sia stops
    few, and jobs are done no later than by Pollux' rule, as Sia's paper has it (section 5). Not so if it is not."""
    free = ("scheduler=sia", "options.discount_stopped=false")
    results = {}
    for name, own in {"sia": ("scheduler=sia",), "pollux": ("scheduler=pollux",), "free": free}.items():
        words = [word for key in ("first=150", "arrivals.per_hour=96", *own) for word in ("--set", f"cluster.{key}")]
        example = ROOT / "examples" / "cluster" / "elastic.toml"
        assert main([str(example), "--out", str(tmp_path / name), "--quiet", *words]) == 0
        results[name] = json.loads((tmp_path / name / "result.json").read_text())
    assert results["sia"]["preemptions"] < 4 * 150 < results["free"]["preemptions"]
    assert results["sia"]["completion_s"]["mean"] < results["pollux"]["completion_s"]["mean"]


def test_a_jobs_own_range_goes_before_its_kinds(config: Path) -> None:
    (config.parent / "jobs.csv").write_text(JOBS.replace("k,,", "k,1,4"))
    assert done_s(config) == [1200]
    (config.parent / "jobs.csv").write_text(JOBS.replace("k,,", "k,2,"))
    assert done_s(config) == [1800]


def test_the_example_is_as_its_page_says(tmp_path: Path) -> None:
    out = tmp_path / "out"
    example = ROOT / "examples" / "cluster" / "elastic.toml"
    assert main([str(example), "--out", str(out), "--quiet", "--set", "cluster.first=60"]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["jobs_done"] == 60 and result["preemptions"] > 0
    jobs = pq.read_table(out / "jobs.parquet").to_pydict()
    assert {*jobs["kind"]} == {"recommender", "vision", "rigid"}
    events = pq.read_table(out / "events.parquet").to_pydict()
    held = {
        (jobs["kind"][job], jobs["gpus"][job], gpus)
        for what, job, gpus in zip(events["event"], events["job_id"], events["gpus"], strict=True)
        if what == "start"
    }
    assert all(asked == gpus for kind, asked, gpus in held if kind == "rigid")
    assert any(asked != gpus for kind, asked, gpus in held if kind == "vision")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("most_gpus = 8", "most_gpus = 8\nleast_gpus = 9", "least_gpus up to most_gpus"),
        ("most_gpus = 8", "least_gpus = 9", "most_gpus"),
        ("most_gpus = 8", "most_gpus = 8\nserial = 1.5", "serial"),
        ("most_gpus = 8", 'most_gpus = 8\nserial = 0.5\nsync = "1ms"', "serial and sync"),
        ("most_gpus = 8", 'most_gpus = 8\nsync = "1ms"', "sync without batch"),
        ("most_gpus = 8", "most_gpus = 8\nbatch = 8", "batch without gradient_sample"),
        ("most_gpus = 8", 'most_gpus = 8\nbatch = 8\nmost_batch = 4\ngradient_sample = "1ms"', "most_batch = 4"),
        ('kind = "k"', 'kind = "other"', "neither serial nor batch"),
        (
            "most_gpus = 8",
            'most_gpus = 8\n[[cluster.elastic]]\nkind = "k"\nmost_gpus = 2',
            'a second table of kind "k"',
        ),
        ('scheduler = "sia"', 'scheduler = "sia"\noptions = { power = 0.0 }', "power"),
        ('scheduler = "sia"', 'scheduler = "pollux"\noptions = { power = 0.5 }', "power"),
    ],
)
def test_a_wrong_table_is_named(config: Path, capsys: pytest.CaptureFixture, old: str, new: str, said: str) -> None:
    config.write_text(CONFIG.replace(old, new))
    assert main([str(config), "--quiet", "--out", str(config.parent / "out")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (JOBS.replace("k,,", "k,3,"), "line 2, min_gpus"),
        (JOBS.replace("k,,", "k,,1"), "line 2, max_gpus"),
        ("job,submit_s,duration_s,gpus,kind,max_gpus\na,0,60,2,other,8\n", "no table of its kind"),
    ],
)
def test_a_wrong_range_is_named(config: Path, capsys: pytest.CaptureFixture, jobs: str, said: str) -> None:
    (config.parent / "jobs.csv").write_text(jobs)
    assert main([str(config), "--quiet", "--out", str(config.parent / "out")]) == 2
    assert said in capsys.readouterr().err


def test_a_plan_says_how_many_are_elastic(config: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["plan", str(config)]) == 0
    said = capsys.readouterr().out
    assert "elastic    1 of them, 1 to 8 GPUs" in said and "sia chooses anew in rounds" in said
