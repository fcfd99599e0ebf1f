"""Claims about training data that comes from storage hosts: how long it takes, and when the job begins."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdes.cli import main
from pdes.config.values import make_config
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from reference.job_runs import FABRIC, US, Ran, collective, jobs_config, toml_of, training

SIZE = 4_000_000  # bytes
DELAY_PS = 20 * US


def data(hosts: list[int], to: str = "it", size: int = SIZE, **more: Any) -> dict[str, Any]:
    name = more.pop("name", "data")
    return {"name": name, "workload": {"kind": "input", "hosts": hosts, "to": to, "size": f"{size}B"}, **more}


def job(name: str = "it", gpus: Any = None, after: str = "data", **workload: Any) -> dict[str, Any]:
    own = workload or training(1, 4)
    return {"name": name, "gpus": gpus or [0, 1, 2, 3], "after": [after], "delay": "20us", "workload": own}


@pytest.mark.parametrize("mode", ["off", "flow"])
@pytest.mark.parametrize("hosts", [[12], [12, 13], [12, 5, 13, 9]])
def test_data_takes_what_the_storage_hosts_links_take(tmp_path: Path, hosts: list[int], mode: str) -> None:
    """Links of 100 Gbps below one switch; each storage host has its own, and sends the shares of 4 / n GPUs."""
    tables = jobs_config(tmp_path / "out", data(hosts), job(), wormhole={"mode": mode})
    tables["topology"] = FABRIC | {"hosts_per_leaf": 16}
    ran, config = Ran(tables), make_config(tables)
    payload = config.network.payload_bytes
    expected_ps = SIZE / len(hosts) * 8 * 10 * (payload + config.network.header_bytes) / payload  # ps a bit: 10
    took_ps = ran.jobs["data"]["end_ps"] - ran.jobs["data"]["begin_ps"]
    assert expected_ps < took_ps < 1.02 * expected_ps + 15 * US
    flows = ran.table("flows", "data")
    assert ran.jobs["it"]["begin_ps"] == flows["delivered_ps"].max() + DELAY_PS
    assert flows["size_bytes"].sum() == SIZE and set(flows["dst"]) == {0, 1, 2, 3} and set(flows["src"]) == set(hosts)


def test_the_job_goes_on_as_by_itself(tmp_path: Path) -> None:
    both = Ran(jobs_config(tmp_path / "both", data([12, 13]), job()))
    alone = Ran(
        jobs_config(tmp_path / "alone", {key: one for key, one in job().items() if key not in ("after", "delay")})
    )
    begin_ps = both.jobs["it"]["begin_ps"]
    for column in ("start_ps", "finish_ps"):
        assert np.array_equal(alone.table("flows", "it")[column] + begin_ps, both.table("flows", "it")[column])
    assert both.jobs["it"]["iteration_time_ps"] == alone.jobs["it"]["iteration_time_ps"]


def test_placed_jobs_get_their_data_where_they_are_and_no_storage_host_as_a_gpu(tmp_path: Path) -> None:
    other = job("other", 4, "more", **collective())
    rows = [data([0, 1]), data([1], "other", name="more"), job(gpus=4) | {"placement": "spread"}, other]
    plan = build_scenario(make_config(jobs_config(tmp_path, *rows))).plan
    hosts = {part.name: set(part.hosts) for part in plan.jobs}
    assert hosts["data"] == {0, 1} | hosts["it"] and hosts["more"] == {1} | hosts["other"]
    assert not {0, 1} & (hosts["it"] | hosts["other"]) and not hosts["it"] & hosts["other"]


def test_two_inputs_of_one_storage_host_share_its_link(tmp_path: Path) -> None:
    rows = [data([12]), data([12], "other", name="more"), job(), job("other", [4, 5, 6, 7], "more")]
    together = Ran(jobs_config(tmp_path / "both", *rows))
    one = Ran(jobs_config(tmp_path / "one", rows[0], rows[2]))
    assert together.jobs["data"]["end_ps"] == pytest.approx(2 * one.jobs["data"]["end_ps"], rel=0.05)
    assert together.jobs["data"]["shared_ports"] > 0


def test_alone_takes_data_by_itself_too(tmp_path: Path) -> None:
    config = jobs_config(
        tmp_path / "out", data([12]), job(), data([12], "other", name="more"), job("other", [4, 5], "more")
    )
    config["job"][3]["workload"] = training(1, 2)
    (tmp_path / "config.toml").write_text(toml_of(config))
    assert main([str(tmp_path / "config.toml"), "--alone", "--quiet"]) == 0
    alone = json.loads((tmp_path / "out" / "alone.json").read_text())
    result = json.loads((tmp_path / "out" / "result.json").read_text())["jobs"]
    assert set(alone) == {"data", "it", "more", "other"}
    assert result[0]["end_ps"] == pytest.approx(1.5 * alone["data"]["end_ps"], rel=0.05)  # four of six messages


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([data([12], "nobody"), job()], "in its `after`"),
        ([data([12]), job() | {"after": []}], "in its `after`"),
        ([data([12, 12]), job()], "each once"),
        ([data([16]), job()], "hosts 0 to 15"),
        ([data([12], gpus=[12, 0]), job()], "moves data"),
        ([data([3]), job()], "GPU 3 has another job"),
        ([data([12]), job(gpus=16, **collective())], "15 are left"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_scenario(make_config(jobs_config(tmp_path, *rows)))
