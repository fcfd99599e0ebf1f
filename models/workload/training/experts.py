"""Expert parallelism: which GPUs exchange tokens, which hold the same experts, and how they sum their gradients.

A stage's TP x DP GPUs, replica first, are cut into groups of EP: `ep` replicas of one tensor rank, or, where there are
fewer replicas, all of them for EP / DP tensor ranks that follow each other. With a server per replica an all-to-all so
runs between servers, along a rail of a rail-optimised fat-tree (over the spines between tensor ranks).
Why: Table 1 of Wormhole (NSDI'26) has EP8 where TP8 fills the servers, and its section 7 simulates the flows of EP but
not those of tensor parallelism; it does not say which GPUs form a group. SimAI, on which it simulates training, takes
the same tensor rank of EP servers in a row (MockNcclGroup), without telling stages apart, which is how EP8 goes with
DP4; a group here keeps to its stage, as experts belong to layers. Deviation from Megatron-Core, which numbers a stage's
GPUs tensor rank first (parallel folding with expert tensor parallelism 1): there EP8 is one server. As there, an expert
is whole on its GPU, TP x DP / EP GPUs hold the same ones, and tokens, which sequence parallelism has split, go straight
to them.

Gradients of experts are all-reduced over these copies. k copies in each server do that in three steps, as inside a
server NVLink carries them: a timed reduce-scatter, a ring over the servers for each 1/k, a timed all-gather; one timed
all-reduce if a single server has them all. If servers hold no equal number, or tp = "packets", it is one ring.
Traffic of an exchange between GPUs of one server takes the network's way like any other: on a rail-optimised fat-tree
from rail to rail over a spine, or over the NVSwitch with [topology] nvlink = "packets".
"""

import numpy as np

from models.workload.collectives import chunk_bytes, exchange_pairs, ring_operation, ring_pairs
from models.workload.plan import SLOT_GROUP, Operation, PlanBuilder, Slot
from models.workload.program import OP_EXCHANGE, OP_GROUP
from models.workload.training.job import COPY_GROUP, COPY_NEXT, COPY_PREVIOUS, EXCHANGE, TrainingJob


def _replica_first(job: TrainingJob, stage: int) -> list[int]:
    return [job.gpu(tp, dp, stage) for tp in range(job.tp) for dp in range(job.dp)]


def expert_groups(job: TrainingJob, stage: int) -> list[tuple[int, ...]]:
    """GPUs of a stage that exchange tokens with each other; the i-th of each has the i-th share of the experts."""
    gpus = _replica_first(job, stage)
    return [tuple(gpus[i : i + job.ep]) for i in range(0, len(gpus), job.ep)]


def expert_copies(job: TrainingJob, stage: int) -> list[tuple[int, ...]]:
    """GPUs of a stage that hold the same experts, for each share; ascending, so that a server's stand together."""
    gpus = _replica_first(job, stage)
    return [tuple(sorted(gpus[i :: job.ep])) for i in range(job.ep)]


def copies_in_server(job: TrainingJob, server_of_gpu: np.ndarray) -> int:
    """How many copies of an expert share a server, if it is the same number everywhere; else 1, so one ring."""
    if job.model.is_dense or job.tp_packets:
        return 1
    counts: set[int] = set()
    for stage in range(job.pp):
        for copies in expert_copies(job, stage):
            counts.update(np.unique(server_of_gpu[list(copies)], return_counts=True)[1].tolist())
    return counts.pop() if len(counts) == 1 else 1


def exchange_operations(job: TrainingJob) -> list[Operation]:
    """One all-to-all over an expert group, balanced: every GPU sends 1 / ep of its tokens' copies to each."""
    if job.ep == 1:
        return []
    size_bytes, n_peer = job.exchange_bytes(), job.ep - 1
    return [
        Operation(
            OP_EXCHANGE, EXCHANGE, EXCHANGE + n_peer, n_peer, chunk_bytes(size_bytes, job.ep),
            task="ep", task_bytes=size_bytes, tag="ep",
        )
    ]  # fmt: skip


def gradient_operations(job: TrainingJob, in_server: int) -> list[Operation]:
    """The all-reduce of a GPU's expert gradients over their copies, in_server of which share each server."""
    size_bytes, n_server = job.expert_gradient_bytes(), job.n_copy // in_server
    if size_bytes == 0 or job.n_copy == 1:
        return []
    if n_server == 1:
        return [_timed(job, size_bytes, in_server, 2)]
    share_bytes = chunk_bytes(size_bytes, in_server)
    ring = ring_operation("all-reduce", share_bytes, n_server, COPY_NEXT, COPY_PREVIOUS, "dp", "expert-dp")
    return [ring] if in_server == 1 else [half := _timed(job, size_bytes, in_server, 1), ring, half]


def _timed(job: TrainingJob, size_bytes: int, n_gpu: int, n_pass: int) -> Operation:
    time_ps = job.in_server_ps(size_bytes, n_gpu, n_pass)
    return Operation(OP_GROUP, COPY_GROUP, time_ps=time_ps, task="dp", task_bytes=size_bytes)


def add_expert_slots(builder: PlanBuilder, job: TrainingJob, in_server: int, slots: dict[int, list[Slot]]) -> None:
    """Queue pairs and groups of the exchanges and of the gradients; written into every GPU's slots."""
    for stage in range(job.pp if not job.model.is_dense else 0):
        for group in expert_groups(job, stage) if job.ep > 1 else ():
            for gpu, pairs in zip(group, exchange_pairs(builder, group), strict=True):
                slots[gpu].extend(pairs)
        for copies in expert_copies(job, stage):
            for first in range(0, len(copies) if in_server > 1 else 0, in_server):
                number = builder.group()
                for gpu in copies[first : first + in_server]:
                    slots[gpu][COPY_GROUP] = (SLOT_GROUP, number)
            for i_ring in range(in_server if job.n_copy > in_server else 0):
                ring = copies[i_ring::in_server]
                for gpu, pairs in zip(ring, ring_pairs(builder, ring), strict=True):
                    slots[gpu][COPY_NEXT], slots[gpu][COPY_PREVIOUS] = pairs
