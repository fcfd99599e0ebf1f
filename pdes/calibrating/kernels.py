"""Constants of the model of kernel times, from measured kernels."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from models.compute.devices import LOSS_KINDS, Device
from models.compute.kernel_table import BY_SIZES, Key, key_of, read_kernel_table
from models.compute.layout import DTYPE_BYTES
from models.compute.operators import Kernel, gemm
from models.workload.compiler.kernels import job_kernels
from pdes.calibrating.device import BOUNDS, device_of
from pdes.calibrating.fit import Problem
from pdes.config import Config
from pdes.errors import ConfigError
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job
from pdes.units import PS_PER_S

SPREAD = 1.0  # of the logarithm of a constant
GAMMAS = ("gemm_gamma", "fp8_gamma", "attention_gamma", "memory_gamma")
CAUSAL = 0.5  # of attention's scores, that the mask leaves


def kernel_problem(config: Config, path: Path) -> Problem:
    """Of a file as `pdes-sim export kernels` writes it, with measured times. Raises ConfigError.

    A kernel of the config's job is that one, or the mean over those that a file cannot tell apart. Another product
    moves its factors and its result once; other attention is causal. A kernel counts its launch.
    """
    device, times_ps = device_of(config), read_kernel_table(path).times_ps
    known: dict[Key, list[tuple[Kernel, int]]] = defaultdict(list)
    for kernel, n in job_kernels(checked_job(config, build_topology(config))).items():
        known[key_of(kernel)].append((kernel, n))
    kernels = [known.get(key) or [(kernel_of(key), 1)] for key in times_ps]
    used = {_gamma(kernel) for runs in kernels for kernel, _ in runs} | {"memory_gamma"}
    names = (*(name for name in GAMMAS if name in used), "launch_ps")
    if len(kernels) < len(names) + 2:
        found, accepted = f"{len(kernels)} kernels, for {len(names)} constants", f"Accepted: {len(names) + 2} or more"
        raise ConfigError(str(path), found, accepted)
    start = np.array([float(getattr(device.fit, name)) for name in names])
    low, high = np.array([BOUNDS[name] for name in names]).T
    measured, n = np.array(list(times_ps.values()), float), len(kernels)
    return Problem(
        names, np.clip(start, low, high), low, high, np.full(len(names), SPREAD), measured, [""] * n,
        _model(kernels, device, names), np.ones(n),
    )  # fmt: skip


def beside_problem(config: Config, path: Path) -> Problem | None:
    """What kernels lose beside an exchange, by their kind, of those whose time beside one was measured; None: of none.

    A kernel takes its measured time over what is left: 1 - loss.
    """
    table = read_kernel_table(path)
    if not table.beside_ps:
        return None
    fit, keys = device_of(config).fit, list(table.beside_ps)
    kinds = [kernel_of(key).kind for key in keys]
    kinds = [kind if kind in LOSS_KINDS else "memory" for kind in kinds]
    used = [kind for kind in LOSS_KINDS if kind in kinds]
    if len(keys) < len(used) + 2:
        found, accepted = f"{len(keys)} times beside_us, for {len(used)} kinds", f"Accepted: {len(used) + 2} or more"
        raise ConfigError(str(path), found, accepted)
    column = np.array([used.index(kind) for kind in kinds])
    own_ps = np.array([table.times_ps[key] for key in keys], float)
    low, high = np.full(len(used), BOUNDS["overlap_loss_frac"][0]), np.full(len(used), BOUNDS["overlap_loss_frac"][1])
    return Problem(
        tuple(f"{kind}_loss_frac" for kind in used), np.clip([fit.loss_frac(kind) for kind in used], low, high), low,
        high, np.full(len(used), SPREAD), np.array([table.beside_ps[key] for key in keys], float), [""] * len(keys),
        lambda losses, rows: own_ps[rows] / (1 - losses[column[rows]]), np.ones(len(keys)),
    )  # fmt: skip


def _model(
    kernels: list[list[tuple[Kernel, int]]], device: Device, names: tuple[str, ...]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """`kernel_time.kernel_ps` of all lines at once. kernels: of each line, and how often each one runs."""
    column = {name: i for i, name in enumerate(names)}
    work = np.zeros((len(kernels), len(names)))
    for i, runs in enumerate(kernels):
        for kernel, n in runs:
            gamma, share = _gamma(kernel), n / sum(each for _, each in runs)
            if gamma != "memory_gamma":
                work[i, column[gamma]] += share * kernel.flops / device.peak(kernel.dtype) * PS_PER_S
            work[i, column["memory_gamma"]] += share * kernel.hbm_bytes / device.hbm_bytes_per_s * PS_PER_S
            work[i, column["launch_ps"]] += share * kernel.n_launch
    return lambda constants, rows: work[rows] @ constants


def _gamma(kernel: Kernel) -> str:
    """The constant of its own class."""
    if kernel.kind == "gemm":
        return "fp8_gamma" if kernel.dtype == "fp8" else "gemm_gamma"
    return "attention_gamma" if kernel.kind == "attention" else "memory_gamma"


def kernel_of(key: Key) -> Kernel:
    """A kernel that no job says more of."""
    kind, dtype, count, m, n, k, n_byte = key
    if kind == "gemm":
        size = DTYPE_BYTES[dtype]
        return gemm(m, n, k, dtype, size, 2 if dtype == "fp8" else size, count)
    if kind in BY_SIZES:
        is_backward = kind.endswith("backward")
        flops, size = int(4 * count * m * n * k * CAUSAL), DTYPE_BYTES[dtype]
        read = count * size * (2 * m * k + 2 * n * k)
        if not is_backward:
            return Kernel("attention", flops, read, dtype, m, n, k, count)
        return Kernel("attention", 5 * flops // 2, 3 * read, dtype, m, n, k, count, 2, True)
    return Kernel(kind, 0, n_byte)  # pyright: ignore[reportArgumentType]


def as_constants(problem: Problem, constants: np.ndarray) -> Mapping[str, float]:
    """By name."""
    return dict(zip(problem.names, constants.tolist(), strict=True))
