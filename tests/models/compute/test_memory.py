"""Memory against Korthikanti's closed forms and figure 1, and against what PyTorch reported on eight B200 (SimuMax)."""

from dataclasses import replace

import pytest

from models.compute.devices import DEVICES
from models.compute.layout import Layout
from models.compute.memory import (
    GIB,
    Schedule,
    chunks_in_flight,
    fits,
    fullest_stage,
    layer_activation_bytes,
    left_after_input_gradients,
    memory_of,
)
from models.compute.model_shape import ModelShape
from models.compute.presets import PRESETS

PLAIN = Layout(flash_attention=False)
GPT = {"22B": (48, 6144, 64), "175B": (96, 12288, 96), "530B": (105, 20480, 128), "1T": (128, 25600, 160)}
PIPELINE = {"22B": (4, 1, 1), "175B": (1, 8, 3), "530B": (1, 35, 3), "1T": (1, 64, 1)}  # microbatch, pp, vpp
KORTHIKANTI = [  # figure 1, GiB, and percent of the activations of plain tensor parallelism
    ("22B", 45.56, 59.25, 9.56, 66.84, 49.42, 16.18, 7.64),
    ("175B", 45.56, 66.84, 12.35, 62.04, 56.53, 18.49, 8.71),
    ("530B", 31.64, 114.02, 23.08, 58.31, 62.04, 20.27, 9.42),
    ("1T", 32.96, 131.25, 26.56, 58.31, 62.04, 20.27, 9.42),
]
SIMUMAX = [  # model, layers, tp, pp, dp, ep, cp, sequence, GiB that PyTorch had allocated at most
    ("llama3-70b", 12, 1, 2, 4, 1, 1, 4096, 66.55),
    ("llama3-70b", 12, 2, 1, 4, 1, 1, 4096, 60.68),
    ("llama3-70b", 12, 4, 1, 2, 1, 1, 4096, 39.07),
    ("llama3-70b", 12, 8, 1, 1, 1, 1, 4096, 28.29),
    ("deepseek-v2", 4, 1, 1, 8, 8, 1, 4096, 45.63),
    ("deepseek-v2", 4, 1, 2, 4, 4, 1, 4096, 44.70),
    ("deepseek-v3", 4, 1, 1, 8, 8, 1, 4096, 104.30),
    ("deepseek-v3", 4, 1, 2, 4, 4, 1, 4096, 114.00),
    ("llama3-405b", 4, 1, 2, 4, 1, 1, 4096, 87.08),
    ("llama3-405b", 4, 2, 1, 4, 1, 1, 4096, 81.59),
    ("llama3-405b", 4, 4, 1, 2, 1, 1, 4096, 52.89),
    ("llama3-405b", 4, 8, 1, 1, 1, 1, 4096, 38.57),
    ("llama3-70b", 12, 2, 1, 1, 1, 4, 32768, 68.43),
    ("llama3-70b", 12, 1, 1, 1, 1, 8, 32768, 104.51),
    ("llama3-405b", 4, 2, 1, 1, 1, 4, 32768, 87.03),
    ("llama3-405b", 4, 1, 1, 1, 1, 8, 32768, 139.22),
    ("llama3-70b", 12, 2, 1, 1, 1, 4, 131072, 112.67),
    ("llama3-70b", 12, 1, 1, 1, 1, 8, 131072, 147.99),
    ("llama3-405b", 4, 2, 1, 1, 1, 4, 131072, 118.13),
]

QI = [  # Qi et al., table 4: layers, hidden, heads, microbatch, stages, microbatches; GB with 1F1B, interleaved
    (22, 2304, 24, 6, 8, 24, 30, 40),
    (30, 4096, 32, 3, 8, 24, 39, 48),
    (46, 5120, 40, 1, 16, 48, 32, 39),
    (62, 6144, 48, 1, 32, 96, 43, 58),
]


