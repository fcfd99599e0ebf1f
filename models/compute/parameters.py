"""Parameters that one GPU holds of a part of a model, and how long its optimizer takes over those it updates."""

from dataclasses import dataclass

from models.compute.devices import Device
from models.compute.kernel_time import kernel_ps
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.operators import Kernel

N_MOMENT = 2  # Adam
OPTIMIZER_LAUNCHES = 16  # kernels over lists of tensors: norm of the gradients, clip, step, copy


@dataclass(frozen=True)
class Parameters:
    """Of one GPU. dense: split over tp, summed over dp x cp. expert: split over ep x etp, summed over its sharers."""

    dense_parameters: int = 0
    expert_parameters: int = 0


def parameters_of(shape: ModelShape, layout: Layout, part: str) -> Parameters:
    """Parameters of "embedding", one "dense" or "moe" layer, or "head".

    Matrices and their split biases are divided by tp, rounded up; norms and biases after a sum are whole on each GPU.
    With tied embeddings the head has its own copy of them where it is on another GPU.
    """

    def share(n: int) -> int:
        return -(-n // layout.tp)

    if part == "embedding":
        return Parameters(
            share(shape.vocabulary * shape.hidden) + shape.embedding_parameters() - shape.vocabulary * shape.hidden
        )
    if part == "head":
        has_words = not shape.tied_embeddings or (layout.pp > 1 and not layout.dual)
        return Parameters(
            shape.norm_parameters(shape.hidden) + (share(shape.vocabulary * shape.hidden) if has_words else 0)
        )
    split, whole = shape.attention_vectors()
    dense = share(shape.attention_matrices() + split) + whole
    dense += shape.attention_down_matrices() + 2 * shape.norm_parameters(shape.hidden)
    if part == "dense":
        return Parameters(dense + _split_network(shape, layout.tp, shape.d_ffn))
    n_own = -(-shape.n_expert // layout.ep)
    shared = shape.shared_experts * _split_network(shape, layout.tp, shape.d_expert)
    own = n_own * _split_network(shape, layout.etp, shape.d_expert)
    return Parameters(dense + shared + shape.router_parameters(), own)


def _split_network(shape: ModelShape, n_gpu: int, width: int) -> int:
    split, whole = shape.network_vectors(width)
    return -(-(shape.network_matrices(width) + split) // n_gpu) + whole


def optimizer_kernel(layout: Layout, n_parameter_own: int) -> Kernel:
    """Adam over n_parameter_own parameters: reads the gradient twice (norm, step), reads and writes its states, writes
    the weight, and zeroes the gradient."""
    state_bytes = layout.optimizer_bytes + N_MOMENT * layout.moment_bytes
    value_bytes = 3 * layout.gradient_bytes + 2 * state_bytes + layout.weight_bytes
    return Kernel("optimizer", 0, n_parameter_own * value_bytes, n_launch=OPTIMIZER_LAUNCHES)


def optimizer_ps(shape: ModelShape, layout: Layout, device: Device, n_parameter_own: int) -> int:
    """Time of the optimizer's step on a GPU that updates n_parameter_own parameters: its share, if states are split."""
    return kernel_ps(optimizer_kernel(layout, n_parameter_own), device)
