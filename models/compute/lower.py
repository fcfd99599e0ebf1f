"""From the graph of a part to segments: kernels between two exchanges run one after the other and become one segment.

HeteroSim's algorithm 1, for one GPU and one pass over one part; pipeline stages and microbatches are the caller's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from models.compute.devices import Device
from models.compute.kernel_time import kernel_ps, left_frac
from models.compute.layer_graph import part_graph
from models.compute.layout import Layout
from models.compute.model_shape import ModelShape
from models.compute.operators import Exchange, Kernel, Operator, Step
from models.compute.parameters import Parameters, optimizer_ps, parameters_of
from models.compute.recompute import runs_again
from pdes.units import PS_PER_S

__all__ = ["Parameters", "Segment", "optimizer_ps", "parameters_of", "segments", "steps_of"]

SLOWED_1024 = 1024  # not slowed at all
PASSES = ("forward", "backward", "backward-input", "backward-weight")


@dataclass(frozen=True)
class Segment:
    """A stretch of kernels, or an exchange.

    kind: "compute", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", or "ring": context parallelism's passes
    of keys and values, group size - 1 steps. label: what a task row says. group: "tp", "cp", "ep" or "etp".
    size_bytes: a rank's whole buffer: an all-gather's result, the input of a reduce-scatter or all-reduce, all that a
    rank sends in an all-to-all with its own share, one step of a ring. time_ps: of a compute segment, which takes
    slowed_1024 1024ths of it beside a collective.
    overlapped: an exchange that runs beside the next compute segment; whatever follows that waits for both.
    """

    kind: str
    label: str
    group: str = ""
    size_bytes: int = 0
    time_ps: int = 0
    overlapped: bool = False
    slowed_1024: int = SLOWED_1024


def segments(shape: ModelShape, layout: Layout, device: Device, part: str, which: str) -> tuple[Segment, ...]:
    """What one GPU does in one pass of one microbatch over a part.

    part: "embedding", "dense", "moe" (one layer of that kind), "head". which: "forward"; "backward", with what the
    layout recomputes; "backward-input" and "backward-weight", the same in two, as zero-bubble schedules need it.
    """
    return _segments(shape, layout, device, part, which)


@lru_cache(maxsize=1024)
def _segments(shape: ModelShape, layout: Layout, device: Device, part: str, which: str) -> tuple[Segment, ...]:
    steps = tuple(steps_of(shape, layout, part, which))
    stretch = _stretch([step for _, step in steps], layout, device)
    return tuple(_fused(iter(steps), device, stretch))


def _stretch(steps: list[Step], layout: Layout, device: Device) -> Fraction:
    """1, or by how much kernels take longer because the host launches them slower than the GPU runs them.

    Over the whole pass, as the host may be ahead during some kernels and behind at others. It goes on launching during
    exchanges; these count with the least that they take.
    """
    kernels = [step for step in steps if isinstance(step, Kernel)]
    gpu_ps = sum(kernel_ps(kernel, device) for kernel in kernels)
    host_ps = sum(kernel.n_launch for kernel in kernels) * device.fit.dispatch_ps
    for step in steps:
        if isinstance(step, Exchange) and not step.overlapped:
            host_ps -= _least_ps(step, layout, device)
    return max(Fraction(1), Fraction(host_ps, gpu_ps)) if gpu_ps else Fraction(1)


def _least_ps(step: Exchange, layout: Layout, device: Device) -> int:
    """An exchange at the rate of NVLink, without any latency; a ring's steps are as many as its GPUs but one."""
    n_gpu = layout.group_size(step.group)
    n_pass = {"all-reduce": 2, "ring": n_gpu}.get(step.collective, 1)
    return n_pass * (n_gpu - 1) * step.size_bytes * 8 * PS_PER_S // (n_gpu * device.nvlink_bps)


def steps_of(shape: ModelShape, layout: Layout, part: str, which: str) -> Iterator[tuple[str, Step]]:
    """Kernels and exchanges of a pass over a part in order, each with its block's label."""
    if which not in PASSES:
        raise ValueError(f"which {which!r}: one of {PASSES}")
    graph = part_graph(shape, layout, part)
    if which == "forward":
        yield from ((operator.label, step) for operator in graph for step in operator.forward)
        return
    if which != "backward-weight":
        yield from _recomputed(graph, layout, part)
    for operator in reversed(graph):
        if which != "backward-input":
            yield from ((operator.label, step) for step in operator.regather)
        if which != "backward-weight":
            yield from ((operator.label, step) for step in operator.backward_input)
        if which != "backward-input":
            yield from ((operator.label, step) for step in operator.backward_weight)


def _recomputed(graph: tuple[Operator, ...], layout: Layout, part: str) -> Iterator[tuple[str, Step]]:
    """What runs again before the backward pass of a layer."""
    if part in ("dense", "moe"):
        again = runs_again(graph, layout.recompute)
        yield from ((operator.label, step) for operator in again for step in operator.forward)


def _fused(steps: Iterator[tuple[str, Step]], device: Device, stretch: Fraction) -> Iterator[Segment]:
    run: list[tuple[str, Kernel]] = []
    for label, step in steps:
        if isinstance(step, Kernel):
            run.append((label, step))
            continue
        yield from _compute(run, device, stretch)
        run = []
        yield _exchange(step)
    yield from _compute(run, device, stretch)


def _exchange(step: Exchange) -> Segment:
    label = "ep" if step.group == "etp" else step.group
    return Segment(step.collective, label, step.group, step.size_bytes, overlapped=step.overlapped)


def _compute(run: list[tuple[str, Kernel]], device: Device, stretch: Fraction) -> Iterator[Segment]:
    """One segment of a run of kernels, named for the block that takes most of it."""
    if not run:
        return
    by_label: dict[str, int] = {}
    for label, kernel in run:
        by_label[label] = by_label.get(label, 0) + kernel_ps(kernel, device)
    longest = max(by_label, key=lambda label: by_label[label])
    time_ps = sum(by_label.values())
    beside_ps = sum(kernel_ps(kernel, device) / left_frac(device.fit.loss_frac(kernel.kind)) for _, kernel in run)
    slowed_1024 = round(SLOWED_1024 * beside_ps / time_ps) if time_ps else SLOWED_1024
    yield Segment("compute", longest, time_ps=int(time_ps * stretch), slowed_1024=slowed_1024)
