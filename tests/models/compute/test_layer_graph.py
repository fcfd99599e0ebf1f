"""FLOPs of graphs against closed forms: Narayanan et al. SC'21 (equation 3), and what splits and options change."""

from dataclasses import replace

import pytest

from models.compute.layer_graph import part_graph
from models.compute.layout import Layout
from models.compute.lower import PASSES, steps_of
from models.compute.model_shape import ModelShape
from models.compute.operators import Exchange, Kernel
from models.compute.presets import PRESETS

PLAIN = Layout(flash_attention=False)


def flops(shape: ModelShape, layout: Layout, part: str, *passes: str) -> int:
    """FLOPs of one GPU in these passes over a part."""
    steps = (step for which in passes for _, step in steps_of(shape, layout, part, which))
    return sum(step.flops for step in steps if isinstance(step, Kernel))


def model_flops(shape: ModelShape, layout: Layout) -> int:
    """Forward and backward pass of one microbatch through the whole model."""
    kinds = [shape.layer_kind(i) for i in range(shape.layers)]
    return sum(flops(shape, layout, part, "forward", "backward") for part in ["embedding", *kinds, "head"])


@pytest.mark.parametrize("name", ["gpt-7b", "gpt-22b", "gpt-175b"])
@pytest.mark.parametrize("n_sequence", [1, 4])
def test_an_iteration_with_full_recompute_has_narayanans_flops(name: str, n_sequence: int) -> None:
    shape = PRESETS[name]
    s, h, n_layer, words = shape.sequence, shape.hidden, shape.layers, shape.vocabulary
    exact = 96 * n_sequence * s * n_layer * h**2 + 16 * n_sequence * s**2 * n_layer * h + 6 * n_sequence * s * h * words
    assert model_flops(shape, replace(PLAIN, recompute="full", microbatch=n_sequence)) == exact
    assert exact == pytest.approx(96 * n_sequence * s * n_layer * h**2 * (1 + s / (6 * h) + words / (16 * n_layer * h)))


def test_without_recompute_the_backward_pass_has_twice_the_forward_passs_flops() -> None:
    shape = PRESETS["gpt-7b"]
    forward = flops(shape, PLAIN, "dense", "forward")
    assert flops(shape, PLAIN, "dense", "backward") == 2 * forward
    assert forward == 24 * 2048 * 4096**2 + 4 * 2048**2 * 4096


def test_flash_attention_recomputes_its_scores() -> None:
    shape = PRESETS["gpt-7b"]
    core = 4 * shape.sequence**2 * shape.hidden
    more = flops(shape, Layout(), "dense", "backward") - flops(shape, PLAIN, "dense", "backward")
    assert more == core // 2


def test_the_causal_mask_halves_core_attention() -> None:
    shape = PRESETS["llama3-8b"]
    whole, half = (flops(shape, Layout(causal_half=causal), "dense", "forward") for causal in (False, True))
    assert whole - half == 2 * shape.sequence**2 * shape.hidden


def test_chunks_in_order_leave_most_of_the_scores_to_the_last_gpu() -> None:
    shape = PRESETS["llama3-8b"]
    shares = [Layout(cp=4, causal_half=True, cp_balanced=balanced).causal_frac for balanced in (True, False)]
    # Of four chunks the last one's queries see 3 chunks whole and half of their own: 3.5 of 4
    assert shares == [0.5, 3.5 / 4]
    assert flops(shape, Layout(cp=4), "dense", "forward") * 4 == flops(shape, Layout(), "dense", "forward")


def test_grouped_keys_and_gated_networks() -> None:
    shape = PRESETS["llama3-8b"]
    h, s = shape.hidden, shape.sequence
    matrices = h * (32 + 2 * 8) * 128 + h * h + 3 * h * 14336
    assert flops(shape, PLAIN, "dense", "forward") == 2 * s * matrices + 4 * s * s * h


def test_a_token_meets_only_its_experts() -> None:
    shape = PRESETS["mixtral-8x7b"]
    tokens = shape.sequence
    experts = 2 * tokens * 2 * 3 * shape.hidden * shape.d_expert
    router = 2 * tokens * shape.hidden * 8
    attention = 2 * tokens * shape.attention_matrices() + 4 * tokens**2 * shape.hidden
    assert flops(shape, PLAIN, "moe", "forward") == experts + router + attention


