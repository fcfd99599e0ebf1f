"""[workload.model] of Megatron-LM's arguments, with its defaults where they differ from ours."""

import re

from pdes.convert.launch.settings import MOST_LAYERS, MOST_WIDTH, Setting, Settings

TOKENIZER_SIZES = {  # tokens of tokenizers that are always the same ones
    "gpt2bpetokenizer": 50257, "llama2tokenizer": 32000, "llama3tokenizer": 128256,
}  # fmt: skip
LATENT = ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
LATENT_SIZES = (1536, 512, 128, 64, 128)  # of the presets with latent attention
LATENT_PRESETS = {  # hidden, heads, ffn, experts, top_k, expert_ffn
    (5120, 128, 12288, 160, 6, 1536): "deepseek-v2",
    (7168, 128, 18432, 256, 8, 2048): "deepseek-v3",
}
DEFAULT_PADDING, USUAL_VOCABULARY = 128, 51200


def model_tables(job: Settings, tp: int, warnings: list[str]) -> dict[str, dict[str, object]]:
    """The model's keys: {"model": {...}}, or {"workload": {"preset": ...}} of one with latent attention."""
    layers = job.count("num_layers", most=MOST_LAYERS)
    hidden, heads = (job.count(key, most=MOST_WIDTH) for key in ("hidden_size", "num_attention_heads"))
    is_gated = job.flag("swiglu") or job.flag("gated_linear_unit") or "glu" in job.text("activation").lower()
    usual_ffn = int(8 * hidden / 3 / 64) * 64 if is_gated else 4 * hidden  # Megatron-LM's arguments.py
    ffn = job.count("ffn_hidden_size", usual_ffn, most=MOST_WIDTH)
    if heads % tp:
        job.wrong("num_attention_heads", f"a multiple of the tensor parallelism, {tp}")
    if "kv_channels" not in job and hidden % heads:
        job.wrong("num_attention_heads", f"a divisor of the hidden size, {hidden}; or kv_channels")
    sequence = job.count("seq_length")
    model: dict[str, object] = {"layers": layers, "hidden": hidden, "heads": heads, "sequence": sequence}
    model |= {} if ffn == 4 * hidden else {"ffn": ffn}
    model["vocabulary"] = _vocabulary(job, tp, warnings)
    groups = job.count("num_query_groups", 1 if job.flag("multi_query_attention") else heads)
    is_argument = "num_query_groups" in job and job.given["num_query_groups"].name.startswith("--")
    if not job.flag("group_query_attention", not is_argument):  # without it Megatron-LM does not look at the number
        groups = 1 if job.flag("multi_query_attention") else heads
    if heads % groups:
        job.wrong("num_query_groups", f"a divisor of {heads}, the heads")
    if groups != heads:
        model["kv_heads"] = groups
    if "kv_channels" in job:
        model["head_dim"] = job.count("kv_channels", most=MOST_WIDTH)
    model |= _style(job, is_gated)
    experts = _experts(job, layers, ffn)
    if job.flag("multi_latent_attention"):
        sizes = (hidden, heads, ffn, *(experts.get(key) for key in ("experts", "top_k", "expert_ffn")))
        latent = tuple(job.count(key, usual) for key, usual in zip(LATENT, (0, 512, 128, 64, 128), strict=True))
        preset = LATENT_PRESETS.get(sizes)  # type: ignore[arg-type]
        if preset is None or latent != LATENT_SIZES:
            accepted = "the sizes of DeepSeek-V2 or DeepSeek-V3, with any number of layers"
            job.wrong("multi_latent_attention", accepted, "with other sizes than a preset has")
        job.known |= {"qk_layernorm"}
        return {"workload": {"preset": preset, "layers": layers, "sequence": sequence}}
    return {"model": model | experts}


