"""Claims about measured times of layers: a job computes for them, by type and size, and nothing else is taken."""

from pathlib import Path
from typing import Any

import pytest

import pdes
from models.compute.layer_times import read_layer_times
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from pdes.config import config_from_dict
from pdes.errors import ConfigError
from pdes.scenario.placing import cluster_of
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

HEAD = "tp,microbatch,part,forward_us,backward_us,update_us"
US = {"a": (100, 900, 300), "b": (50, 400, 150)}  # embedding, layer, head; backward twice as long, update a tenth
M = 8
LAYERS = [1, 3]


def write_times(folder: Path) -> dict[str, str]:
    """A file for each type: times with tp 2 and a microbatch of one."""
    found = {}
    for name, times in US.items():
        parts = zip(("embedding", "layer", "head"), times, strict=True)
        lines = [f"2,1,{part},{us},{2 * us},{us / 10}" for part, us in parts]
        found[name] = str(folder / f"{name}.csv")
        Path(found[name]).write_text("\n".join([HEAD, *lines]) + "\n")
    return found


def tables(folder: Path, mode: str = "flow", link: str = "4Tbps", **more: Any) -> dict[str, Any]:
    """Stages of types a and b, a server each."""
    files = write_times(folder)
    model = {"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 4096, "sequence": 512, "tied_embeddings": False}
    topology = {
        "kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 4, "host_rate": link, "host_delay": "1ns",
        "server": [{"count": 1, "gpus": 2, "gpu": name} for name in files],
    }  # fmt: skip
    return {
        "simulation": {"iterations": 2}, "topology": topology,
        "workload": {
            "kind": "training", "model": model, "compute": {"gpu": "a"}, "microbatches": M,
            "parallel": {"tp": 2, "pp": 2, "dp": 1, "stage_layers": LAYERS},
            "devices": {name: {"like": "h100", "layer_times": file} for name, file in files.items()},
        } | more,
        "network": {"congestion_control": "none"}, "wormhole": {"mode": mode},
    }  # fmt: skip


def stages_us() -> list[float]:
    """Forward."""
    (embedding, one, _), (_, other, head) = US["a"], US["b"]
    return [embedding + LAYERS[0] * one, LAYERS[1] * other + head]


def time_us(config: dict[str, Any], folder: Path) -> float:
    return pdes.simulate(config, folder / "out").summary["iteration_time_ps"][0] / 1e6


@pytest.mark.parametrize("mode", ["off", "flow"])
def test_a_job_takes_what_was_measured(mode: str, tmp_path: Path) -> None:
    """1F1B of two stages, messages in next to no time: sum(t) + (m - 1) max(t), and the update of the last to end."""
    work = [3 * us for us in stages_us()]
    expected = sum(work) + (M - 1) * max(work) + stages_us()[0] / 10
    assert time_us(tables(tmp_path, mode), tmp_path) == pytest.approx(expected, rel=2e-3)


def test_a_stage_that_waits_for_its_messages_takes_as_much_longer(tmp_path: Path) -> None:
    """The slower of two stages sends and receives one for each microbatch, on a link where they take long."""
    config = tables(tmp_path, link="1Gbps", overlap_pipeline=False)
    beside = tables(tmp_path, link="1Gbps")
    message_us = 512 * 512 * 2 / 2 * 8 / 1e3 * 1048 / 1000  # half of the activations, bf16, with headers of 48 in 1,000
    slowest = 3 * max(stages_us())
    n = M - 1
    waits, posts = time_us(config, tmp_path), time_us(beside, tmp_path)
    assert waits > posts
    expected = sum(3 * us for us in stages_us()) + 2 * message_us + n * (slowest + 2 * message_us)
    assert waits == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("overlaps", [True, False])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_the_closed_form_agrees(schedule: str, overlaps: bool, tmp_path: Path) -> None:
    given = tables(tmp_path, link="10Gbps", overlap_pipeline=overlaps, schedule=schedule)
    config = config_from_dict(given)
    topology = build_topology(config)
    cluster, job = cluster_of(config, topology), checked_job(config, topology)
    exchanges = Exchanges(job, cluster.ways, topology.server[topology.host], cluster.wire_share, None)
    assert iteration_ps(job, exchanges, {}) / 1e6 == pytest.approx(time_us(given, tmp_path), rel=0.1)


@pytest.mark.parametrize("pp", [1, 2, 3, 4])
@pytest.mark.parametrize("m", [1, 2, 3, 7])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_stages_that_wait_for_each_other_come_to_an_end(schedule: str, pp: int, m: int, tmp_path: Path) -> None:
    """However few microbatches there are: all messages cross, and each is acknowledged."""
    given = tables(tmp_path, overlap_pipeline=False, schedule=schedule)
    workload = given["workload"] | {"microbatches": m, "parallel": {"tp": 1, "pp": pp, "dp": 1}}
    given["topology"] = {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": pp}
    given["workload"] = workload | {"devices": {}, "compute": {"gpu": "h100"}}
    rows = pdes.simulate(given, tmp_path / "out").tasks.to_pydict()
    crossed = [n for kind, n in zip(rows["kind"], rows["bytes"], strict=True) if kind == "pp-wait"]
    assert crossed.count(1) == crossed.count(512 * 512 * 2) == 2 * 2 * m * (pp - 1)


def test_layers_are_shared_out_by_what_was_measured(tmp_path: Path) -> None:
    """A layer takes twice as long on one type as on the other: 4 layers are 1 and 3."""
    config = tables(tmp_path)
    config["workload"]["parallel"] = {"tp": 2, "pp": 2, "dp": 1, "stage_layers": "auto"}
    assert pdes.simulate(config, tmp_path / "out").summary["workload"]["layers_per_stage"] == [1, 3]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"microbatch": 2}, "a.csv: no times of the embedding with tp 2 and microbatch 2"),
        ({"schedule": "zero-bubble-1p"}, "times of whole backward passes"),
        ({"schedule": "zero-bubble-1p", "overlap_pipeline": False}, "overlap_pipeline: false with schedule zero"),
        ({"microbatch": "auto"}, 'layer_times: is there, and microbatch is "auto"'),
        ({"recompute": "auto"}, 'layer_times: is there, and recompute is "auto"'),
        ({"compute": {"gpu": "a", "layer_times": "x.csv"}}, "is there, and so is .workload.devices.a. layer_times"),
        ({"compute": {"gpu": "a", "layer_times": "none.csv"}, "devices": {"a": {"like": "h100"}}}, "none.csv"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        pdes.simulate(tables(tmp_path, **change), tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: columns none"),
        ("tp,part\n", "line 1: columns tp, part"),
        (f"{HEAD}\n", "no times"),
        (f"{HEAD}\n1,1,layer,1,2\n", "line 2: not as many values"),
        (f"{HEAD}\n1,1,block,1,2,3\n", "line 2: part 'block'"),
        (f"{HEAD}\n1,1,layer,1,nan,3\n", "line 2: tp 1, microbatch 1, times 1, nan, 3"),
        (f"{HEAD}\n0,1,layer,1,2,3\n", "line 2: tp 0"),
        (f"{HEAD}\n1,1,layer,1,2,3\n1,1,layer,1,2,3\n", "line 3: a size that is there already"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_layer_times(tmp_path / "times.csv")
