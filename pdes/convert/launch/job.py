"""[workload] and [topology] of a training job by Megatron-LM's arguments: layout, batch, precision, what overlaps."""

from collections.abc import Mapping
from pathlib import Path

from pdes.convert.launch.model import model_tables
from pdes.convert.launch.settings import NO, Setting, Settings
from pdes.convert.launch.silent import changes_nothing
from pdes.convert.servers import Fabric, topology_table
from pdes.convert.toml_text import Tables, toml_text, write_whole

SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
DTYPES = {
    "fp32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp8": "fp8",
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
}


Sizes = Mapping[str, Mapping[str, object]]  # tables of a model
MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
"""What Megatron-Core can compute again; a config knows them by the same names."""


def write_job(job: Settings, output: Path, gpu: str, fabric: Fabric, source: str, n_gpu: int | None) -> list[str]:
    """Write the config; warnings. n_gpu: what the option says. ConfigError names file and line."""
    warnings: list[str] = []
    tables, n_world, per_server = job_tables(job, gpu, n_gpu, warnings)
    topology = topology_table(n_world, fabric, per_server if per_server and n_world % per_server == 0 else None)
    left = [one.name for key, one in job.given.items() if key not in job.known and not _passes(key, one)]
    if left:
        warnings.append(f"{job.path}: not taken, though some may change the time: {', '.join(dict.fromkeys(left))}")
    write_whole(output, toml_text(f"Made by `pdes-sim convert {source}`.", {"topology": topology, **tables}))
    return warnings


def _passes(key: str, one: Setting) -> bool:
    """Whether a key that nobody asked for may be passed over: it changes nothing, or is switched off in YAML."""
    return changes_nothing(key) or not one.name.startswith("--") and one.text.lower() in (*NO, "0.0")


def job_tables(job: Settings, gpu: str, n_gpu: int | None, warnings: list[str]) -> tuple[Tables, int, int | None]:
    """(tables of the workload, GPUs of the job, GPUs of a server or None)."""
    tp, pp = job.count("tensor_model_parallel_size", 1), job.count("pipeline_model_parallel_size", 1)
    cp, ep = job.count("context_parallel_size", 1), job.count("expert_model_parallel_size", 1)
    n_world, per_server = _world(job, n_gpu)
    if n_world % (tp * pp * cp):
        key = next((k for k in ("tensor_model_parallel_size", "pipeline_model_parallel_size") if k in job), "")
        text = f"and tensor {tp} x pipeline {pp} x context {cp} do not divide the job's {n_world} GPUs"
        job.wrong(key, "a layout whose product divides the number of GPUs", text)
    dp = n_world // (tp * pp * cp)
    model = model_tables(job, tp, warnings)
    parallel: dict[str, object] = {"tp": tp, "dp": dp, "pp": pp}
    parallel |= ({"cp": cp} if cp > 1 else {}) | _experts(job, tp * cp * dp, ep, tp)
    parallel |= _stages(job, pp, job.count("num_layers")) | _shard(job, dp * cp, warnings)
    micro = job.count("micro_batch_size", 1)
    batch = job.count("global_batch_size", micro * dp)
    if batch % (micro * dp):
        job.wrong("global_batch_size", f"a multiple of {micro} a microbatch x {dp} replicas")
    if batch // (micro * dp) % pp and parallel.get("vpp", 1) != 1:
        text = f"with {batch // (micro * dp)} microbatches"
        job.wrong("global_batch_size", f"a multiple of the {pp} stages, as they are interleaved", text)
    workload: dict[str, object] = {"kind": "training", **model.get("workload", {})}
    workload |= {"global_batch": batch, "microbatch": micro}
    workload["sequence_parallel"] = tp > 1 and job.flag("sequence_parallel")
    workload |= _recompute(job, pp, model, warnings) | _overlap(job, "vpp" in parallel) | {"zero": _zero(job)}
    precision, dtypes = _precision(job)
    workload |= precision
    if "attention_backend" in job and job.text("attention_backend") in ("unfused", "AttnBackend.unfused"):
        workload["flash_attention"] = False
    return {
        "workload": workload,
        "workload.model": model.get("model", {}),
        "workload.parallel": parallel,
        "workload.dtypes": dtypes,
        "workload.compute": {"gpu": gpu},
    }, n_world, per_server  # fmt: skip


def _world(job: Settings, n_gpu: int | None) -> tuple[int, int | None]:
    """(GPUs of the job, of a server if it says so), of the option, the launcher, or WORLD_SIZE."""
    per_server = job.count("nproc_per_node", 0, 0) or None
    n_node = job.count("nnodes", 1)
    said = job.count("world_size", 0, 0)
    if n_gpu is not None:
        return n_gpu, per_server
    if per_server is not None:
        return per_server * n_node, per_server
    if said:
        return said, None
    return job.count("GPUs, such as torchrun's --nproc_per_node"), None


