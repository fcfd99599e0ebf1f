"""Claims about unequal tensor-parallel sizes: bytes are kept, a pipeline's formula, memory, equal sizes as before."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdes
from models.compute.memory import memory_of
from models.compute.model_shape import ModelShape
from pdes.config import config_from_dict
from pdes.errors import ConfigError
from pdes.scenario import build_scenario
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

MODEL = {
    "layers": 4, "hidden": 512, "heads": 8, "vocabulary": 4096, "sequence": 512, "norm": "rms", "biases": "none",
    "learned_positions": False, "tied_embeddings": False,
}  # fmt: skip
M = 3


def tables(sizes: list[list[int]], mode: str = "off", own: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A server for each stage of each replica, links in next to no time."""
    rows = [{"count": 1, "gpus": tp} for of_stage in sizes for tp in of_stage]
    topology = {
        "kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": sum(map(sum, sizes)), "host_rate": "4Tbps",
        "host_delay": "1ns", "server": rows,
    }  # fmt: skip
    parallel = {"tp": max(map(max, sizes)), "pp": len(sizes), "dp": len(sizes[0]), "stage_tp": sizes} | (own or {})
    return {
        "simulation": {"iterations": 2}, "topology": topology,
        "workload": {
            "kind": "training", "model": MODEL, "compute": {"gpu": "h100"}, "microbatches": M, "parallel": parallel,
        } | more,
        "network": {"congestion_control": "dctcp", "payload": "4096B"}, "wormhole": {"mode": mode},
    }  # fmt: skip


UNEQUAL = [[[4, 2], [2, 2]], [[1, 4], [8, 2]], [[2, 2, 8], [4, 1, 2]], [[4, 2, 1]]]


