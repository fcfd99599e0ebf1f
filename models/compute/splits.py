"""What one GPU has of a microbatch, and the operators that every block is built of: norms, and split matrices."""

from dataclasses import dataclass, replace
from math import ceil

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.operators import Exchange, Operator, Split, Step, Tensor, elementwise, gemm, norm


@dataclass(frozen=True)
class Splits:
    """A model, a layout, and what follows from both for one GPU."""

    shape: ModelShape
    layout: Layout

    @property
    def n_token(self) -> int:
        """Tokens of a microbatch that a tensor-parallel group sees."""
        return -(-self.layout.microbatch * self.shape.sequence // self.layout.cp)

    @property
    def sequence_parallel(self) -> bool:
        """Whether tokens outside the split matrices are split, too; always with experts."""
        return self.layout.tp > 1 and (self.layout.sequence_parallel or not self.shape.is_dense)

    @property
    def n_own_token(self) -> int:
        """Tokens that a GPU has where tensor parallelism does not split the work."""
        return -(-self.n_token // self.layout.tp) if self.sequence_parallel else self.n_token

    @property
    def n_routed_token(self) -> int:
        """Tokens that a GPU's experts get through its own expert group, once for each of them; balanced: as many as it
        sends."""
        return ceil(self.n_own_token * self.shape.top_k * self.layout.expert_load)

    @property
    def outer_split(self) -> Split:
        """What splits norms, dropout and sums."""
        return "sp" if self.sequence_parallel else ""

    @property
    def stream_bytes(self) -> int:
        """Bytes of the hidden states of all tokens of the tensor-parallel group."""
        return self.n_token * self.shape.hidden * self.layout.activation_bytes

    def share(self, n_value: int) -> int:
        """A tensor-parallel share of something, rounded up."""
        return -(-n_value // self.layout.tp)

    # Exchanges of tensor parallelism

    def gather(self, size_bytes: int, overlapped: bool = False) -> tuple[Step, ...]:
        """Into a split matrix, from shares of the tokens; nothing without sequence parallelism."""
        return (Exchange("all-gather", "tp", size_bytes, overlapped),) if self.sequence_parallel else ()

    def taken_in_pieces(self, gather: tuple[Step, ...]) -> tuple[Step, ...]:
        """An all-gather whose pieces a product takes as they come: it starts with its own, so all of it runs beside."""
        if not self.layout.tp_overlap:
            return gather
        return tuple(replace(step, overlapped=True) for step in gather if isinstance(step, Exchange))

    def given_in_pieces(self, reduce: tuple[Step, ...]) -> tuple[Step, ...]:
        """A reduction of what a product gives, in tp pieces: all but the last run beside it."""
        if not self.layout.tp_overlap:
            return reduce
        whole = [step for step in reduce if isinstance(step, Exchange)]
        pieces = ((replace(x, size_bytes=-(-x.size_bytes // self.layout.tp)), x) for x in whole)
        return tuple(
            piece
            for one, x in pieces
            for piece in (one, replace(x, size_bytes=x.size_bytes - one.size_bytes, overlapped=True))
        )

    def reduce(self, size_bytes: int, overlapped: bool = False) -> tuple[Step, ...]:
        """Out of a split matrix: partial sums are added, over all tokens or each for its share."""
        if self.layout.tp == 1:
            return ()
        collective = "reduce-scatter" if self.sequence_parallel else "all-reduce"
        return (Exchange(collective, "tp", size_bytes, overlapped),)

    # Operators

    def norm(self, name: str, label: str, width: int = 0, n_token: int = 0, split: Split = "") -> Operator:
        """A norm over tokens; backwards it also adds the gradient that passes by on the residual path."""
        n_value = (n_token or self.n_own_token) * (width or self.shape.hidden)
        value = self.layout.activation_bytes
        return Operator(
            name, label, split or self.outer_split,
            forward=(norm(n_value, 2 * value),),
            backward_input=(norm(n_value, 4 * value),),
            saved=(Tensor(f"{name} input", n_value, value),),
        )  # fmt: skip

    def add(self, name: str, label: str) -> Operator:
        """Bias, dropout and residual sum, fused; keeps one byte per value for dropout."""
        n_value, value = self.n_own_token * self.shape.hidden, self.layout.activation_bytes
        mask = 1 if self.shape.dropout else 0
        return Operator(
            name, label, self.outer_split,
            forward=(elementwise(n_value, 3 * value + mask),),
            backward_input=(elementwise(n_value, 2 * value + mask),) if mask else (),
            saved=(Tensor(f"{name} mask", n_value, 1),) if mask else (),
        )  # fmt: skip

    def column(self, name: str, label: str, width: int, n_out: int, wide: bool = False) -> Operator:
        """A matrix split by columns: width x n_out / tp. Keeps its input, of which each GPU has its own tokens.

        wide: not in fp8 even if other products are. fp8 values are gathered as fp8.
        """
        input_bytes = self.layout.activation_bytes if wide else self.layout.gemm_input_bytes
        gathered_bytes = self.n_token * width * input_bytes
        forward, inward, weight = self.products(self.n_token, width, n_out, wide=wide)
        gather = self.taken_in_pieces(self.gather(gathered_bytes))
        reduced_bytes = self.n_token * width * self.layout.activation_bytes
        beside = self.layout.tp_gradient_overlap or self.layout.tp_overlap
        return Operator(
            name, label, "tp", scope="tp" if self.sequence_parallel else "gpu",
            forward=self.cast(self.n_own_token * width, wide) + gather + forward,
            regather=self.gather(gathered_bytes, overlapped=True),
            backward_input=self.cast(self.n_token * n_out, wide) + inward + self.reduce(reduced_bytes, beside),
            backward_weight=weight,
            saved=(Tensor(f"{name} input", self.n_own_token * width, input_bytes),),
        )  # fmt: skip

    def row(self, name: str, label: str, width: int, n_out: int) -> Operator:
        """A matrix split by rows: width / tp x n_out; its results are summed over the group."""
        layout, n_result = self.layout, self.n_token * n_out
        forward, inward, weight = self.products(self.n_token, width, n_out)
        reduce = self.given_in_pieces(self.reduce(n_result * layout.activation_bytes))
        forward = self.cast(self.n_token * width) + (reduce + forward if layout.tp_overlap else forward + reduce)
        gather = self.taken_in_pieces(self.gather(n_result * layout.gemm_input_bytes))
        return Operator(
            name, label, "tp", scope="tp" if layout.tp > 1 else "gpu",
            forward=forward,
            backward_input=self.cast(self.n_own_token * n_out) + gather + inward,
            backward_weight=weight,
            saved=(Tensor(f"{name} input", self.n_token * width, layout.gemm_input_bytes),),
        )  # fmt: skip

    def local(
        self, name: str, label: str, n_token: int, width: int, n_out: int,
        count: int = 1, split: Split = "", wide: bool = False,
    ) -> Operator:  # fmt: skip
        """`count` matrices that are whole on this GPU, over n_token tokens each."""
        forward, inward, weight = self.products(n_token, width, n_out, count, wide)
        kept_bytes = self.layout.activation_bytes if wide else self.layout.gemm_input_bytes
        return Operator(
            name, label, split or self.outer_split,
            forward=self.cast(count * n_token * width, wide) + forward,
            backward_input=self.cast(count * n_token * n_out, wide) + inward,
            backward_weight=weight,
            saved=(Tensor(f"{name} input", count * n_token * width, kept_bytes),),
        )  # fmt: skip

    # Kernels

    def cast(self, n_value: int, wide: bool = False) -> tuple[Step, ...]:
        """To fp8, with a transposed copy, before a product: read wide, written twice narrow."""
        if self.layout.precision != "fp8" or wide:
            return ()
        return (elementwise(n_value, self.layout.activation_bytes + 2 * self.layout.gemm_input_bytes),)

    def products(
        self, n_token: int, width: int, n_out: int, count: int = 1, wide: bool = False
    ) -> tuple[tuple[Step, ...], tuple[Step, ...], tuple[Step, ...]]:
        """Kernels of `count` linear maps: forward, the input's gradient, the weights' gradient, which is added up."""
        layout = self.layout
        narrow = layout.precision == "fp8" and not wide
        read, value = (layout.gemm_input_bytes if narrow else layout.activation_bytes), layout.activation_bytes
        dtype = "bf16" if layout.precision == "fp8" and wide else layout.precision
        weight_bytes = read if narrow else max(layout.weight_bytes, value if wide else 0)
        forward = (gemm(n_token, n_out, width, dtype, read, value, count, weight_bytes),)
        inward = (gemm(n_token, width, n_out, dtype, read, value, count, weight_bytes),)
        weight = (gemm(width, n_out, n_token, dtype, read, 2 * layout.gradient_bytes, count),)
        return forward, inward, weight
