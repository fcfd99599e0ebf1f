"""Runs so small that they take a second as plain Python, where NumPy checks every index of whatever skips packets."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from models.network.skip.fast_forward import FastForward
from models.network.state.records import PACKET_HOPS
from properties.network_runs import run

US, HOPS_PER_PACKET = 10**6, 4  # two links, and the acknowledgement's
SIZE = 300_000
LONE = [(0, 1, 2 * SIZE, 0, 3)]
TURNS = [*((0, 1, SIZE, k * 60 * US, 3) for k in range(5)), (2, 1, SIZE, 185 * US, 3)]  # the last two meet
EXACT = {"mode": "exact"}
FLOW_LEVEL = {
    "mode": "auto",
    "tolerance": 0.05,
    "paper": {"forecasts": ["periodic", "replay", "similar", "alone", "shares"]},
}
MANAGED = {"congestion_control": "fixed-window", "buffer": {"size": "1MB"}}
CASES = {  # network, wormhole, flows, how packets are skipped
    "steady": ({"congestion_control": "fixed-window"}, EXACT, LONE, ("steady",)),
    "steady, managed switches": (MANAGED, EXACT, LONE, ("steady",)),
    "flow level": ({"congestion_control": "dctcp"}, FLOW_LEVEL, TURNS, ("fluid",)),
    "memo and flow level": ({"congestion_control": "fixed-window"}, FLOW_LEVEL, TURNS, ("steady", "memo", "fluid")),
    "audited": (
        {"congestion_control": "fixed-window"},
        FLOW_LEVEL | {"audit": 0.5},
        TURNS,
        ("steady", "memo", "fluid"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_skipped_is_the_same_if_every_look_goes_through_python(name: str) -> None:
    network, wormhole, flows, ways = CASES[name]
    tables: dict[str, Any] = {
        "topology": {
            "kind": "leaf-spine", "leaves": 1, "spines": 1, "hosts_per_leaf": 3, "host_rate": "100Gbps",
            "spine_rate": "100Gbps", "host_delay": "100ns", "spine_delay": "100ns",
        },
        "network": network, "wormhole": wormhole, "workload": {"queue_pairs": "per-pair"},
    }  # fmt: skip
    quickly = run(tables, flows)
    with patch.object(FastForward, "round_looks", lambda *_: None):
        slowly = run(tables, flows)
    fast, other = quickly.model.fast_forward, slowly.model.fast_forward
    assert np.array_equal(quickly.rows, slowly.rows) and quickly.delivered_ps == slowly.delivered_ps
    assert (fast.counters, fast.skipped) == (other.counters, other.skipped)
    assert sorted(quickly.delivered_ps) == list(range(len(flows)))
    skipped = fast.skipped.hops_by_cause
    assert [way for way in ways if not skipped[way]] == []
    n_packet = sum(-(-size // 1000) for _, _, size, *_ in flows)
    assert quickly.model.state.fabric.counters[PACKET_HOPS] + sum(skipped.values()) == n_packet * HOPS_PER_PACKET
