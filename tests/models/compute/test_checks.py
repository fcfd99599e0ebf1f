"""Layouts that do not fit are refused with the key, what was found and what is accepted."""

from dataclasses import replace

import pytest

from models.compute.checks import check_layout, check_memory
from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.presets import PRESETS
from pdes.errors import ConfigError

GPT, LLAMA, MIXTRAL = PRESETS["gpt-7b"], PRESETS["llama3-8b"], PRESETS["mixtral-8x7b"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_run_on_a_server(name: str) -> None:
    dense = PRESETS[name].is_dense
    tp = 4 if PRESETS[name].heads % 8 else 8
    check_layout(PRESETS[name], Layout(tp=tp, sequence_parallel=True))
    check_layout(PRESETS[name], Layout(dp=8, ep=1 if dense else 8))


@pytest.mark.parametrize(
    "shape, layout, message",
    [
        (GPT, Layout(tp=3), r"tp: 3 for 32 heads. Accepted: a divisor of 32"),
        (replace(LLAMA, kv_heads=6, heads=24), Layout(tp=4), r"tp: 4 GPUs for 6 heads of keys and values"),
        (GPT, Layout(cp=3), r"cp: 3 for 2048 tokens of a sequence"),
        (GPT, Layout(dp=2, ep=2), r"ep: 2, and the model has no experts"),
        (MIXTRAL, Layout(dp=3, ep=3), r"ep: 3 for 8 experts"),
        (MIXTRAL, Layout(dp=2, ep=4), r"ep: 4 for 2 GPUs of a stage"),
        (replace(MIXTRAL, top_k=9), Layout(), r"top_k: 9 experts per token of 8"),
        (GPT, Layout(pp=64), r"pp: 64 stages of 1 chunks for 32 layers"),
        (GPT, Layout(vpp=2), r"vpp: 2 chunks on one stage"),
        (GPT, Layout(pp=4, vpp=2, n_microbatch=6), r"microbatches: 6 microbatches for 4 stages of 2 chunks"),
        (GPT, Layout(dp=0), r"dp: 0. Accepted: a whole number from 1"),
        (GPT, Layout(weight_dtype="int7"), r"weight_dtype: 'int7'. Accepted: one of fp32"),
    ],
)
def test_a_layout_that_does_not_fit_its_model_is_refused(shape, layout: Layout, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_layout(shape, layout)


def test_a_layout_that_does_not_fit_the_memory_is_refused_with_the_breakdown() -> None:
    memory_bytes = DEVICES["a100-80g"].hbm_bytes
    check_memory(GPT, Layout(tp=4), memory_bytes)
    with pytest.raises(
        ConfigError, match=r"(?s)GPUs of stage 0 need .* GiB and have 80.0 GiB.*optimizer .* GiB.*total"
    ):
        check_memory(GPT, Layout(), memory_bytes)
