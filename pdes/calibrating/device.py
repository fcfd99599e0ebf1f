"""The GPU type whose constants are calibrated, and how its constants go into a config."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.compute.devices import Device
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario.devices import own_devices
from pdes.units import exact_duration

KEYS = {
    "launch_ps": "launch", "dispatch_ps": "dispatch", "overlap_loss_frac": "overlap_loss",
    "gemm_loss_frac": "gemm_loss", "attention_loss_frac": "attention_loss", "memory_loss_frac": "memory_loss",
}  # fmt: skip
"""Of constants, in a config."""
BOUNDS = {
    "gemm_gamma": (1.0, 30.0), "fp8_gamma": (1.0, 30.0), "attention_gamma": (1.0, 30.0), "memory_gamma": (1.0, 30.0),
    "launch_ps": (1e5, 1e9), "dispatch_ps": (1e5, 1e9), "overlap_loss_frac": (0.005, 0.95),
}  # fmt: skip


def device_of(config: Config) -> Device:
    """The type that a config's job runs on, without its table of kernels. ConfigError: it names none."""
    w: Any = config.workload
    devices = own_devices(getattr(w, "devices", {}))
    gpu = w.compute.gpu if hasattr(w, "compute") else getattr(w, "gpu", None)
    if gpu not in devices:
        accepted = 'Accepted: a config with a GPU type, such as [workload.compute] gpu = "h100"'
        raise ConfigError(str(config.source), "names no GPU type to calibrate", accepted)
    return replace(devices[gpu], table=None)


def with_fit(device: Device, constants: Mapping[str, float]) -> Device:
    """The type with other constants, as those measured of itself: no other type bounds its times."""
    typed: dict[str, Any] = {name: round(x) if name.endswith("_ps") else x for name, x in constants.items()}
    return replace(device, fit=replace(device.fit, **typed, rows=()), reference=None)


def constants_table(constants: Mapping[str, float]) -> dict[str, Any]:
    """As [workload.devices.NAME.constants] has them."""
    found: dict[str, Any] = {}
    for name, value in constants.items():
        found[KEYS.get(name, name)] = exact_duration(round(value)) if name.endswith("_ps") else float(f"{value:.6g}")
    return found
