"""Collectives inside a server of GPUs that a user describes: those of a measured type, scaled to their links.

What the user has measured of collectives stands as it is. Else bandwidths go by the ratio of NVLink's rates and
latencies are as they are, as for the types that nobody measured. A latency of the user's is that of a step in the
protocol with the least one; those of other protocols stay in proportion.
"""

from dataclasses import replace
from fractions import Fraction

from models.compute.devices import DEVICES, Device, Links
from models.workload.nccl.calibration import Calibration, GpuType, Regime, calibration_of, scaled
from models.workload.nccl.in_server import REFERENCE_STEPS

ORDINARY = "h100"  # for a type that is like no other


def in_server_type(device: Device) -> GpuType:
    """What `in_server_ps` and communicators go by: the type's name, or constants of a user's own type."""
    return _own(device) if device.links is not None else device.name


def _own(device: Device) -> Calibration:
    links = device.links
    assert links is not None
    like = DEVICES[links.like or ORDINARY]
    base = calibration_of(like.name)
    nvls = base.has_nvls and bool(links.like) if links.nvls is None else links.nvls
    fitted_to = f"none: {base.gpu} by NVLink's rate"
    own = scaled(base, device.name, float(Fraction(device.nvlink_bps, like.nvlink_bps)), fitted_to, nvls)
    own = replace(
        own,
        launch_ps=links.launch_ps or own.launch_ps,
        pair_bytes_per_us=links.pair_bytes_per_us or own.pair_bytes_per_us,
    )
    if links.regimes:
        return _with_regimes(own, links, links.nvls)
    if not links.step_ps:
        return own
    least_ps = min(regime.latency_ps for regime in own.regimes) - own.launch_ps
    ratio = Fraction(links.step_ps * REFERENCE_STEPS, least_ps)
    regimes = tuple(
        replace(regime, latency_ps=own.launch_ps + round((regime.latency_ps - own.launch_ps) * ratio))
        for regime in own.regimes
    )
    return replace(own, regimes=regimes)


def _with_regimes(own: Calibration, links: Links, nvls: bool | None) -> Calibration:
    """The user's measurements. nvls None: where these have it. No latency is below the launch."""
    regimes = tuple(Regime(*regime) for regime in links.regimes)
    launch_ps = min(own.launch_ps, *(regime.latency_ps for regime in regimes))
    has_nvls = any(regime.algorithm == "nvls" for regime in regimes) if nvls is None else nvls
    return replace(own, regimes=regimes, launch_ps=launch_ps, fitted_to="the user's measurements", has_nvls=has_nvls)
