"""An iteration's time: passes along the pipeline, gradients and parameters beside them, and the optimizer.

Of many microbatches the first and the last few are followed, and the rest takes as long as what is between them: a
schedule repeats itself every pp microbatches. Where replicas have unequal shares of the batch, the one that takes
longest counts: the others wait for it to sum their gradients. DualPipe has a formula instead (`choose.estimate_ps`).
"""

from dataclasses import replace

from models.workload.closed_form.exchanges import Exchanges, Message
from models.workload.closed_form.passes import Bucket, Passes
from models.workload.closed_form.pipeline import run_exchanging, run_passes
from models.workload.collectives import chunk_bytes
from models.workload.compiler.choose import estimate_ps
from models.workload.compiler.emission import shared_streams
from models.workload.compiler.job import Job
from models.workload.compiler.measured import update_ps
from models.workload.compiler.tokens import (
    NONE,
    Token,
    beside_passes,
    exchanges_at_once,
    stage_tokens,
    summed_last,
)
from pdes.errors import ConfigError

FOLLOWED = 2  # times pp microbatches


def iteration_ps(job: Job, exchanges: Exchanges, known: dict[object, int]) -> int:
    """Time of an iteration among others. known: filled, and used again for other jobs with the same `exchanges`."""
    layout = job.layout
    if layout.stage_tp:
        found = "is there, and an iteration with unequal sizes is only simulated, not worked out"
        raise ConfigError("[workload.parallel] stage_tp", found, "a run, or equal sizes to choose among")
    if layout.dual:
        return estimate_ps(job)
    if not layout.replica_microbatches:
        return _of_all_ps(job, exchanges, Passes(job, exchanges, known))
    return max(
        _of_all_ps(replace(job, layout=layout.of_replica(replica)), exchanges, Passes(job, exchanges, known, replica))
        for replica in unlike(job, exchanges)
    )


def unlike(job: Job, exchanges: Exchanges) -> list[int]:
    """Replicas, one of each sort: GPUs by stage, and microbatches."""
    layout, found = job.layout, {}
    stages = [exchanges.ranks.alike(stage) for stage in range(layout.pp)]
    n = layout.tp * layout.cp
    for replica in range(layout.dp):
        gpus = [gpu for stage in stages for gpu in stage[replica * n : (replica + 1) * n]]
        kinds = tuple((job.device(gpu), job.slowness.get(gpu, 1.0)) for gpu in gpus)
        found.setdefault((kinds, layout.microbatches_of(replica)), replica)
    return list(found.values())


def _of_all_ps(job: Job, exchanges: Exchanges, passes: Passes) -> int:
    """As if all replicas were as long."""
    layout, m = job.layout, job.layout.n_microbatch
    few = FOLLOWED * layout.pp + m % layout.pp
    if m <= few + layout.pp:
        return _followed_ps(job, exchanges, passes)
    short_ps, long_ps = (
        _followed_ps(replace(job, layout=replace(layout, n_microbatch=n)), exchanges, passes)
        for n in (few, few + layout.pp)
    )
    return long_ps + (long_ps - short_ps) * (m - few - layout.pp) // layout.pp


def _followed_ps(job: Job, exchanges: Exchanges, passes: Passes) -> int:
    layout, shape = job.layout, job.shape
    stages = [_Stage(job, passes, stage) for stage in range(layout.pp)]
    whole = layout.microbatch * shape.sequence * shape.hidden * layout.activation_bytes
    size_bytes = chunk_bytes(whole, layout.cp * layout.tp)
    tokens = [stage.tokens for stage in stages]

    def message(stage: int, is_back: bool) -> Message:
        return exchanges.message(stage, size_bytes, is_back)

    if exchanges_at_once(job):
        run_exchanging(stages, tokens, layout.n_chunk, message)
    else:
        run_passes(stages, tokens, layout.n_chunk, message, job.overlap_pipeline)
    ends_ps = [stage.reduced_ps() for stage in stages]
    if shape.tied_embeddings and layout.pp > 1:
        tied_bytes = chunk_bytes(shape.vocabulary * shape.hidden, layout.tp) * layout.reduce_bytes
        both_ps = max(ends_ps[0], ends_ps[-1]) + exchanges.time_ps("embedding", "all-reduce", tied_bytes)
        ends_ps[0] = ends_ps[-1] = both_ps
    for i, stage in enumerate(stages):
        ends_ps[i] += stage.optimizer_ps() + job.iteration_overhead_ps
    return max(end_ps - (stage.began_ps or 0) for end_ps, stage in zip(ends_ps, stages, strict=True))


