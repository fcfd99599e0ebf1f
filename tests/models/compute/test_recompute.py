"""Recompute by modules: what runs again, what is kept, and that the two always make up the whole layer."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.compute.checks import check_layout
from models.compute.devices import DEVICES
from models.compute.layer_graph import part_graph
from models.compute.layout import Layout
from models.compute.lower import segments, steps_of
from models.compute.memory import layer_activation_bytes, memory_of
from models.compute.model_shape import ModelShape
from models.compute.operators import Kernel
from models.compute.presets import PRESETS
from models.compute.recompute import RECOMPUTE_MODULES, kept, modules_of, runs_again
from pdes.config.tables import training
from pdes.convert.launch import job as launch_job
from pdes.errors import ConfigError

LLAMA, DEEPSEEK = PRESETS["llama2-70b"], PRESETS["deepseek-v3"]
XLA_FULL = ("qkv", "layernorm", "attention", "mlp_up")
H100 = DEVICES["h100"]


def again(shape: ModelShape, layout: Layout, part: str = "dense") -> list[str]:
    return [operator.name for operator in runs_again(part_graph(shape, layout, part), layout.recompute)]


def gemm_flops(shape: ModelShape, layout: Layout, which: str, part: str = "dense") -> int:
    steps = (step for _, step in steps_of(shape, layout, part, which) if isinstance(step, Kernel))
    return sum(step.flops for step in steps if step.kind == "gemm")


def test_configs_and_launch_scripts_know_the_modules() -> None:
    assert training.RECOMPUTE_MODULES == RECOMPUTE_MODULES
    assert set(launch_job.MODULES) < set(RECOMPUTE_MODULES)


def test_xla_computes_all_products_again_but_the_last_one() -> None:
    """The last product's result is needed by no gradient: what it costs is what Megatron's "full" does too much."""
    none, full, xla = (Layout(recompute=r) for r in ("none", "full", XLA_FULL))
    plain, forward = gemm_flops(LLAMA, none, "backward"), gemm_flops(LLAMA, none, "forward")
    down = 2 * LLAMA.sequence * LLAMA.ffn * LLAMA.hidden
    assert gemm_flops(LLAMA, full, "backward") == plain + forward
    assert gemm_flops(LLAMA, xla, "backward") == plain + forward - down
    assert layer_activation_bytes(LLAMA, xla, "dense") == layer_activation_bytes(LLAMA, full, "dense")


def test_maxtexts_policy_keeps_queries_keys_and_values() -> None:
    layout = Layout(recompute=("layernorm", "attention", "mlp_up"))
    heads = LLAMA.heads + 2 * LLAMA.kv_heads
    stream = LLAMA.sequence * LLAMA.hidden * 2
    assert layer_activation_bytes(LLAMA, layout, "dense") == stream + LLAMA.sequence * heads * 128 * 2
    assert "query key value" not in again(LLAMA, layout)


def test_a_networks_recompute_keeps_its_input() -> None:
    """Of a gated network: two halves of the first product's result, and what is made of them, are not kept."""
    none, mlp = (layer_activation_bytes(LLAMA, Layout(recompute=r), "dense") for r in ("none", ("mlp",)))
    assert none - mlp == LLAMA.sequence * LLAMA.ffn * 2 * 3
    assert again(LLAMA, Layout(recompute=("mlp",))) == ["up", "activation", "down"]


def test_core_attention_by_name_runs_flash_attention_again() -> None:
    """As Megatron-Core does, whatever it saves; "selective" is what makes sense of both kinds."""
    assert again(LLAMA, Layout(recompute=("core_attn",))) == ["core attention"]
    assert again(LLAMA, Layout(recompute="selective")) == []
    plain = Layout(flash_attention=False)
    named, selective = (replace(plain, recompute=r) for r in (("core_attn",), "selective"))
    assert segments(LLAMA, named, H100, "dense", "backward") == segments(LLAMA, selective, H100, "dense", "backward")
    assert layer_activation_bytes(LLAMA, named, "dense") == layer_activation_bytes(LLAMA, selective, "dense")


