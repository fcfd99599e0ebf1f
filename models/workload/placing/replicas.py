"""Microbatches of each replica by the speed of its GPUs (HeteroSim, section 4.1; uneven shares of the batch).

A replica of stages that take t_i for a microbatch takes sum(t) + (m - 1) max(t) for m of them. Microbatches are dealt
out by that, then moved while the closed form of an iteration says that it helps. The even split is a candidate.
"""

from dataclasses import replace

from models.compute.memory import memory_of
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.closed_form.passes import Passes
from models.workload.compiler.job import Job
from models.workload.compiler.parts import chunk_parts
from models.workload.placing.shares import Shares, deal, moved


def dealt_batch(job: Job, exchanges: Exchanges, known: dict[object, int]) -> Shares:
    """Microbatches of each replica by how long its slowest stage takes for one. known: see `iteration_ps`."""
    first_ps, each_ps = _times_ps(job, exchanges, known)
    n = job.layout.n_microbatch_in_all
    return deal(n, first_ps, each_ps, [n] * job.layout.dp)


def best_batch(job: Job, exchanges: Exchanges) -> Shares:
    """The fastest by the closed form, of those that are tried."""
    known: dict[object, int] = {}
    times: dict[Shares, int] = {}
    first_ps, each_ps = _times_ps(job, exchanges, known)
    limits = job.memory_of_stages(exchanges.ranks)

    def time_ps(shares: Shares) -> int:
        if shares not in times:
            times[shares] = iteration_ps(with_batch(job, shares), exchanges, known)
        return times[shares]

    def fits(shares: Shares) -> bool:
        layout = with_batch(job, shares).layout
        needs = (memory_of(job.shape, layout, stage, job.memory_schedule).total_bytes for stage in range(layout.pp))
        return all(need <= limit for need, limit in zip(needs, limits, strict=True))

    even = (job.layout.n_microbatch,) * job.layout.dp
    dealt = dealt_batch(job, exchanges, known)
    begin = min([even, dealt] if fits(dealt) else [even], key=time_ps)
    return moved(begin, lambda now, i: first_ps[i] + now[i] * each_ps[i], time_ps, fits)


def with_batch(job: Job, shares: Shares) -> Job:
    """The same job with so many microbatches of each replica."""
    return replace(job, layout=replace(job.layout, replica_microbatches=shares))


def _times_ps(job: Job, exchanges: Exchanges, known: dict[object, int]) -> tuple[list[int], list[int]]:
    """(what a replica takes besides, for each microbatch), by replica."""
    first_ps, each_ps = [], []
    for replica in range(job.layout.dp):
        passes = Passes(job, exchanges, known, replica)
        stages = [
            sum(n * passes.layer_ps(stage, part) for part, n in chunk_parts(job, stage, 0))
            for stage in range(job.layout.pp)
        ]
        first_ps.append(sum(stages) - max(stages))
        each_ps.append(max(stages))
    return first_ps, each_ps
