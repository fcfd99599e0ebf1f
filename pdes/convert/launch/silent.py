"""Keys that change nothing in a simulation: how training goes, what is written, where data and checkpoints are."""

import re

_WORDS = r"""
    (min_|max_)?lr(_.*)? (start_|end_)?weight_decay(_.*)? adam_.* sgd_momentum clip_grad optimizer seed split
    train_(iters|samples|data_path|tokens) eval_.* skip_train exit_.*
    (log|tensorboard|wandb|timing|one_logger)_.*
    (save|load|ckpt|checkpoint|dist_ckpt|use_dist_ckpt|async_save|no_load|no_save|finetune|pretrained|auto_detect).*
    (data|dataloader|dataset)_.* data dataset (valid|test)_data_path mock_data num_workers
    num_dataset_builder_threads (tokenizer|vocab_file|merge_file|tiktoken|legacy_tokenizer|use_tokenizer).*
    vocab_extra_ids init_method.* distributed_(backend|timeout_minutes) (initial_|min_)?loss_scale(_window)?
    hysteresis apply_.*_scaling use_(legacy|mcore).* transformer_impl attention_softmax_in_fp32 rotary_.*
    use_rope_scaling rope_.* mscale.* (layer)?norm_epsilon layernorm_epsilon (original_)?max_position_embeddings
    apply_layernorm_1p
    moe_(aux_loss_coeff|z_loss_coeff|grouped_gemm|permute_fusion|per_layer_logging|input_jitter_eps|router_fusion)
    moe_router_(load_balancing_type|dtype|pre_softmax|score_function|bias_update_rate|enable_expert_bias|topk_scaling.*)
    manual_gc.* no_create_attention_mask_in_dataloader (no_)?check_for_nan.* override_opt.* eod_mask_loss mup.*
    reset_(position_ids|attention_mask) fp8_(margin|interval|amax.*|recipe|multi_head_attention)
    attention_backend (no_)?cross_entropy_(loss_fusion|fusion_impl) node_rank rank local_rank master_.* rdzv_.*
    standalone max_restarts tee redirects log_dir use_pytorch_profiler profile.* record_memory_history
    memory_snapshot_path consumed_.* iteration use_cpu_initialization params_dtype autocast_dtype
    enable_autocast pipeline_dtype gradient_accumulation_fusion masked_softmax_fusion
    bias_(dropout|activation|swiglu|gelu|dropout_add)_fusion persist_layer_norm perform_initialization
    transformer_engine ffn_dropout reduce_amax gc_interval bias_dropout_add_fusion average_in_collective
    mcore_gpt megatron_amp_o2 grad_reduce_in_fp32 layernorm_zero_centered_gamma calculate_per_token_loss
    tp_comm_bootstrap_backend inference_.* use_flash_attn use_fused_rmsnorm
"""
_SILENT = re.compile("|".join(f"(?:{word})" for word in _WORDS.split()))


def changes_nothing(key: str) -> bool:
    """Whether a key is one of those. key: as Megatron-LM's argument, with _."""
    return _SILENT.fullmatch(key.lower()) is not None
