"""The graph of a layer as data: operators, the kernels and exchanges they are made of, and what they keep.

After HeteroSim (WWW'26) section 4.1: a node has its kind, FLOPs F_v and memory bytes M_v or communication bytes B_v,
its tensors with their number format, how parallelism splits it, and what it comes after. All are one GPU's, for one
microbatch; a graph exists once per kind of layer, whatever the number of layers and microbatches.
"""

from dataclasses import dataclass
from typing import Literal

KernelKind = Literal["gemm", "attention", "elementwise", "norm", "optimizer"]
Collective = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ring"]
Split = Literal["", "tp", "sp", "cp", "ep"]
Pass = Literal["forward", "regather", "backward_input", "backward_weight"]


@dataclass(frozen=True)
class Kernel:
    """Work of one GPU. A matrix product of `count` times m x k by k x n has its sizes, whatever else runs has bytes.

    n_launch: kernels that it takes. is_backward: of attention, whose backward pass has the same sizes.
    """

    kind: KernelKind
    flops: int = 0
    hbm_bytes: int = 0
    dtype: str = "bf16"
    m: int = 0
    n: int = 0
    k: int = 0
    count: int = 1
    n_launch: int = 1
    is_backward: bool = False


@dataclass(frozen=True)
class Exchange:
    """A collective of a group; size_bytes as `lower.Segment` has it. overlapped: beside the kernels after it."""

    collective: Collective
    group: Literal["tp", "ep", "cp", "etp"]
    size_bytes: int
    overlapped: bool = False


@dataclass(frozen=True)
class Tensor:
    """What is kept for the backward pass. core: part of core attention, which selective recompute drops."""

    name: str
    n_value: int
    dtype_bytes: int
    core: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes on one GPU."""
        return self.n_value * self.dtype_bytes


Step = Kernel | Exchange


@dataclass(frozen=True)
class Operator:
    """A node: what it does in each pass, in order. regather: fetched again, because only a share of it was kept.

    label: block of the layer. split: what divides its work among GPUs. after: names of the operators that it needs,
    with `scope` the group that must all be there. core: core attention.
    """

    name: str
    label: str
    split: Split = ""
    after: tuple[str, ...] = ()
    scope: Literal["gpu", "tp", "ep", "cp", "etp"] = "gpu"
    forward: tuple[Step, ...] = ()
    regather: tuple[Step, ...] = ()
    backward_input: tuple[Step, ...] = ()
    backward_weight: tuple[Step, ...] = ()
    saved: tuple[Tensor, ...] = ()
    core: bool = False

    @property
    def flops(self) -> int:
        """Of the forward pass."""
        return sum(step.flops for step in self.forward if isinstance(step, Kernel))


def gemm(
    m: int, n: int, k: int, dtype: str, input_bytes: int, output_bytes: int, count: int = 1, weight_bytes: int = 0
) -> Kernel:
    """count matrix products m x k by k x n; *_bytes: of a value; weight_bytes: of the second factor, 0: alike."""
    moved = count * (input_bytes * m * k + (weight_bytes or input_bytes) * k * n + output_bytes * m * n)
    return Kernel("gemm", 2 * m * n * k * count, moved, dtype, m, n, k, count)


def elementwise(n_value: int, bytes_per_value: int, n_launch: int = 1) -> Kernel:
    """A kernel that reads and writes bytes_per_value per value."""
    return Kernel("elementwise", 0, n_value * bytes_per_value, n_launch=n_launch)


def norm(n_value: int, bytes_per_value: int) -> Kernel:
    """A normalisation over n_value values."""
    return Kernel("norm", 0, n_value * bytes_per_value)
