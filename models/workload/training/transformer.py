"""Sizes of GPT models, dense or with experts: parameters, and the operations of a forward pass.

A layer has attention, 4 h^2 weights, and a feed-forward network of two matrices h x 4h, 8 h^2 weights. In a
mixture-of-experts model every layer has `n_expert` such networks, and each token goes through `top_k` of them (Lepikhin
et al. 2021, GShard). Attention takes 8 b s h^2 + 4 b s^2 h FLOPs, a feed-forward network 16 b s h^2, the logits
2 b s h V (Narayanan et al. SC'21, section 3 and appendix). The router's h x n_expert weights are left out: below 0.1 %.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class GptModel:
    """Sizes of a GPT. n_expert 1: dense, and top_k says nothing."""

    n_layer: int
    hidden: int
    vocabulary: int = 51200
    sequence: int = 2048
    n_expert: int = 1
    top_k: int = 2

    @property
    def is_dense(self) -> bool:
        """Whether there is one feed-forward network per layer, for all tokens."""
        return self.n_expert == 1

    def expert_parameters(self) -> int:
        """Weights and biases of one feed-forward network: 8 h^2 + 5 h."""
        return 8 * self.hidden**2 + 5 * self.hidden

    def attention_parameters(self) -> int:
        """Weights and biases of a layer besides its feed-forward networks, two layer norms included: 4 h^2 + 8 h."""
        return 4 * self.hidden**2 + 8 * self.hidden

    def layer_parameters(self) -> int:
        """Weights and biases of one layer with all its experts; 12 h^2 + 13 h if dense."""
        return self.attention_parameters() + self.n_expert * self.expert_parameters()

    def embedding_parameters(self) -> int:
        """Word embeddings: V h."""
        return self.vocabulary * self.hidden

    def parameters(self) -> int:
        """All parameters, with tied output embeddings."""
        tail = (self.sequence + 2) * self.hidden
        return self.n_layer * self.layer_parameters() + self.embedding_parameters() + tail

    def attention_flops(self, n_sequence: int) -> int:
        """A layer's attention, forward, over n_sequence sequences."""
        b, s, h = n_sequence, self.sequence, self.hidden
        return 8 * b * s * h**2 + 4 * b * s**2 * h

    def feed_forward_flops(self, n_sequence: int) -> int:
        """A layer's feed-forward networks, forward: each token's one, or its top_k."""
        n_network = 1 if self.is_dense else self.top_k
        return n_network * 16 * n_sequence * self.sequence * self.hidden**2

    def logits_flops(self, n_sequence: int) -> int:
        """The logits, forward."""
        return 2 * n_sequence * self.sequence * self.hidden * self.vocabulary


PRESETS = {
    "gpt-7b": GptModel(32, 4096),
    "gpt-13b": GptModel(40, 5120),
    "gpt-22b": GptModel(48, 6144),
    "gpt-175b": GptModel(96, 12288),
    "moe-8x7b": GptModel(32, 4096, n_expert=8),
    "moe-8x13b": GptModel(40, 5120, n_expert=8),
    "moe-8x22b": GptModel(48, 6144, n_expert=8),
    "moe-32x22b": GptModel(48, 6144, n_expert=32),
}
"""The moe presets are the dense ones with `n_expert` feed-forward networks in every layer, two per token."""
