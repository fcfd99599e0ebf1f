"""Networks between servers of one's own, by buckets of sizes, and servers on unlike ones."""

from pathlib import Path
from typing import Any

import pytest

import pdes
from models.workload.nccl import transports
from models.workload.nccl.calibration import calibration_of
from models.workload.nccl.estimate import Shape, choose
from models.workload.nccl.options import CollectiveOptions
from pdes.config.tables.transports import TRANSPORTS, TransportConfig
from pdes.errors import ConfigError
from pdes.scenario.transports import own_transports

US, MIB = 10**6, 2**20
SLOW = {"buckets": [{"up_to": "1MiB", "latency": "300us"}, {"latency": "900us", "hop_latency": "7us", "line": 0.5}]}
QUICK = {"buckets": [{"latency": "1us"}]}


def collective(size: str, **workload: Any) -> dict[str, Any]:
    """An all-reduce of four servers of one GPU each."""
    return {
        "topology": {"kind": "roft", "gpus": 4, "gpus_per_server": 1, "nic_rate": "100Gbps", "spine_rate": "100Gbps"},
        "network": {"congestion_control": "dctcp", "payload": "4096B"},
        "workload": {
            "kind": "collectives", "gpu": "h100",
            "collective": [
                {"name": "a", "operation": "all-reduce", "size": size, "gpus": "all", "algorithm": "ring"}
            ],
        } | workload,
    }  # fmt: skip


def job(gpus: list[dict[str, Any]], **workload: Any) -> dict[str, Any]:
    """Four servers of two GPUs, tensor-parallel inside, one replica each."""
    return {
        "topology": {"kind": "roft", "gpus": 8, "gpus_per_server": 2, "nic_rate": "100Gbps", "spine_rate": "100Gbps"},
        "network": {"congestion_control": "dctcp", "payload": "4096B"},
        "workload": {
            "kind": "training", "microbatches": 1, "compute": {"gpu": "h100"}, "overlap_gradients": False,
            "model": {"layers": 2, "hidden": 512, "heads": 8, "sequence": 512, "vocabulary": 1024,
                      "tied_embeddings": False},
            "parallel": {"tp": 2, "dp": 2, "pp": 2}, "gpus": gpus, "transports": {"slow": SLOW, "quick": QUICK},
        } | workload,
    }  # fmt: skip


def end_us(config: dict[str, Any], folder: Path) -> float:
    return max(pdes.simulate(config, folder / "out").tasks.to_pydict()["end_ps"]) / US


def test_the_config_knows_the_models_networks() -> None:
    assert set(TRANSPORTS) == set(transports.TRANSPORTS)


@pytest.mark.parametrize(("size", "latency_us", "hop_us", "line"), [(MIB, 300, 0, 1.0), (4 * MIB, 900, 7, 0.5)])
def test_a_bucket_says_latency_and_part_of_the_line(size: int, latency_us: int, hop_us: int, line: float) -> None:
    """alpha + bytes / beta of a ring over four servers: six steps, one and a half times the buffer."""
    slow = own_transports({"slow": TransportConfig.model_validate(SLOW)})["slow"]
    options = CollectiveOptions(algorithm="ring", transports=(slow,), nic_goodput_bps=100 * 10**9)
    found = choose("all-reduce", size, Shape("h100", 4, 1), options, is_uniform=False)
    alpha_ps = calibration_of("h100").launch_ps + (latency_us + 6 * hop_us) * US
    assert found.total_ps == pytest.approx(alpha_ps + 1.5 * size * 8 / (100e9 * line) * 1e12, rel=1e-6)


@pytest.mark.parametrize(("size", "latency_us"), [("1MiB", 300), ("4MiB", 900)])
def test_a_run_takes_what_the_bucket_of_its_size_says(size: str, latency_us: int, tmp_path: Path) -> None:
    own = {"transport": "slow", "transports": {"slow": SLOW, "quick": QUICK}}
    slow, quick = (end_us(collective(size, **own | {"transport": name}), tmp_path) for name in ("slow", "quick"))
    line_us = 0 if size == "1MiB" else 1.5 * 4 * MIB * 8 / 100e3 * (4144 / 4096) + 6 * 7  # as long again, and hops
    assert slow - quick == pytest.approx(latency_us - 1 + line_us, rel=0.02)


def test_a_group_on_unlike_networks_goes_at_the_pace_of_the_slower_one(tmp_path: Path) -> None:
    """Of two stages, one has a server on the slow network: its gradients take as if all were there."""

    def ends(gpus: list[dict[str, Any]], **workload: Any) -> dict[int, int]:
        rows = pdes.simulate(job(gpus, **workload), tmp_path / "out").tasks.to_pydict()
        found: dict[int, int] = {}
        for gpu, kind, begin, end in zip(rows["gpu"], rows["kind"], rows["start_ps"], rows["end_ps"], strict=True):
            if kind == "dp":
                found[gpu] = max(found.get(gpu, 0), end - begin)
        return found

    all_slow, all_quick = (ends([], transport=name) for name in ("slow", "quick"))
    mixed = ends([{"servers": [1], "transport": "slow"}], transport="quick")  # ranks in order: servers 0, 1 are stage 0
    first, last = range(4), range(4, 8)
    assert all(mixed[gpu] == all_slow[gpu] > all_quick[gpu] for gpu in first)
    assert all(mixed[gpu] == all_quick[gpu] for gpu in last)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"transport": "rose"}, r'transport: found "rose"\. Accepted: "infiniband", "roce".*Did you mean "roce"'),
        ({"transports": {"roce": QUICK}}, r"transports\] roce: is the name of a known one"),
        ({"transports": {"a": {"buckets": [{"up_to": "1MiB"}]}}}, r"have none for all sizes above"),
        ({"transports": {"a": {"buckets": [{}, {}]}}}, r"is behind one without up_to"),
        ({"transports": {"a": {"buckets": [{"up_to": "2MiB"}, {"up_to": "1MiB"}, {}]}}}, r"is no larger than"),
        ({"transports": {"a": {"buckets": []}}}, r"buckets"),
        ({"transports": {"a": {"buckets": [{"line": 1.5}]}}}, r"line"),
        ({"gpus": [{"servers": [0], "transport": "rdma"}]}, r'gpus.* transport: found "rdma"'),
    ],
)
def test_what_cannot_be_is_refused(workload: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        pdes.simulate(job([]) | {"workload": job([])["workload"] | workload}, tmp_path / "out")
