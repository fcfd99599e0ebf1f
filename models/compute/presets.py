"""Named models. Sizes are those of the published papers and model cards; the tests compare the parameter counts."""

from models.compute.model_shape import ModelShape


def _gpt(layers: int, hidden: int, heads: int, **sizes) -> ModelShape:
    return ModelShape(layers, hidden, heads, router=False, **sizes)


def _llama(layers: int, hidden: int, heads: int, ffn: int, kv_heads: int = 0, **sizes) -> ModelShape:
    """RMS norm, rotary positions, SwiGLU, no biases, own output embeddings (Touvron et al. 2023)."""
    style = {"gated": True, "norm": "rms", "tied_embeddings": False, "learned_positions": False, "biases": "none"}
    return ModelShape(layers, hidden, heads, ffn, kv_heads, **{**style, "dropout": False, **sizes})


def _qwen2(layers: int, hidden: int, heads: int, ffn: int, kv_heads: int, **sizes) -> ModelShape:
    return _llama(
        layers, hidden, heads, ffn, kv_heads, **{"vocabulary": 152064, "biases": "qkv", "sequence": 4096, **sizes}
    )


def _qwen3(layers: int, hidden: int, heads: int, ffn: int, kv_heads: int, **sizes) -> ModelShape:
    common = {"vocabulary": 151936, "head_dim": 128, "qk_norm": True, "sequence": 4096}
    return _llama(layers, hidden, heads, ffn, kv_heads, **common, **sizes)


def _llama4(**sizes) -> ModelShape:
    """Text alone. Attention of three in four layers is in chunks of 8,192 tokens, as long as a sequence here."""
    experts = {"expert_ffn": 8192, "shared_experts": 1}
    return _llama(48, 5120, 40, 16384, 8, **experts, vocabulary=202048, sequence=8192, **sizes)


def _deepseek(layers: int, hidden: int, ffn: int, **sizes) -> ModelShape:
    latent = {"head_dim": 128, "q_lora": 1536, "kv_lora": 512, "rope_dim": 64, "value_dim": 128, "sequence": 4096}
    return _llama(layers, hidden, 128, ffn, **latent, **sizes)


PRESETS: dict[str, ModelShape] = {
    "gpt-7b": _gpt(32, 4096, 32),
    "gpt-13b": _gpt(40, 5120, 40),
    "gpt-22b": _gpt(48, 6144, 64),
    "gpt-175b": _gpt(96, 12288, 96),
    "moe-8x7b": _gpt(32, 4096, 32, n_expert=8),
    "moe-8x13b": _gpt(40, 5120, 40, n_expert=8),
    "moe-8x22b": _gpt(48, 6144, 64, n_expert=8),
    "moe-32x22b": _gpt(48, 6144, 64, n_expert=32),
    "gpt3-175b": _gpt(96, 12288, 96, vocabulary=50257),
    "llama2-7b": _llama(32, 4096, 32, 11008, vocabulary=32000, sequence=4096),
    "llama2-13b": _llama(40, 5120, 40, 13824, vocabulary=32000, sequence=4096),
    "llama2-70b": _llama(80, 8192, 64, 28672, 8, vocabulary=32000, sequence=4096),
    "llama3-8b": _llama(32, 4096, 32, 14336, 8, vocabulary=128256, sequence=8192),
    "llama3-70b": _llama(80, 8192, 64, 28672, 8, vocabulary=128256, sequence=8192),
    "llama3-405b": _llama(126, 16384, 128, 53248, 8, vocabulary=128256, sequence=8192),
    "mixtral-8x7b": _llama(32, 4096, 32, 14336, 8, vocabulary=32000, sequence=4096, n_expert=8),
    "mixtral-8x22b": _llama(56, 6144, 48, 16384, 8, vocabulary=32000, sequence=4096, n_expert=8),
    "deepseek-v2": _deepseek(
        60, 5120, 12288, vocabulary=102400,
        n_expert=160, top_k=6, expert_ffn=1536, shared_experts=2, n_dense_layers=1,
    ),
    "deepseek-v3": _deepseek(
        61, 7168, 18432, vocabulary=129280,
        n_expert=256, top_k=8, expert_ffn=2048, shared_experts=1, n_dense_layers=3,
    ),
    "grok-1": _llama(64, 6144, 48, 32768, 8, vocabulary=131072, sequence=8192, tied_embeddings=True, n_expert=8),
    "llama4-scout": _llama4(top_k=1, n_expert=16),
    "llama4-maverick": _llama4(top_k=1, n_expert=128, n_dense_layers=1, expert_every=2),
    "qwen2.5-7b": _qwen2(28, 3584, 28, 18944, 4),
    "qwen2.5-14b": _qwen2(48, 5120, 40, 13824, 8),
    "qwen2.5-32b": _qwen2(64, 5120, 40, 27648, 8),
    "qwen2.5-72b": _qwen2(80, 8192, 64, 29568, 8),
    "qwen3-8b": _qwen3(36, 4096, 32, 12288, 8),
    "qwen3-14b": _qwen3(40, 5120, 40, 17408, 8),
    "qwen3-32b": _qwen3(64, 5120, 64, 25600, 8),
    "qwen3-30b-a3b": _qwen3(48, 2048, 32, 6144, 4, n_expert=128, top_k=8, expert_ffn=768),
    "qwen3-235b-a22b": _qwen3(94, 4096, 64, 12288, 4, n_expert=128, top_k=8, expert_ffn=1536),
    "nemotron4-15b": _llama(
        32, 6144, 48, 24576, 8, gated=False, norm="layer", vocabulary=256000, sequence=4096,
    ),
    "nemotron4-340b": _llama(
        96, 18432, 96, 73728, 8, gated=False, norm="layer", vocabulary=256000, sequence=4096,
    ),
}  # fmt: skip
"""The moe-* presets are GPTs with `n_expert` feed-forward networks in every layer, two per token, routers left out."""
