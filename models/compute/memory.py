"""What a GPU keeps in its memory during training, and at its fullest.

Parameters, gradients and optimizer states by ZeRO stage; activations of all microbatches in flight, which the pipeline
schedule decides; working sets that come and go. Activations are the tensors that the operators of the graph say they
keep, which for a GPT gives s b h (34 + 5 a s / h) per layer (Korthikanti et al. 2023, equation 1).

In flight on stage i of p, with m microbatches: GPipe m; 1F1B p - i; interleaved with v chunks per stage
2 (p - i - 1) + (v - 1) p + 1 chunks (Narayanan et al. SC'21; on stage 0 Korthikanti's L (1 + (p - 1) / (p v)) layers);
zero-bubble ZB-H1 as 1F1B, ZB-H2 2 (p - i) - 1 (Qi et al. 2024); DualPipe p + 1 chunks (DeepSeek-V3, table 2). Never
more than there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from models.compute.layer_graph import part_graph
from models.compute.layout import Layout
from models.compute.model_shape import LayerKind, ModelShape
from models.compute.operators import Kernel, Operator
from models.compute.parameters import N_MOMENT, Parameters, parameters_of
from models.compute.recompute import kept
from models.compute.stages import has_part, stage_layers

Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "dualpipe"]
GIB = 2**30
CONTEXT_BYTES = 2 * GIB  # the CUDA context, libraries, and NCCL's buffers
FRAGMENTATION_FRAC = 0.04  # of what comes and goes: PyTorch's allocator reserves in blocks


@dataclass(frozen=True)
class MemoryBreakdown:
    """Bytes on one GPU, by what they are for. `allocated` is what a framework reports, `total` what must fit."""

    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int
    recompute_bytes: int  # what the one layer needs that is being recomputed
    working_bytes: int  # gradients that pass through the largest matrix, and its own before it is added up
    head_bytes: int  # logits in fp32, the last norm and its output; embedding's mask
    buffer_bytes: int  # parameters gathered for ZeRO-3, hidden states on their way between stages
    fragmentation_bytes: int
    context_bytes: int

    @property
    def allocated_bytes(self) -> int:
        """All that tensors take at the fullest moment."""
        return self.total_bytes - self.fragmentation_bytes - self.context_bytes

    @property
    def total_bytes(self) -> int:
        """All."""
        return sum(getattr(self, field.name) for field in fields(self))

    def table(self, hbm_bytes: int = 0) -> str:
        """Readable, in GiB."""
        rows = [(field.name.removesuffix("_bytes"), getattr(self, field.name)) for field in fields(self)]
        rows.append(("total", self.total_bytes))
        if hbm_bytes:
            rows.append(("memory of the GPU", hbm_bytes))
        return "\n".join(f"{name:<18}{size / GIB:9.2f} GiB" for name, size in rows)


def chunks_in_flight(layout: Layout, stage: int, schedule: Schedule) -> int:
    """Most chunks (whole stages if vpp is 1) whose forward pass is done and whose backward pass is not."""
    behind, m = layout.pp - stage, max(layout.replica_microbatches, default=layout.n_microbatch)
    if schedule == "gpipe":
        return m * layout.vpp
    if schedule == "dualpipe":
        return min(layout.pp + 1, m)
    if layout.vpp > 1:
        return min(2 * (behind - 1) + (layout.vpp - 1) * layout.pp + 1, m * layout.vpp)
    return min(2 * behind - 1 if schedule == "zb-h2" else behind, m)


def layer_activation_bytes(shape: ModelShape, layout: Layout, kind: LayerKind) -> int:
    """What one layer keeps of one microbatch: nothing but its input if all is recomputed."""
    return sum(tensor.size_bytes for tensor in kept(part_graph(shape, layout, kind), layout.recompute))


def left_after_input_gradients(shape: ModelShape, layout: Layout, kind: LayerKind) -> float:
    """Share of a layer's activations that is held once its backward pass for inputs is done: up to 1.

    The operands of its weights' gradients, inputs and outputs' gradients of its products: 32 s b h bytes of a GPT's
    s b h (34 + 5 a s / h) (Qi et al. 2024, table 1).
    """
    graph = part_graph(shape, layout, kind)
    steps = (step for operator in graph for step in operator.backward_weight if isinstance(step, Kernel))
    n_value = sum(p.count * p.k * (p.m + p.n) for p in steps if p.kind == "gemm")
    return min(1.0, n_value * layout.activation_bytes / max(layer_activation_bytes(shape, layout, kind), 1))


def stage_parameters(shape: ModelShape, layout: Layout, stage: int) -> Parameters:
    """All parameters of a GPU of a pipeline stage; of unequal tensor-parallel sizes, in the smallest group."""
    if layout.stage_tp:
        layout = replace(layout, tp=min(layout.stage_tp[stage]), stage_tp=())
    parts = [shape.layer_kind(i) for chunk in stage_layers(shape, layout, stage) for i in chunk]
    parts += [part for part in ("embedding", "head") if has_part(layout, stage, part)]
    held = [parameters_of(shape, layout.without_layers, part) for part in parts]
    return Parameters(sum(p.dense_parameters for p in held), sum(p.expert_parameters for p in held))


def memory_of(shape: ModelShape, layout: Layout, stage: int = 0, schedule: Schedule = "1f1b") -> MemoryBreakdown:
    """Memory of a GPU of a pipeline stage at its fullest; of unequal tensor-parallel sizes, in the smallest group."""
    if layout.stage_tp:
        sizes = layout.stage_tp[stage]
        layout = replace(layout, tp=min(sizes), stage_tp=())
    held = stage_parameters(shape, layout, stage)
    counts = (held.dense_parameters, layout.n_shard), (held.expert_parameters, layout.n_expert_sharer)
    weight, gradient, states = (
        sum(-(-n * size // (sharer if layout.zero >= from_stage else 1)) for n, sharer in counts)
        for size, from_stage in (
            (layout.weight_bytes, 3),
            (layout.gradient_bytes, 2),
            (state_bytes(layout), 1),
        )
    )
    kinds: list[list[LayerKind]] = [
        [shape.layer_kind(i) for i in chunk] for chunk in stage_layers(shape, layout, stage)
    ]
    layout = layout.without_layers
    activations = _activations(shape, layout, kinds, chunks_in_flight(layout, stage, schedule))
    recompute = _recompute_bytes(shape, layout, {kind for chunk in kinds for kind in chunk})
    head = _saved_bytes(part_graph(shape, layout, "head")) if has_part(layout, stage, "head") else 0
    if has_part(layout, stage, "embedding"):
        head += _saved_bytes(part_graph(shape, layout, "embedding")) * min(layout.pp, layout.n_microbatch)
    buffers = _buffers(shape, layout)
    working = max(
        (_working_bytes(part_graph(shape, layout, kind), layout) for chunk in kinds for kind in chunk), default=0
    )
    comes_and_goes = activations + recompute + working + head + buffers
    return MemoryBreakdown(
        weight, gradient, states, activations, recompute, working, head, buffers,
        int(FRAGMENTATION_FRAC * comes_and_goes), CONTEXT_BYTES,
    )  # fmt: skip


def state_bytes(layout: Layout) -> int:
    """Optimizer's bytes per parameter: two moments, and master weights unless the weights are as wide."""
    master_bytes = layout.optimizer_bytes if layout.weight_bytes < layout.optimizer_bytes else 0
    return master_bytes + N_MOMENT * layout.moment_bytes