@pytest.mark.parametrize("sizes", UNEQUAL)
@pytest.mark.parametrize("beside", [True, False])
def test_gradients_are_summed_once_and_activations_cross_once(
    sizes: list[list[int]], beside: bool, tmp_path: Path
) -> None:
    """In each replica: as many bytes as the model's gradients, and what every GPU of a group has whole (norms), again
    for each piece but one. Between stages the whole activations, each way, for each microbatch."""
    run = pdes.simulate(tables(sizes, overlap_gradients=beside), tmp_path / "out")
    rows, shape, h = run.tasks.to_pydict(), ModelShape(**MODEL), MODEL["hidden"]
    norms = [2 * h * MODEL["layers"] // len(sizes)] * len(sizes)
    norms[-1] += h
    expected = shape.parameters() + sum(n * (max(of_stage) - 1) for n, of_stage in zip(norms, sizes, strict=True))
    summed, crossed = np.zeros((len(sizes[0]), 2), int), np.zeros((len(sizes[0]), 2), int)
    replica_of = []
    for of_stage in sizes:
        replica_of += [replica for replica, tp in enumerate(of_stage) for _ in range(tp)]
    columns = (rows[name] for name in ("kind", "gpu", "iteration", "bytes"))
    for kind, gpu, i, n in zip(*columns, strict=True):
        summed[replica_of[gpu], i] += n if kind == "dp" else 0
        crossed[replica_of[gpu], i] += n if kind == "pp-wait" else 0
    assert (summed == 4 * expected).all()
    assert (crossed == (len(sizes) - 1) * 2 * M * 2 * MODEL["sequence"] * h).all()


def test_optimizer_states_are_split_where_a_stage_has_one_size(tmp_path: Path) -> None:
    """ZeRO 1: gradients scattered and parameters gathered, of as many values: 4 and 2 bytes each."""
    run = pdes.simulate(tables([[4, 4], [2, 2]], zero=1), tmp_path / "out")
    rows, shape, h = run.tasks.to_pydict(), ModelShape(**MODEL), MODEL["hidden"]
    summed = sum(n for kind, n in zip(rows["kind"], rows["bytes"], strict=True) if kind == "dp")
    assert summed == 2 * 2 * (4 + 2) * (shape.parameters() + 3 * 4 * h + 5 * h)


def test_tied_embeddings_are_summed_once(tmp_path: Path) -> None:
    def summed(tied: bool) -> int:
        model = MODEL | {"tied_embeddings": tied}
        rows = pdes.simulate(tables([[4, 2], [2, 1]], model=model), tmp_path / "out").tasks.to_pydict()
        return sum(n for kind, n in zip(rows["kind"], rows["bytes"], strict=True) if kind == "dp")

    # both ends of both replicas, in both iterations
    assert summed(True) - summed(False) == 2 * 2 * 2 * 4 * MODEL["vocabulary"] * MODEL["hidden"]


def write_times(folder: Path) -> Path:
    """A layer takes 8 ms / tp forward and twice that backward, the embedding and the head 1 and 3 ms, all / tp."""
    lines = ["tp,microbatch,part,forward_us,backward_us,update_us"]
    for tp in (1, 2, 4):
        for part, us in (("embedding", 1000), ("layer", 8000), ("head", 3000)):
            lines.append(f"{tp},1,{part},{us / tp},{2 * us / tp},{us / 8 / tp}")
    path = folder / "times.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("mode", ["off", "flow"])
def test_a_pipeline_takes_what_the_formula_says(mode: str, tmp_path: Path) -> None:
    """GPipe: each way sum(t) + (m - 1) max(t), and the slowest stage's update; stages of 2 layers on 1, 4, 2 GPUs."""
    compute = {"gpu": "h100", "layer_times": str(write_times(tmp_path))}
    sizes = [[1], [4], [2]]
    own = {"stage_layers": [1, 2, 1]}
    config = tables(sizes, mode, own, schedule="gpipe", compute=compute)
    work = [(1 + 8) / 1, 16 / 4, (8 + 3) / 2]
    expected_ms = 3 * (sum(work) + (M - 1) * max(work)) + work[0] / 8
    found = pdes.simulate(config, tmp_path / "out").summary["iteration_time_ps"]
    assert found[0] / 1e9 == pytest.approx(expected_ms, rel=2e-3)


def test_replicas_wait_for_the_one_with_the_smallest_group(tmp_path: Path) -> None:
    compute = {"gpu": "h100", "layer_times": str(write_times(tmp_path))}
    times = [
        pdes.simulate(tables(sizes, compute=compute), tmp_path / "out").summary["iteration_time_ps"][0]
        for sizes in ([[4, 1]], [[1, 1]], [[4, 4]])
    ]
    assert times[0] == pytest.approx(times[1], rel=2e-3) and times[0] > 3 * times[2]


@pytest.mark.parametrize("given", [[2, 2], [[2, 2], [2, 2]]])
def test_equal_sizes_are_the_programs_as_before(given: Any) -> None:
    """To the byte, however they are written."""
    config = tables([[2, 2], [2, 2]])
    plain = build_scenario(config_from_dict(config | {"workload": with_parallel(config, stage_tp=None)})).plan
    found = build_scenario(config_from_dict(config | {"workload": with_parallel(config, stage_tp=given)})).plan
    for name in ("operations", "pair_src", "pair_dst", "pair_bytes", "slots"):
        assert np.array_equal(getattr(plain, name), getattr(found, name)), name


def with_parallel(config: dict[str, Any], **change: Any) -> dict[str, Any]:
    parallel = config["workload"]["parallel"] | change
    parallel = {key: value for key, value in parallel.items() if value is not None}
    return config["workload"] | {"parallel": parallel}


def test_memory_is_that_of_each_stage_s_own_size() -> None:
    config = config_from_dict(tables([[8, 2], [2, 4]]))
    job = checked_job(config, build_topology(config))
    plain = config_from_dict(tables([[2, 2], [2, 2]]))
    small = checked_job(plain, build_topology(plain))
    for stage in range(2):
        assert memory_of(job.shape, job.layout, stage) == memory_of(small.shape, small.layout, stage)
        small_and_large = [
            memory_of(job.shape, job.layout.of_group(stage, r), stage).total_bytes for r in (1 - stage, stage)
        ]
        assert small_and_large[0] > small_and_large[1]


def test_a_small_group_without_room_is_refused_and_a_large_one_is_not(tmp_path: Path) -> None:
    """Two GPUs of a stage need about twice what four do."""
    config = tables([[4, 2]], own={})
    job = checked_job(config_from_dict(config), build_topology(config_from_dict(config)))
    limit = (memory_of(job.shape, job.layout.of_group(0, 0)).total_bytes +
             memory_of(job.shape, job.layout.of_group(0, 1)).total_bytes) // 2  # fmt: skip
    memory = {"memory": {"size": f"{limit}B"}}
    with pytest.raises(ConfigError, match="GPUs of stage 0 need"):
        pdes.simulate(tables([[4, 2]], **memory), tmp_path / "out")
    pdes.simulate(tables([[4, 4]], **memory), tmp_path / "out")


@pytest.mark.parametrize(
    ("own", "more", "text"),
    [
        ({"stage_tp": "big"}, {}, 'stage_tp: found "big". Accepted: a list of whole numbers'),
        ({"stage_tp": [4, [2, 2]]}, {}, "stage_tp: found"),
        ({"stage_tp": [4, 4]}, {}, "16 GPUs in all, but .topology. has 12. Accepted: sizes whose sum is 12"),
        ({"stage_tp": [2, 2, 2]}, {}, "sizes of 3 x 2 stages and replicas. Accepted: 2 sizes, or 2 lists of 2"),
        ({"stage_tp": [[4, 4, 4]]}, {}, "stage_tp: sizes of 1 x 3 stages and replicas"),
        ({"tp": 8}, {}, "tp: 8, and stage_tp has sizes up to 4. Accepted: 4, the largest"),
        ({"stage_tp": [[3, 3], [3, 3]], "tp": 3}, {}, "tp: 3 for 8 heads"),
        ({"vpp": 2}, {"microbatches": 4}, "is there with vpp = 2"),
        ({}, {"zero": 2}, "is there with zero = 2"),
        ({"stage_tp": [[4, 2], [4, 2]]}, {"zero": 1}, "with zero = 1, by which they split"),
        ({}, {"schedule": "zero-bubble-1p"}, "with schedule zero-bubble-1p"),
        ({}, {"schedule": "dualpipe", "microbatches": 4}, 'is there with schedule "dualpipe"'),
        ({}, {"model": MODEL | {"experts": 8}}, "is there with experts"),
        ({}, {"placement": "optimised"}, 'is there, and placement is "optimised"'),
        ({"stage_layers": "auto"}, {}, 'is there, and stage_layers is "auto"'),
        ({}, {"compute": {"gpu": "h100", "pass_times": ["1ms", "1ms", "1ms"]}}, "pass_times is there"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(own: Any, more: Any, text: str, tmp_path: Path) -> None:
    config = tables([[4, 4], [2, 2]], own=own, **more)
    with pytest.raises(ConfigError, match=text):
        pdes.simulate(config, tmp_path / "out")
