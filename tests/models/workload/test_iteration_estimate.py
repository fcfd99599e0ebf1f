"""Claims about the closed form of an iteration: formulas where there are some, and runs where there are none."""

from pathlib import Path
from typing import Any

import pytest

import models.workload.closed_form.iteration as iteration
import pdes
from models.compute.lower import optimizer_ps, segments
from models.topology.even_ways import EvenWays
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from models.workload.compiler.parts import updated_parameters
from models.workload.nccl.in_server import in_server_ps
from pdes.config import Config, config_from_dict
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

MODEL = {"layers": 8, "hidden": 512, "heads": 8, "vocabulary": 4096, "sequence": 512}


def tables(tp: int = 1, pp: int = 1, dp: int = 1, vpp: int = 1, **more: Any) -> dict[str, Any]:
    """more: of [workload], besides cp and ep of its layout; topology: of [topology]."""
    rest = {name: more.pop(name) for name in ("cp", "ep", "shard") if name in more}
    n_gpu = tp * pp * dp * rest.get("cp", 1)
    topology = {"kind": "roft", "gpus_per_server": min(4, n_gpu), "nvlink": "packets"} | more.pop("topology", {})
    workload = {
        "kind": "training", "model": MODEL, "compute": {"gpu": "h100"},
        "parallel": {"tp": tp, "pp": pp, "dp": dp, "vpp": vpp} | rest,
    } | more  # fmt: skip
    return {
        "simulation": {"iterations": 2}, "topology": topology | {"gpus": n_gpu}, "workload": workload,
        "network": {"congestion_control": "dctcp", "payload": "4096B"}, "wormhole": {"mode": "off"},
        "output": {"tasks": False},
    }  # fmt: skip


def estimate_ps(config: Config) -> int:
    topology = build_topology(config)
    job, payload = checked_job(config, topology), config.network.payload_bytes
    packet = payload + config.network.header_bytes
    server = topology.server[topology.host]
    return iteration_ps(job, Exchanges(job, EvenWays(topology, packet), server, packet / payload, None), {})


@pytest.mark.parametrize(("pp", "vpp", "m"), [(2, 1, 2), (4, 1, 4), (4, 1, 16), (4, 2, 8), (2, 4, 8), (4, 2, 160)])
def test_equal_stages_have_the_bubble_of_the_formula(pp: int, vpp: int, m: int) -> None:
    """(p - 1) / (m v) of the computing, where messages take no time to speak of."""
    fast = {"nic_rate": "40Tbps", "nvlink_rate": "40Tbps", "nic_delay": "1ns", "spine_delay": "1ns"}
    times = ["30ms", "40ms", "20ms"]
    config = config_from_dict(
        tables(pp=pp, vpp=vpp, microbatches=m, topology=fast, compute={"gpu": "h100", "pass_times": times})
    )
    formula_s = 0.09 * m * (1 + (pp - 1) / (m * vpp))
    assert estimate_ps(config) / 1e12 == pytest.approx(formula_s, rel=2e-3)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_tensor_parallelism_on_one_server_is_kernels_and_timed_exchanges(tp: int) -> None:
    config = config_from_dict(
        tables(tp=tp, topology={"gpus_per_server": tp}, microbatches=3, overlap_tensor_gradients=False)
    )
    topology = build_topology(config)
    job = checked_job(config, topology)
    total_ps = 0
    for part, n in (("embedding", 1), ("dense", MODEL["layers"]), ("head", 1)):
        for which in ("forward", "backward"):
            for one in segments(job.shape, job.layout, job.devices[0], part, which):
                assert not one.overlapped
                exchange_ps = in_server_ps(job.in_server(), one.kind, one.size_bytes, tp) if one.size_bytes else 0
                total_ps += 3 * n * (one.time_ps + exchange_ps)
    total_ps += optimizer_ps(job.shape, job.layout, job.devices[0], updated_parameters(job, 0))
    assert abs(estimate_ps(config) - total_ps) <= 3 * 100 * 1000  # a timed exchange takes 1 ns at the least


def test_many_microbatches_are_followed_as_if_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for more in ({"pp": 4, "vpp": 2}, {"pp": 4, "schedule": "zero-bubble-1p"}, {"pp": 2, "dp": 2, "zero": 1}):
        config = config_from_dict(tables(microbatches=64, **more))
        short_ps = estimate_ps(config)
        with monkeypatch.context() as patched:
            patched.setattr(iteration, "FOLLOWED", 100)
            assert short_ps == pytest.approx(estimate_ps(config), rel=1e-3)


CASES = [
    (0.005, {"tp": 4, "dp": 2, "microbatches": 4}),
    (0.005, {"tp": 2, "pp": 2, "dp": 2, "microbatches": 4, "zero": 1}),
    (0.01, {"tp": 2, "pp": 4, "vpp": 2, "microbatches": 8, "recompute": "full"}),
    (0.03, {"dp": 8, "microbatches": 4, "zero": 3}),
    (0.05, {"dp": 8, "microbatches": 4, "zero": 3, "shard": 4}),
    (0.03, {"dp": 8, "tp": 2, "microbatches": 4, "zero": 1, "shard": 2}),
    (0.03, {"pp": 4, "dp": 2, "microbatches": 8, "schedule": "zero-bubble-1p"}),
    (0.01, {"pp": 4, "dp": 2, "microbatches": 8, "schedule": "gpipe"}),
    (0.01, {"pp": 2, "tp": 2, "dp": 2, "microbatches": 4, "gpus": [{"servers": [1], "slowness": 1.5}]}),
    (0.01, {"dp": 8, "microbatches": 2, "model": MODEL | {"experts": 8, "top_k": 2}, "ep": 8}),
    (0.01, {"dp": 4, "microbatches": 2, "cp": 2}),
    (0.01, {"tp": 2, "dp": 4, "microbatches": 2, "zero": 1, "overlap_gradients": False, "overlap_parameters": False}),
    (0.02, {"tp": 4, "dp": 2, "microbatches": 2, "nccl": {"all-reduce": {"algorithm": "tree"}}}),
]


@pytest.mark.parametrize(("tolerance", "more"), CASES, ids=[f"{i}" for i in range(len(CASES))])
def test_it_says_what_packets_say(tolerance: float, more: dict[str, Any], tmp_path: Path) -> None:
    config = config_from_dict(tables(**more))
    run = pdes.simulate(config, tmp_path / "out")
    assert estimate_ps(config) == pytest.approx(run.summary["iteration_time_ps"][-1], rel=tolerance)


def test_more_of_the_same_takes_longer_and_a_faster_network_does_not() -> None:
    def ps(m: int, rate: str) -> int:
        return estimate_ps(config_from_dict(tables(tp=2, pp=2, dp=4, microbatches=m, topology={"nic_rate": rate})))

    assert ps(4, "100Gbps") < ps(5, "100Gbps") < ps(9, "100Gbps") and ps(4, "400Gbps") <= ps(4, "100Gbps")
