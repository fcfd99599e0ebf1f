"""GPUs: what their data sheets say, and what was fitted to measurements: at most six constants per GPU type.

Peaks are dense (no sparsity), of tensor cores; nvlink_bps is one direction of one GPU.
"""

from dataclasses import dataclass, field

TERA = 10**12
GIB, GB = 2**30, 10**9


@dataclass(frozen=True)
class Fit:
    """Constants of a GPU type, one value each for all models and layouts.

    gemm_gamma, attention_gamma, memory_gamma: time over what the data sheet's peak would take. launch_ps: from the end
    of a kernel to the start of the next. dispatch_ps: what the host takes to launch a kernel; it matters where kernels
    are shorter. rows: ids of the measurements to which they were fitted; empty: not fitted, see `transferred`.
    """

    gemm_gamma: float = 1.25
    attention_gamma: float = 2.0
    memory_gamma: float = 1.25
    launch_ps: int = 5_000_000
    dispatch_ps: int = 10_000_000
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Device:
    """A GPU type."""

    name: str
    flops: dict[str, int] = field(hash=False)
    hbm_bytes_per_s: int = 0
    hbm_bytes: int = 0
    nvlink_bps: int = 0
    fit: Fit = Fit()
    transferred_from: str = ""

    def peak(self, dtype: str) -> int:
        """FLOP/s in a number format; bf16 is as fast as fp16, a format without tensor cores of its own as the next."""
        for name in (dtype, *_FALLBACK.get(dtype, ())):
            if name in self.flops:
                return self.flops[name]
        return max(self.flops.values())


_FALLBACK = {"fp8": ("bf16", "fp16"), "bf16": ("fp16",), "fp16": ("bf16",), "tf32": ("fp32",), "fp32": ("tf32",)}


def _peaks(bf16: float, fp8: float, tf32: float) -> dict[str, int]:
    peaks = {"bf16": int(bf16 * TERA), "fp32": int(tf32 * TERA)}
    return {**peaks, "fp8": int(fp8 * TERA)} if fp8 else peaks


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device("a100-40g", _peaks(312, 0, 156), 1555 * GB, 40 * GIB, 300 * 8 * GB),
        Device("a100-80g", _peaks(312, 0, 156), 2039 * GB, 80 * GIB, 300 * 8 * GB),
        Device("h100", _peaks(989.4, 1978.9, 494.7), 3350 * GB, 80 * GIB, 450 * 8 * GB),
        Device("h100-500w", _peaks(989.4, 1978.9, 494.7), 2400 * GB, 96 * GIB, 450 * 8 * GB),
        Device("h200", _peaks(989.4, 1978.9, 494.7), 4800 * GB, 141 * GB, 450 * 8 * GB),
        Device("h800", _peaks(989.4, 1978.9, 494.7), 3350 * GB, 80 * GIB, 200 * 8 * GB),
        Device("h20", _peaks(148, 296, 74), 4000 * GB, 96 * GIB, 450 * 8 * GB),
        Device("b200", _peaks(2250, 4500, 1125), 8000 * GB, 180 * GB, 900 * 8 * GB),
        Device("mi300x", _peaks(1307.4, 2614.9, 653.7), 5300 * GB, 192 * GB, 448 * 8 * GB),
    )
}
