"""GPU types of a config: known ones, and those of [workload.devices]."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.compute.devices import DEVICES, Device, Fit, Links
from models.compute.kernel_table import read_kernel_table
from pdes.config import Config, DeviceConfig
from pdes.errors import ConfigError

TERA = 10**12
WIDER = (("fp8", "bf16"), ("fp8", "fp16"), ("bf16", "fp32"), ("fp16", "fp32"))


def own_devices(tables: Mapping[str, DeviceConfig]) -> dict[str, Device]:
    """Known types, and the user's, by name. ConfigError for peaks that cannot be."""
    return DEVICES | {name: _own(name, table) for name, table in tables.items()}


def training_devices(config: Config) -> dict[str, Device]:
    """The same with the tables of measured kernels that a training job's [workload] names."""
    w: Any = config.workload
    known = own_devices(w.devices)
    files = {name: table.kernels for name, table in w.devices.items()}
    files |= {w.compute.gpu: w.compute.kernels} if w.compute.kernels else {}
    tables = {name: read_kernel_table(config.input_path(file)) for name, file in files.items() if file}
    return known | {name: replace(known[name], table=table) for name, table in tables.items()}


def _own(name: str, table: DeviceConfig) -> Device:
    """A type by its table. Without a type that it is like, it has ordinary constants and no bound."""
    given = {key: value for key, value in table.flops if value is not None}
    constants = {key: value for key, value in table.constants if value is not None}
    links = Links(table.like or "", table.nvlink_latency_ps or 0, table.nvls)
    if table.like is None:
        peaks = {"fp32": given["bf16"] // 2} | given
        base = Device(name, (), 0, 0, 0)
    else:
        base = DEVICES[table.like]
        peaks = dict(base.flops_per_s) | given
        base = replace(base, reference=base if base.fit.rows else base.reference)
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
        links=links,
    )


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
