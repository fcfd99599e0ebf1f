"""Sizes of a transformer: dense or with experts, GPT or LLaMA style, ordinary or latent attention; and its parameters.

Attention: q of `heads`, k and v of `kv_heads` heads of `head_dim` (GQA, Ainslie et al. 2023). With `kv_lora` > 0 it is
DeepSeek's latent attention (DeepSeek-V2, section 2.1): k and v come from a vector of kv_lora, q from one of q_lora (0:
straight from the hidden state), each head has head_dim values without position and rope_dim with it.
A gated feed-forward network (SwiGLU) has three matrices, an ordinary one two. An expert layer has `n_expert` networks
of `expert_ffn`, of which each token takes `top_k`, and `shared_experts` that every token takes. After the dense layers
that come first every `expert_every`-th layer has experts, the first of them included, and those between are dense.
"""

from dataclasses import dataclass
from typing import Literal

LayerKind = Literal["dense", "moe"]


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a transformer. 0: ffn 4 x hidden, kv_heads as heads, head_dim hidden / heads, expert_ffn as ffn."""

    layers: int
    hidden: int
    heads: int
    ffn: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    vocabulary: int = 51200
    sequence: int = 2048
    gated: bool = False
    norm: Literal["layer", "rms"] = "layer"  # a layer norm has two vectors, an RMS norm one
    tied_embeddings: bool = True
    learned_positions: bool = True  # else rotary
    biases: Literal["all", "qkv", "none"] = "all"
    qk_norm: bool = False
    dropout: bool = True
    n_expert: int = 1  # 1: dense
    top_k: int = 2
    expert_ffn: int = 0
    shared_experts: int = 0
    n_dense_layers: int = 0  # leading layers without experts
    expert_every: int = 1  # of the others one in so many has experts
    router: bool = True  # whether the router's hidden x n_expert weights count
    q_lora: int = 0
    kv_lora: int = 0
    rope_dim: int = 0
    value_dim: int = 0

    @property
    def is_dense(self) -> bool:
        """Whether no layer has experts."""
        return self.n_expert == 1

    @property
    def is_latent(self) -> bool:
        """Whether attention is DeepSeek's latent one."""
        return self.kv_lora > 0

    @property
    def d_ffn(self) -> int:
        """Width of a dense layer's feed-forward network."""
        return self.ffn or 4 * self.hidden

    @property
    def d_expert(self) -> int:
        """Width of one expert."""
        return self.expert_ffn or self.d_ffn

    @property
    def n_kv(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def d_head(self) -> int:
        """Values of a head without those for the position of latent attention."""
        return self.head_dim or self.hidden // self.heads

    @property
    def d_query(self) -> int:
        """Values of a head's query and key."""
        return self.d_head + self.rope_dim

    @property
    def d_value(self) -> int:
        """Values of a head's value."""
        return self.value_dim or self.d_head

    def layer_kind(self, i_layer: int) -> LayerKind:
        """Kind of a layer by its index."""
        behind = i_layer - self.n_dense_layers
        return "dense" if self.is_dense or behind < 0 or behind % self.expert_every else "moe"

    def norm_parameters(self, width: int) -> int:
        """Of one norm over `width` values."""
        return width * (2 if self.norm == "layer" else 1)

    def attention_matrices(self) -> int:
        """Weights of attention that tensor parallelism splits."""
        h, a = self.hidden, self.heads
        out = a * self.d_value * h
        if not self.is_latent:
            return h * (a * self.d_query + self.n_kv * (self.d_query + self.d_value)) + out
        query = (self.q_lora or h) * a * self.d_query
        return query + self.kv_lora * a * (self.d_head + self.d_value) + out

    def attention_down_matrices(self) -> int:
        """Weights into the latent vectors, which every GPU of a tensor-parallel group holds; 0 without."""
        return self.hidden * (self.q_lora + self.kv_lora + self.rope_dim) if self.is_latent else 0

    def attention_vectors(self) -> tuple[int, int]:
        """Biases that are split over tensor parallelism, and values that are not: the output's bias, norms inside."""
        inputs = self.heads * self.d_query + self.n_kv * (self.d_query + self.d_value)
        split = inputs if self.biases != "none" else 0
        whole = (self.hidden if self.biases == "all" else 0) + (2 * self.d_head if self.qk_norm else 0)
        return split, whole + self.q_lora + self.kv_lora

    def network_matrices(self, width: int) -> int:
        """Weights of one feed-forward network of that width."""
        return (3 if self.gated else 2) * self.hidden * width

    def network_vectors(self, width: int) -> tuple[int, int]:
        """Biases of a feed-forward network that are split over tensor parallelism, and that are not."""
        return ((2 if self.gated else 1) * width, self.hidden) if self.biases == "all" else (0, 0)

    def network_parameters(self, width: int) -> int:
        """All of one feed-forward network."""
        return self.network_matrices(width) + sum(self.network_vectors(width))

    def router_parameters(self) -> int:
        """Of one expert layer's router."""
        return self.hidden * self.n_expert if self.router else 0

    def attention_parameters(self) -> int:
        """A layer without its feed-forward networks: attention and two norms."""
        attention = self.attention_matrices() + self.attention_down_matrices() + sum(self.attention_vectors())
        return attention + 2 * self.norm_parameters(self.hidden)

    def layer_parameters(self, kind: LayerKind) -> int:
        """All of one layer."""
        if kind == "dense":
            return self.attention_parameters() + self.network_parameters(self.d_ffn)
        n_network = self.n_expert + self.shared_experts
        return (
            self.attention_parameters() + n_network * self.network_parameters(self.d_expert) + self.router_parameters()
        )

    def embedding_parameters(self) -> int:
        """Word embeddings, and learned positions."""
        return self.hidden * (self.vocabulary + (self.sequence if self.learned_positions else 0))

    def parameters(self) -> int:
        """All parameters."""
        layers = sum(self.layer_parameters(self.layer_kind(i)) for i in range(self.layers))
        head = 0 if self.tied_embeddings else self.vocabulary * self.hidden
        return layers + self.embedding_parameters() + head + self.norm_parameters(self.hidden)

    def active_parameters(self) -> int:
        """Parameters that a token meets: top_k of the experts."""
        n_idle = self.n_expert - self.top_k
        n_moe = sum(self.layer_kind(i) == "moe" for i in range(self.layers))
        return (
            self.parameters() - n_moe * n_idle * self.network_parameters(self.d_expert) if n_moe else self.parameters()
        )
