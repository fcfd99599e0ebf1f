"""kind = "training": a model, its layout over GPUs, and what these can do. Keys only: `models.compute` knows the rest.

Two ways to say how long a GPU computes. With [workload.compute] gpu, kernel by kernel for that type, with everything
here. Without, by its peak and an efficiency alone, for GPTs with tensor, data, pipeline and expert parallelism.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from pdes.config.tables.devices import DeviceConfig, Gpu, GpusConfig
from pdes.config.tables.fields import (
    Count,
    Duration,
    FieldError,
    Flops,
    Meaning,
    PositiveDuration,
    Rate,
    Size,
    Table,
    quantity,
)
from pdes.config.tables.nccl import NcclConfig
from pdes.config.tables.parallel import CountOrAuto, ParallelConfig
from pdes.config.tables.transports import TransportConfig, TransportName
from pdes.units import parse_duration_ps, shown

SIMPLE_PRESETS = (
    "gpt-7b", "gpt-13b", "gpt-22b", "gpt-175b", "moe-8x7b", "moe-8x13b", "moe-8x22b", "moe-32x22b",
)  # fmt: skip
Preset = Literal[
    "gpt-7b", "gpt-13b", "gpt-22b", "gpt-175b", "moe-8x7b", "moe-8x13b", "moe-8x22b", "moe-32x22b",
    "gpt3-175b", "llama2-7b", "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "llama3-405b", "mixtral-8x7b",
    "mixtral-8x22b", "grok-1", "llama4-scout", "llama4-maverick", "deepseek-v2", "deepseek-v3",
    "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b",
    "qwen3-8b", "qwen3-14b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "nemotron4-15b",
    "nemotron4-340b",
]  # fmt: skip
Schedule = Literal["1f1b", "gpipe", "zero-bubble-1p", "zero-bubble-2p", "dualpipe"]


def _pass_times(value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        accepted = "Accepted: three durations: forward, backward for inputs, backward for weights"
        raise FieldError(f"found {shown(value)}", accepted)
    return tuple(parse_duration_ps(one) for one in value)


RECOMPUTE_MODULES = (  # as `models.compute.recompute` has them
    "layernorm", "qkv", "mla_up_proj", "core_attn", "attention", "mlp_up", "mlp", "moe_act", "moe", "shared_experts",
)  # fmt: skip


def _recompute(value: object) -> object:
    if value in ("none", "selective", "full", "auto"):
        return value
    if isinstance(value, list) and value and all(one in RECOMPUTE_MODULES for one in value):
        return tuple(dict.fromkeys(value))
    modules = ", ".join(shown(one) for one in RECOMPUTE_MODULES)
    accepted = f'Accepted: "none", "selective", "full", "auto", or a list of modules: {modules}'
    raise FieldError(f"found {shown(value)}", accepted)


def _placement(value: object) -> object:
    if value in ("in-order", "optimised"):
        return value
    if isinstance(value, list) and all(type(gpu) is int and gpu >= 0 for gpu in value):
        return tuple(value)
    accepted = 'Accepted: "in-order", "optimised", or a list of GPU numbers, in the order of the ranks'
    raise FieldError(f"found {shown(value)}", accepted)


Recompute = Annotated[Literal["none", "selective", "full", "auto"] | tuple[str, ...], BeforeValidator(_recompute)]
Placement = Annotated[Literal["in-order", "optimised"] | tuple[int, ...], BeforeValidator(_placement)]
PassTimes = Annotated[tuple[int, int, int] | None, BeforeValidator(_pass_times)]


# Far above any model: products of a few of them with bytes, microbatches and steps stay below 2**63.
Layers = Annotated[int, Field(ge=1, le=2**14)]
Width = Annotated[int, Field(ge=1, le=2**20)]
Length = Annotated[int, Field(ge=1, le=2**26)]


class ModelConfig(Table):
    """[workload.model]: a transformer by its sizes. heads None: not given. experts 1: dense; else top_k per token.

    The rest needs [workload.compute] gpu. None: ffn 4 x hidden, kv_heads as heads, head_dim hidden / heads.
    """

    layers: Layers
    hidden: Width
    heads: Width | None = None
    vocabulary: Length = 51200
    sequence: Length = 2048
    experts: Width = 1
    top_k: Width = 2
    ffn: Width | None = None
    kv_heads: Width | None = None
    head_dim: Width | None = None
    gated: bool = False
    norm: Literal["layer", "rms"] = "layer"
    tied_embeddings: bool = True
    learned_positions: bool = True
    biases: Literal["all", "qkv", "none"] = "all"
    dropout: bool = True
    expert_ffn: Width | None = None
    shared_experts: Annotated[int, Field(ge=0, le=2**20)] = 0
    dense_layers: Annotated[int, Field(ge=0, le=2**14)] = 0
    expert_every: Layers = 1
    MEANING: ClassVar[Meaning] = {
        "layers": "transformer layers",
        "hidden": "width of the model",
        "heads": "of attention; needed with [workload.compute] gpu",
        "vocabulary": "tokens that there are",
        "sequence": "tokens of one sequence",
        "experts": "feed-forward networks per layer; 1: dense",
        "top_k": "experts per token",
        "ffn": "width of a feed-forward network; without it, 4 x hidden",
        "kv_heads": "heads of keys and values; without it, heads",
        "head_dim": "width of a head; without it, hidden / heads",
        "gated": "feed-forward networks with a gate (SwiGLU)",
        "norm": "LayerNorm or RMSNorm",
        "tied_embeddings": "embedding and head share their weights",
        "learned_positions": "positions are parameters",
        "biases": "which products add one",
        "dropout": "dropout is computed",
        "expert_ffn": "width of an expert; without it, ffn",
        "shared_experts": "experts that every token goes to",
        "dense_layers": "first layers that are dense",
        "expert_every": "of the layers after these one in so many has experts, the first of them included",
    }


Wide = Literal["bf16", "fp16", "fp32"]
Format = Literal["bf16", "fp16", "fp32", "fp8"]


class DtypesConfig(Table):
    """[workload.dtypes]: number formats of tensors. None: as `precision` implies, reduce as gradients, moments as
    optimizer, dispatch and combine as activations.
    """

    weights: Format | None = None
    gradients: Wide | None = None
    reduce: Format | None = None
    optimizer: Wide | None = None
    moments: Format | None = None
    activations: Wide | None = None
    dispatch: Format | None = None
    combine: Format | None = None
    MEANING: ClassVar[Meaning] = {
        "weights": "kept, gathered and read by products; default: as precision, bf16 with fp8",
        "gradients": "kept and added up in; default: as [workload] gradients",
        "reduce": "sent for sums over data parallelism; default: as gradients",
        "optimizer": "master weights; default: fp32",
        "moments": "both moments of Adam; default: as optimizer",
        "activations": "kept, summed over TP, passed between stages; default: as precision, bf16 with fp8",
        "dispatch": "tokens to their experts; default: as activations",
        "combine": "tokens back from experts; default: as activations",
    }


class ComputeConfig(Table):
    """[workload.compute]: how long computing takes. Without a gpu: operations / (peak_flops * efficiency).

    jitter_frac: each computation is up to this share longer or shorter, at random. iteration_overhead: of each
    iteration, for what is not modelled. pass_times: measured, of one microbatch on a pipeline stage: forward, backward
    for inputs, for weights; instead of the kernels of its layers. kernels, layer_times: files of measured times on
    this GPU, relative to the config's folder.
    """

    gpu: Gpu | None = None
    peak_flops: Flops = quantity("312Tflops", "peak_flops")
    efficiency: float = Field(default=0.5, gt=0, le=1)
    jitter_frac: float = Field(default=0.0, ge=0, lt=1, alias="jitter")
    iteration_overhead_ps: Duration = quantity("0s", "iteration_overhead")
    kernels: str | None = Field(default=None, min_length=1)
    layer_times: str | None = Field(default=None, min_length=1)
    pass_times_ps: PassTimes = Field(default=None, alias="pass_times")
    MEANING: ClassVar[Meaning] = {
        "gpu": "GPU type: computing is timed kernel by kernel; without it, by peak_flops and efficiency",
        "peak_flops": "of a GPU, without gpu",
        "efficiency": "share of peak_flops that is reached, without gpu",
        "jitter_frac": "each computation is up to this share longer or shorter, at random",
        "iteration_overhead_ps": "of each iteration, for what is not modelled",
        "kernels": "a file of measured kernel times on this GPU, relative to the config",
        "layer_times": "a file of measured times of layers on this GPU, relative to the config, not by kernels",
        "pass_times_ps": (
            "measured times of one microbatch on a stage: forward, backward for inputs, backward for weights"
        ),
    }


class TpModelConfig(Table):
    """[workload.tp_model]: what is timed inside a server, alpha per collective plus bytes over bandwidth."""

    alpha_ps: PositiveDuration = quantity("10us", "alpha")
    bandwidth_bps: Rate = quantity("230GBps", "bandwidth")
    MEANING: ClassVar[Meaning] = {
        "alpha_ps": "of each collective that is timed",
        "bandwidth_bps": "of a GPU inside its server",
    }


class MemoryConfig(Table):
    """[workload.memory]: whether a layout that does not fit the GPUs' memory is refused."""

    check: Literal["refuse", "warn", "off"] = "refuse"
    size_bytes: Size | None = Field(default=None, alias="size")
    MEANING: ClassVar[Meaning] = {
        "check": "what happens to a layout that does not fit the GPUs' memory",
        "size_bytes": "of a GPU; default: its type's",
    }


