"""Expert tensor parallelism: what is sent, who shares what, what each GPU holds and computes, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

import pdes
from models.compute.checks import check_layout
from models.compute.layer_graph import part_graph
from models.compute.layout import Layout
from models.compute.memory import memory_of
from models.compute.operators import Kernel
from models.compute.parameters import parameters_of
from models.compute.presets import PRESETS
from models.workload.compiler.ranks import Ranks
from pdes.errors import ConfigError

N, LAYERS, MICROBATCHES, TOKENS = 8, 4, 3, 256
MIXTRAL = PRESETS["mixtral-8x7b"]
SPLITS = [(ep, etp) for ep in (1, 2, 4, 8) for etp in (1, 2, 4, 8) if ep * etp <= N]


def sent_bytes(folder, tp: int, ep: int, etp: int, **model: Any) -> int:
    """Of all messages for experts' tokens, GPUs being alone in their servers."""
    config = {
        "topology": {"kind": "roft", "gpus": N, "gpus_per_server": 1},
        "workload": {
            "kind": "training", "microbatches": MICROBATCHES, "zero": 1,
            "model": {"layers": LAYERS, "hidden": 512, "heads": 8, "sequence": TOKENS, "experts": 8} | model,
            "parallel": {"tp": tp, "pp": 1, "dp": N // tp, "ep": ep, "etp": etp}, "compute": {"gpu": "h100"},
            "memory": {"check": "off"}, "nccl": {"protocol": "Simple"},
        },
        "wormhole": {"mode": "flow"},
    }  # fmt: skip
    flows = pdes.simulate(config, folder).table("flows")
    sizes = zip(flows["size_bytes"].to_pylist(), flows["tag"].to_pylist(), strict=True)
    return sum(size_bytes for size_bytes, tag in sizes if tag in ("ep", "etp"))


@pytest.mark.parametrize(("ep", "etp"), [(1, 1), (4, 1), (1, 4), (4, 2), (2, 4), (8, 1), (1, 8)])
@pytest.mark.parametrize("tp", [1, 2])
def test_bytes_are_those_of_the_formula(tp: int, ep: int, etp: int, tmp_path) -> None:
    """To experts and back, in both passes: a token goes to its expert's group twice, and on to the GPUs of a share."""
    routed_bytes = (N // tp) * TOKENS * 2 * 512 * 2  # top_k 2, hidden, bf16: of all GPUs
    moves = 4 * MICROBATCHES * LAYERS
    expected = moves * routed_bytes * ((ep - 1) / ep + (etp - 1))
    assert sent_bytes(tmp_path / "out", tp, ep, etp) == pytest.approx(expected, rel=1e-3)


def test_layers_between_those_with_experts_send_nothing(tmp_path) -> None:
    every = sent_bytes(tmp_path / "all", 1, 4, 2)
    assert sent_bytes(tmp_path / "some", 1, 4, 2, expert_every=2) * 2 == every
    assert sent_bytes(tmp_path / "last", 1, 4, 2, expert_every=2, dense_layers=3) * 4 == every


@pytest.mark.parametrize(("ep", "etp"), SPLITS)
def test_every_gpu_is_in_one_group_of_each_kind(ep: int, etp: int) -> None:
    ranks = Ranks(Layout(tp=2, dp=8, pp=2, ep=ep, etp=etp))
    for stage in range(2):
        groups = {
            ep: ranks.experts(stage), etp: ranks.expert_shares(stage), 16 // (ep * etp): ranks.expert_sharers(stage),
        }  # fmt: skip
        for found in (ranks.experts(stage), ranks.expert_shares(stage), ranks.expert_sharers(stage)):
            assert sorted(gpu for group in found for gpu in group) == sorted(ranks.stage(stage))
        assert all({len(group) for group in found} == {n} for n, found in groups.items())
        place = {gpu: i for group in ranks.experts(stage) for i, gpu in enumerate(group)}
        share = {gpu: i for group in ranks.expert_shares(stage) for i, gpu in enumerate(group)}
        for group in ranks.expert_sharers(stage):  # hold the same share of the same experts
            assert len({(place[gpu], share[gpu]) for gpu in group}) == 1


@pytest.mark.parametrize(("ep", "etp"), SPLITS)
def test_work_and_parameters_are_the_same_however_they_are_split(ep: int, etp: int) -> None:
    layout, whole = Layout(dp=N, ep=ep, etp=etp), Layout(dp=N)
    held = parameters_of(MIXTRAL, layout, "moe")
    assert held.expert_parameters * ep * etp == parameters_of(MIXTRAL, whole, "moe").expert_parameters
    assert held.dense_parameters == parameters_of(MIXTRAL, whole, "moe").dense_parameters

    def flops(layout: Layout) -> int:
        graph = part_graph(MIXTRAL, layout, "moe")
        return sum(step.flops for one in graph for step in one.forward if isinstance(step, Kernel))

    assert flops(layout) == flops(whole)


def test_a_share_takes_memory_of_its_own_matrices_and_of_all_their_tokens() -> None:
    one, shared = (memory_of(MIXTRAL, Layout(dp=N, ep=2, etp=etp, zero=1)) for etp in (1, 4))
    assert shared.weight_bytes < 0.3 * one.weight_bytes
    assert shared.activation_bytes > one.activation_bytes


def test_layers_with_experts_come_in_turns() -> None:
    kinds = [PRESETS["llama4-maverick"].layer_kind(i) for i in range(48)]
    assert kinds == ["dense", "moe"] * 24
    shape = replace(MIXTRAL, n_dense_layers=2, expert_every=3)
    assert [i for i in range(12) if shape.layer_kind(i) == "moe"] == [2, 5, 8, 11]


@pytest.mark.parametrize(
    ("model", "sizes", "found"),
    [
        ("llama3-8b", {"etp": 2}, "no experts"),
        ("mixtral-8x7b", {"ep": 4, "etp": 4}, "GPUs of a stage over etp"),
        ("mixtral-8x7b", {"etp": 16}, "GPUs of a stage"),
        ("mixtral-8x7b", {"etp": 3}, "values of an expert"),
        ("mixtral-8x7b", {"etp": 0}, "from 1"),
        ("mixtral-8x7b", {"ep": 2, "etp": 4, "tp": 4, "dp": 2, "replica_microbatches": (1, 2)}, "ep x etp = 8"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(model: str, sizes: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        check_layout(PRESETS[model], Layout(**{"dp": N} | sizes))
