"""What one GPU has of a microbatch, and the operators that every block is built of: norms, and the two split matrices."""

from dataclasses import dataclass

from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.operators import Exchange, Kernel, Operator, Split, Step, Tensor, elementwise, gemm, norm


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

    def column(self, name: str, label: str, width: int, n_out: int) -> Operator:
        """A matrix split by columns: width x n_out / tp. Keeps its input, of which each GPU has its own tokens."""
        whole_bytes = self.n_token * width * self.layout.activation_bytes
        forward, inward, weight = self.products(self.n_token, width, n_out)
        kept = Tensor(f"{name} input", self.n_own_token * width, self.layout.gemm_input_bytes)
        pipelined = self.layout.tp_overlap
        return Operator(
            name, label, "tp", scope="tp" if self.sequence_parallel else "gpu",
            forward=self.gather(whole_bytes, pipelined) + forward,
            regather=self.gather(whole_bytes, overlapped=True),
            backward_input=inward + self.reduce(whole_bytes, overlapped=self.sequence_parallel or pipelined),
            backward_weight=weight,
            saved=(kept,),
        )  # fmt: skip

    def row(self, name: str, label: str, width: int, n_out: int, keeps_input: bool = True) -> Operator:
        """A matrix split by rows: width / tp x n_out; its results are summed over the group."""
        whole_bytes = self.n_token * n_out * self.layout.activation_bytes
        forward, inward, weight = self.products(self.n_token, width, n_out)
        kept = Tensor(f"{name} input", self.n_token * width, self.layout.gemm_input_bytes)
        pipelined = self.layout.tp_overlap
        reduce = self.reduce(whole_bytes, pipelined)
        return Operator(
            name, label, "tp", scope="tp" if self.layout.tp > 1 else "gpu",
            forward=reduce + forward if pipelined else forward + reduce,
            backward_input=self.gather(whole_bytes, pipelined) + inward,
            backward_weight=weight,
            saved=(kept,) if keeps_input else (),
        )  # fmt: skip

    def local(self, name: str, label: str, n_token: int, width: int, n_out: int, split: Split = "") -> Operator:
        """A matrix that is whole on this GPU, or one that exchanges nothing."""
        forward, inward, weight = self.products(n_token, width, n_out)
        kept = Tensor(f"{name} input", n_token * width, self.layout.gemm_input_bytes)
        return Operator(
            name, label, split or self.outer_split,
            forward=forward, backward_input=inward, backward_weight=weight, saved=(kept,),
        )  # fmt: skip

    def products(
        self, n_token: int, width: int, n_out: int, count: int = 1
    ) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...], tuple[Kernel, ...]]:
        """Kernels of `count` linear maps: forward, gradient of the input, gradient of the weights.

        With fp8 each operand that changes is cast and transposed first: read wide, written twice narrow.
        """
        layout = self.layout
        read, wide = layout.gemm_input_bytes, layout.activation_bytes
        casts = layout.precision == "fp8"
        forward = (gemm(n_token, n_out, width, layout.precision, read, wide, count),)
        inward = (gemm(n_token, width, n_out, layout.precision, read, wide, count),)
        weight = (gemm(width, n_out, n_token, layout.precision, read, 2 * layout.gradient_bytes, count),)
        if casts:
            forward = (elementwise(count * n_token * width, wide + 2), *forward)
            inward = (elementwise(count * n_token * n_out, wide + 2), *inward)
        return forward, inward, weight
