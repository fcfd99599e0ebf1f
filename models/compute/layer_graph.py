"""Graphs of the parts of a model: embedding, a layer with or without experts, head with loss.

Tensor parallelism as in Megatron (Shoeybi et al. 2019): the first matrix of a block is split by columns, the second by
rows, an all-reduce after the second and, backwards, after the first. With sequence parallelism (Korthikanti et al.
2023) an all-gather before the first and a reduce-scatter after the second instead; backwards the same the other way
round, and another all-gather, beside the input's gradient, of the input of which each GPU kept its share. Where experts
are split tokens are, too, as in Megatron-Core, which takes both only together.
Context parallelism splits the sequence; keys and values go round a ring, beside attention (Liu et al. 2023).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from models.compute.attention_graph import attention_operators
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.network_graph import expert_operators, network_operators
from models.compute.operators import Exchange, Operator, Tensor, elementwise
from models.compute.splits import Splits

__all__ = ["part_graph"]
PARTS = ("embedding", "dense", "moe", "head")


@lru_cache(maxsize=256)
def part_graph(shape: ModelShape, layout: Layout, part: str) -> tuple[Operator, ...]:
    """Operators of a part in the order in which a GPU runs them."""
    return tuple(_chained(_operators(Splits(shape, layout), part)))


def _operators(splits: Splits, part: str) -> tuple[Operator, ...]:
    if part == "embedding":
        return _embedding(splits)
    if part == "head":
        return _head(splits)
    if part == "dense":
        return attention_operators(splits) + network_operators(splits, splits.shape.d_ffn)
    if part == "moe":
        return attention_operators(splits) + expert_operators(splits)
    raise ValueError(f"part {part!r}: one of {PARTS}")


def _chained(operators: tuple[Operator, ...]) -> Iterator[Operator]:
    """Operators that name nothing they come after come after the one before them."""
    before: tuple[str, ...] = ()
    for operator in operators:
        yield operator if operator.after else replace(operator, after=before)
        before = (operator.name,)


def _embedding(splits: Splits) -> tuple[Operator, ...]:
    """A look-up in a table split by words, summed over the tensor-parallel group; backwards its rows are added up."""
    shape, layout = splits.shape, splits.layout
    n_value, value = splits.n_token * shape.hidden, layout.activation_bytes
    own = splits.n_own_token * shape.hidden
    mask = 1 if shape.dropout else 0
    added_bytes = 2 * layout.gradient_bytes  # read and written, in the rows of the table
    tail = (elementwise(own, 3 * value + mask),) if shape.learned_positions or mask else ()
    return (
        Operator(
            "embedding", "embedding", "tp", scope="tp" if layout.tp > 1 else "gpu",
            forward=(elementwise(n_value, 2 * value), *splits.reduce(splits.stream_bytes), *tail),
            backward_weight=(*splits.gather(splits.stream_bytes), elementwise(n_value, value + added_bytes)),
            saved=(Tensor("embedding mask", own, 1),) if mask else (),
        ),
    )  # fmt: skip


def _head(splits: Splits) -> tuple[Operator, ...]:
    """Last norm, logits split by words and never in fp8, loss in fp32, whose maxima and sums go round the group."""
    shape, layout = splits.shape, splits.layout
    words = splits.share(shape.vocabulary)
    sums = tuple(Exchange("all-reduce", "tp", 4 * splits.n_token) for _ in range(3)) if layout.tp > 1 else ()
    n_logit, value = splits.n_token * words, layout.activation_bytes
    return (
        splits.norm("last norm", "head"),
        splits.column("logits", "head", shape.hidden, words, wide=True),
        Operator(
            "loss", "head", "tp", scope="tp" if layout.tp > 1 else "gpu",
            forward=(elementwise(n_logit, value + 4 + 4 + 4, 3), *sums),
            backward_input=(elementwise(n_logit, 4 + value, 1),),
            saved=(Tensor("logits", n_logit, 4),),
        ),
    )  # fmt: skip
