"""All-reduces that the network's switches sum up: what is sent, that nobody is early, and how long it takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdes
from models.workload.nccl.calibration import calibration_of
from models.workload.nccl.communicator import Communicator
from models.workload.nccl.estimate import SHARP_PS, Shape, choose
from models.workload.nccl.options import CollectiveOptions
from reference.symbolic_collective import carry_out

MIB = 2**20


def servers(n_server: int, per_server: int, **options: Any) -> Communicator:
    n = n_server * per_server
    settings = CollectiveOptions(**{"algorithm": "sharp", **options})
    return Communicator("all", [tuple(range(n))], np.arange(n) // per_server, "h100", settings)


class Heard:
    """Of whom each member has heard, directly or not; and its own part, which it has sent."""

    def __init__(self, n: int) -> None:
        self.of = [{i} for i in range(n)]

    def post(self, gpu: int, key: str, n: int) -> object:
        return set(self.of[gpu])

    def take(self, gpu: int, key: str, n: int, content: object) -> None:
        assert isinstance(content, set)
        self.of[gpu] |= content


@pytest.mark.parametrize("per_server", [1, 2])
@pytest.mark.parametrize("n_server", [2, 3, 4, 5, 8, 9])
def test_a_nic_sends_its_share_once_and_nobody_goes_on_before_all_have_sent(n_server: int, per_server: int) -> None:
    n, size_bytes = n_server * per_server, 720_000
    heard = Heard(n)
    sent = carry_out(servers(n_server, per_server), 64, "all-reduce", size_bytes, heard)
    assert [sorted(found) for found in heard.of] == [list(range(i % per_server, n, per_server)) for i in range(n)]
    n_round = (n_server - 1).bit_length()
    by_gpu = [sum(n_bytes for (gpu, _), n_bytes in sent.items() if gpu == i) for i in range(n)]
    assert by_gpu == [size_bytes // per_server + n_round] * n


def test_it_is_for_all_reduces_in_simple_and_not_chosen_by_itself() -> None:
    shape, asked = Shape("h100", 4, 8), CollectiveOptions(algorithm="sharp", protocol="LL", nic_goodput_bps=380 * 10**9)
    found = choose("all-reduce", 64 * MIB, shape, asked, is_uniform=False)
    assert (found.algorithm, found.protocol) == ("sharp", "Simple")
    for kind in ("reduce-scatter", "all-gather"):
        assert choose(kind, 64 * MIB, shape, asked, is_uniform=False).algorithm == "ring"
    free = CollectiveOptions(nic_goodput_bps=380 * 10**9)
    assert choose("all-reduce", 64 * MIB, shape, free, is_uniform=False).algorithm != "sharp"


@pytest.mark.parametrize("nvls", [True, False])
def test_its_latency_is_that_of_nccl(nvls: bool) -> None:
    """One GPU in each server: nothing happens inside, and a byte takes no time on the line."""
    options = CollectiveOptions(algorithm="sharp", nvls=nvls, nic_goodput_bps=10**15)
    found = choose("all-reduce", 1, Shape("h100", 4, 1), options, is_uniform=False)
    assert found.total_ps == pytest.approx(calibration_of("h100").launch_ps + SHARP_PS[nvls], rel=1e-6)


def test_it_takes_half_of_what_a_ring_takes_where_the_line_decides(tmp_path: Path) -> None:
    """One GPU in each of eight servers at 100 Gbps: a NIC sends the buffer once, and 2 (n - 1) / n of it in a ring."""

    def time_ps(algorithm: str) -> int:
        config = {
            "topology": {"kind": "roft", "gpus": 8, "gpus_per_server": 1, "nic_rate": "100Gbps",
                         "spine_rate": "100Gbps"},
            "network": {"congestion_control": "dctcp", "payload": "4096B"},
            "workload": {
                "kind": "collectives", "gpu": "h100",
                "collective": [{"name": "a", "operation": "all-reduce", "size": "64MiB", "gpus": "all",
                                "algorithm": algorithm, "protocol": "Simple"}],
            },
        }  # fmt: skip
        return max(pdes.simulate(config, tmp_path / algorithm).tasks.to_pydict()["end_ps"])

    assert time_ps("sharp") / time_ps("ring") == pytest.approx(8 / 14, rel=0.03)
