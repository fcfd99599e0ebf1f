"""Layers of each pipeline stage by the speed and the memory of its GPUs (HeteroSim, section 4.2, "stage boundaries").

Layers are dealt out one at a time, each to the stage that would be done first with it and has room; that is the least
time of the slowest stage where all layers take as long. Then single layers move from the busiest stages to others while
the closed form of an iteration says that it helps, which also knows warm-up, messages and gradients. The even split is
one of the candidates, so that nothing is chosen that the closed form calls slower.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from models.compute.memory import memory_of
from models.compute.stages import has_part, stage_layers
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.closed_form.passes import Passes
from models.workload.compiler.job import Job
from models.workload.placing.shares import Shares, deal, moved


class Layers:
    """Of one job, wherever its ranks are. It keeps how many layers fit a stage's memory."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._most: dict[tuple[int, int], int] = {}
        self._kinds = Counter(job.shape.layer_kind(i) for i in range(job.shape.layers))

    def dealt(self, exchanges: Exchanges, known: dict[object, int]) -> Shares:
        """Layers of each stage by the speed of its slowest GPU, as far as memory allows. known: see `iteration_ps`."""
        job, pp = self.job, self.job.layout.pp
        layer_ps, ends_ps = self._times_ps(exchanges, known)
        limits = job.memory_of_stages(exchanges.ranks)
        most = [self._most_layers(stage, limits[stage]) for stage in range(pp)]
        if sum(most) < job.shape.layers:  # it does not fit, whatever is done: the check says so
            most = [job.shape.layers] * pp
        return deal(job.shape.layers, ends_ps, layer_ps, most)

    def best(self, exchanges: Exchanges) -> Shares:
        """The fastest by the closed form, of those that are tried."""
        known: dict[object, int] = {}
        limits = self.job.memory_of_stages(exchanges.ranks)
        layer_ps, ends_ps = self._times_ps(exchanges, known)
        even = tuple(len(stage_layers(self.job.shape, self.job.layout, i)[0]) for i in range(self.job.layout.pp))
        times: dict[Shares, int] = {}

        def time_ps(layers: Shares) -> int:
            if layers not in times:
                times[layers] = iteration_ps(with_layers(self.job, layers), exchanges, known)
            return times[layers]

        dealt = self.dealt(exchanges, known)
        fits_evenly = min(even) > 0 and self._fits(even, limits)
        begin = min([even, dealt] if fits_evenly else [dealt], key=time_ps)
        return moved(
            begin, lambda now, i: ends_ps[i] + now[i] * layer_ps[i], time_ps, lambda one: self._fits(one, limits)
        )

    def fits(self, layers: Shares, exchanges: Exchanges) -> bool:
        """Whether every stage fits the memory of its GPUs."""
        return self._fits(layers, self.job.memory_of_stages(exchanges.ranks))

    def _fits(self, layers: Shares, limits: Sequence[int]) -> bool:
        return all(n <= self._most_layers(stage, limits[stage]) for stage, n in enumerate(layers))

    def _times_ps(self, exchanges: Exchanges, known: dict[object, int]) -> tuple[list[int], list[int]]:
        """(a layer, embedding or head) of a microbatch, by stage."""
        job, passes, n_layer = self.job, Passes(self.job, exchanges, known), self.job.shape.layers
        layer_ps, ends_ps = [], []
        for stage in range(job.layout.pp):
            layer_ps.append(sum(n * passes.layer_ps(stage, kind) for kind, n in self._kinds.items()) // n_layer)
            ends = [part for part in ("embedding", "head") if has_part(job.layout, stage, part)]
            ends_ps.append(sum(passes.layer_ps(stage, part) for part in ends))
        return layer_ps, ends_ps

    def _most_layers(self, stage: int, memory_bytes: int) -> int:
        """That fit a stage; 1 at the least, as a stage has that anyhow."""
        key = stage, memory_bytes
        if key not in self._most:
            low, high = 1, self.job.shape.layers
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if self._need_bytes(stage, middle) <= memory_bytes else (low, middle - 1)
            self._most[key] = low
        return self._most[key]

    def _need_bytes(self, stage: int, n: int) -> int:
        """With n layers, as many before and behind them as there are stages."""
        job, pp = self.job, self.job.layout.pp
        layers = [0] * pp
        layers[stage] = n
        if stage:
            layers[0] = (job.shape.layers - n) * stage // (pp - 1)
        layout = replace(job.layout, stage_layers=tuple(layers))
        return memory_of(job.shape, layout, stage, job.memory_schedule).total_bytes


def with_layers(job: Job, layers: Shares) -> Job:
    """The same job with so many layers on each stage."""
    return replace(job, layout=replace(job.layout, stage_layers=layers))
