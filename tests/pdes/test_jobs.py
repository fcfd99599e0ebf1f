"""Several jobs on one cluster: one alone is what a workload is; what they do to each other is what it has to be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from models.workload.exporters.unroll import check_exportable
from pdes.cli import main
from pdes.config.values import make_config
from pdes.errors import ConfigError
from pdes.results.jobs import slowdown
from pdes.results.report import write_report
from pdes.scenario import build_scenario
from reference.job_runs import FABRIC, US, Ran, collective, jobs_config, toml_of, training

TIMES = ("start_ps", "delivered_ps", "finish_ps", "end_ps")


def same(
    one: dict[str, np.ndarray], other: dict[str, np.ndarray], shift_ps: int = 0, but: tuple[str, ...] = ()
) -> None:
    """Two tables are equal but for ids and jobs, the second one later by a time."""
    for column in one:
        if column in ("flow_id", "task_id", "row_id", "job", *but):
            continue
        moved = one[column] + shift_ps if column in TIMES else one[column]
        assert np.array_equal(moved, other[column]), column


@pytest.mark.parametrize("kind", ["collectives", "training", "flows"])
def test_one_job_on_all_gpus_is_the_workload_itself(tmp_path: Path, kind: str) -> None:
    rows = [
        f"{i % 16},{(7 * i + 3) % 16},{1000 * i + 1},{i * i * 1000}" for i in range(40) if i % 16 != (7 * i + 3) % 16
    ]
    (tmp_path / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, ""]))
    workload: dict[str, Any] = {
        "collectives": collective("2MB", "all-to-all"),
        "training": training(1, 8, 2),
        "flows": {"kind": "flows", "file": str(tmp_path / "flows.csv")},
    }[kind]
    plain = jobs_config(tmp_path / "plain", simulation={"iterations": 2}, workload=workload)
    del plain["job"]
    job = Ran(jobs_config(tmp_path / "job", {"name": "it", "workload": workload}, simulation={"iterations": 2}))
    alone = Ran(plain)
    assert job.result["packet_hops"] == alone.result["packet_hops"] > 0
    for name in ("flows", "tasks", "ports"):
        same(alone.table(name), job.table(name))
    if kind == "flows":
        return
    times_ps = job.jobs["it"]["iteration_time_ps"]
    assert len(times_ps) == 2
    assert alone.result["iteration_time_ps"] == (times_ps if kind == "training" else [])
    if kind == "training":
        same(alone.table("breakdown"), job.table("breakdown"))


def test_jobs_without_a_common_port_do_not_know_of_each_other(tmp_path: Path) -> None:
    """Two racks each: in order, so that no port serves two jobs."""
    a = {"name": "a", "gpus": [0, 1, 2, 3], "workload": training(1, 4), "iterations": 3}
    b = {"name": "b", "gpus": [4, 5, 6, 7], "workload": collective("1MB"), "iterations": 2, "start": "20us"}
    c = {"name": "c", "gpus": [8, 12, 9, 13], "workload": collective("3MB", "all-to-all")}
    together = Ran(jobs_config(tmp_path / "all", a, b, c))
    for job in (a, b, c):
        alone = Ran(jobs_config(tmp_path / job["name"], job))
        for table in ("flows", "tasks"):
            same(alone.table(table, job["name"]), together.table(table, job["name"]))
        if job is a:
            same(alone.table("breakdown", "a"), together.table("breakdown", "a"))
        facts = together.jobs[job["name"]]
        assert facts["shared_ports"] == 0 and facts == alone.jobs[job["name"]]
    assert len(together.jobs["a"]["iteration_time_ps"]) == 3 and len(together.jobs["b"]["iteration_time_ps"]) == 2


@pytest.mark.parametrize("mode", ["off", "exact", "flow"])
def test_a_job_that_starts_later_does_the_same_later(tmp_path: Path, mode: str) -> None:
    for workload in (training(1, 4, 2), {"kind": "poisson", "sizes": "web-search", "load": 0.1, "flows": 20}):
        job = {"name": "a", "gpus": 8, "workload": workload, "iterations": 2}
        early, late = (
            Ran(jobs_config(tmp_path / start, job | {"start": start}, wormhole={"mode": mode}))
            for start in ("0s", "7us")
        )
        same(early.table("flows"), late.table("flows"), 7 * US)
        assert late.jobs["a"]["begin_ps"] == 7 * US
        assert late.jobs["a"]["iteration_time_ps"] == early.jobs["a"]["iteration_time_ps"]


@pytest.mark.parametrize("mode", ["off", "exact", "auto", "flow"])
def test_a_job_begins_so_much_after_the_last_stream_of_those_before_it(tmp_path: Path, mode: str) -> None:
    a = {"name": "a", "gpus": 4, "workload": collective("1MB"), "iterations": 2}
    b = {"name": "b", "gpus": 4, "workload": training(1, 2, 2)}
    c = {"name": "c", "gpus": 8, "workload": training(1, 4, 2), "after": ["a", "b"], "delay": "30us", "start": "1us"}
    d = {"name": "d", "gpus": 4, "workload": collective("1MB"), "after": ["c"], "delay": "10us"}
    e = {"name": "e", "gpus": 4, "workload": collective("1MB"), "after": ["a"], "start": "1s"}
    ran = Ran(jobs_config(tmp_path, a, b, c, d, e, wormhole={"mode": mode}))
    ends = {name: int(ran.table("tasks", name)["end_ps"].max()) for name in ran.jobs}
    begins = {name: job["begin_ps"] for name, job in ran.jobs.items()}
    assert begins["a"] == begins["b"] == 0
    assert begins["c"] == max(ends["a"], ends["b"]) + 30 * US
    assert begins["d"] == ends["c"] + 10 * US
    assert begins["e"] == 10**12
    assert set(ran.jobs["d"]["gpus"]) <= set(range(8))  # those of the jobs before it, as e has none of the rest
    for name, job in ran.jobs.items():
        assert int(ran.table("tasks", name)["start_ps"].min()) >= begins[name]
        assert job["flows_finished"] == job["flows"] == len(ran.table("flows", name)["flow_id"])


def test_two_jobs_on_one_port_have_half_of_it_each(tmp_path: Path) -> None:
    """Two all-gathers of two GPUs each, over one link between two leaves: each sends half as fast as alone."""
    fabric = FABRIC | {"leaves": 2, "spines": 1}
    rows = [
        {"name": name, "gpus": [i, 4 + i], "workload": collective("40MB", "all-gather")} for i, name in enumerate("ab")
    ]
    network = {"congestion_control": "dctcp"}
    alone = Ran(jobs_config(tmp_path / "a", rows[0], topology=fabric, network=network))
    both = Ran(jobs_config(tmp_path / "ab", *rows, topology=fabric, network=network))
    flow = Ran(jobs_config(tmp_path / "flow", *rows, topology=fabric, network=network, wormhole={"mode": "flow"}))
    for name in "ab":
        slowdown = both.jobs[name]["iteration_time_ps"][0] / alone.jobs["a"]["iteration_time_ps"][0]
        assert slowdown == pytest.approx(2, rel=0.03)
        expected = flow.jobs[name]["iteration_time_ps"][0]
        assert both.jobs[name]["iteration_time_ps"][0] == pytest.approx(expected, rel=0.05)
        shared = {row["port"] for row in both.jobs[name]["most_shared"]}
        assert shared == {"leaf0->spine0", "spine0->leaf1", "leaf1->spine0", "spine0->leaf0"}


def test_a_job_of_a_higher_priority_is_not_slowed_down(tmp_path: Path) -> None:
    fabric = FABRIC | {"leaves": 2, "spines": 1}
    rows = [
        {"name": name, "gpus": [i, 4 + i], "workload": collective("20MB", "all-gather")} for i, name in enumerate("ab")
    ]
    alone = Ran(jobs_config(tmp_path / "a", rows[0], topology=fabric))
    both = Ran(jobs_config(tmp_path / "ab", rows[0] | {"priority": 6}, rows[1], topology=fabric))
    time_ps = alone.jobs["a"]["iteration_time_ps"][0]
    assert both.jobs["a"]["iteration_time_ps"][0] == pytest.approx(time_ps, rel=0.01)
    assert both.jobs["b"]["iteration_time_ps"][0] == pytest.approx(2 * time_ps, rel=0.03)


FAULTY = [
    ({"gpus": 3, "workload": training(1, 2)}, "[[job]] 1: gpus", "the layout of its workload has 2"),
    ({"workload": {"kind": "trains"}}, "[[job]] 1: workload.kind", "found \"trains\""),
    ({"workload": training(1, 2) | {"layers": 3, "x": 1}}, "[[job]] 1: workload.x", "unknown key"),
    ({"workload": collective(), "after": ["b"]}, "[[job]] 1: after", "found \"b\""),
    ({"workload": collective(), "gpus": [1, 16]}, "[[job]] 1: gpus", "names GPU 16"),
    ({"workload": collective(), "gpus": 17}, "[[job]] 1: gpus", "17, and [topology] has 16"),
    ({"workload": collective(), "gpus": [1, 1]}, "[[job]] 1: gpus", "found"),
    ({"workload": collective(), "delay": "1ns"}, "[[job]] 1: delay", "at least \"10us\""),
    ({"workload": {"kind": "trace", "file": "x"}}, "[[job]] 1: workload.format", "missing"),
    ({"workload": collective(gpus=[0, 5]), "gpus": 4}, "[[job]] 1: workload.collective.0.gpus", "names GPU 5"),
    ({}, "[[job]] 1: workload", "this table is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "where", "text"), FAULTY)
def test_a_bad_job_is_named_with_its_key(job: dict[str, Any], where: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        make_config(jobs_config(tmp_path, {"name": "a"} | job))
    assert where in str(error.value) and text in str(error.value)


def test_gpus_have_one_job_at_a_time(tmp_path: Path) -> None:
    first, second = ({"name": name, "gpus": [0, 1], "workload": collective()} for name in "ab")
    with pytest.raises(ConfigError, match='GPU 0 is also one of "a"'):
        make_config(jobs_config(tmp_path, first, second))
    make_config(jobs_config(tmp_path, first, second | {"after": ["a"]}))
    with pytest.raises(ConfigError, match=r"2: gpus: 8 of 16 GPUs, and 4 are left by jobs"):  # known with the fabric
        pdes.simulate(jobs_config(tmp_path, first | {"gpus": 12}, second | {"gpus": 8}))
    with pytest.raises(ConfigError, match="is there twice"):
        make_config(jobs_config(tmp_path, first, first))
    with pytest.raises(ConfigError, match=r"\[workload\]: is there, and so is \[\[job\]\]"):
        make_config(jobs_config(tmp_path, first, workload=collective()))


def test_jobs_are_not_exported(tmp_path: Path) -> None:
    plan = build_scenario(make_config(jobs_config(tmp_path, {"name": "a", "workload": collective()}))).plan
    with pytest.raises(ConfigError, match=r"\[\[job\]\]: 1 jobs"):
        check_exportable(plan)


def test_passes_and_iterations_of_jobs_are_not_extrapolated(tmp_path: Path) -> None:
    """What repeats may end when another job ends."""
    job = {"name": "a", "gpus": 8, "workload": training(1, 4, 2, microbatches=40), "iterations": 12}
    exact, packets = (Ran(jobs_config(tmp_path / mode, job, wormhole={"mode": mode})) for mode in ("exact", "off"))
    same(packets.table("tasks"), exact.table("tasks"))
    assert exact.jobs["a"]["iteration_time_ps"] == packets.jobs["a"]["iteration_time_ps"]
    assert len(exact.jobs["a"]["iteration_time_ps"]) == 12


def test_what_a_job_takes_alone_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"name": name, "gpus": [i, 4 + i], "workload": collective("4MB", "all-gather")} for i, name in enumerate("ab")
    ]
    config = jobs_config(tmp_path / "out", *rows)
    config["topology"] = FABRIC | {"leaves": 2, "spines": 1}
    (tmp_path / "config.toml").write_text(toml_of(config))
    assert main([str(tmp_path / "config.toml"), "--alone"]) == 0
    alone = json.loads((tmp_path / "out" / "alone.json").read_text())
    own = {
        name: Ran(jobs_config(tmp_path / name, row, topology=config["topology"]))
        for name, row in zip("ab", rows, strict=True)
    }
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    for job in result["jobs"]:
        name = job["name"]
        assert alone[name]["iteration_time_ps"] == own[name].jobs[name]["iteration_time_ps"]
        expected = job["iteration_time_ps"][0] / alone[name]["iteration_time_ps"][0]
        assert slowdown(job, alone[name]) == expected == pytest.approx(2, rel=0.05)
    shown = capsys.readouterr().out
    assert f"{slowdown(result['jobs'][0], alone['a']):.3f}" in shown.rsplit("slowdown", 1)[1]
    write_report(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="jobs"' in page and f"{slowdown(result['jobs'][1], alone['b']):.3f}" in page
    assert main([str(tmp_path / "config.toml"), "--quiet"]) == 0  # new results: what was derived of the old ones goes
    assert not (tmp_path / "out" / "alone.json").exists()


def test_only_jobs_have_a_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = jobs_config(tmp_path / "out", workload=collective())
    del config["job"]
    (tmp_path / "config.toml").write_text(toml_of(config))
    assert main([str(tmp_path / "config.toml"), "--alone"]) == 2
    assert "Accepted: a config with [[job]] tables" in capsys.readouterr().err


@st.composite
def drawn_jobs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to five jobs of some GPUs each, which may wait for some of those before them."""
    jobs: list[dict[str, Any]] = []
    for i in range(draw(st.integers(1, 5))):
        n = draw(st.sampled_from([2, 3, 4, 6]))
        workload = collective(
            draw(st.sampled_from(["2kB", "90kB", "1MB"])), draw(st.sampled_from(["all-reduce", "all-to-all"]))
        )
        if n != 3 and draw(st.booleans()):
            workload = training(1, n // 2, 2, microbatches=draw(st.integers(1, 3)))
        after = draw(st.lists(st.sampled_from([job["name"] for job in jobs]), max_size=2, unique=True)) if jobs else []
        jobs.append({
            "name": f"j{i}", "gpus": n, "workload": workload, "after": after, "iterations": draw(st.integers(1, 3)),
            "start": f"{draw(st.sampled_from([0, 1, 70]))}us", "delay": f"{draw(st.sampled_from([10, 25]))}us",
            "placement": draw(st.sampled_from(["packed", "rack", "spread", "random"])),
            "priority": draw(st.sampled_from([3, 3, 6])),
        })  # fmt: skip
    return jobs


@settings(max_examples=200)
@given(drawn_jobs(), st.sampled_from(["off", "exact", "auto", "flow"]))
def test_drawn_jobs_end_begin_in_order_and_share_no_gpu(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[dict[str, Any]], mode: str
) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    network = {"congestion_control": "dctcp", "scheduler": {"kind": "weighted"}}
    try:
        ran = Ran(jobs_config(folder, *jobs, network=network, wormhole={"mode": mode}))
    except ConfigError as error:
        assert "are left by jobs that may run at the same time" in str(error)
        return
    tasks = {name: ran.table("tasks", name) for name in ran.jobs}
    ends = {name: int(rows["end_ps"].max()) for name, rows in tasks.items()}
    for job in jobs:
        facts, start_ps = ran.jobs[job["name"]], int(job["start"][:-2]) * US
        waits = [ends[name] + int(job["delay"][:-2]) * US for name in job["after"]]
        assert facts["begin_ps"] == max([start_ps, *waits])
        assert facts["flows_finished"] == facts["flows"] and facts["end_ps"] >= ends[job["name"]]
        assert sum(facts["iteration_time_ps"]) == ends[job["name"]] - facts["begin_ps"]
        assert set(tasks[job["name"]]["gpu"]) <= set(facts["gpus"]) and len(facts["gpus"]) == job["gpus"]
        flows = ran.table("flows", job["name"])
        assert set(flows["src"]) | set(flows["dst"]) <= set(facts["gpus"])
        assert int(flows["size_bytes"].sum()) == facts["payload_bytes"]
    for one in ran.jobs.values():
        for other in ran.jobs.values():
            if one is not other and set(one["gpus"]) & set(other["gpus"]):
                first, second = sorted((one, other), key=lambda job: job["begin_ps"])
                assert ends[first["name"]] < second["begin_ps"]
