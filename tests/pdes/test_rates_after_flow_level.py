"""Messages that leave flow level: their controls go on from what is acknowledged."""

from pathlib import Path
from typing import Any

import pytest

import pdes

CONFIG: dict[str, Any] = {
    "topology": {
        "kind": "roft", "gpus": 32, "gpus_per_server": 2, "nic_rate": "200Gbps", "spine_rate": "200Gbps",
        "servers_per_rail_switch": 2, "nvlink": "packets",
    },
    "network": {"congestion_control": "timely", "payload": "4096B"},
    "workload": {
        "kind": "training", "microbatches": 2, "zero": 3, "sequence_parallel": True, "compute": {"gpu": "h100"},
        "model": {"layers": 4, "hidden": 1024, "heads": 8, "sequence": 2048, "vocabulary": 8192},
        "parallel": {"tp": 4, "dp": 4, "pp": 2},
    },
    "output": {"tasks": False, "flows": False},
}  # fmt: skip


def test_a_rate_goes_on_changing_when_messages_leave_flow_level(tmp_path: Path) -> None:
    """Acknowledgements of packets that were in flight told TIMELY that whole messages were sent which then went packet
    by packet: it left its rate at the least until these were acknowledged, and the iteration took twice as long.

    What is left is that a control does not move while its messages are at flow level.
    """
    full, auto = (
        pdes.simulate(CONFIG | {"wormhole": {"mode": mode}}, tmp_path / mode).summary["iteration_time_ps"][0]
        for mode in ("off", "auto")
    )
    assert auto == pytest.approx(full, rel=0.12)
