"""One training iteration of a GPT with tensor, pipeline, data and expert parallelism, as streams.

Compute model (stated, simple): a layer's forward pass of b sequences of s tokens costs 24 b s h^2 + 4 b s^2 h FLOPs
(Narayanan et al. SC'21, section 3 and appendix), the logits 2 b s h V on the last stage, the backward pass twice the
forward, all divided by TP and by peak x efficiency. No recomputation; the optimizer step takes no time.
Tensor parallelism: 2 all-reduces of 2 b s h bytes per layer and direction; each takes
alpha + 2 (tp-1)/tp bytes / bandwidth, and starts when the last GPU of the group is there (or they are packets).
Pipeline: 1F1B (Narayanan et al. SOSP'19), activations and their gradients 2 b s h / tp bytes per GPU, to the GPU of the
same tensor rank. Data: a ring all-reduce of the 2-byte gradients of the GPU's parameters after its last backward pass.
Ranks are laid out TP first, then DP, then PP: GPU = tp + TP (dp + DP pp).

With experts (Lepikhin et al. 2021, GShard; routing is balanced): a token goes through k of a layer's E feed-forward
networks, so the layer costs 8 b s h^2 + 4 b s^2 h + 16 k b s h^2 FLOPs. Per layer, microbatch and direction there are
two all-to-alls over the EP GPUs of a group, dispatch and combine, before and after its experts compute, in which every
GPU sends 2 k b s h / (TP EP) bytes to each other one; and one tensor-parallel all-reduce, that of attention. A GPU has
E / EP whole experts of 8 h^2 + 5 h parameters in each of its L / PP layers. Their gradients are all-reduced over the
TP DP / EP GPUs that hold the same ones, after those of the rest, 4 h^2 + 8 h parameters per layer, which are split
over TP and all-reduced over DP as above. `experts` says which GPUs form a group, and why.
"""

import numpy as np

from models.workload.collectives import ring_operation, ring_pairs
from models.workload.operations import Operation, Repeat
from models.workload.plan import SLOT_GROUP, SLOT_PAIR, SLOT_UNUSED, PlanBuilder, Slot, WorkloadPlan
from models.workload.program import OP_COMPUTE, OP_GROUP, OP_RECEIVE, OP_SEND
from models.workload.training.experts import (
    add_expert_slots,
    copies_in_server,
    exchange_operations,
    gradient_operations,
)
from models.workload.training.job import (
    ACT_IN,
    ACT_OUT,
    DP_NEXT,
    DP_PREVIOUS,
    EXCHANGE,
    GRAD_IN,
    GRAD_OUT,
    TP_GROUP,
    TP_NEXT,
    TP_PREVIOUS,
    TrainingJob,
    check_job,
)
from models.workload.training.transformer import PRESETS, GptModel

__all__ = ["PRESETS", "GptModel", "TrainingJob", "plan_training", "stage_program"]


def _tp_operations(job: TrainingJob, n_reduce: int) -> list[Operation]:
    """Tensor-parallel all-reduces: timed as one, or ring by ring."""
    if job.tp == 1:
        return []
    if job.tp_packets:
        one = ring_operation("all-reduce", job.activation_bytes(), job.tp, TP_NEXT, TP_PREVIOUS, "tp", "tp")
        return [one] * n_reduce
    time_ps, size_bytes = n_reduce * job.tp_all_reduce_ps(), n_reduce * job.activation_bytes()
    return [Operation(OP_GROUP, TP_GROUP, time_ps=time_ps, task="tp", task_bytes=size_bytes)]


def _compute(forward_ps: int, forward: bool) -> Operation:
    if forward:
        return Operation(OP_COMPUTE, time_ps=forward_ps, task="forward")
    return Operation(OP_COMPUTE, time_ps=2 * forward_ps, task="backward")


def _dense_layers(job: TrainingJob, stage: int, forward: bool) -> list[Operation]:
    """A stage's layers on one microbatch, communication behind all computing."""
    return [_compute(job.forward_ps(stage), forward), *_tp_operations(job, 2 * job.layers_per_stage)]