def _vocabulary(job: Settings, tp: int, warnings: list[str]) -> int:
    """Rows of the embedding, with Megatron-LM's padding so that each tensor rank has as many."""
    if "padded_vocab_size" in job:
        return job.count("padded_vocab_size")
    tokenizer = job.text("tokenizer_type").lower()
    usual = TOKENIZER_SIZES.get(tokenizer, 0)
    size = job.count("vocab_size", usual or USUAL_VOCABULARY)
    if "vocab_size" in job and tokenizer == "nulltokenizer":
        size += 1  # the end of a document
    if "vocab_size" not in job and not usual:
        warnings.append(f"{job.path}: the vocabulary's size is in the tokenizer; {size} are taken (vocabulary)")
    step = job.count("make_vocab_size_divisible_by", DEFAULT_PADDING) * tp
    return -(-size // step) * step


def _style(job: Settings, is_gated: bool) -> dict[str, object]:
    norm = job.text("normalization", "LayerNorm").lower()
    if not norm.startswith(("layernorm", "rmsnorm", "low_precision_layernorm")):
        job.wrong("normalization", "LayerNorm, RMSNorm")
    positions = job.text("position_embedding_type", "learned_absolute").lower()
    if job.flag("use_rotary_position_embeddings"):
        positions = "rope"
    has_biases = not job.flag("disable_bias_linear") and job.flag("add_bias_linear", job.flag("bias", True))
    has_qkv = job.flag("add_qkv_bias") or job.flag("qkv_bias")
    is_tied = not job.flag("untie_embeddings_and_output_weights")
    is_tied = job.flag("share_embeddings_and_output_weights", is_tied)
    dropout = max(job.number("hidden_dropout", 0.1), job.number("attention_dropout", 0.1))
    return {
        "gated": is_gated,
        "norm": "rms" if norm.startswith("rms") else "layer",
        "tied_embeddings": is_tied,
        "learned_positions": positions in ("learned_absolute", "learned_parameters"),
        "biases": "all" if has_biases else "qkv" if has_qkv else "none",
        "dropout": dropout > 0,
    }


def _experts(job: Settings, layers: int, ffn: int) -> dict[str, object]:
    if "num_experts" not in job:
        job.known |= {"moe_router_topk", "moe_ffn_hidden_size", "moe_layer_freq", "moe_shared_expert_intermediate_size"}
        return {}
    n, top_k = job.count("num_experts", most=MOST_WIDTH), job.count("moe_router_topk", 2)
    if top_k > n:
        job.wrong("moe_router_topk", f"at most the experts, {n}")
    width = job.count("moe_ffn_hidden_size", ffn, most=MOST_WIDTH)
    found: dict[str, object] = {"experts": n, "top_k": top_k}
    if width != ffn:
        found["expert_ffn"] = width
    if job.given.get("moe_token_dispatcher_type", Setting("alltoall", "", "")).text.startswith(("alltoall", "flex")):
        job.known.add("moe_token_dispatcher_type")  # all-gathers of tokens are not what runs here
    shared = job.count("moe_shared_expert_intermediate_size", 0, 0)
    if shared % width:
        job.wrong("moe_shared_expert_intermediate_size", f"a multiple of an expert's width, {width}")
    if shared:
        found["shared_experts"] = shared // width
    return found | _layer_kinds(job, layers)


def _layer_kinds(job: Settings, layers: int) -> dict[str, object]:
    """Which layers have experts: every so many of them, or of a pattern as ([0]*3+[1]*58) or ([0,1]*24)."""
    text = re.sub(r"[\s\"'()]", "", job.text("moe_layer_freq", "1"))
    if re.fullmatch(r"[1-9]\d{0,4}", text):
        return {"expert_every": int(text)} if text != "1" else {}
    pattern: list[int] = []
    for one in text.split("+"):
        match = re.fullmatch(r"\[([01](?:,[01])*)\](?:\*(\d{1,5}))?", one)
        if match is None:
            job.wrong("moe_layer_freq", "a whole number from 1, or a pattern as ([0]*3+[1]*58)")
        pattern += [int(n) for n in match[1].split(",")] * int(match[2] or 1)
        if len(pattern) > layers:
            break
    places = [i for i, one in enumerate(pattern) if one]
    if len(pattern) != layers or not places:
        job.wrong("moe_layer_freq", f"{layers} layers, some of them with experts")
    first, every = places[0], places[1] - places[0] if len(places) > 1 else layers
    if places != list(range(first, layers, every)):
        job.wrong("moe_layer_freq", "dense layers first, then experts in every layer, or in one of every so many")
    return {key: n for key, n, usual in (("dense_layers", first, 0), ("expert_every", every, 1)) if n != usual}
