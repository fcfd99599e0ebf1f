"""Passes whose times were measured, in the place of kernels: of whole stages, or of layers on each type of GPU."""

from models.compute.devices import Device
from models.compute.layer_times import PartTimes
from models.compute.layout import Layout
from models.compute.parameters import optimizer_ps
from models.compute.stages import ends_are_layers, has_part, stage_layers
from models.workload.compiler.job import Job
from models.workload.compiler.parts import chunk_parts, updated_parameters
from pdes.errors import ConfigError


def measured_ps(job: Job, layout: Layout, device: Device, stage: int, part: str, which: str) -> int | None:
    """A pass over one part of a stage, with what its tensor-parallel group exchanges; None: it was not measured."""
    if job.pass_times_ps is not None:
        return _share_of_stage_ps(job, stage, part, which)
    if device.layers is None:
        return None
    times = _times(device, layout, part)
    return times.forward_ps if which == "forward" else times.backward_ps


def _times(device: Device, layout: Layout, part: str) -> PartTimes:
    """ConfigError if they are not in the table."""
    assert device.layers is not None
    times = device.layers.of(layout.tp, layout.microbatch, part)
    if times is None:
        what = "a layer" if part == "dense" else f"the {part}"
        found = f"no times of {what} with tp {layout.tp} and microbatch {layout.microbatch}"
        raise ConfigError(device.layers.name, found, "a line for each part and size that the job has")
    return times


def _share_of_stage_ps(job: Job, stage: int, part: str, which: str) -> int:
    """A layer's part of a pass whose time was measured over the whole stage.

    Embedding and head are in it: as a layer each if layers are shared out so, else for nothing.
    """
    assert job.pass_times_ps is not None
    forward_ps, input_ps, weight_ps = job.pass_times_ps
    times_ps = {"forward": forward_ps, "backward-input": input_ps, "backward-weight": weight_ps}
    has_ends = ends_are_layers(job.shape, job.layout)
    n_layer = sum(map(len, stage_layers(job.shape, job.layout, stage)))
    if has_ends:
        n_layer += sum(has_part(job.layout, stage, name) for name in ("embedding", "head"))
    if not has_ends and part not in ("dense", "moe"):
        return 0
    return -(-times_ps.get(which, input_ps + weight_ps) // -(-n_layer // job.layout.n_copy))


def update_ps(job: Job, stage: int, device: Device) -> int:
    """The optimizer's step of a GPU of a stage, of its share of the parameters if states are split."""
    layout = job.layout
    if device.layers is None:
        return optimizer_ps(job.shape, layout, device, updated_parameters(job, stage))
    whole_ps = 0
    for chunk in range(layout.n_chunk):
        for part, n in chunk_parts(job, stage, chunk):
            whole_ps += n * _times(device, layout, part).update_ps
    return -(-whole_ps // layout.n_shard) if layout.zero else whole_ps


def check_layer_times(job: Job) -> None:
    """Raise ConfigError if times of layers were measured, and this job needs others."""
    layout = job.layout
    for device in sorted({device for device in job.devices if device.layers is not None}, key=lambda d: d.name):
        assert device.layers is not None
        where = device.layers.name
        if not job.shape.is_dense or layout.cp > 1:
            found = "times of layers, and the job has " + ("experts" if not job.shape.is_dense else f"cp = {layout.cp}")
            raise ConfigError(where, found, "a dense model with cp = 1, or no times of layers")
        if job.is_split or layout.dual:
            found = f"times of whole backward passes, and schedule {job.schedule} takes them apart"
            raise ConfigError(where, found, 'schedule "1f1b" or "gpipe"')
        for part in ("embedding", "dense", "head"):
            if not layout.stage_tp:  # else those of each stage and replica are looked up where they are
                _times(device, layout, part)
