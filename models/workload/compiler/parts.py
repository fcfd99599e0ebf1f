"""The parts of a model that a pipeline stage has, chunk by chunk, and the parameters that a GPU of it updates."""

from itertools import groupby

from models.compute.layout import Layout
from models.compute.parameters import parameters_of
from models.compute.stages import place_of, stage_layers
from models.workload.collectives import chunk_bytes
from models.workload.compiler.job import Job


def is_first(job: Job, stage: int, chunk: int) -> bool:
    """Whether a chunk of a stage is where microbatches enter the model."""
    return place_of(job.layout, stage, chunk) == 0


def is_last(job: Job, stage: int, chunk: int) -> bool:
    """Whether a chunk of a stage is where they leave it, and turn round."""
    return place_of(job.layout, stage, chunk) == job.layout.pp * job.layout.vpp - 1


def chunk_parts(job: Job, stage: int, chunk: int) -> list[tuple[str, int]]:
    """(part, how many layers in a row) of a chunk, in the order of the forward pass."""
    shape, layout = job.shape, job.layout
    parts: list[str] = [shape.layer_kind(i) for i in stage_layers(shape, layout, stage)[chunk]]
    if is_first(job, stage, chunk):
        parts.insert(0, "embedding")
    if is_last(job, stage, chunk):
        parts.append("head")
    return [(part, len(list(same))) for part, same in groupby(parts)]


def buckets(job: Job, layout: Layout, part: str, n: int) -> list[tuple[int, int]]:
    """(how many buckets, layers in each) of n layers in a row; with FSDP every layer is one."""
    own = parameters_of(job.shape, layout, part)
    n_own = max(1, own.dense_parameters + own.expert_parameters)
    each = 1 if layout.zero == 3 else min(n, -(-job.bucket_parameters // n_own))
    return [(n // each, each), *([(1, n % each)] if n % each else [])]


def gathered(job: Job, layout: Layout, part: str, n_layer: int) -> list[tuple[str, str, int]]:
    """(group, kind of collective, bytes over all of it) of what makes a bucket's parameters whole."""
    own = parameters_of(job.shape, layout, part)
    dense = "shard" if job.layout.has_shard_copies else "dp"
    sizes = ((dense, own.dense_parameters), ("edp", own.expert_parameters))
    return [(group, "all-gather", n_layer * n * job.layout.weight_bytes) for group, n in sizes if n]


def summed(job: Job, layout: Layout, part: str, n_layer: int) -> list[tuple[str, str, int]]:
    """The same of what sums its gradients, in turn; where shares have copies, these sum theirs behind it."""
    own, value_bytes = parameters_of(job.shape, layout, part), job.layout.reduce_bytes
    sizes = (("dp", own.dense_parameters), ("edp", own.expert_parameters))
    kind = "reduce-scatter" if job.layout.zero else "all-reduce"
    found = [(group, kind, n_layer * n * value_bytes) for group, n in sizes if n]
    if not job.layout.has_shard_copies:
        return found
    apart = [("shard", kind, size_bytes) for _, kind, size_bytes in found]
    return apart + [("copies", "all-reduce", chunk_bytes(size_bytes, job.layout.n_shard)) for _, _, size_bytes in found]


def updated_parameters(job: Job, stage: int) -> int:
    """Parameters that the optimizer of a stage's GPU updates: its share of each part, if states are split."""
    layout, n_own = job.layout, 0
    for chunk in range(layout.n_chunk):
        for part, n in chunk_parts(job, stage, chunk):
            own = parameters_of(job.shape, layout.without_layers, part)
            dense, expert = n * own.dense_parameters, n * own.expert_parameters
            if layout.zero:
                dense, expert = chunk_bytes(dense, layout.n_shard), chunk_bytes(expert, layout.n_expert_sharer)
            n_own += dense + expert
    return n_own
