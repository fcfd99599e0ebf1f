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

MOST_MOVES = 12  # of single layers
N_DONOR = 2  # stages that they may leave: the busiest


class Layers:
    """Of one job, wherever its ranks are. It keeps how many layers fit a stage's memory."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._most: dict[tuple[int, int], int] = {}
        self._kinds = Counter(job.shape.layer_kind(i) for i in range(job.shape.layers))

    def dealt(self, exchanges: Exchanges, known: dict[object, int]) -> tuple[int, ...]:
        """Layers of each stage by the speed of its slowest GPU, as far as memory allows. known: see `iteration_ps`."""
        job, pp = self.job, self.job.layout.pp
        layer_ps, ends_ps = self._times_ps(exchanges, known)
        limits = job.memory_of_stages(exchanges.ranks)
        most = [self._most_layers(stage, limits[stage]) for stage in range(pp)]
        if sum(most) < job.shape.layers:  # it does not fit, whatever is done: the check says so
            most = [job.shape.layers] * pp
        dealt = [1] * pp
        for _ in range(job.shape.layers - pp):
            free = [stage for stage in range(pp) if dealt[stage] < most[stage]] or range(pp)
            stage = min(free, key=lambda i: (ends_ps[i] + (dealt[i] + 1) * layer_ps[i], i))
            dealt[stage] += 1
        return tuple(dealt)

    def best(self, exchanges: Exchanges) -> tuple[int, ...]:
        """The fastest by the closed form, of those that are tried."""
        known: dict[object, int] = {}
        limits = self.job.memory_of_stages(exchanges.ranks)
        layer_ps, ends_ps = self._times_ps(exchanges, known)
        even = tuple(len(stage_layers(self.job.shape, self.job.layout, i)[0]) for i in range(self.job.layout.pp))
        times: dict[tuple[int, ...], int] = {}

        def time_ps(layers: tuple[int, ...]) -> int:
            if layers not in times:
                times[layers] = iteration_ps(with_layers(self.job, layers), exchanges, known)
            return times[layers]

        dealt = self.dealt(exchanges, known)
        fits_evenly = min(even) > 0 and self._fits(even, limits)
        now = min([even, dealt] if fits_evenly else [dealt], key=time_ps)
        for _ in range(MOST_MOVES):
            busiest = sorted(range(len(now)), key=lambda i: -ends_ps[i] - now[i] * layer_ps[i])
            moves = [
                _moved(now, donor, taker)
                for donor in busiest[:N_DONOR] if now[donor] > 1
                for taker in range(len(now)) if taker != donor
            ]  # fmt: skip
            faster = [one for one in moves if self._fits(one, limits) and time_ps(one) < time_ps(now)]
            if not faster:
                break
            now = min(faster, key=time_ps)
        return now

    def fits(self, layers: tuple[int, ...], exchanges: Exchanges) -> bool:
        """Whether every stage fits the memory of its GPUs."""
        return self._fits(layers, self.job.memory_of_stages(exchanges.ranks))

    def _fits(self, layers: tuple[int, ...], limits: Sequence[int]) -> bool:
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


def with_layers(job: Job, layers: tuple[int, ...]) -> Job:
    """The same job with so many layers on each stage."""
    return replace(job, layout=replace(job.layout, stage_layers=layers))


def _moved(layers: tuple[int, ...], donor: int, taker: int) -> tuple[int, ...]:
    found = list(layers)
    found[donor] -= 1
    found[taker] += 1
    return tuple(found)