def test_latent_attention_computes_with_its_matrices() -> None:
    shape = PRESETS["deepseek-v3"]
    tokens = shape.sequence
    matrices = shape.attention_matrices() + shape.attention_down_matrices()
    core = 2 * tokens**2 * 128 * (192 + 128)
    network = 2 * tokens * 3 * shape.hidden * shape.d_ffn
    assert flops(shape, PLAIN, "dense", "forward") == 2 * tokens * matrices + core + network


@pytest.mark.parametrize("part", ["dense", "head"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_tensor_parallelism_divides_the_flops(part: str, sequence_parallel: bool) -> None:
    shape = PRESETS["gpt-22b"]
    split = replace(PLAIN, tp=8, sequence_parallel=sequence_parallel)
    assert flops(shape, split, part, "forward", "backward") * 8 == flops(shape, PLAIN, part, "forward", "backward")


@pytest.mark.parametrize("part", ["embedding", "dense", "moe", "head"])
@pytest.mark.parametrize("layout", [PLAIN, Layout(tp=2, ep=4, dp=4, recompute="full", precision="fp8"), Layout(cp=2)])
def test_the_two_halves_of_a_backward_pass_are_the_whole(part: str, layout: Layout) -> None:
    shape = PRESETS["mixtral-8x7b"]
    whole = [step for _, step in steps_of(shape, layout, part, "backward")]
    halves = [step for which in PASSES[2:] for _, step in steps_of(shape, layout, part, which)]
    assert sorted(whole, key=repr) == sorted(halves, key=repr)


def test_a_graph_is_stored_once_per_kind_of_layer() -> None:
    shape, layout = PRESETS["gpt-175b"], Layout(tp=8)
    assert part_graph(shape, layout, "dense") is part_graph(PRESETS["gpt-175b"], Layout(tp=8), "dense")


def test_operators_come_after_operators_that_exist() -> None:
    for name in ("gpt-7b", "mixtral-8x7b", "deepseek-v3"):
        for part in ("embedding", "dense", "moe", "head"):
            seen: set[str] = set()
            for operator in part_graph(PRESETS[name], Layout(tp=2, ep=2), part):
                assert set(operator.after) <= seen and (operator.after or not seen), (name, part, operator.name)
                seen.add(operator.name)


def test_the_scope_of_an_operator_is_the_group_it_exchanges_with() -> None:
    for operator in part_graph(PRESETS["mixtral-8x7b"], Layout(tp=2, ep=4, dp=2, cp=2), "moe"):
        groups = {step.group for step in operator.forward if isinstance(step, Exchange)}
        assert groups <= {operator.scope}


@pytest.mark.parametrize("microbatch, tp, is_fused", [(1, 4, True), (2, 8, True), (1, 8, False), (3, 8, False)])
def test_the_softmax_is_one_kernel_for_multiples_of_four_matrices(microbatch: int, tp: int, is_fused: bool) -> None:
    """Else fp16 to fp32, scaled, masked in place, softmax, and back: each reads and writes every score."""
    shape = ModelShape(1, 1024, 16, sequence=512)
    layout = replace(PLAIN, precision="fp16", microbatch=microbatch, tp=tp)
    [softmax] = [operator for operator in part_graph(shape, layout, "dense") if operator.name == "softmax"]
    [forward], [backward] = softmax.forward, softmax.backward_input
    assert isinstance(forward, Kernel) and isinstance(backward, Kernel)
    n_score = microbatch * 16 // tp * 512**2
    dropout = 2 + 2 + 1
    apart = (2 + 4) + (4 + 4) + (4 + 4 + 1) + (4 + 4) + (4 + 2)
    assert forward.hbm_bytes == n_score * ((4 if is_fused else apart) + dropout)
    assert backward.hbm_bytes == n_score * ((6 if is_fused else apart + 4) + dropout)
    assert forward.n_launch == backward.n_launch == (2 if is_fused else 6)
