"""Operators of a layer's attention: ordinary, grouped or latent; core attention as FlashAttention or step by step.

FLOPs of core attention, forward: 2 n s (d_query + d_value) per head, 4 b s^2 h for a GPT; half if the mask is used.
FlashAttention's backward has five matrix products of the forward's two, so 2.5 times its FLOPs (Dao 2023, section 3).
"""

from dataclasses import replace

from models.compute.operators import Exchange, Kernel, Operator, Step, Tensor, elementwise, gemm
from models.compute.splits import Splits

LABEL = "attention"
FUSED_MATRICES = 4
"""Megatron-LM's softmax is one kernel if microbatch x heads of a GPU is a multiple of this (fused_softmax.py)."""


def attention_operators(splits: Splits) -> tuple[Operator, ...]:
    """Norm, inputs of attention, core attention, output, and the sum with the residual."""
    shape = splits.shape
    inputs = _latent_inputs(splits) if shape.is_latent else _inputs(splits)
    core = _flash(splits) if splits.layout.flash_attention else _step_by_step(splits)
    out = splits.row("output projection", LABEL, splits.share(shape.heads * shape.d_value), shape.hidden)
    return (splits.norm("attention norm", LABEL), *inputs, *core, out, splits.add("attention sum", LABEL))


def _inputs(splits: Splits) -> tuple[Operator, ...]:
    shape = splits.shape
    n_kv = max(shape.n_kv, splits.layout.tp)  # a key head is copied to every GPU that has a query head of it
    width = shape.heads * shape.d_query + n_kv * (shape.d_query + shape.d_value)
    operators = [splits.column("query key value", LABEL, shape.hidden, splits.share(width))]
    rotated = splits.n_token * splits.share((shape.heads + n_kv) * shape.d_query)
    value = splits.layout.activation_bytes
    if shape.qk_norm:
        operators.append(
            splits.norm(
                "query key norm", LABEL, splits.share((shape.heads + n_kv) * shape.d_query), splits.n_token, "tp"
            )
        )
    if not shape.learned_positions:
        step = (elementwise(rotated, 2 * value, 2),)
        operators.append(Operator("rotary positions", LABEL, "tp", forward=step, backward_input=step))
    return tuple(operators)


def _latent_inputs(splits: Splits) -> tuple[Operator, ...]:
    """DeepSeek: down to the latent vectors, where every GPU has all of a token, and up to its heads."""
    shape, n_own = splits.shape, splits.n_own_token
    latent = shape.q_lora + shape.kv_lora
    down = splits.local("latent down", LABEL, n_own, shape.hidden, latent + shape.rope_dim)
    heads = splits.share(shape.heads)
    operators = [down, splits.norm("latent norm", LABEL, latent, n_own)]
    operators.append(splits.column("query up", LABEL, shape.q_lora or shape.hidden, heads * shape.d_query))
    operators.append(splits.column("key value up", LABEL, shape.kv_lora, heads * (shape.d_head + shape.d_value)))
    value = splits.layout.activation_bytes
    rotated = splits.n_token * heads * (2 * shape.rope_dim + shape.d_head)  # keys are put together with their position
    step = (elementwise(rotated, 2 * value, 2),)
    operators.append(Operator("rotary positions", LABEL, "tp", forward=step, backward_input=step))
    return tuple(operators)


def _core_tensors(splits: Splits) -> tuple[Tensor, ...]:
    """Queries, keys and values, which the backward pass of core attention needs."""
    shape, n, value = splits.shape, splits.n_token, splits.layout.activation_bytes
    n_kv = shape.heads if shape.is_latent else max(shape.n_kv, splits.layout.tp)
    return (
        Tensor("queries", n * splits.share(shape.heads * shape.d_query), value),
        Tensor("keys", n * splits.share(n_kv * shape.d_query), value),
        Tensor("values", n * splits.share(n_kv * shape.d_value), value),
    )


def _ring(splits: Splits, n_pass: int) -> tuple[Step, ...]:
    """Keys and values (backwards their gradients, too) of a GPU's tokens, passed on; bytes of one step."""
    if splits.layout.cp == 1:
        return ()
    _, keys, values = _core_tensors(splits)
    return (Exchange("ring", "cp", n_pass * (keys.size_bytes + values.size_bytes), overlapped=True),)


