"""Where [[job]] tables are placed: by each policy as it says, and least contended where packets are fastest."""

from pathlib import Path
from typing import Any

import pytest

from pdes.cli import main
from pdes.config.values import make_config
from pdes.errors import ConfigError
from pdes.results.report import write_report
from pdes.simulation.preparation.placing import build_placed
from reference.job_runs import FABRIC, Ran, collective, jobs_config, toml_of, training


def test_placements_are_what_they_say(tmp_path: Path) -> None:
    def gpus(placement: str, seed: int = 1) -> list[int]:
        job = {"name": "a", "gpus": 4, "placement": placement, "workload": collective()}
        return Ran(jobs_config(tmp_path / f"{placement}{seed}", job, simulation={"seed": seed})).jobs["a"]["gpus"]

    assert gpus("packed") == [0, 1, 2, 3]
    assert sorted(gpu // 4 for gpu in gpus("spread")) == [0, 1, 2, 3]
    drawn = {tuple(gpus("random", seed)) for seed in range(4)}
    assert len(drawn) == 4 and all(len(set(one)) == 4 for one in drawn)


def test_few_racks_are_the_fullest_that_fit(tmp_path: Path) -> None:
    """The first two racks have 2 GPUs free, two more have 4: 2 fit into the first, 6 into the third and it."""
    wanted = {2: [2, 3], 3: [8, 9, 10], 6: [8, 9, 10, 11, 2, 3], 12: [*range(8, 16), 2, 3, 6, 7]}
    taken = [{"name": name, "gpus": gpus, "workload": collective()} for name, gpus in (("x", [0, 1]), ("y", [4, 5]))]
    for n, gpus in wanted.items():
        job = {"name": "a", "gpus": n, "placement": "rack", "workload": collective()}
        ran = Ran(jobs_config(tmp_path / str(n), *taken, job, topology=FABRIC))
        assert ran.jobs["a"]["gpus"] == gpus


def exchange(name: str, gpus: int | list[int], **more: Any) -> dict[str, Any]:
    return {"name": name, "gpus": gpus, "workload": collective("4MB", "all-to-all"), **more}


BESIDE = exchange("there", [0, 1, 4, 5])  # half of two racks, whose uplinks it needs


@pytest.mark.parametrize(
    ("jobs", "more", "gpus", "times"),
    [
        ([BESIDE, exchange("a", 4)], {}, [8, 9, 10, 11], 1.25),  # a rack of its own
        (
            [exchange("a", 8)],
            {"topology": FABRIC | {"spines": 1}},
            [0, 4, 8, 12, 1, 5, 9, 13],
            1.25,
        ),  # all four uplinks
        ([exchange("a", 4)], {}, [0, 1, 2, 3], 1.0),
    ],
)
def test_the_least_contended_place_is_the_fastest_in_packets(
    jobs: list[dict[str, Any]], more: dict[str, Any], gpus: list[int], times: float, tmp_path: Path
) -> None:
    def ran(placement: str) -> Ran:
        placed = [*jobs[:-1], jobs[-1] | {"placement": placement}]
        return Ran(jobs_config(tmp_path / placement, *placed, **more))

    def time_ps(one: Ran) -> int:
        return sum(job["iteration_time_ps"][-1] for job in one.jobs.values())

    found = ran("least-contended")
    assert found.jobs["a"]["gpus"] == gpus
    others = [ran(placement) for placement in ("packed", "rack", "spread")]
    assert time_ps(found) == min(map(time_ps, others))
    assert max(map(time_ps, others)) > times * time_ps(found)


def test_all_that_ask_are_placed_one_after_the_other(tmp_path: Path) -> None:
    """The second sees where the first went. Both at once would not know which of two equal places is whose."""
    jobs = [BESIDE, *(exchange(name, 4, placement="least-contended") for name in "ab")]
    plan = build_placed(make_config(jobs_config(tmp_path, *jobs))).plan
    assert [part.hosts for part in plan.jobs[1:]] == [(8, 9, 10, 11), (12, 13, 14, 15)]
    assert [part.facts["placement"].split(";")[0] for part in plan.jobs[1:]] == ["least contended: rack"] * 2


def test_what_waits_for_a_job_without_a_place_yet_is_left_out_until_it_has_one(tmp_path: Path) -> None:
    """A chain behind the second that asks: a job on the same GPUs, and data for it from a storage host."""
    asks = {"placement": "least-contended"}
    data = {"name": "data", "workload": {"kind": "input", "hosts": [15], "to": "next", "size": "1MB"}}
    jobs = [
        exchange("a", 8, **asks), exchange("b", 4, **asks), data,
        exchange("next", 4, after=["b", "data"]), exchange("last", 2, after=["next"], **asks),
        exchange("too", [13, 14], after=["data"]),
    ]  # fmt: skip
    ran = Ran(jobs_config(tmp_path, *jobs))
    assert [len(ran.jobs[name]["gpus"]) for name in ("a", "b", "next", "last")] == [8, 4, 4, 2]
    assert not set(ran.jobs["a"]["gpus"]) & set(ran.jobs["b"]["gpus"])
    assert ran.result["flows"] == ran.result["flows_finished"]
    assert [name for name, job in ran.jobs.items() if "placement" in job["workload"]] == ["a", "b", "last"]


def test_a_long_job_is_tried_for_a_few_iterations_and_runs_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"name": "a", "gpus": 8, "workload": training(1, 8), "iterations": 5, "placement": "least-contended"}
    config = jobs_config(tmp_path / "out", job, topology=FABRIC | {"spines": 1}, wormhole={"mode": "flow"})
    (tmp_path / "config.toml").write_text(toml_of(config))
    assert main(["plan", str(tmp_path / "config.toml")]) == 0
    assert "placement             a least contended: " in capsys.readouterr().out
    assert main([str(tmp_path / "config.toml")]) == 0
    assert "Job a least contended: " in capsys.readouterr().out
    ran = Ran(config)
    assert len(ran.jobs["a"]["iteration_time_ps"]) == 5
    assert "a least contended: " in write_report(tmp_path / "out", None).read_text()


def test_what_flow_mode_does_not_have_is_said(tmp_path: Path) -> None:
    job = exchange("a", 8, placement="least-contended")
    with pytest.raises(ConfigError, match=r"\[\[job\]\] 1: placement: .*loss.*asks flow mode"):
        build_placed(make_config(jobs_config(tmp_path, job, network={"loss": {"probability": 1e-6}})))


def test_a_given_place_stays(tmp_path: Path) -> None:
    job = exchange("a", [0, 1], placement="least-contended")
    with pytest.raises(ConfigError, match="is there, and gpus says which"):
        make_config(jobs_config(tmp_path, job))