@pytest.mark.parametrize(("hidden", "heads"), [(2304, 24), (6144, 48)])
def test_weights_gradients_need_what_qi_et_al_say(hidden: int, heads: int) -> None:
    """Table 1: M_W = 32 s b h of M_B = s b h (34 + 5 a s / h); never more than all, as with all recomputed."""
    shape = replace(PRESETS["gpt-7b"], hidden=hidden, heads=heads, ffn=4 * hidden, sequence=1024)
    left = left_after_input_gradients(shape, replace(PLAIN, microbatch=3), "dense")
    assert left == pytest.approx(32 / (34 + 5 * heads * 1024 / hidden), rel=1e-12)
    assert left_after_input_gradients(shape, replace(PLAIN, recompute="full"), "dense") == 1


@pytest.mark.parametrize("b", [1, 4])
def test_a_layer_keeps_korthikantis_activations(b: int) -> None:
    shape = PRESETS["gpt-22b"]
    s, h, a, t = shape.sequence, shape.hidden, shape.heads, 8
    one = replace(PLAIN, microbatch=b)
    assert layer_activation_bytes(shape, one, "dense") == s * b * h * 34 + 5 * a * s * s * b  # equation 1
    split = replace(one, tp=t)
    assert layer_activation_bytes(shape, split, "dense") == s * b * h * 10 + (24 * s * b * h + 5 * a * s * s * b) // t
    parallel = replace(split, sequence_parallel=True)
    assert layer_activation_bytes(shape, parallel, "dense") == (34 * s * b * h + 5 * a * s * s * b) // t  # equation 4
    both = replace(parallel, recompute="selective")
    assert layer_activation_bytes(shape, both, "dense") == 34 * s * b * h // t  # equation 6
    assert layer_activation_bytes(shape, replace(split, recompute="full"), "dense") == 2 * s * b * h


def activations_gib(name: str, **options) -> float:
    b, pp, vpp = PIPELINE[name]
    layout = replace(PLAIN, tp=8, pp=pp, vpp=vpp, microbatch=b, n_microbatch=512, **options)
    return memory_of(ModelShape(*GPT[name]), layout).activation_bytes / GIB


@pytest.mark.parametrize("name, states, plain, present, seq, sel, both, full", KORTHIKANTI)
def test_memory_of_figure_1(
    name: str, states: float, plain: float, present: float, seq: float, sel: float, both: float, full: float
) -> None:
    shape, (b, pp, vpp) = ModelShape(*GPT[name]), PIPELINE[name]
    # The figure's states are those of a stage's layers: a stage in the middle where there is one
    held = memory_of(shape, replace(PLAIN, tp=8, pp=pp, vpp=vpp, microbatch=b), stage=min(1, pp - 1))
    assert (held.weight_bytes + held.gradient_bytes + held.optimizer_bytes) / GIB == pytest.approx(states, rel=0.05)
    base = activations_gib(name)
    parallel = {"sequence_parallel": True}
    selective = {"recompute": "selective"}
    assert base == pytest.approx(plain, rel=0.005)
    assert activations_gib(name, **parallel, **selective) == pytest.approx(present, rel=0.005)
    percents = [100 * activations_gib(name, **o) / base for o in (parallel, selective, {**parallel, **selective})]
    assert percents == pytest.approx([seq, sel, both], rel=0.005)
    assert 100 * activations_gib(name, recompute="full") / base == pytest.approx(full, rel=0.015)


@pytest.mark.parametrize("name, layers, tp, pp, dp, ep, cp, sequence, measured", SIMUMAX)
def test_memory_of_eight_b200(
    name: str, layers: int, tp: int, pp: int, dp: int, ep: int, cp: int, sequence: int, measured: float
) -> None:
    preset = PRESETS[name]
    shape = replace(preset, layers=layers, sequence=sequence, n_dense_layers=min(1, preset.n_dense_layers))
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep, cp=cp, n_microbatch=4, sequence_parallel=True, zero=1)
    _, memory = fullest_stage(shape, layout)
    assert memory.allocated_bytes / GIB == pytest.approx(measured, rel=0.03)  # asked for: 8 %


