"""Hybrid sharding: what is sent, who shares with whom, what it takes of memory, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

import pdes
from models.compute.checks import check_layout
from models.compute.layout import Layout
from models.compute.memory import memory_of
from models.compute.parameters import parameters_of
from models.compute.presets import PRESETS
from models.workload.compiler.ranks import Ranks
from pdes.errors import ConfigError

N, LAYERS, MICROBATCHES = 8, 2, 3
LLAMA = replace(PRESETS["llama3-8b"], layers=LAYERS, sequence=256)
TIMES = {1: (1, 1), 2: (1, MICROBATCHES), 3: (2 * MICROBATCHES, MICROBATCHES)}  # of gathers and sums, by zero


def sent_bytes(folder, zero: int, **parallel: Any) -> int:
    """Of all messages, GPUs being alone in their servers."""
    config = {
        "topology": {"kind": "roft", "gpus": N, "gpus_per_server": 1},
        "workload": {
            "kind": "training", "preset": "llama3-8b", "layers": LAYERS, "sequence": 256, "microbatches": MICROBATCHES,
            "zero": zero, "parallel": {"tp": 1, "pp": 1, "dp": N} | parallel, "compute": {"gpu": "h100"},
            "memory": {"check": "off"},
        },
        "wormhole": {"mode": "flow"},
    }  # fmt: skip
    return sum(pdes.simulate(config, folder).table("flows")["size_bytes"].to_pylist())


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("shard", [1, 2, 4, 8])
def test_bytes_are_those_of_the_formula(shard: int, zero: int, tmp_path) -> None:
    """Of a ring of n each GPU sends (n - 1) / n of all bytes on, in an all-reduce twice."""
    parts = ("embedding", *["dense"] * LAYERS, "head")
    n_parameter = sum(parameters_of(LLAMA, Layout(dp=N), part).dense_parameters for part in parts)
    (n_gather, n_sum), n_copy = TIMES[zero], N // shard
    split = n_copy * (shard - 1) * n_parameter * (n_gather * 2 + n_sum * 4)  # weights in bf16, gradients in fp32
    copied = shard * 2 * (n_copy - 1) * n_sum * 4 * n_parameter / shard
    assert sent_bytes(tmp_path / "out", zero, shard=shard) == pytest.approx(split + copied, rel=1e-4)


def test_all_sharers_are_the_default(tmp_path) -> None:
    assert sent_bytes(tmp_path / "a", 3) == sent_bytes(tmp_path / "b", 3, shard=N)


@pytest.mark.parametrize("shard", [1, 2, 3, 6, 12])
def test_every_gpu_is_in_one_shard_and_has_one_share_of_its_copies(shard: int) -> None:
    ranks = Ranks(Layout(tp=2, dp=6, cp=2, pp=2, zero=1, shard=shard))
    for stage in range(2):
        shards, copies, gpus = ranks.shards(stage), ranks.copies(stage), sorted(ranks.stage(stage))
        assert sorted(gpu for group in shards for gpu in group) == gpus
        assert sorted(gpu for group in copies for gpu in group) == gpus
        assert {len(group) for group in shards} == {shard} and {len(group) for group in copies} == {12 // shard}
        for group in copies:  # the same place in as many shards
            assert len({one.index(gpu) for one in shards for gpu in group if gpu in one}) == 1


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_memory_lies_between_that_of_all_sharers_and_of_none(zero: int) -> None:
    shape = PRESETS["llama3-8b"]
    totals = [memory_of(shape, Layout(dp=64, zero=zero, shard=shard)).total_bytes for shard in (0, 64, 16, 4, 1)]
    assert totals[0] == totals[1] and totals == sorted(totals)
    none = memory_of(shape, Layout(dp=64))
    whole = memory_of(shape, Layout(dp=64, zero=zero, shard=1))
    for name in ("weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes"):
        assert getattr(whole, name) == getattr(none, name)
    four, sixteen = (memory_of(shape, Layout(dp=64, zero=1, shard=shard)).optimizer_bytes for shard in (4, 16))
    assert four == pytest.approx(4 * sixteen, rel=1e-6)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(dp=8, shard=3, zero=1), "a divisor of 8"),
        (Layout(dp=8, shard=4), "nothing is split with zero = 0"),
        (Layout(dp=4, pp=2, shard=2, zero=1, dual=True, n_microbatch=8), "dualpipe"),
        (Layout(dp=4, tp=2, shard=2, zero=1, stage_tp=((2, 2, 2, 2),)), "shard = 2"),
    ],
)
def test_what_does_not_go_together_is_refused(layout: Layout, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_layout(PRESETS["llama3-8b"], layout)


def test_models_with_experts_are_refused() -> None:
    with pytest.raises(ConfigError, match="experts"):
        check_layout(PRESETS["mixtral-8x7b"], Layout(dp=8, ep=4, shard=4, zero=1))
