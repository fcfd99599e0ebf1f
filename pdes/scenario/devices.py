"""GPU types of a config: known ones, and those of [workload.devices]."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.compute.devices import DEVICES, Device, Fit, Links
from models.compute.kernel_table import read_kernel_table
from models.compute.layer_times import read_layer_times
from models.workload.nccl.calibration import ALL_SIZES
from pdes.config import Config, DeviceConfig
from pdes.errors import ConfigError

TERA = 10**12
BITS_PER_US = 8 * 10**6  # per second, of a byte per us
WIDER = (("fp8", "bf16"), ("fp8", "fp16"), ("bf16", "fp32"), ("fp16", "fp32"))


def own_devices(tables: Mapping[str, DeviceConfig]) -> dict[str, Device]:
    """Known types, and the user's, by name. ConfigError for peaks that cannot be."""
    changed = {name: _own(name, table, DEVICES) for name, table in tables.items() if name in DEVICES}
    known = DEVICES | changed
    return known | {name: _own(name, table, known) for name, table in tables.items() if name not in DEVICES}


def training_devices(config: Config) -> dict[str, Device]:
    """The same with the tables of measured kernels and layers that a training job's [workload] names."""
    w: Any = config.workload
    known = own_devices(w.devices)
    for key, field, read in (("kernels", "table", read_kernel_table), ("layer_times", "layers", read_layer_times)):
        files = {name: getattr(table, key) for name, table in w.devices.items()}
        own = getattr(w.compute, key)
        files |= {w.compute.gpu: own} if own else {}
        tables = {name: read(config.input_path(file)) for name, file in files.items() if file}
        known = known | {name: replace(known[name], **{field: table}) for name, table in tables.items()}
    return known


def _own(name: str, table: DeviceConfig, known: Mapping[str, Device]) -> Device:
    """A type by its table. Without a type that it is like, it has ordinary constants and no bound; under the name of a
    known one it is that one, changed."""
    given = {key: value for key, value in table.flops if value is not None}
    constants = {key: value for key, value in table.constants if value is not None}
    like = name if name in DEVICES else table.like
    if like is None:
        peaks = {"fp32": given["bf16"] // 2} | given
        base = Device(name, (), 0, 0, 0)
    else:
        base = known[like]
        peaks = dict(base.flops_per_s) | given
        base = replace(base, reference=_bound(name, base, constants))
    _check_peaks(name, peaks, given)
    return replace(
        base,
        name=name,
        flops_per_s=tuple(sorted(peaks.items())),
        hbm_bytes_per_s=_given(table.memory_bandwidth_bps, base.hbm_bytes_per_s * 8) // 8,
        hbm_bytes=_given(table.memory_bytes, base.hbm_bytes),
        nvlink_bps=_given(table.nvlink_bps, base.nvlink_bps),
        fit=Fit(**{key: value for key, value in vars(base.fit).items() if key != "rows"} | constants),
        margin=table.margin,
        copy_engines=_given(table.copy_engines, base.copy_engines),
        links=_links(name, like, table, base),
    )


def _bound(name: str, base: Device, constants: Mapping[str, Any]) -> Device | None:
    """Whose times bound a type from below: a fitted one's. What was measured of a known type itself has no bound."""
    if name in DEVICES:
        return None if constants else base.reference
    return base if base.fit.rows or base.reference is None else base.reference


def _links(name: str, like: str | None, table: DeviceConfig, base: Device) -> Links | None:
    """None: a known type whose collectives are as they were."""
    if not {"nvlink_bps", "nvlink_latency_ps", "nvls", "nccl"} & table.model_fields_set:
        return base.links or (None if like == name else Links(like or ""))
    links = Links(like or "", table.nvlink_latency_ps or 0, table.nvls)
    if table.nccl is None:
        return links
    regimes = [
        (r.algorithm, r.protocol, r.latency_ps, max(1, r.bandwidth_bps // BITS_PER_US), r.up_to_bytes or ALL_SIZES)
        for r in table.nccl.regimes
    ]
    pair = (table.nccl.pair_bandwidth_bps or 0) // BITS_PER_US
    return replace(links, regimes=tuple(regimes), launch_ps=table.nccl.launch_ps or 0, pair_bytes_per_us=pair)


def _given(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _check_peaks(name: str, peaks: dict[str, int], given: dict[str, Any]) -> None:
    """A narrower format is not slower: what is taken over from another type may be below what is given."""
    for narrow, wide in WIDER:
        if narrow in peaks and wide in peaks and peaks[narrow] < peaks[wide]:
            where = f"[workload.devices.{name}] flops"
            found = f"{narrow} has {peaks[narrow] / TERA:g} Tflops and {wide} {peaks[wide] / TERA:g}"
            taken_over = next((key for key in (narrow, wide) if key not in given), "")
            hint = f"; {taken_over} is taken over, not given: give it" if taken_over else ""
            raise ConfigError(where, found, f"no less in {narrow} than in {wide}{hint}")
