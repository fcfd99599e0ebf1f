"""Segments: what is exchanged, how much of it, and that no kernel is lost between the graph and the segments."""

from dataclasses import replace
from fractions import Fraction

import pytest

from models.compute.devices import DEVICES
from models.compute.kernel_time import kernel_ps
from models.compute.layout import Layout
from models.compute.lower import Segment, segments, steps_of
from models.compute.operators import Kernel
from models.compute.presets import PRESETS

A100, H100 = DEVICES["a100-80g"], DEVICES["h100"]
GPT, MIXTRAL = PRESETS["gpt-22b"], PRESETS["mixtral-8x7b"]
SPLIT_SUMS = ("all-gather", "reduce-scatter")
HIDDEN_BYTES = 2 * GPT.sequence * GPT.hidden  # of one sequence


def exchanges(run: tuple[Segment, ...]) -> list[tuple[str, str, int]]:
    return [(s.kind, s.group, s.size_bytes) for s in run if s.kind != "compute"]


def compute_ps(run: tuple[Segment, ...]) -> int:
    return sum(s.time_ps for s in run if s.kind == "compute")


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_one_gpu_exchanges_nothing_and_has_one_segment(which: str) -> None:
    run = segments(GPT, Layout(), A100, "dense", which)
    assert [s.kind for s in run] == ["compute"]


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_tensor_parallelism_has_two_all_reduces_of_the_hidden_states(which: str) -> None:
    run = segments(GPT, Layout(tp=8, microbatch=4), A100, "dense", which)
    assert exchanges(run) == [("all-reduce", "tp", 4 * HIDDEN_BYTES)] * 2


def test_sequence_parallelism_gathers_and_scatters_instead() -> None:
    layout = Layout(tp=8, sequence_parallel=True)
    pair = [("all-gather", "tp", HIDDEN_BYTES), ("reduce-scatter", "tp", HIDDEN_BYTES)]
    assert exchanges(segments(GPT, layout, A100, "dense", "forward")) == 2 * pair
    gather, scatter = pair
    backward = segments(GPT, layout, A100, "dense", "backward")
    assert exchanges(backward) == 2 * [gather, gather, scatter]  # the second gather: of the input that was not kept
    assert [s.overlapped for s in backward if s.kind != "compute"] == 2 * [False, True, True]


def test_full_recompute_repeats_the_forward_pass_before_the_backward_pass() -> None:
    layout = Layout(tp=8, recompute="full")
    forward = segments(GPT, layout, A100, "dense", "forward")
    plain, full = (segments(GPT, replace(layout, recompute=r), A100, "dense", "backward") for r in ("none", "full"))
    assert exchanges(full) == exchanges(forward) + exchanges(plain)
    assert compute_ps(full) == pytest.approx(compute_ps(forward) + compute_ps(plain), abs=20)


def test_selective_recompute_repeats_core_attention_only() -> None:
    layout = Layout(tp=8, flash_attention=False, recompute="selective")
    again = compute_ps(segments(GPT, layout, A100, "dense", "backward"))
    plain = compute_ps(segments(GPT, replace(layout, recompute="none"), A100, "dense", "backward"))
    forward = compute_ps(segments(GPT, layout, A100, "dense", "forward"))
    assert 0.1 * forward < again - plain < 0.6 * forward


@pytest.mark.parametrize("part", ["embedding", "dense", "moe", "head"])
@pytest.mark.parametrize("which", ["forward", "backward", "backward-input", "backward-weight"])
def test_segments_hold_all_kernels(part: str, which: str) -> None:
    layout = Layout(tp=2, ep=4, dp=4, cp=2, microbatch=4, recompute="full")
    kernels = [step for _, step in steps_of(MIXTRAL, layout, part, which) if isinstance(step, Kernel)]
    run = segments(MIXTRAL, layout, H100, part, which)
    assert compute_ps(run) == sum(kernel_ps(kernel, H100) for kernel in kernels)
    assert all(s.time_ps > 0 for s in run if s.kind == "compute")
    neighbours = zip(run, run[1:], strict=False)
    assert not any(a.kind == b.kind == "compute" for a, b in neighbours)