def test_latent_projections_and_experts() -> None:
    layout = Layout(ep=8, dp=8, recompute=("mla_up_proj", "moe_act"))
    expected = ["query up", "key value up", "rotary positions", "experts activation"]
    assert again(DEEPSEEK, layout, "moe") == expected
    none = layer_activation_bytes(DEEPSEEK, replace(layout, recompute="none"), "moe")
    n, heads = DEEPSEEK.sequence, DEEPSEEK.heads
    queries = n * heads * (128 + 64) * 2
    dropped = 2 * queries + n * heads * 128 * 2 + n * DEEPSEEK.top_k * DEEPSEEK.expert_ffn * 2
    assert none - layer_activation_bytes(DEEPSEEK, layout, "moe") == dropped


def test_experts_as_a_whole_exchange_their_tokens_again() -> None:
    layout = Layout(ep=8, dp=8, recompute=("moe",))
    count = {r: sum(s.kind == "all-to-all" for s in segments(DEEPSEEK, replace(layout, recompute=r), H100, "moe",
             "backward")) for r in ("none", ("moe",), ("mlp_up",))}  # fmt: skip
    assert count == {"none": 2, ("moe",): 4, ("mlp_up",): 2}


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("model, part", [("llama2-70b", "dense"), ("gpt-22b", "dense"), ("deepseek-v3", "moe")])
def test_every_module_drops_something_and_runs_something_again(model: str, part: str, flash: bool) -> None:
    shape, layout = PRESETS[model], Layout(ep=8 if part == "moe" else 1, dp=8, flash_attention=flash)
    graph = part_graph(shape, layout, part)
    whole = sum(x.size_bytes for x in kept(graph, "none"))
    for name in modules_of(graph):
        assert list(runs_again(graph, (name,)))
        assert sum(x.size_bytes for x in kept(graph, (name,))) < whole


@given(st.sets(st.sampled_from(RECOMPUTE_MODULES), min_size=1), st.sampled_from(["dense", "moe"]))
def test_more_modules_take_longer_and_keep_less(modules: set, part: str) -> None:
    shape, layout = DEEPSEEK, Layout(ep=8, dp=8)
    one, all_but = tuple(modules), tuple(sorted(modules)[1:])
    more, less = (replace(layout, recompute=r or "none") for r in (one, all_but))
    kind = "dense" if part == "dense" else "moe"
    assert layer_activation_bytes(shape, more, kind) <= layer_activation_bytes(shape, less, kind)
    assert gemm_flops(shape, more, "backward", part) >= gemm_flops(shape, less, "backward", part)
    full, none = (gemm_flops(shape, replace(layout, recompute=r), "backward", part) for r in ("full", "none"))
    assert none <= gemm_flops(shape, more, "backward", part) <= full


def test_what_is_computed_again_is_in_memory_once() -> None:
    """Kept by every layer in flight, or there for the one layer that is being recomputed: nothing is lost."""
    for modules in combinations(("layernorm", "qkv", "core_attn", "mlp"), 2):
        memory, plain = (memory_of(LLAMA, Layout(recompute=r)) for r in (modules, "none"))
        per_layer = plain.activation_bytes // LLAMA.layers
        assert memory.activation_bytes // LLAMA.layers + memory.recompute_bytes == per_layer


@pytest.mark.parametrize(
    "model, modules, message",
    [
        ("llama2-70b", ("mla_up_proj",), '"mla_up_proj", which no layer of this model has'),
        ("llama2-70b", ("mlp", "moe"), '"moe", which no layer'),
        ("moe-8x7b", ("shared_experts",), "shared_experts"),
        ("deepseek-v3", ("qkv",), "mla_up_proj"),
    ],
)
def test_modules_that_a_model_lacks_are_refused(model: str, modules: tuple, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_layout(PRESETS[model], Layout(recompute=modules))


def test_a_model_with_both_kinds_of_layers_has_the_modules_of_both() -> None:
    check_layout(DEEPSEEK, Layout(ep=8, dp=8, recompute=("mla_up_proj", "mlp", "moe_act")))
