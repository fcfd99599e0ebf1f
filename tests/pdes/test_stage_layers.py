"""Claims about runs with unequal stages: a pipeline's time by formula, every gradient summed once, never slower."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdes
from models.compute.lower import optimizer_ps, segments
from models.compute.model_shape import ModelShape
from models.workload.compiler.parts import updated_parameters
from pdes.config import config_from_dict
from pdes.errors import ConfigError
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

MODEL = {"layers": 12, "hidden": 512, "heads": 8, "vocabulary": 4096, "sequence": 512, "tied_embeddings": False}
KINDS = ("a100-80g", "h100", "h20", "b200")


def tables(kinds: list[str], layers: Any, dp: int = 1, **more: Any) -> dict[str, Any]:
    """A stage on each server of dp GPUs."""
    pp = len(kinds)
    topology = {"kind": "roft", "gpus": pp * dp, "gpus_per_server": dp, "nvlink": "packets"} | more.pop("topology", {})
    return {
        "simulation": {"iterations": 2}, "topology": topology,
        "workload": {
            "kind": "training", "model": MODEL, "compute": {"gpu": kinds[0]}, "microbatches": 6,
            "gpus": [{"servers": [i], "gpu": kind} for i, kind in enumerate(kinds)],
            "parallel": {"tp": 1, "pp": pp, "dp": dp, "stage_layers": layers},
        } | more,
        "network": {"congestion_control": "dctcp", "payload": "4096B"}, "wormhole": {"mode": "off"},
    }  # fmt: skip


@pytest.mark.parametrize("layers", [[1, 4, 7], [5, 5, 2], [10, 1, 1]])
def test_a_pipeline_of_unequal_stages_takes_what_the_formula_says(layers: list[int], tmp_path: Path) -> None:
    """GPipe, messages in next to no time: each way sum(t) + (m - 1) max(t), as in a flow shop of equal jobs."""
    fast = {"nic_rate": "4Tbps", "nvlink_rate": "4Tbps", "nic_delay": "1ns", "spine_delay": "1ns"}
    kinds = ["a100-80g", "h100", "h20"]
    config = config_from_dict(tables(kinds, layers, schedule="gpipe", topology=fast))
    job = checked_job(config, build_topology(config))

    def time_ps(which: str, stage: int) -> int:
        parts = ["dense"] * layers[stage] + ["embedding"] * (stage == 0) + ["head"] * (stage == 2)
        return sum(s.time_ps for part in parts for s in segments(job.shape, job.layout.without_layers,
                                                                 job.device(stage), part, which))  # fmt: skip

    expected = 0
    for which in ("forward", "backward"):
        times = [time_ps(which, stage) for stage in range(3)]
        expected += sum(times) + 5 * max(times)
    expected += optimizer_ps(job.shape, job.layout, job.device(0), updated_parameters(job, 0))
    found = pdes.simulate(config, tmp_path / "out").summary["iteration_time_ps"]
    assert found[0] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(("layers", "zero"), [([2, 9, 1], 0), ([2, 9, 1], 1), ("even", 0)])
def test_every_gradient_is_summed_once_among_its_replicas(layers: Any, zero: int, tmp_path: Path) -> None:
    """Over a pipeline, an iteration's sums are of as many bytes as the model's gradients."""
    run = pdes.simulate(tables(["h100", "a100-80g", "h100"], layers, 2, zero=zero), tmp_path / "out")
    rows = run.tasks.to_pydict()
    shape = ModelShape(**MODEL)
    for replica in range(2):
        summed = [0, 0]
        for kind, stream, gpu, i, n in zip(*(rows[name] for name in ("kind", "stream", "gpu", "iteration", "bytes")),
                                           strict=True):  # fmt: skip
            summed[i] += n if kind == "dp" and stream == "reduce" and gpu % 2 == replica else 0
        assert summed == [4 * shape.parameters()] * 2


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
    more = {"microbatches": draw(st.sampled_from([2, 8])), "zero": draw(st.sampled_from([0, 1]))}
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zero-bubble-1p"]))
    return tables(kinds, "auto", draw(st.sampled_from([1, 2])), schedule=schedule, **more)


@settings(max_examples=40)
@given(clusters())
def test_layers_by_what_gpus_can_do_are_not_slower_than_even_ones(tmp_path_factory: Any, config: Any) -> None:
    folder = tmp_path_factory.mktemp("layers")
    auto = pdes.simulate(config, folder / "out").summary["iteration_time_ps"][-1]
    config["workload"]["parallel"]["stage_layers"] = "even"
    assert auto <= 1.01 * pdes.simulate(config, folder / "out").summary["iteration_time_ps"][-1]


def test_a_run_says_its_layers_and_alike_gpus_have_as_many(tmp_path: Path) -> None:
    def layers(kinds: list[str]) -> list[int]:
        return pdes.simulate(tables(kinds, "auto"), tmp_path / "out").summary["workload"]["layers_per_stage"]

    mixed = layers(["a100-80g", "b200"])
    assert sum(mixed) == 12 and mixed[1] > mixed[0]
    assert layers(["h100"] * 3) in ([4, 4, 4], [5, 4, 3], [4, 5, 3])  # the head takes as long as a layer or two


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"parallel": {"stage_layers": "fair"}}, 'stage_layers: found "fair". Accepted: "even", "auto", or a list'),
        ({"parallel": {"stage_layers": [6, 0]}}, r"stage_layers: found \[6, 0\]"),
        ({"parallel": {"stage_layers": [6, 5]}}, "stage_layers: 11 layers in all. Accepted: 12"),
        ({"parallel": {"stage_layers": [4, 4, 4]}}, "3 numbers for 2 stages. Accepted: a list of 2"),
        ({"parallel": {"stage_layers": "auto", "vpp": 2}}, 'found "auto", and vpp is 2. Accepted: with vpp = 1'),
        ({"parallel": {"stage_layers": "auto"}, "schedule": "dualpipe"}, 'schedule is "dualpipe"'),
        ({"parallel": {"stage_layers": "auto"}, "compute": {"gpu": "h100", "pass_times": ["1ms", "1ms", "1ms"]}},
         "is there, and so is .workload.compute. pass_times"),
    ],
)  # fmt: skip
def test_bad_values_are_refused(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    config = tables(["h100", "h100"], "even")
    parallel = config["workload"]["parallel"] | change.pop("parallel")
    with pytest.raises(ConfigError, match=text):
        pdes.simulate(config | {"workload": config["workload"] | change | {"parallel": parallel}}, tmp_path / "out")