class _Stage:
    """A GPU of a stage: its main stream, and when those beside it are free."""

    def __init__(self, job: Job, passes: Passes, stage: int) -> None:
        self.job, self.passes, self.stage = job, passes, stage
        self.now_ps, self.gathered_ps, self.summed_ps, self._before_ps, self._next_ps = 0, 0, 0, 0, 0
        self.began_ps: int | None = None
        self.beside = beside_passes(job)
        self.one_by_one = any(shared_streams(device.copy_engines) for device in job.devices)  # gathered and summed
        self.tokens = stage_tokens(job, stage, self.beside)
        """Its passes in order."""
        self._in_line_ps = 0
        if job.layout.zero and not self.beside.gathers:
            self._in_line_ps = self._sum_of(2)
        self._bucket_gathered_ps: dict[int, list[int]] = {}  # by chunk, where stages gather at the same moment
        for chunk in range(2) if self.beside.gathers_together else ():
            self._gather(chunk)

    def _sum_of(self, field: int) -> int:
        chunks = range(self.job.layout.n_chunk)
        return sum(b.n * b[field] for chunk in chunks for b in self.passes.buckets(self.stage, chunk, "forward"))

    def run(self, token: Token, ready_ps: int) -> None:
        """A pass, once its message is there."""
        if self.began_ps is None:
            self.began_ps = max(0, ready_ps - self._in_line_ps)
            ready_ps = max(ready_ps, self.began_ps + self._in_line_ps)
        if token.starts != NONE:
            self._gather(token.starts)
        self.now_ps = max(self.now_ps, ready_ps)
        buckets = self.passes.buckets(self.stage, token.chunk, token.which)
        if not (token.gathers or token.reduces):
            for bucket in buckets:
                self._compute(bucket.n * bucket.busy_ps)
        elif self.beside.gathers_together and token.gathers:
            gathered_ps = iter(self._bucket_gathered_ps[token.chunk])
            for bucket in buckets:
                for _ in range(bucket.n):
                    self.now_ps = max(self.now_ps, next(gathered_ps))
                    self._compute(bucket.busy_ps)
        else:
            self._run_by_buckets(token, buckets)
        if token.sums != NONE:
            self._sum(token.sums)

    def _gather(self, chunk: int) -> None:
        """A chunk's parameters, from now on."""
        begin_ps = self._free_ps(self.gathered_ps, self.now_ps)
        found = self._bucket_gathered_ps[chunk] = []
        for bucket in self.passes.buckets(self.stage, chunk, "forward"):
            for _ in range(bucket.n):
                begin_ps += bucket.gather_ps + self._shared_ps(bucket.gather_ps, begin_ps)
                found.append(begin_ps)
        self.gathered_ps = self._next_ps = begin_ps

    def _sum(self, chunk: int) -> None:
        """A chunk's gradients, from now on."""
        buckets = self.passes.buckets(self.stage, chunk, "backward")
        begin_ps = self._free_ps(self.summed_ps, self.now_ps)
        self.summed_ps = begin_ps + sum(bucket.n * bucket.reduce_ps for bucket in buckets)

    def _free_ps(self, own_ps: int, ready_ps: int) -> int:
        """When an exchange that is ready can begin: behind its own stream, or behind all that share its engine."""
        return max(ready_ps, self.gathered_ps, self.summed_ps) if self.one_by_one else max(ready_ps, own_ps)

    def _run_by_buckets(self, token: Token, buckets: list[Bucket]) -> None:
        every = [bucket for bucket in buckets for _ in range(bucket.n)]
        waiting: list[tuple[int, int]] = []  # when a sum could begin, and what it takes
        for i, bucket in enumerate(every):
            if token.gathers:  # one ahead of what is computed
                begin_ps = self._free_ps(self.gathered_ps, self._before_ps)
                self.gathered_ps = begin_ps + bucket.gather_ps + self._shared_ps(bucket.gather_ps, begin_ps)
                self.now_ps = max(self.now_ps, self.gathered_ps)
                self._before_ps = self.now_ps
                has_next = i + 1 < len(every) or self.job.layout.zero == 3
                following = every[(i + 1) % len(every)]
                self._next_ps = self.now_ps + (following.gather_ps if has_next else 0)
            self._sum_waiting(waiting)
            self._compute(bucket.busy_ps)
            if token.reduces:
                waiting.append((self.now_ps, bucket.reduce_ps))
            if not (token.gathers and self.one_by_one):  # else behind what is gathered ahead
                self._sum_waiting(waiting)
        self._sum_waiting(waiting)

    def _sum_waiting(self, waiting: list[tuple[int, int]]) -> None:
        for ready_ps, time_ps in waiting:
            self.summed_ps = self._free_ps(self.summed_ps, ready_ps) + time_ps
        waiting.clear()

    def _shared_ps(self, time_ps: int, begin_ps: int) -> int:
        """What both of two exchanges lose that share the NICs: parameters, and gradients that are under way."""
        group = "shard" if self.job.layout.has_shard_copies else "dp"
        if self.one_by_one or self.summed_ps <= begin_ps or not self.passes.exchanges.is_between_servers(group):
            return 0
        lost_ps = min(time_ps, self.summed_ps - begin_ps)
        self.summed_ps += lost_ps
        return lost_ps

    def _compute(self, time_ps: int) -> None:
        """Slower while gradients, or the next parameters, are under way."""
        beside_ps = min(time_ps, max(0, max(self.summed_ps, self._next_ps) - self.now_ps))
        self.now_ps += time_ps + round(self.passes.loss_frac * beside_ps)

    def reduced_ps(self) -> int:
        """When its gradients are summed."""
        for chunk in summed_last(self.tokens) if self.beside.sums_together else ():
            self._sum(chunk)
        if self.beside.sums:
            return max(self.now_ps, self.summed_ps)
        return self.now_ps + self._sum_of(3)

    def optimizer_ps(self) -> int:
        """Of its share of the parameters, on its slowest GPU."""
        return max(update_ps(self.job, self.stage, one) for one in set(self.job.devices))
