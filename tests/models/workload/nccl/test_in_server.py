"""Times inside a server: what was measured, what follows from the algorithms, what is refused."""

import pytest

from models.workload.nccl.calibration import CALIBRATIONS
from models.workload.nccl.in_server import OPERATIONS, in_server_ps, moved_bytes
from pdes.errors import ConfigError, SimError

US = 10**6


@pytest.mark.parametrize(
    "gpu, size_bytes, n_gpu, algorithm, measured_us",
    [  # nccl-tests of ml-engineering; the rows with fewer than eight GPUs had no part in any constant
        ("a100-80g", 2**20, 8, "auto", 101.9),
        ("a100", 2**34, 8, "auto", 127_997),
        ("h100", 8, 8, "auto", 13.67),
        ("h100", 2**16, 8, "auto", 19.54),
        ("h100", 2**23, 8, "auto", 83.04),
        ("h100", 2**34, 8, "auto", 62_648),
        ("h200", 2**33, 5, "auto", 33_181),
        ("h200", 2**33, 6, "ring", 39_213),
        ("h200", 2**33, 7, "auto", 32_013),
        ("b200", 2**33, 4, "ring", 19_123),
        ("b200", 2**33, 7, "auto", 18_153),
        ("b200", 2**24, 8, "auto", 115.2),
    ],
)
def test_all_reduces_take_what_was_measured_within_a_tenth(gpu, size_bytes, n_gpu, algorithm, measured_us):
    assert in_server_ps(gpu, "all-reduce", size_bytes, n_gpu, algorithm) == pytest.approx(measured_us * US, rel=0.1)


def test_nvls_is_asked_for_or_left_out():
    default = in_server_ps("h200", "all-reduce", 2**34, 8)
    assert in_server_ps("h200", "all-reduce", 2**34, 8, nvls=False) > 1.2 * default
    assert in_server_ps("h200", "all-reduce", 2**34, 8, "nvls") == default
    assert in_server_ps("a100", "all-reduce", 2**34, 8, nvls=True) == in_server_ps("a100", "all-reduce", 2**34, 8)


@pytest.mark.parametrize("gpu", CALIBRATIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_more_bytes_of_one_protocol_take_longer(gpu, operation):
    times = [in_server_ps(gpu, operation, size_bytes, 8) for size_bytes in (2**28, 2**29, 2**30)]
    assert 0 < times[0] < times[1] < times[2]


def test_halves_move_what_an_all_reduce_does():
    for n in (2, 3, 8):
        halves = [moved_bytes("ring", kind, 840, n) for kind in ("reduce-scatter", "all-gather")]
        assert sum(halves) == moved_bytes("ring", "all-reduce", 840, n) == 2 * (n - 1) * 840 // n


def test_nothing_takes_no_time():
    assert in_server_ps("h100", "all-reduce", 0, 8) == in_server_ps("h100", "all-reduce", 10, 1) == 0


def test_what_is_not_known_is_refused():
    with pytest.raises(
        ConfigError, match=r'\[workload\] gpu: found "h900"\. A GPU type of a100.*Did you mean "h800"\?'
    ):
        in_server_ps("h900", "all-reduce", 1, 8)
    with pytest.raises(SimError, match="scan by auto: accepted are all-reduce"):
        in_server_ps("h100", "scan", 1, 8)
