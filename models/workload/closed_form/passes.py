"""How long a GPU is busy with one pass over a chunk of its stage, and with what it sends beside it."""

from dataclasses import replace
from typing import NamedTuple

from models.compute.devices import Device
from models.compute.layout import Layout
from models.compute.lower import SLOWED_1024, segments
from models.workload.closed_form.exchanges import Exchanges
from models.workload.compiler.job import Job
from models.workload.compiler.measured import measured_ps
from models.workload.compiler.parts import buckets, chunk_parts, gathered, summed


class Bucket(NamedTuple):
    """Layers whose parameters are gathered, and whose gradients are reduced, together: n of them in a row."""

    n: int
    busy_ps: int
    gather_ps: int
    reduce_ps: int


class Passes:
    """Of one job. known: times that other jobs with the same `exchanges` and `shape` have worked out.

    replica: the only one that is looked at; -1: all, of which the slowest counts in each stage.
    """

    def __init__(self, job: Job, exchanges: Exchanges, known: dict[object, int], replica: int = -1) -> None:
        self.job, self.exchanges, self._known, self.replica = job, exchanges, known, replica
        self.layout = own_share(job.layout, max(job.expert_loads()))
        self.loss_frac = max(self._mean_loss_frac(device) for device in set(job.devices))
        self.tells_losses_apart = any(device.fit.tells_losses_apart for device in set(job.devices))
        self._buckets: dict[tuple[int, int, str], list[Bucket]] = {}

    def _mean_loss_frac(self, device: Device) -> float:
        """What a layer's kernels lose on average beside an exchange of all their time."""
        job, fit = self.job, device.fit
        if not fit.tells_losses_apart or job.pass_times_ps is not None or device.layers is not None:
            return fit.overlap_loss_frac
        own_ps = beside_ps = 0
        for which in ("forward", "backward"):
            for segment in segments(job.shape, self.layout, device, job.shape.layer_kind(job.shape.layers - 1), which):
                own_ps += segment.time_ps
                beside_ps += segment.time_ps * segment.slowed_1024
        return 1 - own_ps * SLOWED_1024 / beside_ps if beside_ps else fit.overlap_loss_frac

    def buckets(self, stage: int, chunk: int, which: str) -> list[Bucket]:
        """Of a pass, in its order."""
        key = (stage, chunk, which)
        if key not in self._buckets:
            parts = chunk_parts(self.job, stage, chunk)
            parts = parts if which == "forward" else parts[::-1]
            self._buckets[key] = [one for part, n in parts for one in self._of_part(stage, part, n, which)]
        return self._buckets[key]

    def _of_part(self, stage: int, part: str, n: int, which: str) -> list[Bucket]:
        job, layout = self.job, self.job.layout.without_layers
        busy_ps, found = self._busiest_ps(stage, part, which), []
        for times, size in buckets(job, layout, part, n):
            gather_ps, reduce_ps = (
                sum(self.exchanges.time_ps(*one, stage) for one in exchanges(job, layout, part, size))
                for exchanges in (gathered, summed)
            )
            found.append(Bucket(times, size * busy_ps, gather_ps, reduce_ps))
        return found

    def layer_ps(self, stage: int, part: str) -> int:
        """All passes of a microbatch over one layer, or the embedding or the head, on a stage."""
        which = ("forward", "backward-input", "backward-weight") if self.job.is_split else ("forward", "backward")
        return sum(self._busiest_ps(stage, part, one) for one in which)

    def _busiest_ps(self, stage: int, part: str, which: str) -> int:
        """One layer, on the GPU of the stage that takes longest."""
        job = self.job
        if len(job.devices) == 1 and not job.slowness:
            return self._layer_ps(stage, part, which, job.devices[0], 1.0)
        gpus = self.exchanges.ranks.alike(stage)
        if self.replica >= 0:
            n = job.layout.tp * job.layout.cp
            gpus = gpus[self.replica * n : (self.replica + 1) * n]
        kinds = {(job.device(gpu), job.slowness.get(gpu, 1.0)) for gpu in gpus}
        return max(self._layer_ps(stage, part, which, device, slowness) for device, slowness in kinds)

    def _layer_ps(self, stage: int, part: str, which: str, device: Device, slowness: float) -> int:
        measured = measured_ps(self.job, self.layout, device, stage, part, which)
        if measured is not None:
            return round(measured * slowness)
        key = (self.layout, self.exchanges.alike(stage), device.name, part, which, slowness)
        if key not in self._known:
            self._known[key] = self._worked_out_ps(stage, part, which, device, slowness)
        return self._known[key]

    def _worked_out_ps(self, stage: int, part: str, which: str, device: Device, slowness: float) -> int:
        """Computing and exchanges in their order; what is overlapped goes beside the next computing."""
        now_ps = beside_ps = 0  # beside: when the exchange beside it is over
        for segment in segments(self.job.shape, self.layout, device, part, which):
            if segment.kind == "compute":
                time_ps = round(segment.time_ps * slowness)
                loss_frac = 1 - SLOWED_1024 / segment.slowed_1024 if self.tells_losses_apart else self.loss_frac
                now_ps += time_ps + round(loss_frac * min(time_ps, max(0, beside_ps - now_ps)))
            now_ps, beside_ps = max(now_ps, beside_ps), 0
            if segment.kind != "compute":
                time_ps = self.exchanges.time_ps(segment.group, segment.kind, segment.size_bytes, stage)
                if segment.overlapped:
                    beside_ps = now_ps + time_ps
                else:
                    now_ps += time_ps
        return max(now_ps, beside_ps)


def own_share(layout: Layout, expert_load: float) -> Layout:
    """What a pass over one layer depends on: the same for all sizes of the rest."""
    return replace(layout, dp=1, pp=1, vpp=1, n_microbatch=1, shard=0, zero=layout.zero == 3 and 3 or 0, dual=False,
                   expert_load=expert_load, stage_layers=(), replica_microbatches=())  # fmt: skip
