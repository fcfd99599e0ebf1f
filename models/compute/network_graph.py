"""Operators of a layer's feed-forward part: one network, or experts with their router, dispatch and combine.

All experts of a GPU get the same number of tokens, and so do all GPUs, unless the layout says that this one's experts
have more: a job with skewed routing has a layout per GPU of an expert group. An expert is whole on its GPU, or its
matrices are split over etp GPUs as tensor parallelism splits them: each of these gets tokens from its own expert group,
gathers those of the others, and its sums are scattered before they go back (Megatron-Core's all-to-all dispatcher).
"""

from dataclasses import replace

from models.compute.operators import Collective, Exchange, Operator, Step, Tensor, elementwise
from models.compute.splits import Splits


def _activation(splits: Splits, name: str, label: str, n_token: int, width: int) -> Operator:
    """Between the matrices of a network; keeps its inputs. SwiGLU reads two, others one."""
    n_value, value, n_read = n_token * width, splits.layout.activation_bytes, 2 if splits.shape.gated else 1
    return Operator(
        name, label, "tp",
        forward=(elementwise(n_value, (n_read + 1) * value),),
        backward_input=(elementwise(n_value, (2 * n_read + 1) * value),),
        saved=(Tensor(f"{name} input", n_read * n_value, value),),
    )  # fmt: skip


def _split_network(splits: Splits, label: str, prefix: str, width: int) -> tuple[Operator, ...]:
    """A network whose matrices tensor parallelism splits."""
    shape, share = splits.shape, splits.share(width)
    n_in = 2 if shape.gated else 1
    return (
        splits.column(f"{prefix}up", label, shape.hidden, n_in * share),
        _activation(splits, f"{prefix}activation", label, splits.n_token, share),
        splits.row(f"{prefix}down", label, share, shape.hidden),
    )


def network_operators(splits: Splits, width: int) -> tuple[Operator, ...]:
    """The feed-forward part of a dense layer."""
    network = _split_network(splits, "mlp", "", width)
    return (splits.norm("mlp norm", "mlp"), *network, splits.add("mlp sum", "mlp"))


def expert_operators(splits: Splits) -> tuple[Operator, ...]:
    """The feed-forward part of a layer with experts; what every token takes depends on the norm only."""
    shape, n_own = splits.shape, splits.n_own_token
    router = splits.local("router", "experts", n_own, shape.hidden, shape.n_expert, wide=True)
    choice = elementwise(n_own * shape.n_expert, 4 * 4, 4)
    choose = Operator(
        "routing", "experts", splits.outer_split, forward=(choice,), backward_input=(choice,),
        saved=(Tensor("routing", n_own * shape.n_expert, 4),),
    )  # fmt: skip
    shared = _split_network(splits, "experts", "shared ", shape.shared_experts * shape.d_expert)
    shared = (replace(shared[0], after=("mlp norm",)), *shared[1:]) if shape.shared_experts else ()
    dispatch = _moved(splits, "dispatch")
    total = splits.add("mlp sum", "experts")
    return (
        splits.norm("mlp norm", "experts"),
        router,
        choose,
        *shared,
        replace(dispatch, after=("routing",)),
        *_experts(splits),
        _moved(splits, "combine"),
        replace(total, after=("combine", shared[-1].name)) if shared else total,
    )


def _all_to_all(splits: Splits, value_bytes: int) -> tuple[Step, ...]:
    size_bytes = splits.shape.top_k * splits.n_own_token * splits.shape.hidden * value_bytes
    return (Exchange("all-to-all", "ep", size_bytes),) if splits.layout.ep > 1 else ()


def _over_shares(splits: Splits, collective: Collective, value_bytes: int) -> tuple[Step, ...]:
    """All tokens of the GPUs that share an expert's matrices, to each of them or summed back."""
    layout = splits.layout
    size_bytes = layout.etp * splits.n_routed_token * splits.shape.hidden * value_bytes
    return (Exchange(collective, "etp", size_bytes),) if layout.etp > 1 else ()


def _moved(splits: Splits, name: str) -> Operator:
    """Tokens to their experts, or back: sorted (or summed) in memory, and exchanged. Backwards the other way round."""
    shape, layout, value = splits.shape, splits.layout, splits.layout.activation_bytes
    n_value = splits.n_own_token * shape.hidden

    def copied(copy_bytes: int) -> Step:
        return elementwise(n_value, shape.top_k * copy_bytes + value, 2)

    out = (*_all_to_all(splits, layout.dispatch_bytes), *_over_shares(splits, "all-gather", layout.dispatch_bytes))
    back = (*_over_shares(splits, "reduce-scatter", layout.combine_bytes), *_all_to_all(splits, layout.combine_bytes))
    out, back = (copied(layout.dispatch_bytes), *out), (*back, copied(layout.combine_bytes))
    is_dispatch = name == "dispatch"
    steps = (out, back) if is_dispatch else (back, out)
    saved = () if is_dispatch else (Tensor("combine input", shape.top_k * n_value, value),)
    return Operator(
        name, "experts", "ep", scope="ep" if layout.ep > 1 else "etp" if layout.etp > 1 else "gpu",
        forward=steps[0], backward_input=steps[1], saved=saved,
    )  # fmt: skip


def _experts(splits: Splits) -> tuple[Operator, ...]:
    shape, n_local = splits.shape, -(-splits.shape.n_expert // splits.layout.ep)
    n_routed = splits.layout.etp * splits.n_routed_token
    n_each, width = -(-n_routed // n_local), -(-shape.d_expert // splits.layout.etp)
    n_in = 2 if shape.gated else 1
    return (
        splits.local("experts up", "experts", n_each, shape.hidden, n_in * width, n_local, "ep"),
        _activation(splits, "experts activation", "experts", n_routed, width),
        splits.local("experts down", "experts", n_each, width, shape.hidden, n_local, "ep"),
    )
