"""One training iteration of a dense GPT with tensor, pipeline and data parallelism, as streams.

Compute model (stated, simple): a layer's forward pass of b sequences of s tokens costs 24 b s h^2 + 4 b s^2 h FLOPs
(Narayanan et al. SC'21, section 3 and appendix), the logits 2 b s h V on the last stage, the backward pass twice the
forward, all divided by TP and by peak x efficiency. No recomputation; the optimizer step takes no time.
Tensor parallelism: 2 all-reduces of 2 b s h bytes per layer and direction; each takes
alpha + 2 (tp-1)/tp bytes / bandwidth, and starts when the last GPU of the group is there (or they are packets).
Pipeline: 1F1B (Narayanan et al. SOSP'19), activations and their gradients 2 b s h / tp bytes per GPU, to the GPU of the
same tensor rank. Data: a ring all-reduce of the 2-byte gradients of the GPU's parameters after its last backward pass.
Ranks are laid out TP first, then DP, then PP: GPU = tp + TP (dp + DP pp).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.workload.collectives import ring_operation, ring_pairs
from models.workload.plan import SLOT_GROUP, SLOT_PAIR, SLOT_UNUSED, Operation, PlanBuilder, Slot, WorkloadPlan
from models.workload.program import OP_COMPUTE, OP_GROUP, OP_RECEIVE, OP_SEND
from pdes.errors import ConfigError

PS_PER_S = 10**12
BYTES_PER_VALUE = 2  # bf16
ALL_REDUCES_PER_LAYER = 2  # in each direction
# Slots of a GPU's stream.
ACT_IN, ACT_OUT, GRAD_IN, GRAD_OUT, TP_GROUP, TP_NEXT, TP_PREVIOUS, DP_NEXT, DP_PREVIOUS = range(9)


@dataclass(frozen=True)
class GptModel:
    """Sizes of a dense GPT."""

    n_layer: int
    hidden: int
    vocabulary: int = 51200
    sequence: int = 2048

    def layer_parameters(self) -> int:
        """Weights and biases of one transformer layer: 12 h^2 + 13 h."""
        return 12 * self.hidden**2 + 13 * self.hidden

    def embedding_parameters(self) -> int:
        """Word embeddings: V h."""
        return self.vocabulary * self.hidden

    def parameters(self) -> int:
        """All parameters, with tied output embeddings."""
        tail = (self.sequence + 2) * self.hidden
        return self.n_layer * self.layer_parameters() + self.embedding_parameters() + tail


PRESETS = {
    "gpt-7b": GptModel(32, 4096),
    "gpt-13b": GptModel(40, 5120),
    "gpt-22b": GptModel(48, 6144),
    "gpt-175b": GptModel(96, 12288),
}


@dataclass(frozen=True)
class TrainingJob:
    """A model, its layout and what its operations cost."""

    model: GptModel
    tp: int
    dp: int
    pp: int
    microbatch: int = 1
    n_microbatch: int = 0  # per replica and iteration; 0: as many as pipeline stages
    tp_packets: bool = False
    flops_per_s: int = 156 * 10**12  # peak x efficiency of one GPU
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

    def activation_bytes(self) -> int:
        """Activations of one microbatch between two layers, whole tensor."""
        return BYTES_PER_VALUE * self.microbatch * self.model.sequence * self.model.hidden

    def stage_parameters(self, stage: int) -> int:
        """Parameters of a pipeline stage over its tensor-parallel group."""
        total = self.layers_per_stage * self.model.layer_parameters()
        if stage == 0:
            total += self.model.embedding_parameters() + self.model.sequence * self.model.hidden
        if stage == self.pp - 1:
            total += 2 * self.model.hidden + (self.model.embedding_parameters() if self.pp > 1 else 0)
        return total

    def gradient_bytes(self, stage: int) -> int:
        """Gradient bytes of one GPU."""
        return BYTES_PER_VALUE * -(-self.stage_parameters(stage) // self.tp)

    def forward_ps(self, stage: int) -> int:
        """Compute time of one microbatch's forward pass on one GPU, rounded up."""
        b, s, h = self.microbatch, self.model.sequence, self.model.hidden
        flops = self.layers_per_stage * (24 * b * s * h**2 + 4 * b * s**2 * h)
        if stage == self.pp - 1:
            flops += 2 * b * s * h * self.model.vocabulary
        return -(-flops * PS_PER_S // (self.tp * self.flops_per_s))

    def tp_all_reduce_ps(self) -> int:
        """Time of one tensor-parallel all-reduce, alpha-beta."""
        moved = Fraction(2 * (self.tp - 1), self.tp) * self.activation_bytes() * 8 * PS_PER_S
        return self.tp_alpha_ps + -(-moved.numerator // (moved.denominator * self.tp_bandwidth_bps))

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
    if job.tp > 1 and not job.tp_packets:
        groups = server_of_gpu.reshape(-1, job.tp)
        if (groups != groups[:, :1]).any():
            raise ConfigError(
                "[workload.parallel] tp",
                f"{job.tp}, and a tensor-parallel group spans servers",
                'groups inside a server, or [workload] tp = "packets"',
            )


def _pass_operations(job: TrainingJob, stage: int, forward: bool) -> list[Operation]:
    """Operations of one microbatch's forward or backward pass on one GPU."""
    act_bytes = -(-job.activation_bytes() // job.tp)
    first, last = stage == 0, stage == job.pp - 1
    ops = []
    if not (first if forward else last):
        ops.append(Operation(OP_RECEIVE, ACT_IN if forward else GRAD_IN, task="pp-wait", task_bytes=act_bytes))
    time_ps = job.forward_ps(stage) * (1 if forward else 2)
    ops.append(Operation(OP_COMPUTE, time_ps=time_ps, task="forward" if forward else "backward"))
    n_reduce = ALL_REDUCES_PER_LAYER * job.layers_per_stage
    if job.tp > 1 and job.tp_packets:
        one = ring_operation("all-reduce", job.activation_bytes(), job.tp, TP_NEXT, TP_PREVIOUS, "tp", "tp")
        ops.extend([one] * n_reduce)
    elif job.tp > 1:
        total = n_reduce * job.activation_bytes()
        ops.append(
            Operation(OP_GROUP, TP_GROUP, time_ps=n_reduce * job.tp_all_reduce_ps(), task="tp", task_bytes=total)
        )
    if not (last if forward else first):
        ops.append(Operation(OP_SEND, ACT_OUT if forward else GRAD_OUT, size_bytes=act_bytes, tag="pp"))
    return ops


def stage_program(job: TrainingJob, stage: int) -> list[Operation]:
    """What every GPU of a stage does in an iteration: 1F1B, then the gradients' all-reduce."""
    m = job.microbatches
    warm_up = min(job.pp - stage - 1, m)
    forward, backward = _pass_operations(job, stage, True), _pass_operations(job, stage, False)
    ops = forward * warm_up + (forward + backward) * (m - warm_up) + backward * warm_up
    if job.dp > 1:
        ops.append(ring_operation("all-reduce", job.gradient_bytes(stage), job.dp, DP_NEXT, DP_PREVIOUS, "dp", "dp"))
    return ops


def _all_slots(builder: PlanBuilder, job: TrainingJob) -> dict[int, list[Slot]]:
    """Slots of every GPU, in the order of the slot constants; SLOT_UNUSED where a GPU has no use for one."""
    slots: dict[int, list[Slot]] = {g: [(SLOT_UNUSED, 0)] * 9 for g in range(job.tp * job.dp * job.pp)}
    for pp in range(job.pp):
        for dp in range(job.dp):
            group = [job.gpu(t, dp, pp) for t in range(job.tp)]
            if job.tp > 1 and job.tp_packets:
                for gpu, ring in zip(group, ring_pairs(builder, tuple(group)), strict=True):
                    slots[gpu][TP_NEXT], slots[gpu][TP_PREVIOUS] = ring
            elif job.tp > 1:
                number = builder.group()
                for gpu in group:
                    slots[gpu][TP_GROUP] = (SLOT_GROUP, number)
            for gpu in group if pp + 1 < job.pp else ():
                following = gpu + job.tp * job.dp
                act, grad = builder.pair(gpu, following), builder.pair(following, gpu)
                slots[gpu][ACT_OUT] = slots[following][ACT_IN] = (SLOT_PAIR, act)
                slots[following][GRAD_OUT] = slots[gpu][GRAD_IN] = (SLOT_PAIR, grad)
        for tp in range(job.tp if job.dp > 1 else 0):
            ring_gpus = tuple(job.gpu(tp, d, pp) for d in range(job.dp))
            for gpu, ring in zip(ring_gpus, ring_pairs(builder, ring_gpus), strict=True):
                slots[gpu][DP_NEXT], slots[gpu][DP_PREVIOUS] = ring
    return slots


def plan_training(job: TrainingJob, n_gpu: int, server_of_gpu: np.ndarray, n_iteration: int = 1) -> WorkloadPlan:
    """The plan of a training job over all GPUs. Raises ConfigError if the layout does not fit."""
    check_job(job, n_gpu, server_of_gpu)
    builder = PlanBuilder("training", n_gpu, n_iteration)
    slots = _all_slots(builder, job)
    for stage in range(job.pp):
        program = stage_program(job, stage)
        for gpu in range(stage * job.tp * job.dp, (stage + 1) * job.tp * job.dp):
            builder.stream(gpu, "main", program, slots[gpu])
    return builder.finish(
        {
            "parameters": job.model.parameters(),
            "layout": f"TP{job.tp}-DP{job.dp}-PP{job.pp}",
            "microbatches": job.microbatches,
            "gradient_bytes_per_gpu": [job.gradient_bytes(s) for s in range(job.pp)],
            "activation_bytes_per_message": -(-job.activation_bytes() // job.tp),
        }
    )
