"""How a model is laid over GPUs, and in which number format (dtype decides bytes: Arcadia, section 7.3)."""

from dataclasses import dataclass, replace
from typing import Literal

from models.compute.recompute import Recompute

Precision = Literal["fp32", "bf16", "fp16", "fp8"]
DTYPE_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1}


@dataclass(frozen=True)
class Layout:
    """Sizes of parallelism and choices of a training run. A dtype "" follows `precision`.

    ep: GPUs, or groups of etp, that share a layer's experts, out of tp x cp x dp. etp: GPUs that share each expert's
    matrices (Megatron-Core's expert tensor parallelism); 1: an expert is whole on its GPU.
    zero: 0 nothing is split over dp; 1 the optimizer's states (Megatron's distributed optimizer), 2 gradients too,
    3 parameters too (FSDP). causal_half: attention skips what the causal mask hides.
    expert_load: tokens that reach this GPU's experts over its balanced share; more than 1 where routing is skewed.
    cp_balanced: each GPU has an early and a late chunk of the sequence, so that the causal mask hides as much on all;
    else chunks follow each other, and all wait for the GPU with the last one.
    tp_gradient_overlap: the all-reduce (or reduce-scatter) of an input's gradient runs beside the weight's gradient, as
    in Megatron-LM since 2022.
    tp_overlap: tensor-parallel exchanges are pipelined with their GEMM (Transformer Engine's userbuffers).
    dual: microbatches enter the pipeline from both ends, so that every GPU has two of its stages (DualPipe).
    stage_layers: layers of each chunk in the order of the model, pp x vpp of them; (): as even as can be.
    replica_microbatches: of each replica, dp of them; (): n_microbatch each.
    stage_tp: of each stage the tensor-parallel size in each replica, of which tp is the largest; (): tp everywhere.
    shard: GPUs over which `zero` splits, of those that hold the same parameters; copies of a share sum its gradients
    (hybrid sharding, MiCS, Megatron's optimizer instances); 0: all of them.
    """

    tp: int = 1
    dp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    vpp: int = 1
    microbatch: int = 1
    n_microbatch: int = 1
    sequence_parallel: bool = False
    recompute: Recompute = "none"
    precision: Precision = "bf16"
    weight_dtype: str = ""
    gradient_dtype: str = (
        ""  # kept and added up in; default fp32 for bf16 and fp8, as Megatron does, else the precision
    )
    reduce_dtype: str = ""  # in which gradients are sent to be summed; default: as they are kept
    optimizer_dtype: str = "fp32"  # master weights
    moment_dtype: str = ""  # both moments; default: as master weights
    activation_dtype: str = ""
    dispatch_dtype: str = ""  # of tokens on their way to experts, and of gradients of what these made
    combine_dtype: str = ""  # of what experts made of them on its way back, and of gradients of tokens
    zero: int = 0
    flash_attention: bool = True
    causal_half: bool = False
    expert_load: float = 1.0
    cp_balanced: bool = True
    tp_gradient_overlap: bool = True
    tp_overlap: bool = False
    dual: bool = False
    stage_layers: tuple[int, ...] = ()
    replica_microbatches: tuple[int, ...] = ()
    stage_tp: tuple[tuple[int, ...], ...] = ()
    shard: int = 0

    def microbatches_of(self, replica: int) -> int:
        """Microbatches of a replica."""
        return self.replica_microbatches[replica] if self.replica_microbatches else self.n_microbatch

    def of_replica(self, replica: int) -> "Layout":
        """As one replica has it."""
        if not self.replica_microbatches:
            return self
        return replace(self, n_microbatch=self.replica_microbatches[replica], replica_microbatches=())

    def of_group(self, stage: int, replica: int) -> "Layout":
        """As one stage of one replica has it, for what it computes and keeps."""
        own = self.of_replica(replica)
        return replace(own, tp=self.stage_tp[stage][replica], stage_tp=()) if self.stage_tp else own

    @property
    def n_microbatch_in_all(self) -> int:
        """Of all replicas."""
        return sum(self.replica_microbatches) or self.dp * self.n_microbatch

    @property
    def without_layers(self) -> "Layout":
        """What a layer by itself depends on: not how many a stage has, nor what a replica does."""
        is_even = not self.stage_layers and not self.replica_microbatches and not self.stage_tp
        return self if is_even else replace(self, stage_layers=(), replica_microbatches=(), stage_tp=())

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight as kernels read it from memory; fp8 runs keep bf16 weights beside."""
        return DTYPE_BYTES[self.weight_dtype or self._wide]

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient as it is kept and added up."""
        default = "fp16" if self.precision == "fp16" else "fp32"
        return DTYPE_BYTES[self.gradient_dtype or default]

    @property
    def reduce_bytes(self) -> int:
        """Bytes of a gradient as it is sent to be summed over data parallelism."""
        return DTYPE_BYTES[self.reduce_dtype] if self.reduce_dtype else self.gradient_bytes

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of a master weight."""
        return DTYPE_BYTES[self.optimizer_dtype]

    @property
    def moment_bytes(self) -> int:
        """Bytes of one of the two moments of a parameter."""
        return DTYPE_BYTES[self.moment_dtype or self.optimizer_dtype]

    @property
    def activation_bytes(self) -> int:
        """Bytes of an activation; in an fp8 run only the inputs of matrix products are fp8, the rest is bf16."""
        return DTYPE_BYTES[self.activation_dtype or self._wide]

    @property
    def dispatch_bytes(self) -> int:
        """Bytes of a token's value on its way to an expert."""
        return DTYPE_BYTES[self.dispatch_dtype or self.activation_dtype or self._wide]

    @property
    def combine_bytes(self) -> int:
        """Bytes of a value on its way back from an expert."""
        return DTYPE_BYTES[self.combine_dtype or self.activation_dtype or self._wide]

    @property
    def causal_frac(self) -> float:
        """Share of the scores that the GPU with most of them computes."""
        if not self.causal_half:
            return 1.0
        return 0.5 if self.cp_balanced else (2 * self.cp - 1) / (2 * self.cp)

    @property
    def gemm_input_bytes(self) -> int:
        """Bytes of a value that a matrix product reads, and keeps for its backward pass."""
        return DTYPE_BYTES[self.precision] if self.precision == "fp8" else self.activation_bytes

    @property
    def _wide(self) -> str:
        return "bf16" if self.precision == "fp8" else self.precision

    @property
    def n_gpu(self) -> int:
        """GPUs of the job."""
        if self.stage_tp:
            return self.cp * sum(map(sum, self.stage_tp))
        return self.tp * self.dp * self.pp * self.cp

    @property
    def n_sharer(self) -> int:
        """GPUs that hold the same dense parameters, so that reduce their gradients and may share states."""
        return self.n_copy * self.dp * self.cp

    @property
    def n_shard(self) -> int:
        """GPUs over which dense parameters, or their gradients and states, are split."""
        return self.shard or self.n_sharer

    @property
    def has_shard_copies(self) -> bool:
        """Whether every share is on more than one GPU."""
        return self.n_shard < self.n_sharer

    @property
    def n_expert_sharer(self) -> int:
        """GPUs that hold the same experts, or the same share of them."""
        return self.n_copy * self.tp * self.dp * self.cp // (self.ep * self.etp)

    def group_size(self, group: str) -> int:
        """GPUs of a group in which layers exchange: "tp", "cp", "ep" or "etp"."""
        return {"tp": self.tp, "cp": self.cp, "ep": self.ep, "etp": self.etp}[group]

    @property
    def n_copy(self) -> int:
        """GPUs of a pipeline that hold the same stage of the model."""
        return 2 if self.dual else 1

    @property
    def n_chunk(self) -> int:
        """Parts of the model, one not next to the other, that a stage has."""
        return 2 if self.dual else self.vpp

    @property
    def n_program(self) -> int:
        """Stages whose GPUs do not do the same: with a dual pipeline it is as its mirror image does."""
        return self.pp // self.n_copy
