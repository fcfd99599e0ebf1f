"""FLOPs of a training step by a model's sizes alone: what model FLOPs utilisation (MFU) is a share of.

As in Chowdhery et al. 2022 (PaLM), appendix B: matrix products alone, each once forward and twice backward, whatever a
run computes again, skips below the causal mask, or pads.
"""

from models.compute.model_shape import ModelShape

FLOPS_PER_WEIGHT = 2  # a product and a sum
PASSES = 3  # forward, backward for inputs, backward for weights


def model_flops(shape: ModelShape, n_sequence: int) -> int:
    """FLOPs of forward and backward over that many sequences; an expert model's are those of the experts used."""
    tokens = n_sequence * shape.sequence
    weights = sum(_layer_weights(shape, i) for i in range(shape.layers)) + shape.vocabulary * shape.hidden
    scores = shape.layers * shape.heads * (shape.d_query + shape.d_value) * shape.sequence
    return PASSES * FLOPS_PER_WEIGHT * tokens * (weights + scores)


def _layer_weights(shape: ModelShape, i_layer: int) -> int:
    """Weights that a token meets in a layer's matrix products."""
    attention = shape.attention_matrices() + shape.attention_down_matrices()
    if shape.layer_kind(i_layer) == "dense":
        return attention + shape.network_matrices(shape.d_ffn)
    n_network = shape.top_k + shape.shared_experts
    return attention + n_network * shape.network_matrices(shape.d_expert) + shape.router_parameters()
