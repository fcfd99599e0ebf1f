"""Jobs whose work is a trace: alone they are the trace itself, and beside others what several jobs have to be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.workload.importers.formats import TraceSource, n_rank, read_trace
from pdes.cli import main
from pdes.config.values import make_config
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from reference import made_traces as made
from reference.job_runs import FABRIC, US, Ran, collective, jobs_config, toml_of, training

TIMES = ("start_ps", "delivered_ps", "finish_ps", "end_ps")
MODES = ["off", "auto", "flow"]
FORMATS = ["chakra", "goal", "simai", "htsim"]


def trace(folder: Path, form: str) -> dict[str, Any]:
    """A workload of one of the made traces: GPUs are 4 of Chakra's and htsim's, 3 of GOAL's, 8 of SimAI's."""
    files = {"goal": made.GOAL_RING, "simai": made.SIMAI, "htsim": made.HTSIM_SERIAL}
    if form == "chakra":
        made.hybrid_llama(folder)
        return {
            "kind": "trace", "format": form, "file": str(folder / "llama"),
            "communicators": str(folder / "llama.json"),
        }  # fmt: skip
    (folder / form).write_text(files[form])
    return {"kind": "trace", "format": form, "file": str(folder / form)}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray], shift_ps: int = 0) -> None:
    """Two tables are equal but for ids and jobs, the second one later by a time."""
    assert len(next(iter(one.values()))) > 0
    for column in one:
        if column not in ("flow_id", "task_id", "row_id", "job"):
            moved = one[column] + shift_ps if column in TIMES else one[column]
            assert np.array_equal(moved, other[column]), column


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMATS)
def test_one_trace_on_all_gpus_is_the_workload_itself(tmp_path: Path, form: str, mode: str) -> None:
    workload, how = trace(tmp_path, form), {"wormhole": {"mode": mode}}
    plain = jobs_config(tmp_path / "plain", workload=workload, **how)
    del plain["job"]
    job, alone = Ran(jobs_config(tmp_path / "job", {"name": "it", "workload": workload}, **how)), Ran(plain)
    for name in ("flows", "tasks", "ports"):
        same(alone.table(name), job.table(name))
    assert np.array_equal(alone.table("tasks")["task_id"], job.table("tasks")["task_id"])
    assert job.jobs["it"]["iteration_time_ps"] == alone.result["iteration_time_ps"]
    assert len(alone.result["iteration_time_ps"]) == 1


@pytest.mark.parametrize("mode", MODES)
def test_traces_without_a_common_port_do_not_know_of_each_other(tmp_path: Path, mode: str) -> None:
    """Of two formats, whose sends end at different instants, with a job of our own between them."""
    rows: list[dict[str, Any]] = [
        {"name": "goal", "gpus": [2, 0, 1], "workload": trace(tmp_path, "goal")},
        {"name": "own", "gpus": [4, 5, 6, 7], "workload": training(1, 4), "iterations": 2},
        {"name": "llama", "gpus": [11, 8, 9, 10], "workload": trace(tmp_path, "chakra"), "start": "3us"},
        {"name": "htsim", "gpus": [12, 13, 14, 15], "workload": trace(tmp_path, "htsim"), "iterations": 1},
    ]
    how = {"wormhole": {"mode": mode}, "simulation": {"iterations": 3}}  # of those that have none of their own
    together = Ran(jobs_config(tmp_path / "all", *rows, **how))
    for job in rows:
        alone = Ran(jobs_config(tmp_path / "alone" / job["name"], job, **how))
        for table in ("flows", "tasks"):
            same(alone.table(table, job["name"]), together.table(table, job["name"]))
        assert together.jobs[job["name"]] == alone.jobs[job["name"]]
    ids = together.table("tasks")["task_id"]
    assert len(np.unique(ids)) == len(ids) and ids.max() == len(ids) - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMATS)
def test_a_trace_begins_behind_other_jobs_and_they_behind_it(tmp_path: Path, form: str, mode: str) -> None:
    workload, how = trace(tmp_path, form), {"wormhole": {"mode": mode}}
    a = {"name": "a", "gpus": 4, "workload": collective("1MB"), "iterations": 2}
    b = {"name": "b", "gpus": 8, "workload": workload, "after": ["a"], "delay": "20us"}
    c = {"name": "c", "gpus": 8, "workload": workload, "after": ["b"], "delay": "10us"}
    d = {"name": "d", "gpus": 4, "workload": collective("1MB"), "after": ["c", "a"], "delay": "15us"}
    ran = Ran(jobs_config(tmp_path / "all", a, b, c, d, **how))
    rows = {name: ran.table("tasks", name) for name in ran.jobs}
    begins = {name: job["begin_ps"] for name, job in ran.jobs.items()}
    ends = {name: int(table["end_ps"].max()) for name, table in rows.items()}
    assert begins["b"] == ends["a"] + 20 * US
    assert begins["c"] == ends["b"] + 10 * US
    assert begins["d"] == ends["c"] + 15 * US
    alone = Ran(jobs_config(tmp_path / "b", {key: b[key] for key in ("name", "gpus", "workload")}, **how))
    for table in ("flows", "tasks"):
        same(alone.table(table), ran.table(table, "b"), begins["b"])
    for name in "bc":
        assert ran.jobs[name]["iteration_time_ps"] == alone.jobs["b"]["iteration_time_ps"]
        assert ran.jobs[name]["flows_finished"] == ran.jobs[name]["flows"]


def test_two_traces_over_one_link_take_twice_as_long(tmp_path: Path) -> None:
    """Each sends 10 MB between two leaves, over the one link between them."""
    (tmp_path / "send.goal").write_text(
        "num_ranks 2\nrank 0 {\na: send 10000000b to 1 tag 1\n}\nrank 1 {\nb: recv 10000000b from 0 tag 1\n}\n"
    )
    workload = {"kind": "trace", "format": "goal", "file": str(tmp_path / "send.goal")}
    rows = [{"name": name, "gpus": [i, 4 + i], "workload": workload} for i, name in enumerate("ab")]
    config = jobs_config(tmp_path / "out", *rows) | {"topology": FABRIC | {"leaves": 2, "spines": 1}}
    (tmp_path / "config.toml").write_text(toml_of(config))
    assert main([str(tmp_path / "config.toml"), "--alone", "--quiet"]) == 0
    alone = json.loads((tmp_path / "out" / "alone.json").read_text())
    for job in json.loads((tmp_path / "out" / "result.json").read_text())["jobs"]:
        slowdown = job["iteration_time_ps"][0] / alone[job["name"]]["iteration_time_ps"][0]
        assert slowdown == pytest.approx(2, rel=0.03)
        assert job["shared_ports"] > 0 and job["payload_bytes"] == 10_000_000


def test_a_trace_of_ours_is_the_job_that_it_was_written_from(tmp_path: Path) -> None:
    plain = jobs_config(tmp_path / "plain", workload=training(1, 4), simulation={"iterations": 2})
    plain["topology"] = FABRIC | {"leaves": 1}
    del plain["job"]
    (tmp_path / "plain.toml").write_text(toml_of(plain))
    assert main(["export", "chakra", str(tmp_path / "plain.toml"), "-o", str(tmp_path / "own")]) == 0
    rows = [
        {"name": "it", "gpus": 4, "workload": training(1, 4), "iterations": 2},
        {"name": "other", "gpus": 4, "workload": collective()},
    ]
    written = {"kind": "trace", "format": "chakra", "file": str(tmp_path / "own")}
    one, other = (
        Ran(jobs_config(tmp_path / name, rows[0] | {"workload": workload}, rows[1]))
        for name, workload in (("written", written), ("asked", training(1, 4)))
    )
    for table in ("flows", "tasks", "breakdown", "ports"):
        same(one.table(table), other.table(table))
    with pytest.raises(ConfigError, match=r"\[\[job\]\] 1: iterations: 1, and the trace .* has 2"):
        build_scenario(make_config(jobs_config(tmp_path, {"name": "it", "gpus": 4, "workload": written})))


@pytest.mark.parametrize("placement", ["packed", "spread"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_trace_has_as_many_gpus_as_it_has_ranks(tmp_path: Path, form: str, placement: str) -> None:
    """Between jobs that leave it no more than these, and none to the cluster as a whole."""
    n = {"chakra": 4, "goal": 3, "simai": 8, "htsim": 4}[form]
    its = {"name": "it", "workload": trace(tmp_path, form), "placement": placement}
    own = {"name": "own", "gpus": [1, 6], "workload": collective()}
    rest = {"name": "rest", "gpus": 14 - n, "workload": collective()}
    plain, counted = (
        Ran(jobs_config(tmp_path / name, own, its | more, rest, wormhole={"mode": "auto"}))
        for name, more in (("plain", {}), ("counted", {"gpus": n}))
    )
    assert plain.jobs == counted.jobs and len(plain.jobs["it"]["gpus"]) == n
    for table in ("flows", "tasks", "ports"):
        assert plain.table(table).keys() == counted.table(table).keys()
        for column, values in plain.table(table).items():
            assert np.array_equal(values, counted.table(table)[column])


def test_how_many_ranks_is_known_without_the_nodes(tmp_path: Path) -> None:
    profile = {"form": 1, "ranks": 5, "programs": [{"nodes": [{"time_ps": 1000}]}]}
    texts = {"astra-sim-text": made.ASTRA_DATA, "profile": json.dumps(profile)}
    sources = {form: TraceSource(form, Path(trace(tmp_path, form)["file"])) for form in FORMATS}
    for form, text in texts.items():
        (tmp_path / form).write_text(text)
        sources[form] = TraceSource(form, tmp_path / form)
    groups = {"chakra": tmp_path / "llama.json"}
    for form, source in sources.items():
        read, _ = read_trace(replace(source, communicators=groups.get(form)), 16)
        assert n_rank(source) == (None if form == "astra-sim-text" else read.n_rank)
    for form in ("astra-sim-text", "simai"):
        assert n_rank(replace(sources[form], gpus=4)) == 4
    with pytest.raises(ConfigError, match="num_ranks"):
        n_rank(TraceSource("goal", tmp_path / "htsim"))


def test_a_trace_that_leaves_it_open_has_all_gpus(tmp_path: Path) -> None:
    """And so has one whose job asks for all; one with more ranks than these is refused."""
    (tmp_path / "dp").write_text(made.ASTRA_DATA)
    its = {"name": "it", "workload": {"kind": "trace", "format": "astra-sim-text", "file": str(tmp_path / "dp")}}
    chakra = {"name": "it", "workload": trace(tmp_path, "chakra")}
    for job, n in ((its, 16), (chakra | {"gpus": "all"}, 16), (chakra, 4)):
        scenario = build_scenario(make_config(jobs_config(tmp_path, job)))
        assert len(scenario.plan.parts[0].hosts) == n
    few = jobs_config(tmp_path, chakra) | {"topology": FABRIC | {"leaves": 1, "hosts_per_leaf": 3}}
    with pytest.raises(ConfigError, match="llama: 4 ranks. Accepted: at most 3, the topology's hosts"):
        build_scenario(make_config(few))


def test_what_is_wrong_is_said_of_the_job(tmp_path: Path) -> None:
    job = {"name": "it", "gpus": 4, "workload": trace(tmp_path, "chakra")}
    for more, said in (
        ({"iterations": 2}, r"\[\[job\]\] 1: iterations: 2, and the workload is a trace"),
        ({"gpus": 3}, r"4 ranks.*at most 3"),
        ({"workload": job["workload"] | {"format": "pcap"}}, r"\[\[job\]\] 1: workload.format"),
        ({"workload": job["workload"] | {"file": str(tmp_path / "none")}}, "none"),
    ):
        with pytest.raises(ConfigError, match=said):
            build_scenario(make_config(jobs_config(tmp_path, job | more)))


def test_a_stuck_trace_is_explained_beside_other_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.write_stuck(tmp_path)
    stuck = {
        "kind": "trace", "format": "chakra", "file": str(tmp_path / "stuck"),
        "communicators": str(tmp_path / "groups.json"),
    }  # fmt: skip
    rows = [
        {"name": "other", "gpus": [0, 1], "workload": collective()},
        {"name": "it", "gpus": [5, 3], "workload": stuck},
        {"name": "next", "gpus": [6, 7], "workload": collective(), "after": ["it"]},
    ]
    (tmp_path / "config.toml").write_text(toml_of(jobs_config(tmp_path / "out", *rows)))
    assert main([str(tmp_path / "config.toml"), "--quiet"]) != 0
    said = capsys.readouterr().err
    assert "a circle: host3 waits for host5 waits for host3" in said
    assert "host5 node 1 (one), a collective, waits for a message from host3" in said
    assert "host6 stream 'all-reduce' waits for the other members of its group" in said
