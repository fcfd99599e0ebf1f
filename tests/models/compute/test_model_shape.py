"""Parameter counts against published ones, and against the closed forms of the older GPT model."""

import pytest

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.parameters import parameters_of
from models.compute.presets import PRESETS
from models.workload.training.transformer import PRESETS as GPT_PRESETS

PUBLISHED_BILLIONS = {  # model cards and papers, as precisely as they say it
    "gpt3-175b": 174.6,
    "llama2-7b": 6.738,
    "llama2-13b": 13.016,
    "llama2-70b": 68.977,
    "llama3-8b": 8.030,
    "llama3-70b": 70.554,
    "llama3-405b": 405.853,
    "mixtral-8x7b": 46.703,
    "mixtral-8x22b": 140.6,
    "llama4-scout": 107.8,  # 109 with what sees images
    "llama4-maverick": 400.7,
    "deepseek-v2": 235.7,
    "deepseek-v3": 671.0,
    "qwen2.5-7b": 7.616,
    "qwen2.5-14b": 14.77,
    "qwen2.5-32b": 32.76,
    "qwen2.5-72b": 72.71,
    "qwen3-8b": 8.19,
    "qwen3-14b": 14.77,
    "qwen3-32b": 32.76,
    "qwen3-30b-a3b": 30.53,
    "qwen3-235b-a22b": 235.1,
    "nemotron4-15b": 15.6,
    "nemotron4-340b": 9.4 + 331.6,  # embeddings, and the rest
}
ACTIVE_BILLIONS = {
    "mixtral-8x7b": 12.9,
    "mixtral-8x22b": 39.1,
    "deepseek-v3": 37.5,
    "llama4-scout": 17.2,
    "llama4-maverick": 17.2,
    "qwen3-30b-a3b": 3.3,
}


@pytest.mark.parametrize("name", PUBLISHED_BILLIONS)
def test_parameters_are_those_published(name: str) -> None:
    assert PRESETS[name].parameters() / 1e9 == pytest.approx(PUBLISHED_BILLIONS[name], rel=5e-4, abs=0.05)


def test_parameters_of_grok_1_are_the_314_billion_that_are_said_of_it() -> None:
    assert PRESETS["grok-1"].parameters() / 1e9 == pytest.approx(314, rel=0.006)


@pytest.mark.parametrize("name", ACTIVE_BILLIONS)
def test_active_parameters_are_those_published(name: str) -> None:
    assert PRESETS[name].active_parameters() / 1e9 == pytest.approx(ACTIVE_BILLIONS[name], abs=0.1)


@pytest.mark.parametrize("name", GPT_PRESETS)
def test_presets_have_the_sizes_of_the_older_model(name: str) -> None:
    old, new = GPT_PRESETS[name], PRESETS[name]
    assert (new.layers, new.hidden, new.vocabulary, new.sequence) == (
        old.n_layer, old.hidden, old.vocabulary, old.sequence,
    )  # fmt: skip
    assert new.parameters() == old.parameters()


@pytest.mark.parametrize("name", PRESETS)
def test_parts_add_up_to_the_model_on_one_gpu(name: str) -> None:
    shape = PRESETS[name]
    parts = ["embedding", "head", *(shape.layer_kind(i) for i in range(shape.layers))]
    held = [parameters_of(shape, Layout(), part) for part in parts]
    assert sum(p.dense_parameters + p.expert_parameters for p in held) == shape.parameters()


def test_tensor_parallelism_splits_matrices_and_leaves_norms_whole() -> None:
    shape = ModelShape(2, 64, 8, biases="none", norm="rms")
    whole, split = (parameters_of(shape, Layout(tp=tp), "dense").dense_parameters for tp in (1, 4))
    assert whole == 12 * 64**2 + 2 * 64
    assert split == 12 * 64**2 // 4 + 2 * 64


def test_expert_parallelism_splits_experts_and_nothing_else() -> None:
    shape = PRESETS["mixtral-8x7b"]
    whole, split = (parameters_of(shape, Layout(ep=ep, dp=8), "moe") for ep in (1, 4))
    assert whole.expert_parameters == 4 * split.expert_parameters == 8 * 3 * 4096 * 14336
    assert whole.dense_parameters == split.dense_parameters


def test_tied_embeddings_are_held_twice_only_on_different_stages() -> None:
    shape = PRESETS["gpt-7b"]
    one, two = (parameters_of(shape, Layout(pp=pp), "head").dense_parameters for pp in (1, 2))
    assert two - one == shape.vocabulary * shape.hidden


def test_leading_layers_of_deepseek_are_dense() -> None:
    assert [PRESETS["deepseek-v3"].layer_kind(i) for i in (0, 2, 3, 60)] == ["dense", "dense", "moe", "moe"]
