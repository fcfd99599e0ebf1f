"""Constants of collectives inside a server, per GPU type, and the measurements to which each was fitted.

Multiverse (NSDI'25) section 4.1: time = alpha + bytes / beta, with an alpha and a beta for each operation, GPU type and
range of sizes, as no single pair fits. A range here is a protocol of an algorithm. NCCL changes from one to the next by
an estimate of its own, which is not the measured best (an all-reduce of 16 MiB on eight A100 takes twice the time of
8 MiB), so the size at which it does is a constant as well. Latencies are those of an all-reduce over eight GPUs.
Measured: nccl-tests on eight GPUs, from 32 KiB to 16 GiB (ml-engineering, CC-BY-SA-4.0; H100, from 8 bytes on: NVIDIA's
dgxc-benchmarking, MIT).
"""

from dataclasses import dataclass, replace

from pdes.errors import ConfigError, suggestion
from pdes.units import PS_PER_US

KIB, MIB = 2**10, 2**20
ALL_SIZES = 2**62


@dataclass(frozen=True)
class Regime:
    """A protocol of an algorithm, used up to up_to_bytes; from where the one before it in the list ends.

    bytes_per_us: of each GPU and direction, over the bytes that the algorithm moves (see `in_server.moved_bytes`).
    """

    algorithm: str
    protocol: str
    latency_ps: int
    bytes_per_us: int
    up_to_bytes: int = ALL_SIZES


@dataclass(frozen=True)
class Calibration:
    """A GPU type. launch_ps: part of every latency that no step of an algorithm causes.

    pair_bytes_per_us: of one GPU that sends to others without reducing (point to point, all-to-all).
    """

    gpu: str
    launch_ps: int
    pair_bytes_per_us: int
    regimes: tuple[Regime, ...]
    fitted_to: str
    has_nvls: bool = True


def _regime(algorithm: str, protocol: str, latency_us: float, gb_per_s: float, up_to_bytes: int = ALL_SIZES) -> Regime:
    return Regime(algorithm, protocol, round(latency_us * PS_PER_US), round(gb_per_s * 1000), up_to_bytes)


_A100 = Calibration(
    "a100", 33 * PS_PER_US, 197_000,
    (
        _regime("ring", "LL", 41.6, 23.4, 512 * KIB),
        _regime("ring", "LL128", 86.4, 300, 8 * MIB),
        _regime("ring", "Simple", 132, 203.6, 256 * MIB),
        _regime("ring", "Simple", 222, 235.2),
        _regime("tree", "LL", 41.6, 23.4),
        _regime("tree", "Simple", 168, 208),
    ),
    "A100-8; pair: A100-sendrecv from 512 MiB on", has_nvls=False,
)  # fmt: skip
_H100 = Calibration(
    "h100", 6 * PS_PER_US, 306_000,
    (
        _regime("ring", "LL", 14.2, 22, 64 * KIB),
        _regime("ring", "LL128", 19.5, 188, 4 * MIB),
        _regime("ring", "Simple", 44.7, 370),
        _regime("tree", "LL", 14.2, 22),
        _regime("tree", "Simple", 44.7, 340),
        _regime("nvls", "Simple", 83.1, 301),
    ),
    "H100-8; ring from H200-8; pair: 0.68 of NVLink, as DeepEP's intranode exchange on H800",
)  # fmt: skip
_H200 = Calibration(
    "h200", 30 * PS_PER_US, 306_000,
    (
        _regime("ring", "LL", 39.2, 200, 512 * KIB),
        _regime("ring", "LL128", 39.6, 236, 4 * MIB),
        _regime("ring", "Simple", 54.8, 370),
        _regime("tree", "LL", 39.2, 200),
        _regime("tree", "Simple", 54.8, 340),
        _regime("nvls", "Simple", 96.9, 307),
    ),
    "H200-8; pair: as H100",
)  # fmt: skip
_B200 = Calibration(
    "b200", 36 * PS_PER_US, 612_000,
    (
        _regime("ring", "LL128", 49.6, 713, 2 * MIB),
        _regime("ring", "Simple", 75.9, 365, 8 * MIB),
        _regime("ring", "Simple", 56.7, 487, 64 * MIB),
        _regime("ring", "Simple", 102, 682),
        _regime("tree", "LL", 49.6, 713),
        _regime("tree", "Simple", 102, 640),
        _regime("nvls", "Simple", 143.6, 515),
    ),
    "B200-8; ring above 64 MiB: B200-n with 8 GPUs, ring; pair: 0.68 of NVLink",
)  # fmt: skip


def scaled(calibration: Calibration, gpu: str, part: float, fitted_to: str, has_nvls: bool = True) -> Calibration:
    """A type that nobody measured: the latencies of another one, its bandwidths by those of the data sheets."""
    regimes = tuple(
        replace(regime, bytes_per_us=round(regime.bytes_per_us * part)) for regime in calibration.regimes
    )  # fmt: skip
    pair = round(calibration.pair_bytes_per_us * part)
    return replace(
        calibration, gpu=gpu, regimes=regimes, pair_bytes_per_us=pair, fitted_to=fitted_to, has_nvls=has_nvls
    )  # fmt: skip


GpuType = str | Calibration
"""A GPU type by name, or what is known of one that the user describes."""

CALIBRATIONS: dict[str, Calibration] = {
    calibration.gpu: calibration
    for calibration in (
        _A100,
        _H100,
        _H200,
        _B200,
        scaled(_A100, "v100", 150 / 300, "none: A100 by NVLink's rate", has_nvls=False),
        scaled(_H100, "h800", 200 / 450, "none: H100 by NVLink's rate"),
        scaled(_H100, "h20", 1.0, "none: as H100"),
        scaled(_H100, "gh200", 1.0, "none: as H100"),
        scaled(_A100, "a800", 200 / 300, "none: A100 by NVLink's rate", has_nvls=False),
        *(scaled(_B200, name, 1.0, "none: as B200") for name in ("gb200", "b300", "gb300")),
        *(
            scaled(_A100, name, 448 / 300, "none: A100 by Infinity Fabric's rate", has_nvls=False)
            for name in ("mi300x", "mi325x")
        ),
    )
}


def calibration_of(gpu: str | Calibration) -> Calibration:
    """Constants of a GPU type; a variant such as "a100-80g" has those of its type. ConfigError if there are none."""
    if isinstance(gpu, Calibration):
        return gpu
    name = gpu.lower()
    found = CALIBRATIONS.get(name) or CALIBRATIONS.get(name.split("-")[0])
    if found is None:
        meant = suggestion(gpu, CALIBRATIONS)
        accepted = f"A GPU type of {', '.join(sorted(CALIBRATIONS))} is accepted{meant}"
        raise ConfigError("[workload] gpu", f'found "{gpu}"', accepted)
    return found