def _flash(splits: Splits) -> tuple[Operator, ...]:
    shape, layout = splits.shape, splits.layout
    queries, keys, values = _core_tensors(splits)
    n, heads, value = splits.n_token, splits.share(shape.heads), layout.activation_bytes
    flops = int(2 * n * shape.sequence * heads * (shape.d_query + shape.d_value) * layout.causal_frac)
    output = Tensor("attention output", n * heads * shape.d_value, value)
    read_bytes = queries.size_bytes + layout.cp * (keys.size_bytes + values.size_bytes) + output.size_bytes
    dtype = "bf16" if layout.precision == "fp8" else layout.precision
    rows, count = -(-shape.sequence // layout.cp), layout.microbatch * heads
    forward = Kernel("attention", flops, read_bytes, dtype, rows, shape.sequence, shape.d_query, count, layout.cp)
    backward = replace(
        forward, flops=5 * flops // 2, hbm_bytes=3 * read_bytes, n_launch=2 * layout.cp, is_backward=True
    )
    sums = Tensor("softmax sums", n * heads, 4)
    return (
        Operator(
            "core attention", LABEL, "cp" if layout.cp > 1 else "tp", scope="cp" if layout.cp > 1 else "gpu",
            forward=(*_ring(splits, 1), forward), backward_input=(*_ring(splits, 2), backward),
            saved=(queries, keys, values, sums), core=True,
        ),
    )  # fmt: skip


def _softmax(n_score: int, is_fused: bool, value: int, mask: int) -> tuple[Kernel, Kernel]:
    """Forward and backward, each with dropout if mask is not 0: bytes of a score that dropout moves.

    Not fused (forward_torch_softmax): to fp32, scaled, masked in place, softmax, and back from fp32.
    """
    n_launch, forward_bytes, backward_bytes = 1, 2 * value, 3 * value
    if not is_fused:
        casts, scaled, masked = 2 * (value + 4), 2 * 4, 2 * 4 + 1
        n_launch, around = 5, casts + scaled + masked
        forward_bytes, backward_bytes = around + 2 * 4, around + 3 * 4
    n_launch += 1 if mask else 0
    return elementwise(n_score, forward_bytes + mask, n_launch), elementwise(n_score, backward_bytes + mask, n_launch)


def _step_by_step(splits: Splits) -> tuple[Operator, ...]:
    """Scores, softmax with dropout, and their product with the values, each written to memory."""
    shape, layout = splits.shape, splits.layout
    queries, keys, values = _core_tensors(splits)
    count, rows, s = layout.microbatch * splits.share(shape.heads), -(-shape.sequence // layout.cp), shape.sequence
    value, dtype = layout.activation_bytes, "bf16" if layout.precision == "fp8" else layout.precision
    n_score = count * rows * s

    def product(m: int, n: int, k: int) -> Kernel:
        whole = gemm(m, n, k, dtype, value, value, count)
        return replace(whole, flops=int(whole.flops * layout.causal_frac))

    mask = 2 * value + 1 if shape.dropout else 0  # dropout reads, writes, and keeps a mask
    is_fused = count % FUSED_MATRICES == 0
    softmax = Tensor("softmax output", n_score, value if is_fused else 4, core=True)
    softmax_forward, softmax_backward = _softmax(n_score, is_fused, value, mask)
    dropped = (Tensor("dropout mask", n_score, 1, core=True), Tensor("dropout output", n_score, value, core=True))
    dims = shape.d_query, shape.d_value
    return (
        Operator(
            "scores", LABEL, "tp", forward=(*_ring(splits, 1), product(rows, s, dims[0])),
            backward_input=(*_ring(splits, 2), product(rows, dims[0], s), product(s, dims[0], rows)),
            saved=(queries, keys), core=True,
        ),
        Operator(
            "softmax", LABEL, "tp", forward=(softmax_forward,), backward_input=(softmax_backward,),
            saved=(softmax, *(dropped if mask else ())), core=True,
        ),
        Operator(
            "context", LABEL, "tp", forward=(product(rows, dims[1], s),),
            backward_input=(product(rows, s, dims[1]), product(s, dims[1], rows)), saved=(values,), core=True,
        ),
    )  # fmt: skip
