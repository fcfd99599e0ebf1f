"""NeMo: YAML of its Hydra configs (NeMo 1), and of Megatron-Bridge, whose sections have Megatron-LM's own names."""

from pathlib import Path

from pdes.convert.launch.megatron import OF_YAML
from pdes.convert.launch.settings import Setting, Settings
from pdes.convert.launch.silent import changes_nothing
from pdes.convert.launch.yaml_text import flat_yaml
from pdes.errors import ConfigError

RENAMED = {  # NeMo's keys by section and name, to Megatron-LM's
    "trainer.num_nodes": "nnodes",
    "trainer.devices": "nproc_per_node",
    "model.virtual_pipeline_model_parallel_size": "virtual_pipeline_model_parallel_size",
    "model.encoder_seq_length": "seq_length",
    "model.num_moe_experts": "num_experts",
    "model.activations_checkpoint_granularity": "recompute_granularity",
    "model.activations_checkpoint_method": "recompute_method",
    "model.activations_checkpoint_num_layers": "recompute_num_layers",
    "model.ub_tp_comm_overlap": "tp_comm_overlap",
    "model.optim.overlap_grad_sync": "overlap_grad_reduce",
    "model.optim.overlap_param_sync": "overlap_param_gather",
    "model.use_flash_attention": "use_flash_attn",
    "model.override_vocab_size": "vocab_size",
    "model.tokenizer.vocab_size": "vocab_size",
    "model.optim.exp_avg_dtype": "exp_avg_dtype",
    "model.optim.exp_avg_sq_dtype": "exp_avg_sq_dtype",
    "model.qkv_bias": "add_qkv_bias",
    "model.fsdp_sharding_strategy": "data_parallel_sharding_strategy",
    "model.tokenizer.type": "tokenizer_type",
}
SHARDING = {"full": "optim_grads_params", "grad": "optim_grads", "hybrid": "optim_grads_params"}
SPLIT_OPTIMIZERS = ("distributed_fused_adam", "mcore_distributed_optim")
SECTIONS = ("model", "train", "ddp", "optimizer", "comm_overlap", "dataset", "mixed_precision", "dist", "tokenizer")
SILENT_SECTIONS = tuple(
    """
    trainer exp_manager model.optim model.data model.tokenizer model.nsys_profile run cluster optim data log resume
    scheduler logger checkpoint profiling rng tokenizer hydra defaults restore_from_path name straggler peft ft
    rerun_state_machine tensor_inspect inprocess_restart
    """.split()
)
SILENT_KEYS = tuple(
    """
    _target_ _partial_ _args_ _call_ resume_from_checkpoint native_amp_init_scale native_amp_growth_interval
    encoder_attn_mask_type do_layer_norm_weight_decay pre_process post_process gradient_as_bucket_view onnx_safe
    get_attention_mask_from_fusion fp8_e4m3 fp8_hybrid target attention_type transformer_block_type grad_div_ar_fusion
    restore_from_path precision name
    """.split()
)
PRECISIONS = {
    "bf16": "bf16", "bf16-mixed": "bf16", "bf16-true": "bf16", "16": "fp16", "16-mixed": "fp16", "16-true": "fp16",
    "32": "", "32-true": "", "fp16": "fp16", "bf16_mixed": "bf16", "fp16_mixed": "fp16",
}  # fmt: skip


def read_nemo(path: Path) -> Settings:
    """Settings by Megatron-LM's names. ConfigError: YAML without a model's sizes, or values that are none."""
    found: dict[str, Setting] = {}
    for name, (text, line) in flat_yaml(path).items():
        if text.lower() not in ("null", "none", "~", ""):
            _take(found, name, Setting(text, f"{path}, line {line}", name))
    if "num_layers" not in found:
        raise ConfigError(str(path), "no model.num_layers", "NeMo's YAML with trainer and model, or Megatron-Bridge's")
    _normalise(found)
    return Settings(str(path), found)


def _take(found: dict[str, Setting], name: str, one: Setting) -> None:
    section, _, last = name.rpartition(".")
    if name in ("trainer.precision", "mixed_precision", "model.precision"):
        _precision(found, one)
    elif name in ("model.optim.name", "optim.name"):
        if one.text in SPLIT_OPTIMIZERS:
            found["use_distributed_optimizer"] = one._replace(text="true")
    elif name == "model.optim.grad_sync_dtype":
        if one.text.lower().removeprefix("torch.") in ("bf16", "bfloat16"):
            found["grad_reduce_in_bf16"] = one._replace(text="true")
    elif name in RENAMED:
        found[RENAMED[name]] = one
    elif name == "trainer.accumulate_grad_batches" and one.text != "1":
        found["accumulate_grad_batches"] = one
    elif last not in SILENT_KEYS and not _is_silent(name):
        is_known = section in SECTIONS or section.startswith(("model.config", "comm_overlap"))
        found.setdefault(OF_YAML.get(last, last) if is_known else name, one)


def _is_silent(name: str) -> bool:
    is_in = any(name == section or name.startswith(section + ".") for section in SILENT_SECTIONS)
    return is_in or changes_nothing(name.rpartition(".")[2])


def _precision(found: dict[str, Setting], one: Setting) -> None:
    text = one.text.lower()
    plain = next((ours for word, ours in PRECISIONS.items() if text == word), None)
    if plain is None and text.startswith(("bf16_with_fp8", "bf16_with_mxfp8", "fp16_with_fp8")):
        plain = text[:4]
        found["fp8"] = one._replace(text="true")
    if plain is None:
        raise ConfigError(one.where, f"{one.name} {one.text[:40]}", ", ".join(PRECISIONS))
    if plain:
        found[plain] = one._replace(text="true")


def _normalise(found: dict[str, Setting]) -> None:
    """Values that NeMo writes in ways of its own."""
    devices = found.get("nproc_per_node")
    if devices is not None:
        text = devices.text.strip("[] ")
        if "," in text:
            found["nproc_per_node"] = devices._replace(text=str(len(text.split(","))))
        elif text in ("-1", "auto"):
            del found["nproc_per_node"]
    if "overlap_param_gather" in found:  # what NeMo switches on where stages are interleaved
        found.setdefault("align_param_gather", found["overlap_param_gather"])
    strategy = found.get("data_parallel_sharding_strategy")
    if strategy is not None:
        found["data_parallel_sharding_strategy"] = strategy._replace(text=SHARDING.get(strategy.text, strategy.text))
