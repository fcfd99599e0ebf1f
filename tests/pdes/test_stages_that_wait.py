"""Interleaved stages that exchange with both neighbours at once and wait: `overlap_pipeline = false` with `vpp`."""

from pathlib import Path
from typing import Any

import pytest

import pdes
from models.workload.closed_form.exchanges import Exchanges
from models.workload.closed_form.iteration import iteration_ps
from pdes.config import config_from_dict
from pdes.errors import ConfigError
from pdes.scenario.placing import cluster_of
from pdes.scenario.topology import build_topology
from pdes.scenario.training import checked_job

BYTES = 512 * 256 * 2  # of activations: sequence x hidden, bf16
FORWARD_MS, BACKWARD_MS = 4.0, 6.0  # of a chunk


def tables(pp: int, vpp: int, m: int, rate: str = "100Gbps", **workload: Any) -> dict[str, Any]:
    passes = [f"{vpp * ms}ms" for ms in (FORWARD_MS, BACKWARD_MS / 2, BACKWARD_MS / 2)]
    return {
        "topology": {"kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": pp, "host_rate": rate},
        "network": {"payload": "4096B", "congestion_control": "dctcp"},
        "workload": {
            "kind": "training", "microbatches": m, "microbatch": 1, "overlap_pipeline": False,
            "model": {"layers": pp * vpp, "hidden": 256, "heads": 8, "sequence": 512, "vocabulary": 8,
                      "tied_embeddings": False},
            "parallel": {"tp": 1, "dp": 1, "pp": pp, "vpp": vpp},
            "compute": {"gpu": "a100-80g", "pass_times": passes}, "memory": {"check": "off"},
        } | workload,
    }  # fmt: skip


def time_ms(config: dict[str, Any], folder: Path) -> float:
    return pdes.simulate(config, folder / "out").summary["iteration_time_ps"][0] / 1e9


def test_two_stages_take_what_can_be_worked_out_by_hand(tmp_path: Path) -> None:
    """Two microbatches, two chunks each: both stages compute five times forward and back, and wait for eight messages.

    Stage 0 sends, then both exchange three times, stage 0 sends its last, and the same again with gradients.
    """
    config = tables(2, 2, 2) | {"network": {"payload": "1000B", "congestion_control": "dctcp"}}
    config["workload"]["model"] |= {"hidden": 1024, "sequence": 4096}  # messages of many round trips
    rows = pdes.simulate(config, tmp_path / "out").tasks.to_pydict()
    ends_ms = [end / 1e9 for kind, end in zip(rows["kind"], rows["end_ps"], strict=True) if kind == "backward"]
    message_ms = 4096 * 1024 * 2 * 8 / 100e9 * 1e3 * 1048 / 1000
    assert max(ends_ms) == pytest.approx(5 * (FORWARD_MS + BACKWARD_MS) + 8 * message_ms, rel=0.005)


@pytest.mark.parametrize(("pp", "vpp", "m"), [(2, 2, 4), (2, 3, 6), (3, 2, 3), (3, 3, 9), (4, 2, 8), (4, 4, 4)])
def test_they_come_to_an_end_and_the_closed_form_agrees(pp: int, vpp: int, m: int, tmp_path: Path) -> None:
    """Messages take about as long as a pass; each crosses, and is acknowledged."""
    given = tables(pp, vpp, m, "1Gbps")
    found = pdes.simulate(given, tmp_path / "out")
    rows = found.tasks.to_pydict()
    crossed = [n for kind, n in zip(rows["kind"], rows["bytes"], strict=True) if kind == "pp-wait"]
    assert crossed.count(1) == crossed.count(BYTES) == 2 * m * (pp * vpp - 1)
    config = config_from_dict(given)
    topology = build_topology(config)
    cluster, job = cluster_of(config, topology), checked_job(config, topology)
    exchanges = Exchanges(job, cluster.ways, topology.server[topology.host], cluster.wire_share, None)
    assert iteration_ps(job, exchanges, {}) == pytest.approx(found.summary["iteration_time_ps"][0], rel=0.03)


def test_messages_in_no_time_cost_nothing(tmp_path: Path) -> None:
    """Stages meet when they exchange, and would have met anyway; where messages take time, they wait for them."""
    waits, beside = (time_ms(tables(4, 2, 8, "2000Gbps", overlap_pipeline=way), tmp_path) for way in (False, True))
    assert waits == pytest.approx(beside, rel=1e-3)
    waits, beside = (time_ms(tables(4, 2, 8, "1Gbps", overlap_pipeline=way), tmp_path) for way in (False, True))
    assert waits > 1.1 * beside


def test_no_message_overtakes_another_of_its_queue_pair(tmp_path: Path) -> None:
    """A byte behind activations at flow level, which have waited in queues: it would be delivered before them, what is
    expected next would go back, and the next message by packets would never be taken.
    """

    def time_in(mode: str) -> float:
        config = tables(3, 2, 6) | {"wormhole": {"mode": mode}}
        config["topology"] = {
            "kind": "roft", "gpus": 3, "gpus_per_server": 1, "nic_rate": "400Gbps", "spine_rate": "400Gbps",
        }  # fmt: skip
        config["workload"]["model"] |= {"hidden": 2048, "sequence": 4096}
        return time_ms(config, tmp_path)

    assert time_in("auto") == pytest.approx(time_in("off"), rel=1e-3)


def test_no_packet_overtakes_a_message_that_is_at_flow_level(tmp_path: Path) -> None:
    """The same of a byte that goes as a packet: it leaves late enough to come behind what waits in queues."""

    def time_in(mode: str) -> float:
        config = tables(4, 2, 12) | {"wormhole": {"mode": mode}}
        config["topology"] = {
            "kind": "roft", "gpus": 16, "gpus_per_server": 4, "nic_rate": "50Gbps", "spine_rate": "50Gbps",
            "servers_per_rail_switch": 4,
        }  # fmt: skip
        config["network"]["congestion_control"] = "dcqcn"
        config["workload"] |= {
            "microbatch": 2, "zero": 1, "sequence_parallel": True, "overlap_tensor": True, "compute": {"gpu": "h100"},
            "parallel": {"tp": 4, "pp": 4, "vpp": 2, "dp": 1}, "nccl": {"all-reduce": {"algorithm": "ring"}},
            "devices": {"h100": {"constants": {"gemm_loss": 0.1, "memory_loss": 0.7}}},
        }  # fmt: skip
        config["workload"]["model"] |= {"hidden": 512, "sequence": 2048, "vocabulary": 8192}
        return time_ms(config, tmp_path)

    assert time_in("auto") == pytest.approx(time_in("off"), rel=0.02)


def test_microbatches_have_to_fill_the_pipeline(tmp_path: Path) -> None:
    """As in Megatron-Core: there no stage would be where its neighbour waits for it."""
    with pytest.raises(ConfigError, match=r"overlap_pipeline: false with 6 microbatches, vpp 2 and pp 4"):
        pdes.simulate(tables(4, 2, 6), tmp_path / "out")