@pytest.mark.parametrize("tp", [1, 2])
def test_experts_are_sent_top_k_copies_of_a_gpus_tokens(tp: int) -> None:
    run = segments(MIXTRAL, Layout(tp=tp, ep=8, dp=8), H100, "moe", "forward")
    sent = [s.size_bytes for s in run if s.kind == "all-to-all"]
    assert sent == [2 * 2 * MIXTRAL.sequence * MIXTRAL.hidden // tp] * 2
    labels = [s.label for s in run]
    assert labels.index("attention") < labels.index("ep") < labels.index("experts", labels.index("ep"))


def test_skewed_routing_gives_a_gpu_more_to_compute_and_no_more_to_send() -> None:
    balanced, hot = (segments(MIXTRAL, Layout(ep=8, dp=8, expert_load=load), H100, "moe", "forward") for load in (1, 2))
    assert exchanges(balanced) == exchanges(hot)
    one, two = (max(s.time_ps for s in run if s.label == "experts") for run in (balanced, hot))
    assert 1.7 < two / one <= 2


def test_a_narrow_dispatch_sends_half_and_combines_wide() -> None:
    layout = Layout(ep=8, dp=8, dispatch_dtype="fp8")
    sent = [s.size_bytes for s in segments(MIXTRAL, layout, H100, "moe", "forward") if s.kind == "all-to-all"]
    assert sent[1] == 2 * sent[0]


def test_keys_and_values_go_round_a_ring() -> None:
    shape = PRESETS["llama3-8b"]
    layout = Layout(cp=4)
    step_bytes = 2 * (shape.sequence // 4) * 2 * 8 * 128
    assert exchanges(segments(shape, layout, H100, "dense", "forward")) == [("ring", "cp", step_bytes)]
    assert exchanges(segments(shape, layout, H100, "dense", "backward")) == [("ring", "cp", 2 * step_bytes)]


def test_dtype_decides_the_bytes_of_an_exchange() -> None:
    wide, half = (Layout(tp=8, precision=p) for p in ("fp32", "bf16"))
    sizes = [sum(x[2] for x in exchanges(segments(GPT, layout, A100, "dense", "forward"))) for layout in (wide, half)]
    assert sizes[0] == 2 * sizes[1]


def test_fp8_values_are_gathered_narrow_and_summed_wide() -> None:
    layout = Layout(tp=8, sequence_parallel=True, precision="fp8")
    sizes = {kind: size for kind, _, size in exchanges(segments(GPT, layout, H100, "dense", "forward"))}
    assert 2 * sizes["all-gather"] == sizes["reduce-scatter"]


def test_of_pipelined_exchanges_the_last_piece_of_each_sum_is_exposed() -> None:
    """A product starts with the tokens that its GPU has, and is over before its last results have been added up."""
    layout = Layout(tp=4, sequence_parallel=True, tp_overlap=True)
    run = segments(GPT, layout, H100, "dense", "forward")
    exposed, hidden = (
        {kind: sum(s.size_bytes for s in run if s.kind == kind and s.overlapped is beside) for kind in SPLIT_SUMS}
        for beside in (False, True)
    )
    assert exposed == {"all-gather": 0, "reduce-scatter": 2 * HIDDEN_BYTES // 4}
    assert hidden == {"all-gather": 2 * HIDDEN_BYTES, "reduce-scatter": 2 * HIDDEN_BYTES * 3 // 4}


def test_a_pipelined_gather_runs_beside_the_product_that_takes_it() -> None:
    layout = Layout(tp=4, sequence_parallel=True, tp_overlap=True, precision="fp8")
    for which in ("forward", "backward"):
        run = segments(GPT, layout, H100, "dense", which)
        after = [run[i + 1].kind for i, segment in enumerate(run) if segment.kind == "all-gather"]
        assert set(after) == {"compute"}


def test_what_an_fp8_run_keeps_in_fp8_is_not_read_so_by_wide_products() -> None:
    """The logits' matrix: weights are gathered narrow, and its product reads what it multiplies."""
    narrow, wide = (Layout(precision="fp8", weight_dtype=dtype) for dtype in ("fp8", "bf16"))
    assert narrow.weight_bytes == 1
    times = [compute_ps(segments(GPT, layout, H100, "head", "forward")) for layout in (narrow, wide)]
    assert times[0] == times[1]


def test_the_host_stretches_small_kernels_and_not_large_ones() -> None:
    slow = replace(A100, fit=replace(A100.fit, dispatch_ps=100_000_000))
    small, large = replace(GPT, hidden=512, heads=8, sequence=256), GPT
    for shape, stretched in ((small, True), (large, False)):
        plain, run = (
            segments(shape, Layout(), d, "dense", "forward")
            for d in (replace(A100, fit=replace(A100.fit, dispatch_ps=1)), slow)
        )
        assert (compute_ps(run) > compute_ps(plain)) is stretched
    n_launch = sum(s.n_launch for _, s in steps_of(small, Layout(), "dense", "forward") if isinstance(s, Kernel))
    assert compute_ps(segments(small, Layout(), slow, "dense", "forward")) == pytest.approx(
        n_launch * 100_000_000, abs=5
    )


def test_the_vocabulary_is_split_over_the_group() -> None:
    one, eight = (compute_ps(segments(GPT, Layout(tp=tp, microbatch=4), A100, "head", "forward")) for tp in (1, 8))
    assert Fraction(1, 8) < Fraction(eight, one) < Fraction(1, 4)


def test_names_of_parts_and_passes_are_checked() -> None:
    with pytest.raises(ValueError, match="sideways"):
        segments(GPT, Layout(), A100, "dense", "sideways")
    with pytest.raises(ValueError, match="tail"):
        segments(GPT, Layout(), A100, "tail", "forward")