@pytest.mark.parametrize("layers, hidden, heads, b, pp, m, plain_gb, interleaved_gb", QI)
def test_memory_of_pipelines_of_a100(
    layers: int, hidden: int, heads: int, b: int, pp: int, m: int, plain_gb: int, interleaved_gb: int
) -> None:
    """One layer per chunk where interleaved; within 3 %, as for the B200."""
    shape = ModelShape(layers, hidden, heads, sequence=1024)
    plain = replace(PLAIN, pp=pp, microbatch=b, n_microbatch=m, precision="fp16")
    schedules: tuple[tuple[Layout, Schedule, int], ...] = (
        (plain, "1f1b", plain_gb),
        (replace(plain, vpp=(layers + 2) // pp), "interleaved", interleaved_gb),
    )
    for layout, schedule, measured_gb in schedules:
        _, memory = fullest_stage(shape, layout, schedule)
        assert memory.allocated_bytes / 1e9 == pytest.approx(measured_gb, rel=0.03)


@pytest.mark.parametrize(
    "schedule, vpp, by_stage",
    [
        ("gpipe", 1, [16, 16, 16, 16]),
        ("1f1b", 1, [4, 3, 2, 1]),
        ("zb-h1", 1, [4, 3, 2, 1]),
        ("zb-h2", 1, [7, 5, 3, 1]),
        ("interleaved", 2, [11, 9, 7, 5]),
    ],
)
def test_microbatches_in_flight(schedule: Schedule, vpp: int, by_stage: list[int]) -> None:
    layout = Layout(pp=4, vpp=vpp, n_microbatch=16)
    assert [chunks_in_flight(layout, stage, schedule) for stage in range(4)] == by_stage
    few = replace(layout, n_microbatch=2)
    assert [chunks_in_flight(few, 0, schedule)] == [2 * vpp]


def test_interleaving_keeps_korthikantis_share_more() -> None:
    """Section 4.2.3: the first stage of an interleaved pipeline keeps L (1 + (p - 1) / (p m)) layers, m its chunks."""
    shape, p, m = ModelShape(96, 1024, 16), 8, 3
    layout = replace(PLAIN, pp=p, vpp=m, n_microbatch=64)
    one = layer_activation_bytes(shape, layout, "dense")
    assert memory_of(shape, layout).activation_bytes == pytest.approx(96 * one * (1 + (p - 1) / (p * m)))


def test_zero_splits_states_then_gradients_then_weights() -> None:
    shape = PRESETS["llama3-8b"]
    none, one, two, three = (memory_of(shape, Layout(dp=8, zero=zero)) for zero in range(4))
    n = shape.parameters()
    assert (none.weight_bytes, none.gradient_bytes, none.optimizer_bytes) == (2 * n, 4 * n, 12 * n)
    assert (one.weight_bytes, one.gradient_bytes, one.optimizer_bytes) == (2 * n, 4 * n, -(-12 * n // 8))
    assert (two.weight_bytes, two.gradient_bytes) == (2 * n, -(-4 * n // 8))
    assert three.weight_bytes == -(-2 * n // 8) and three.buffer_bytes > two.buffer_bytes


def test_dtype_decides_the_bytes() -> None:
    shape = PRESETS["llama3-8b"]
    wide = memory_of(shape, Layout(precision="fp32"))
    n = shape.parameters()
    assert (wide.weight_bytes, wide.gradient_bytes, wide.optimizer_bytes) == (4 * n, 4 * n, 8 * n)
    assert memory_of(shape, Layout(gradient_dtype="bf16")).gradient_bytes == 2 * n
    assert memory_of(shape, Layout(optimizer_dtype="bf16")).optimizer_bytes == 4 * n


def test_a_model_that_does_not_fit_says_what_it_needs() -> None:
    shape, memory_bytes = PRESETS["llama3-70b"], DEVICES["h100"].hbm_bytes
    assert not fits(shape, Layout(tp=8), memory_bytes)
    assert fits(shape, Layout(tp=8, pp=4, dp=4, zero=1, sequence_parallel=True, n_microbatch=8), memory_bytes)
    memory = memory_of(shape, Layout(tp=8))
    table = memory.table(memory_bytes)
    assert [line.split()[0] for line in table.splitlines()] == [
        "weight", "gradient", "optimizer", "activation", "recompute", "working", "head", "buffer", "fragmentation",
        "context", "total", "memory",
    ]  # fmt: skip
    assert f"{memory.total_bytes / GIB:.2f} GiB" in table and "80.00 GiB" in table