def _activations(shape: ModelShape, layout: Layout, kinds: Sequence[Sequence[LayerKind]], in_flight: int) -> int:
    """Chunks come in order, pp microbatches of one before the next; so earlier chunks have one more each."""
    sizes = [sum(layer_activation_bytes(shape, layout, kind) for kind in chunk) for chunk in kinds]
    return -(-sum(sizes) * in_flight // len(sizes))


def _recompute_bytes(shape: ModelShape, layout: Layout, kinds: set[LayerKind]) -> int:
    if layout.recompute == "none":
        return 0
    whole = (_saved_bytes(part_graph(shape, layout, kind)) for kind in kinds)
    kept = (layer_activation_bytes(shape, layout, kind) for kind in kinds)
    return max((a - b for a, b in zip(whole, kept, strict=True)), default=0)


def _working_bytes(graph: tuple[Operator, ...], layout: Layout) -> int:
    """Of the largest product for a weight's gradient (m x n, summed over k tokens): itself, and both its operands'
    gradients. Experts' matrices are done one after the other."""
    products = [step for op in graph for step in op.backward_weight if isinstance(step, Kernel) and step.kind == "gemm"]
    return max(p.m * p.n * layout.gradient_bytes + p.k * (p.m + p.n) * layout.activation_bytes for p in products)


def _saved_bytes(graph: tuple[Operator, ...]) -> int:
    return sum(tensor.size_bytes for operator in graph for tensor in operator.saved)


def _buffers(shape: ModelShape, layout: Layout) -> int:
    hidden = part_graph(shape, layout, "dense" if shape.is_dense else "moe")[0].saved[0].size_bytes
    between = 2 * hidden if layout.pp > 1 else 0
    if layout.zero < 3:
        return between
    layers = (parameters_of(shape, layout, kind) for kind in {shape.layer_kind(i) for i in range(shape.layers)})
    return between + 2 * max(own.dense_parameters + own.expert_parameters for own in layers) * layout.weight_bytes


def fullest_stage(shape: ModelShape, layout: Layout, schedule: Schedule = "1f1b") -> tuple[int, MemoryBreakdown]:
    """The pipeline stage that needs most memory, and what it needs."""
    stages = [memory_of(shape, layout, stage, schedule) for stage in range(layout.pp)]
    stage = max(range(layout.pp), key=lambda i: stages[i].total_bytes)
    return stage, stages[stage]


def fits(shape: ModelShape, layout: Layout, memory_bytes: int, schedule: Schedule = "1f1b") -> bool:
    """Whether every stage fits a GPU's memory."""
    return fullest_stage(shape, layout, schedule)[1].total_bytes <= memory_bytes
