"""Claims about plans of Sailor's as configs: they run with what was measured of layers, and wrong ones are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import pdes
from pdes.cli import main
from pdes.config import load_config
from pdes.errors import ConfigError

LAYER, ENDS = (0.002, 0.004, 0.0001), ((0.001, 0.0, 0.0002), (0.003, 0.006, 0.0002))  # seconds on a GH-96 with tp 4
FACTOR = {"GH-96": 1, "RTX-3090": 5}


def write_profiles(folder: Path, n_layer: int = 24) -> Path:
    """profiles/OPT-350: on two GPUs twice as long as on four."""
    for gpu, factor in FACTOR.items():
        by_tp = {}
        for tp in (2, 4):
            times = [ENDS[0], *[LAYER] * n_layer, ENDS[1]]
            scale = factor * 4 / tp
            by_tp[str(tp)] = {str(i): [scale * one for one in layer] for i, layer in enumerate(times)}
        path = folder / "OPT-350" / gpu / "profile.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"2": by_tp}))
    return folder / "OPT-350"


def plan(groups: list[list[tuple[str, int]]], layers: list[int], **more: Any) -> dict[str, Any]:
    first = [sum(layers[:i]) for i in range(len(layers))]
    return {
        "pipeline_list": [{
            "num_stages": len(groups),
            "layers_per_stage": [list(range(at, at + n)) for at, n in zip(first, layers, strict=True)],
            "tmp_per_stage": [[[[[gpu, tp, "zone"]], tp] for gpu, tp in stage] for stage in groups],
            "dp": [len(stage) for stage in groups],
        }],
        "mbs": 2, "gbs": 16,
    } | more  # fmt: skip


def converted(folder: Path, given: dict[str, Any]) -> Path:
    (folder / "plan.json").write_text(json.dumps(given))
    profiles, job = write_profiles(folder), folder / "job.toml"
    assert main(["convert", "sailor", str(folder / "plan.json"), "--profiles", str(profiles), "-o", str(job)]) == 0
    return job


def test_a_plan_takes_its_pipeline_and_its_update(tmp_path: Path) -> None:
    """Two stages of one replica on links that take next to no time: sum(t) + (m - 1) max(t), and an update."""
    job = converted(tmp_path, plan([[("GH-96", 4)], [("GH-96", 4)]], [13, 13]))
    config = load_config(job, ["network.congestion_control=none", "topology.host_delay=1ns"])
    for row in config.topology.server:  # pyright: ignore[reportAttributeAccessIssue]
        assert (row.gpus, row.nics, row.nic_rate_bps) == (4, 4, 200 * 10**9)
    work = [12 * sum(LAYER[:2]) + sum(end[:2]) for end in ENDS]
    expected = sum(work) + 7 * max(work) + 12 * LAYER[2] + ENDS[0][2]
    found = pdes.simulate(config, tmp_path / "out").summary["iteration_time_ps"][0] / 1e12
    assert expected < found < 1.03 * expected


def test_unequal_groups_become_stage_tp_and_types_their_own_times(tmp_path: Path) -> None:
    job = converted(tmp_path, plan([[("GH-96", 4), ("RTX-3090", 2)], [("RTX-3090", 2)] * 2], [10, 16]))
    text = job.read_text()
    assert "stage_tp = [[4, 2], [2, 2]]" in text and "stage_layers = [9, 15]" in text
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == ["job.GH-96.csv", "job.RTX-3090.csv"]
    result = pdes.simulate(job, tmp_path / "out").summary
    slowest = 4 * (15 * sum(LAYER[:2]) + sum(ENDS[1][:2])) * 5 * 2  # four microbatches on two slow GPUs
    assert result["iteration_time_ps"][0] / 1e12 > slowest


def test_a_profile_of_another_model_is_left_out_with_a_warning(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan([[("GH-96", 4)]], [26])))
    profiles = write_profiles(tmp_path, 30)
    job = tmp_path / "job.toml"
    assert main(["convert", "sailor", str(tmp_path / "plan.json"), "--profiles", str(profiles), "-o", str(job)]) == 0
    assert "is not of 24 layers" in capsys.readouterr().err
    assert "layer_times" not in job.read_text()
    load_config(job, [])


def profile(path: Path, n_layer: int, times: dict[int, tuple[float, float, float]]) -> None:
    """times: of a layer, by microbatch, at tp 4."""
    path.parent.mkdir(parents=True, exist_ok=True)
    layers = {m: {"4": {str(i): list(t) for i in range(n_layer + 2)}} for m, t in times.items()}
    path.write_text(json.dumps({str(m): by_tp for m, by_tp in layers.items()}))


def test_times_on_another_type_go_by_a_model_that_was_measured_on_both(tmp_path: Path, capsys: Any) -> None:
    """GPT-Neo's layer at a microbatch of 4 takes on A100s what OPT-350's does at 8, and that one takes 0.5, 0.4 and 0.3
    of it on GH200s; at 2, which takes less, it would be another part."""
    profile(tmp_path / "GPT-Neo-2.7/GH-96/profile.json", 24, {4: LAYER})
    profile(tmp_path / "GPT-Neo-2.7/A100-40/profile.json", 32, {4: (0.006, 0.014, 0.002)})
    profile(tmp_path / "OPT-350/A100-40/profile.json", 24, {2: (0.001, 0.003, 0.001), 8: (0.006, 0.015, 0.001)})
    profile(tmp_path / "OPT-350/GH-96/profile.json", 24, {2: (0.001, 0.002, 0.0003), 8: (0.003, 0.006, 0.0003)})
    given = plan([[("GH-96", 4)]], [34], mbs=4)
    (tmp_path / "plan.json").write_text(json.dumps(given))
    folder, job = tmp_path / "GPT-Neo-2.7", tmp_path / "job.toml"
    assert main(["convert", "sailor", str(tmp_path / "plan.json"), "--profiles", str(folder), "-o", str(job)]) == 0
    assert "times are those of A100-40, by OPT-350's on both" in capsys.readouterr().err
    rows = (tmp_path / "job.GH-96.csv").read_text().splitlines()
    assert rows[2] == "4,4,layer,3000.000,5600.000,600.000"
    load_config(job, [])


GOOD = [[("GH-96", 4)]]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "is no plan"),
        (plan(GOOD, [25]), "25 layers, embedding and head included. Accepted: 26"),
        (plan(GOOD, [13, 13]), "2 stages of layers"),
        (plan(GOOD, [26], gbs=15), "gbs 15 with mbs 2 on 1 replicas"),
        (plan([[("TPU", 4)]], [26]), "GPU type TPU. Accepted: one of GH-96"),
        (plan(GOOD, [26]) | {"pipeline_list": plan(GOOD, [26])["pipeline_list"] * 2}, "2 pipelines"),
    ],
)
def test_what_is_no_plan_is_refused(given: dict[str, Any], text: str, tmp_path: Path) -> None:
    from pdes.convert.sailor import convert

    (tmp_path / "plan.json").write_text(json.dumps(given))
    with pytest.raises(ConfigError, match=text):
        convert(tmp_path / "plan.json", tmp_path / "job.toml", write_profiles(tmp_path))
    assert not (tmp_path / "job.toml").exists()


def test_profiles_are_asked_for(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(plan(GOOD, [26])))
    arguments = ["convert", "sailor", str(tmp_path / "plan.json"), "-o", str(tmp_path / "job.toml")]
    assert main(arguments) == 2 and "no --profiles" in capsys.readouterr().err
    (tmp_path / "GPT-9").mkdir()
    assert main([*arguments, "--profiles", str(tmp_path / "GPT-9")]) == 2
    assert "found GPT-9" in capsys.readouterr().err
