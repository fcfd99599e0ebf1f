"""The microbatch, number of chunks and recompute that are left to the program to choose.

A layout left open takes the value with the least predicted time among those that fit. The prediction is a closed form,
for choosing only: microbatches and the pipeline's bubble times what the slowest stage takes, exchanges inside a server
by their bytes, and messages between stages at the rate of a NIC, which every chunk waits for.
"""

from dataclasses import replace

from models.compute.lower import segments
from models.compute.memory import fullest_stage
from models.compute.recompute import Recompute
from models.compute.stages import has_part, stage_layers
from models.workload.compiler.job import Job
from models.workload.nccl.in_server import in_server_ps

MAX_MICROBATCH = 64


def stage_ps(job: Job, stage: int) -> int:
    """Time of one microbatch's forward and backward pass over all chunks of a stage, nothing overlapped."""
    shape, layout = job.shape, job.layout
    parts: list[str] = [shape.layer_kind(i) for chunk in stage_layers(shape, layout, stage) for i in chunk]
    parts += [part for part in ("embedding", "head") if has_part(layout, stage, part)]
    total_ps, device = 0, job.devices[0]
    for part in parts:
        for which in ("forward", "backward"):
            for segment in segments(shape, layout, device, part, which):
                total_ps += segment.time_ps
                if segment.kind != "compute" and not segment.overlapped:
                    n = layout.group_size(segment.group)
                    if n > 1:
                        kind, n_step = (segment.kind, 1) if segment.kind != "ring" else ("send-receive", n - 1)
                        total_ps += n_step * in_server_ps(job.in_server(), kind, segment.size_bytes, n)
    return total_ps // layout.n_copy  # a microbatch is in one of them


def estimate_ps(job: Job) -> int:
    """Predicted time of an iteration, for choosing among layouts."""
    layout = job.layout
    slowest_ps = max(stage_ps(job, stage) for stage in {0, layout.pp // 2, layout.pp - 1})
    slowest_ps += 2 * layout.vpp * _message_ps(job) if layout.pp > 1 else 0
    n_wait = layout.pp // 2 - 1 if layout.dual else layout.pp - 1
    return slowest_ps * layout.n_microbatch + slowest_ps * n_wait // layout.vpp


def _message_ps(job: Job) -> int:
    """Activations of a microbatch to the next stage: 10 us and their bytes, which each GPU has a share of."""
    layout = job.layout
    whole = layout.microbatch * job.shape.sequence * job.shape.hidden * layout.activation_bytes
    return 10_000_000 + whole // (layout.tp * layout.cp) * 8 * 1000 // (max(job.nic_goodput_bps, 10**9) // 10**9)


def choices(
    job: Job, replica_batch: int, microbatch: int | None, vpp: int | None, recompute: Recompute | None = "none"
) -> list[Job]:
    """The job with every microbatch, a power of two that divides a replica's batch, number of chunks and recompute.

    None: open.
    """
    sizes = [2**i for i in range(8) if 2**i <= MAX_MICROBATCH and replica_batch % 2**i == 0]
    most = job.shape.layers // job.layout.pp
    chunks = [v for v in range(1, most + 1) if most % v == 0] if job.layout.pp > 1 else [1]
    found = [
        replace(job, layout=replace(job.layout, microbatch=b, n_microbatch=replica_batch // b, vpp=v, recompute=again))
        for b in (sizes if microbatch is None else [microbatch])
        for v in (chunks if vpp is None else [vpp])
        for again in (("none", "selective", "full") if recompute is None else (recompute,))
    ]
    return [one for one in found if _can_run(one)] or found[:1]


def _can_run(job: Job) -> bool:
    """Whether the schedule takes as many microbatches, and chunks."""
    layout = job.layout
    if layout.dual and (layout.n_microbatch % 2 or layout.n_microbatch < 2 * layout.pp):
        return False
    return layout.vpp == 1 or (job.schedule == "1f1b" and layout.n_microbatch % layout.pp == 0)


def choose(
    job: Job, replica_batch: int, microbatch: int | None, vpp: int | None, recompute: Recompute | None = "none"
) -> Job:
    """The fastest of the choices that fit; if none fits, the one that needs least memory."""
    found = choices(job, replica_batch, microbatch, vpp, recompute)
    sizes = [fullest_stage(one.shape, one.layout, one.memory_schedule)[1].total_bytes for one in found]
    fitting = [one for one, size in zip(found, sizes, strict=True) if size <= job.least_memory_bytes]
    return min(fitting, key=estimate_ps) if fitting else found[sizes.index(min(sizes))]
