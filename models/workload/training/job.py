"""A training job: a model, its layout over GPUs, and sizes and times of what it does. `training` has the formulas."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.workload.training.transformer import GptModel
from pdes.errors import ConfigError
from pdes.units import PS_PER_S

BYTES_PER_VALUE = 2  # bf16
# Slots of a GPU's stream; from EXCHANGE on: to every other GPU of its expert group, then from every other.
(
    ACT_IN, ACT_OUT, GRAD_IN, GRAD_OUT, TP_GROUP, TP_NEXT, TP_PREVIOUS, DP_NEXT, DP_PREVIOUS,
    COPY_GROUP, COPY_NEXT, COPY_PREVIOUS, EXCHANGE,
) = range(13)  # fmt: skip


@dataclass(frozen=True)
class TrainingJob:
    """A model, its layout and what its operations cost."""

    model: GptModel
    tp: int
    dp: int
    pp: int
    ep: int = 1
    microbatch: int = 1
    n_microbatch: int = 0  # per replica and iteration; 0: as many as pipeline stages
    tp_packets: bool = False
    flops_per_s: int = 156 * 10**12  # peak x efficiency of one GPU
    peak_flops_per_s: int = 312 * 10**12
    tp_alpha_ps: int = 10_000_000
    tp_bandwidth_bps: int = 230 * 8 * 10**9

    @property
    def microbatches(self) -> int:
        """Microbatches per replica and iteration."""
        return self.n_microbatch or self.pp

    @property
    def layers_per_stage(self) -> int:
        """Layers of one pipeline stage."""
        return self.model.n_layer // self.pp

    @property
    def n_copy(self) -> int:
        """GPUs of a stage that hold the same experts."""
        return self.tp * self.dp // self.ep

    @property
    def layout(self) -> str:
        """The sizes of parallelism as the literature writes them."""
        return f"TP{self.tp}-" + ("" if self.model.is_dense else f"EP{self.ep}-") + f"DP{self.dp}-PP{self.pp}"

    def activation_bytes(self) -> int:
        """Activations of one microbatch between two layers, whole tensor."""
        return BYTES_PER_VALUE * self.microbatch * self.model.sequence * self.model.hidden

    def exchange_bytes(self) -> int:
        """What a GPU's tokens of one microbatch hold on their way to experts: top_k copies of its share."""
        return -(-self.model.top_k * self.activation_bytes() // self.tp)

    def stage_parameters(self, stage: int) -> int:
        """Parameters of a pipeline stage over its tensor-parallel group, without experts."""
        model = self.model
        layer = model.layer_parameters() if model.is_dense else model.attention_parameters()
        total = self.layers_per_stage * layer
        if stage == 0:
            total += model.embedding_parameters() + model.sequence * model.hidden
        if stage == self.pp - 1:
            total += 2 * model.hidden + (model.embedding_parameters() if self.pp > 1 else 0)
        return total

    def gradient_bytes(self, stage: int) -> int:
        """Gradient bytes of one GPU, without experts."""
        return BYTES_PER_VALUE * -(-self.stage_parameters(stage) // self.tp)

    def expert_gradient_bytes(self) -> int:
        """Gradient bytes of a GPU's experts, which it holds whole."""
        experts = 0 if self.model.is_dense else self.layers_per_stage * self.model.n_expert // self.ep
        return BYTES_PER_VALUE * experts * self.model.expert_parameters()

    def model_flops(self) -> int:
        """FLOPs of an iteration by the model's sizes alone, as MFU counts them: backward is twice forward."""
        model, n_sequence = self.model, self.microbatches * self.microbatch * self.dp
        layer = model.attention_flops(n_sequence) + model.feed_forward_flops(n_sequence)
        return 3 * (model.n_layer * layer + model.logits_flops(n_sequence))

    def compute_ps(self, flops: int) -> int:
        """Time of an operation that a tensor-parallel group shares, rounded up."""
        return -(-flops * PS_PER_S // (self.tp * self.flops_per_s))

    def forward_ps(self, stage: int) -> int:
        """Compute time of one microbatch's forward pass on one GPU, rounded up once."""
        b, model = self.microbatch, self.model
        flops = self.layers_per_stage * (model.attention_flops(b) + model.feed_forward_flops(b))
        return self.compute_ps(flops + (model.logits_flops(b) if stage == self.pp - 1 else 0))

    def in_server_ps(self, size_bytes: int, n_gpu: int, n_pass: int) -> int:
        """Time of a collective inside a server, alpha-beta: n_pass x (n_gpu - 1) / n_gpu of the bytes on each link."""
        moved = Fraction(n_pass * (n_gpu - 1), n_gpu) * size_bytes * 8 * PS_PER_S
        return self.tp_alpha_ps + -(-moved.numerator // (moved.denominator * self.tp_bandwidth_bps))

    def tp_all_reduce_ps(self) -> int:
        """Time of one tensor-parallel all-reduce, alpha-beta."""
        return self.in_server_ps(self.activation_bytes(), self.tp, 2)

    def gpu(self, tp: int, dp: int, pp: int) -> int:
        """GPU of a rank."""
        return tp + self.tp * (dp + self.dp * pp)


def check_job(job: TrainingJob, n_gpu: int, server_of_gpu: np.ndarray) -> None:
    """Raise ConfigError if the layout does not fit the model or the cluster."""
    product = job.tp * job.dp * job.pp
    if product != n_gpu:
        raise ConfigError(
            "[workload.parallel]",
            f"tp {job.tp} x dp {job.dp} x pp {job.pp} = {product} GPUs, and the topology has {n_gpu}",
            "sizes whose product is the number of GPUs",
        )
    if job.model.n_layer % job.pp:
        raise ConfigError(
            "[workload.parallel] pp", f"{job.pp} stages for {job.model.n_layer} layers", "a divisor of the layers"
        )
    _check_experts(job)
    if job.tp > 1 and not job.tp_packets:
        groups = server_of_gpu.reshape(-1, job.tp)
        if (groups != groups[:, :1]).any():
            raise ConfigError(
                "[workload.parallel] tp",
                f"{job.tp}, and a tensor-parallel group spans servers",
                'groups inside a server, or [workload] tp = "packets"',
            )


def _check_experts(job: TrainingJob) -> None:
    where, model, n_gpu = "[workload.parallel] ep", job.model, job.tp * job.dp
    if model.is_dense:
        if job.ep > 1:
            raise ConfigError(where, f"{job.ep}, and the model has no experts", "1 for a dense model")
        return
    if model.n_expert % job.ep:
        raise ConfigError(where, f"{job.ep} GPUs for {model.n_expert} experts", "a divisor of the experts")
    if n_gpu % job.ep:
        found = f"{job.ep}, and a stage has tp {job.tp} x dp {job.dp} = {n_gpu} GPUs"
        raise ConfigError(where, found, "a divisor of a stage's GPUs")
    if model.top_k > model.n_expert:
        found = f"{model.top_k} experts per token of {model.n_expert}"
        raise ConfigError("[workload.model] top_k", found, f"1 to {model.n_expert}")
