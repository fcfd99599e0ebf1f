"""GPUs: what their data sheets say, and constants that were fitted to measurements, at most six per GPU type.

Peaks are dense (no sparsity), of tensor cores; nvlink_bps is one direction of one GPU. Fitted constants and the rows
they were fitted to lie in `fits.json`, which `bench/fit_devices.py` writes. A GPU that nobody measured takes the times
of one that somebody did, by their data sheets: HeteroSim's bounded transfer (equation 5), see `kernel_time`.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from models.compute.kernel_table import KernelTable
from models.compute.layer_times import LayerTimes

TERA, GIB, GB = 10**12, 2**30, 10**9
FITS = Path(__file__).parent / "fits.json"


LOSS_KINDS = ("gemm", "attention", "memory")


@dataclass(frozen=True)
class Fit:
    """Constants of a GPU type, the same for all models and layouts. What is not fitted keeps the value given here.

    gemm_gamma, attention_gamma, memory_gamma: time over what the data sheet's peak would take; fp8_gamma: of products
    in fp8, which are bound by power and by what is not their multiplication. launch_ps: from the end of a kernel to the
    start of the next. dispatch_ps: what the host takes to launch a kernel; it matters where kernels are shorter.
    overlap_loss_frac: 1 - phi of HeteroSim's equation 2, how much of the shorter of a kernel and an exchange beside it
    comes on top of the longer; gemm_loss_frac, attention_loss_frac, memory_loss_frac: the same by kind of kernel, as
    Multiverse has it (section 4.1). rows: ids of the measurements to which the constants were fitted; none: not fitted.
    """

    gemm_gamma: float = 1.3
    fp8_gamma: float = 1.6
    attention_gamma: float = 1.9
    memory_gamma: float = 1.3
    launch_ps: int = 4_000_000
    dispatch_ps: int = 20_000_000
    overlap_loss_frac: float = 0.2
    rows: tuple[str, ...] = field(default=(), repr=False, hash=False)
    gemm_loss_frac: float | None = None
    attention_loss_frac: float | None = None
    memory_loss_frac: float | None = None

    @property
    def tells_losses_apart(self) -> bool:
        """Whether kinds of kernels lose unequal parts of their time beside an exchange."""
        return any(own is not None for own in (self.gemm_loss_frac, self.attention_loss_frac, self.memory_loss_frac))

    def loss_frac(self, kind: str) -> float:
        """Of a kind of kernel: one of LOSS_KINDS; all else is bound by memory."""
        by_kind = {"gemm": self.gemm_loss_frac, "attention": self.attention_loss_frac}
        own = by_kind.get(kind, self.memory_loss_frac)
        return self.overlap_loss_frac if own is None else own


@dataclass(frozen=True)
class Links:
    """Inside a server, of a GPU type that a user describes. like: the known type whose collectives it has, "": none.

    step_ps: latency of a step of a collective, 0: as `like`. nvls: the NVSwitch reduces; None: as `like`. regimes: of
    collectives, (algorithm, protocol, latency_ps, bytes_per_us, up_to_bytes); (): as `like`. launch_ps,
    pair_bytes_per_us: as `nccl.calibration.Calibration` has them, 0: as `like`.
    """

    like: str = ""
    step_ps: int = 0
    nvls: bool | None = None
    regimes: tuple[tuple[str, str, int, int, int], ...] = ()
    launch_ps: int = 0
    pair_bytes_per_us: int = 0


@dataclass(frozen=True)
class Device:
    """A GPU type. reference: the fitted type whose times bound those of an unfitted one from below, or None.

    links: of a user's type; collectives inside a server go by the name of any other. layers: measured, not by kernels.
    copy_engines: exchanges under way beside computing, CE of HeteroSim's equation 3; 0: as many as there are.
    """

    name: str
    flops_per_s: tuple[tuple[str, int], ...]  # (number format, peak)
    hbm_bytes_per_s: int
    hbm_bytes: int
    nvlink_bps: int
    fit: Fit = Fit()
    reference: "Device | None" = None
    margin: float = 1.0  # lambda of equation 5, at least 1; 0: no bound
    table: KernelTable | None = None
    links: Links | None = None
    layers: LayerTimes | None = None
    copy_engines: int = 0

    def peak(self, dtype: str) -> int:
        """FLOP/s in a number format; without tensor cores for it, in the next wider one that has them."""
        peaks = dict(self.flops_per_s)
        for name in (dtype, *_INSTEAD[dtype]):
            if name in peaks:
                return peaks[name]
        raise KeyError(f"{self.name} has no peak for {dtype}")


_INSTEAD = {"fp8": ("bf16",), "fp16": ("bf16",), "tf32": ("fp32",), "fp32": ("tf32",), "bf16": ("fp16",)}


def peaks_of(bf16_tflops: float, fp8_tflops: float = 0, tf32_tflops: float = 0) -> tuple[tuple[str, int], ...]:
    """Peaks from TFLOP/s; fp32 products run as tf32, and 0 is what a GPU cannot."""
    named = ("bf16", bf16_tflops), ("fp8", fp8_tflops), ("fp32", tf32_tflops or bf16_tflops / 2)
    return tuple((name, int(tflops * TERA)) for name, tflops in named if tflops)


_GH200_HOST, _GB200_HOST = Fit(dispatch_ps=90_500_000), Fit(dispatch_ps=99_700_000)
"""Grace as a host: what Transformer Engine's linear module takes of it for a product in bf16, where PyTorch's own takes
33.2 and 37.1 us, and 13.5 us on a Xeon 8480C (measured by NVIDIA/TransformerEngine's issue 2053, August 2025)."""
_A100, _H100, _GB200 = peaks_of(312), peaks_of(989.4, 1978.9), peaks_of(2500, 5000)
_SHEETS = (
    Device("a100-40g", _A100, 1555 * GB, 40 * GIB, 300 * 8 * GB),
    Device("a100-80g", _A100, 2039 * GB, 80 * GIB, 300 * 8 * GB),
    Device("h100", _H100, 3350 * GB, 80 * GIB, 450 * 8 * GB),
    Device("h100-500w", _H100, 2400 * GB, 96 * GIB, 450 * 8 * GB),  # HBM2e and 500 W, as built into Grand Teton
    Device("h200", _H100, 4800 * GB, 141 * GB, 450 * 8 * GB),
    Device("h800", _H100, 3350 * GB, 80 * GIB, 200 * 8 * GB),
    Device("h20", peaks_of(148, 296), 4000 * GB, 96 * GIB, 450 * 8 * GB),
    Device("gh200", _H100, 4000 * GB, 96 * GB, 450 * 8 * GB, _GH200_HOST),  # HBM3
    Device("b200", peaks_of(2250, 4500), 8000 * GB, 180 * GB, 900 * 8 * GB),
    Device("gb200", _GB200, 8000 * GB, 186 * GB, 900 * 8 * GB, _GB200_HOST),
    Device("b300", peaks_of(2250, 4500), 8000 * GB, 270 * GB, 900 * 8 * GB),
    Device("gb300", _GB200, 8000 * GB, 279 * GB, 900 * 8 * GB, _GB200_HOST),
    Device("a800", _A100, 2039 * GB, 80 * GIB, 200 * 8 * GB),
    Device("mi300x", peaks_of(1307.4, 2614.9), 5300 * GB, 192 * GB, 448 * 8 * GB),
    Device("mi325x", peaks_of(1307.4, 2614.9), 6000 * GB, 256 * GB, 448 * 8 * GB),
)
_REFERENCES = {
    "a100-40g": "a100-80g", "a800": "a100-80g", "h200": "h100", "h800": "h100", "h20": "h100", "gh200": "h100",
    "gb200": "b200", "b300": "b200", "gb300": "b200", "mi300x": "h100", "mi325x": "h100",
}  # fmt: skip


def _fitted() -> dict[str, Device]:
    fits = json.loads(FITS.read_text())
    devices = {sheet.name: sheet for sheet in _SHEETS}
    for name, entry in fits.items():
        devices[name] = replace(devices[name], fit=Fit(**entry["constants"], rows=tuple(entry["rows"])))
    for name, reference in _REFERENCES.items():
        devices[name] = replace(devices[name], reference=devices[reference])
    return devices


DEVICES: dict[str, Device] = _fitted()
"""GPU types by name; of one's own: Device(...) with a reference from here, or with a Fit."""
