"""Time of a collective whose GPUs share a server: the latency of its steps plus the bytes it moves over a bandwidth.

Of the algorithms and protocols that NCCL may take at a size, the one with the least time (its tuner's rule), with the
constants of `calibration`. All integers, so that every machine finds the same.
"""

from models.workload.nccl.calibration import Calibration, GpuType, Regime, calibration_of
from pdes.errors import SimError
from pdes.units import PS_PER_US

REDUCING = ("all-reduce", "reduce-scatter", "all-gather")
OPERATIONS = (*REDUCING, "all-to-all", "broadcast", "send-receive")
ALGORITHMS = ("auto", "ring", "tree", "nvls")
REFERENCE_STEPS = 14  # of the all-reduce over eight GPUs whose latencies the calibration holds


def in_server_ps(
    gpu: GpuType,
    operation: str,
    size_bytes: int,
    n_gpu: int,
    algorithm: str = "auto",
    nvls: bool | None = None,
    protocol: str = "auto",
) -> int:
    """Time in ps of one collective over n_gpu GPUs of a type in one server.

    size_bytes: the whole buffer of a rank (of an all-gather the gathered result, of an all-to-all what a rank sends to
    all, itself included; of a send-receive the message). algorithm: of ALGORITHMS; "auto" takes the fastest one.
    nvls None: where the GPU type has it. protocol: where the algorithm has it, else as NCCL has it. ConfigError for
    an unknown GPU type, SimError for an unknown operation.
    """
    if operation not in OPERATIONS or algorithm not in ALGORITHMS:
        raise SimError(f"{operation} by {algorithm}: accepted are {', '.join(OPERATIONS)} by {', '.join(ALGORITHMS)}")
    calibration = calibration_of(gpu)
    if n_gpu < 2 or size_bytes == 0:
        return 0
    if operation in ("all-to-all", "send-receive"):
        return _pair_ps(calibration, operation, size_bytes, n_gpu)
    use_nvls = calibration.has_nvls if nvls is None else nvls
    regimes = candidates(calibration, operation, size_bytes, n_gpu, algorithm, use_nvls, protocol)
    return min(regime_ps(calibration, regime, operation, size_bytes, n_gpu) for regime in regimes)


def candidates(
    calibration: Calibration,
    operation: str,
    size_bytes: int,
    n_gpu: int,
    algorithm: str,
    use_nvls: bool,
    protocol: str = "auto",
) -> list[Regime]:
    """Regimes among which the fastest one is taken: of each algorithm the one for this size, or with this protocol.

    A broadcast and the halves of an all-reduce are rings where nothing else is asked for, as NCCL has them by default.
    """
    wanted = (algorithm,)
    if algorithm == "auto":
        wanted = ("ring", "nvls") if operation == "all-reduce" and use_nvls and n_gpu > 4 else ("ring",)
    found: dict[str, Regime] = {}
    for regime in calibration.regimes:
        if regime.algorithm in wanted and size_bytes <= regime.up_to_bytes:
            found.setdefault(regime.algorithm, regime)
    if not found:
        found = {"ring": [regime for regime in calibration.regimes if regime.algorithm == "ring"][-1]}
    return [_with_protocol(calibration, regime, size_bytes, protocol) for regime in found.values()]


def _with_protocol(calibration: Calibration, usual: Regime, size_bytes: int, protocol: str) -> Regime:
    """The regime of an algorithm with a protocol, at sizes beyond those that NCCL uses it for too; if there is none,
    the usual one."""
    same = [r for r in calibration.regimes if (r.algorithm, r.protocol) == (usual.algorithm, protocol)]
    return next((r for r in same if size_bytes <= r.up_to_bytes), same[-1]) if same else usual


def n_steps(algorithm: str, operation: str, n_gpu: int) -> int:
    """Steps one after the other, of which the reference has REFERENCE_STEPS; NVLS always has as many."""
    half = REFERENCE_STEPS // 2 if algorithm == "nvls" else n_gpu - 1
    return 2 * half if operation == "all-reduce" else half


def moved_bytes(algorithm: str, operation: str, size_bytes: int, n_gpu: int) -> int:
    """Bytes that the busiest direction of a GPU's NVLink carries.

    A ring moves (n - 1) / n of the buffer in each half; a tree, which is a chain inside a server, all of it both ways.
    The NVSwitch reads every GPU's buffer once and writes 1 / n of the result, and the other way round.
    """
    if operation == "broadcast":
        return size_bytes
    n_pass = 2 if operation == "all-reduce" else 1
    if algorithm == "ring":
        return -(-n_pass * (n_gpu - 1) * size_bytes // n_gpu)
    if algorithm == "tree":
        return n_pass * size_bytes
    return -(-(n_gpu + 1) * size_bytes // n_gpu) if n_pass == 2 else size_bytes


def regime_ps(calibration: Calibration, regime: Regime, operation: str, size_bytes: int, n_gpu: int) -> int:
    """Time by one algorithm and protocol."""
    steps_ps = (regime.latency_ps - calibration.launch_ps) * n_steps(regime.algorithm, operation, n_gpu)
    moved = moved_bytes(regime.algorithm, operation, size_bytes, n_gpu)
    return calibration.launch_ps + steps_ps // REFERENCE_STEPS + -(-moved * PS_PER_US // regime.bytes_per_us)


def _pair_ps(calibration: Calibration, operation: str, size_bytes: int, n_gpu: int) -> int:
    """A message to one GPU, or one to each of the others at once."""
    moved = size_bytes if operation == "send-receive" else -(-size_bytes // n_gpu) * (n_gpu - 1)
    step_ps = (calibration.regimes[0].latency_ps - calibration.launch_ps) // REFERENCE_STEPS
    return calibration.launch_ps + step_ps + -(-moved * PS_PER_US // calibration.pair_bytes_per_us)