def _experts(job: Settings, n_share: int, ep: int, tp: int) -> dict[str, object]:
    """ep and etp, which is tp unless it is given (Megatron-Core's ModelParallelConfig)."""
    if "num_experts" not in job:
        job.known |= {"expert_tensor_parallel_size"}
        return {}
    n, etp = job.count("num_experts"), job.count("expert_tensor_parallel_size", tp)
    if n % ep:
        job.wrong("expert_model_parallel_size", f"a divisor of the experts, {n}")
    if n_share % ep:
        job.wrong("expert_model_parallel_size", f"a divisor of tensor x context x data parallelism, {n_share}")
    if n_share // ep % etp:
        key = "expert_tensor_parallel_size" if "expert_tensor_parallel_size" in job else "expert_model_parallel_size"
        found = "" if key in job and etp != tp else f"and experts' matrices are split over {etp} GPUs"
        job.wrong(key, f"sizes whose product divides tensor x context x data parallelism, {n_share}", found)
    return {key: n for key, n in (("ep", ep), ("etp", etp)) if n > 1}


def _stages(job: Settings, pp: int, layers: int) -> dict[str, object]:
    """vpp, or the layers of stages where the first or the last has others."""
    first, last = (job.count(f"decoder_{end}_pipeline_num_layers", 0, 0) for end in ("first", "last"))
    vpp = job.count("num_virtual_stages_per_pipeline_rank", 1)
    vpp = max(vpp, job.count("virtual_pipeline_model_parallel_size", 1))
    key = "num_layers_per_virtual_pipeline_stage"
    if key in job:
        if vpp > 1:
            job.wrong(key, "one of both", "beside num_virtual_stages_per_pipeline_rank")
        each = job.count(key)
        if layers % (each * pp):
            job.wrong(key, f"so many that {layers} layers are whole chunks on each of {pp} stages")
        vpp = layers // each // pp
    if first or last:
        n_other = pp - (first > 0) - (last > 0)
        left = layers - first - last
        key = "decoder_first_pipeline_num_layers" if first else "decoder_last_pipeline_num_layers"
        if vpp > 1 or left < n_other or n_other and left % n_other or not n_other and left:
            job.wrong(key, f"layers of {pp} stages without interleaving, all others alike")
        even = [left // n_other] * n_other if n_other else []
        return {"stage_layers": [*([first] if first else []), *even, *([last] if last else [])]}
    if layers % (pp * vpp):
        key = "pipeline_model_parallel_size" if "pipeline_model_parallel_size" in job else "num_layers"
        job.wrong(key, f"{layers} layers in whole chunks of {pp} stages x {vpp}")
    return {"vpp": vpp} if vpp > 1 else {}


def _recompute(job: Settings, pp: int, model: Sizes, warnings: list[str]) -> dict[str, object]:
    granularity = job.text("recompute_granularity", "selective" if job.flag("recompute_activations") else "none")
    if granularity not in ("none", "selective", "full"):
        job.wrong("recompute_granularity", "selective, full")
    method, n = job.text("recompute_method"), job.count("recompute_num_layers", 1)
    layers = job.count("num_layers")
    if granularity == "full" and method == "block" and n < layers // pp:
        text = f"recompute_method block of {n} layers is taken for all {layers // pp} of a stage"
        warnings.append(f"{job.given['recompute_method'].where}: {text}")
    if granularity == "selective":
        modules = _modules(job, model, warnings)
        return {"recompute": modules} if modules else {}
    return {} if granularity == "none" else {"recompute": granularity}


def _shard(job: Settings, n_sharer: int, warnings: list[str]) -> dict[str, object]:
    """Over how many GPUs optimizer states are split: of each of several instances of the optimizer."""
    n_instance = job.count("num_distributed_optimizer_instances", 1)
    if n_instance > 1 and "num_experts" in job:
        where = job.given["num_distributed_optimizer_instances"].where
        warnings.append(f"{where}: instances of the optimizer are not taken for a model with experts")
        return {}
    if n_sharer % n_instance:
        job.wrong("num_distributed_optimizer_instances", f"a divisor of {n_sharer}, the data-parallel GPUs")
    return {"shard": n_sharer // n_instance} if n_instance > 1 else {}


def _modules(job: Settings, model: Sizes, warnings: list[str]) -> list[str]:
    """What --recompute-modules lists. Megatron-Core runs FlashAttention again, too, if core_attn is named.

    Modules that no layer has change nothing there; a config with them is refused, so they are left out.
    """
    names = job.text("recompute_modules", "core_attn").replace(",", " ").strip("[] ").split()
    if not names or any(name not in MODULES for name in names):
        job.wrong("recompute_modules", ", ".join(MODULES))
    sizes, has_preset = model.get("model", {}), "preset" in model.get("workload", {})
    has_experts = "experts" in sizes  # a preset is that of a latent model, which has all modules
    there = {
        "mla_up_proj": False, "mlp": not has_experts or bool({"dense_layers", "expert_every"} & set(sizes)),
        "moe": has_experts,
        "moe_act": has_experts, "shared_experts": "shared_experts" in sizes,
    }  # fmt: skip
    missing = [name for name in names if not (has_preset or there.get(name, True))]
    if missing:
        where = job.given["recompute_modules"].where
        warnings.append(f"{where}: no layer has {', '.join(missing)}: left out")
    return [name for name in names if name not in missing]


def _overlap(job: Settings, is_interleaved: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "overlap_gradients": job.flag("overlap_grad_reduce"),
        "overlap_parameters": job.flag("overlap_param_gather"),
    }
    is_summed_together = job.flag("align_grad_reduce", True) and not job.flag("no_align_grad_reduce")
    aligned = is_summed_together, job.flag("align_param_gather")
    for name, is_aligned in zip(("gradients", "parameters"), aligned, strict=True):
        if is_interleaved and found[f"overlap_{name}"] and not is_aligned:
            found[f"align_{name}"] = False
    is_posted = job.flag("overlap_p2p_comm", True) and not job.flag("no_overlap_p2p_communication")
    if is_interleaved and not is_posted:
        found["overlap_pipeline"] = False
    if job.flag("tp_comm_overlap"):
        found["overlap_tensor"] = True
    if job.flag("no_async_tensor_model_parallel_allreduce"):
        found["overlap_tensor_gradients"] = False
    return found


def _zero(job: Settings) -> int:
    is_fsdp = any([job.flag(key) for key in ("use_megatron_fsdp", "use_custom_fsdp", "use_torch_fsdp2", "fsdp")])
    sharding = job.text("data_parallel_sharding_strategy", "optim_grads_params")
    if is_fsdp:
        if sharding not in SHARDING:
            job.wrong("data_parallel_sharding_strategy", ", ".join(SHARDING))
        return SHARDING[sharding]
    return int(job.flag("use_distributed_optimizer"))


def _precision(job: Settings) -> tuple[dict[str, object], dict[str, object]]:
    """(keys of [workload], of [workload.dtypes])."""
    is_bf16, is_fp16 = job.flag("bf16"), job.flag("fp16")
    is_fp8 = job.text("fp8_format", job.text("fp8")).lower() in ("e4m3", "hybrid", "true", "yes", "1") or (
        "fp8" in job.given and job.given["fp8"].text == ""
    )
    if is_bf16 and is_fp16:
        job.wrong("fp16", "one of both", "beside bf16")
    precision = "fp8" if is_fp8 else "bf16" if is_bf16 else "fp16" if is_fp16 else "fp32"
    keys: dict[str, object] = {"precision": precision}
    in_fp32 = job.flag("accumulate_allreduce_grads_in_fp32")
    if job.flag("grad_reduce_in_bf16"):
        keys["gradients"] = "bf16"
    elif in_fp32 or precision in ("bf16", "fp8"):  # Megatron-LM: bf16 has its gradients in fp32
        keys["gradients"] = "fp32"
    dtypes: dict[str, object] = {}
    if job.flag("fp8_param_gather") or job.flag("fp8_param"):
        dtypes["weights"] = "fp8"
    moments = {_dtype(job, key) for key in ("exp_avg_dtype", "exp_avg_sq_dtype")}
    if len(moments) == 1 and moments != {"fp32"}:
        (dtypes["moments"],) = moments
    elif len(moments) > 1:
        job.wrong("exp_avg_dtype", "the same format for both moments")
    for key, ours in (("main_params_dtype", "optimizer"), ("main_grads_dtype", "gradients")):
        if _dtype(job, key) != "fp32":
            dtypes[ours] = _dtype(job, key)
            keys.pop("gradients" if ours == "gradients" else "", None)
    job.known |= {"use_precision_aware_optimizer"}
    return keys, dtypes


def _dtype(job: Settings, key: str) -> str:
    text = job.text(key, "fp32").removeprefix("torch.").lower()
    if text not in DTYPES:
        job.wrong(key, ", ".join(DTYPES))
    return DTYPES[text]