def _expert_layers(job: TrainingJob, stage: int, forward: bool) -> list[Operation]:
    """A stage's layers on one microbatch: attention, dispatch, experts, combine; or the same backwards."""
    b, model = job.microbatch, job.model
    attention, experts, logits = (
        _compute(job.compute_ps(flops), forward)
        for flops in (model.attention_flops(b), model.feed_forward_flops(b), model.logits_flops(b))
    )
    exchange, tp = exchange_operations(job), _tp_operations(job, 1)
    head = [logits] if stage == job.pp - 1 else []
    if forward:
        return [attention, *tp, *exchange, experts, *exchange] * job.layers_per_stage + head
    return head + [*exchange, experts, *exchange, attention, *tp] * job.layers_per_stage


def _pass_operations(job: TrainingJob, stage: int, forward: bool) -> list[Operation]:
    """Operations of one microbatch's forward or backward pass on one GPU."""
    act_bytes = -(-job.activation_bytes() // job.tp)
    first, last = stage == 0, stage == job.pp - 1
    ops = []
    if not (first if forward else last):
        ops.append(Operation(OP_RECEIVE, ACT_IN if forward else GRAD_IN, task="pp-wait", task_bytes=act_bytes))
    ops += (_dense_layers if job.model.is_dense else _expert_layers)(job, stage, forward)
    if not (last if forward else first):
        ops.append(Operation(OP_SEND, ACT_OUT if forward else GRAD_OUT, size_bytes=act_bytes, tag="pp"))
    return ops


def stage_program(job: TrainingJob, stage: int, in_server: int = 1) -> list[Operation | Repeat]:
    """What every GPU of a stage does in an iteration: 1F1B, then the gradients' all-reduces.

    in_server: copies of an expert in each server, see `experts.copies_in_server`.
    """
    m = job.microbatches
    warm_up = min(job.pp - stage - 1, m)
    forward, backward = _pass_operations(job, stage, True), _pass_operations(job, stage, False)
    steady = tuple(forward + backward)
    ops: list[Operation | Repeat] = [*forward * warm_up]
    ops += [Repeat(m - warm_up, steady)] if m - warm_up > 1 else steady * (m - warm_up)
    ops += backward * warm_up
    if job.dp > 1:
        ops.append(ring_operation("all-reduce", job.gradient_bytes(stage), job.dp, DP_NEXT, DP_PREVIOUS, "dp", "dp"))
    return ops + gradient_operations(job, in_server)


def _all_slots(builder: PlanBuilder, job: TrainingJob) -> dict[int, list[Slot]]:
    """Slots of every GPU, in the order of the slot constants; SLOT_UNUSED where a GPU has no use for one."""
    slots: dict[int, list[Slot]] = {g: [(SLOT_UNUSED, 0)] * EXCHANGE for g in range(job.tp * job.dp * job.pp)}
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
    slots, in_server = _all_slots(builder, job), copies_in_server(job, server_of_gpu)
    add_expert_slots(builder, job, in_server, slots)
    for stage in range(job.pp):
        program = stage_program(job, stage, in_server)
        for gpu in range(stage * job.tp * job.dp, (stage + 1) * job.tp * job.dp):
            builder.stream(gpu, "main", program, slots[gpu])
    return builder.finish(_facts(job))


def _facts(job: TrainingJob) -> dict[str, object]:
    """What the summary says about a job."""
    facts: dict[str, object] = {
        "parameters": job.model.parameters(),
        "layout": job.layout,
        "microbatches": job.microbatches,
        "model_flops_per_iteration": job.model_flops(),
        "peak_flops_per_s": job.peak_flops_per_s * job.tp * job.dp * job.pp,
        "gradient_bytes_per_gpu": [job.gradient_bytes(s) for s in range(job.pp)],
        "activation_bytes_per_message": -(-job.activation_bytes() // job.tp),
    }
    if not job.model.is_dense:
        facts["experts_per_gpu_and_layer"] = job.model.n_expert // job.ep
        facts["expert_gradient_bytes_per_gpu"] = job.expert_gradient_bytes()
        facts["all_to_all_bytes_per_gpu"] = job.exchange_bytes()
    return facts
