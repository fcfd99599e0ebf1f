"""Messages as packets beside messages at rates: the same bytes on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi.test_same_bytes import different

SLOW = pytest.mark.slow
FAIR = """
        [wormhole]
        mode = "auto"
        [wormhole.paper]
        forecasts = ["fair"]
    """


def random_messages(_: Path) -> str:
    """Some meet in the network, others do not."""
    return (
        """
        [topology]
        kind = "leaf-spine"
        leaves = 2
        spines = 2
        hosts_per_leaf = 4
        [network]
        congestion_control = "dcqcn"
        [workload]
        kind = "poisson"
        sizes = "fb-hadoop"
        load = 0.5
        flows = 200
    """
        + FAIR
    )


def collectives(_: Path) -> str:
    """Rings that meet each other, and an exchange: messages that follow each other on queue pairs."""
    return (
        """
        [topology]
        kind = "leaf-spine"
        leaves = 2
        spines = 1
        hosts_per_leaf = 4
        [network]
        congestion_control = "dctcp"
        [workload]
        kind = "collectives"
        [[workload.collective]]
        name = "ring"
        operation = "all-reduce"
        size = "1MB"
        gpus = [0, 4, 1, 5, 2, 6, 3, 7]
        [[workload.collective]]
        name = "exchange"
        operation = "all-to-all"
        size = "1MB"
        gpus = [0, 1, 2, 3]
    """
        + FAIR
    )


@pytest.mark.parametrize("make", [random_messages, collectives])
@pytest.mark.parametrize("n_rank", [2, pytest.param(3, marks=SLOW)])
def test_ranks_change_no_byte(make: Callable[[Path], str], n_rank: int, tmp_path: Path, simulate: Callable) -> None:
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in make(tmp_path).splitlines()))
    simulate(1, config, tmp_path / "alone")
    simulate(n_rank, config, tmp_path / "ranks", "partition.placement=round-robin")
    assert different(tmp_path / "alone", tmp_path / "ranks") == []
    result = json.loads((tmp_path / "alone" / "result.json").read_text())
    flow_mode = result["fast_forward"]["flow_mode"]
    assert result["flows_finished"] == result["flows"] > 100
    assert flow_mode["as_packets"] > 10 and flow_mode["messages"] > 10