class TrainingTable(Table):
    """The keys of kind = "training"; exactly one of preset and model is given, of microbatches and global_batch at most
    one. None for layers, sequence: as the preset has them.
    """

    kind: Literal["training"]
    preset: Preset | None = None
    model: ModelConfig | None = None
    layers: Count | None = None
    sequence: Count | None = None
    parallel: ParallelConfig
    microbatch: CountOrAuto = 1
    microbatches: Count | None = None
    global_batch: Count | None = None
    tp: Literal["alpha-beta", "packets"] = "alpha-beta"
    schedule: Schedule = "1f1b"
    sequence_parallel: bool = False
    recompute: Recompute = "none"
    precision: Literal["bf16", "fp16", "fp8", "fp32"] = "bf16"
    gradients: Literal["", "bf16", "fp16", "fp32"] = ""
    dtypes: DtypesConfig = DtypesConfig()
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    routing_skew: float = Field(default=0.0, ge=0, le=4)
    overlap_gradients: bool = True
    overlap_parameters: bool = True
    align_gradients: bool = True
    align_parameters: bool = True
    overlap_pipeline: bool = True
    overlap_tensor: bool = False
    overlap_tensor_gradients: bool = True
    balanced_context: bool = True
    flash_attention: bool = True
    causal: Literal["full", "half"] = "half"
    placement: Placement = "in-order"
    compute: ComputeConfig = ComputeConfig()
    gpus: list[GpusConfig] = []
    devices: dict[str, DeviceConfig] = {}
    tp_model: TpModelConfig = TpModelConfig()
    transport: TransportName = "infiniband"
    transports: dict[str, TransportConfig] = {}
    cross_rail_rings: bool = False
    memory: MemoryConfig = MemoryConfig()
    nccl: NcclConfig = NcclConfig()
    MEANING: ClassVar[Meaning] = {
        "kind": "iterations of training a model",
        "preset": "a model by its name; or [workload.model]",
        "model": "a transformer by its sizes; or preset",
        "layers": "instead of the preset's",
        "sequence": "instead of the preset's",
        "parallel": "how the model is spread over GPUs; the product is their number",
        "microbatch": "sequences of one microbatch; auto: the fastest that fits, by a closed form",
        "microbatches": "per replica and iteration; default: pp; or global_batch",
        "global_batch": "sequences per iteration, of all replicas; or microbatches",
        "tp": "tensor parallelism inside a server: timed, or as packets",
        "schedule": "in which order a pipeline stage does its passes",
        "sequence_parallel": "norms and dropout are split over tp",
        "recompute": "what the backward pass computes again: core attention, whole layers, or modules by their names",
        "precision": "of matrix products",
        "gradients": "kept and reduced in; default: fp32 for bf16 and fp8",
        "dtypes": "number formats of tensors",
        "zero": "what replicas split: 1 optimizer states, 2 also gradients, 3 also parameters (FSDP)",
        "routing_skew": "experts' popularity: the i-th GPU of a group gets tokens as 1 / i^skew; 0: balanced",
        "overlap_gradients": "gradients are reduced beside the backward pass, bucket by bucket",
        "overlap_parameters": "parameters are gathered beside the forward pass",
        "align_gradients": "all stages of an interleaved pipeline begin to reduce a chunk's at the same moment",
        "align_parameters": "all stages of an interleaved pipeline begin to gather a chunk's at the same moment",
        "overlap_pipeline": (
            "messages between stages go beside computing; false: a stage waits until they are received"
        ),
        "overlap_tensor": "tensor-parallel exchanges are pipelined with their matrix product (Transformer Engine)",
        "overlap_tensor_gradients": (
            "an input's gradient is summed beside the weight's gradient (Megatron-LM since 2022)"
        ),
        "balanced_context": "context parallelism: an early and a late chunk each, so that all compute as much",
        "flash_attention": "attention is one kernel that keeps no scores",
        "causal": "half: attention skips what the mask hides; full computes it",
        "placement": "of ranks on GPUs: in order, by HeteroSim's algorithm 2, or as listed",
        "compute": "how long computing takes",
        "gpus": "servers whose GPUs are not like the others",
        "devices": "GPU types of your own, by name",
        "tp_model": "what is timed inside a server",
        "transport": "between servers: what NCCL's protocols leave of the line",
        "transports": "networks of your own, by name",
        "cross_rail_rings": "rings go from rail to rail, as NCCL had them before 2.12",
        "memory": "whether the layout fits",
        "nccl": "what NCCL is told about collectives",
    }

    @property
    def n_microbatch(self) -> int:
        """Microbatches per replica and iteration: as given, else as many as pipeline stages; the mean of a list."""
        listed = self.parallel.replica_microbatches
        if isinstance(listed, tuple):
            return max(1, sum(listed) // len(listed))
        if self.global_batch is not None and isinstance(self.microbatch, int):
            return max(1, self.global_batch // (self.parallel.dp * self.microbatch))
        return self.parallel.pp if self.microbatches is None else self.microbatches


SIMPLE_KEYS = frozenset(
    (
        "kind",
        "preset",
        "model",
        "parallel",
        "microbatch",
        "microbatches",
        "tp",
        "compute",
        "tp_model",
        "start_jitter_ps",
    )
)
"""Keys of [workload] that need no [workload.compute] gpu."""
SIMPLE_TABLE_KEYS = {
    "model": {"layers", "hidden", "heads", "vocabulary", "sequence", "experts", "top_k"},
    "parallel": {"tp", "dp", "pp", "ep"},
    "compute": {"peak_flops", "efficiency"},
}
NOT_WITH_GPU = {"": {"tp", "tp_model"}, "compute": {"peak_flops", "efficiency"}}
