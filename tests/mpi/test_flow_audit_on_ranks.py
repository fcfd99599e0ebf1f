"""An audit of flow mode draws the same messages, and finds the same of them, on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mpi.test_same_bytes import different

SLOW = pytest.mark.slow


def short_messages(folder: Path) -> str:
    """Random ones, so short that there are many stretches of which some are drawn."""
    draws = np.random.default_rng(1)
    src, off, size, start = (draws.integers(*ends, 600) for ends in ((0, 8), (1, 8), (1, 20_000), (0, 10**9)))
    rows = [f"{a},{(a + b) % 8},{c},{d}" for a, b, c, d in zip(src, off, size, start, strict=True)]
    (folder / "flows.csv").write_text("\n".join(["src,dst,size_bytes,start_ps", *rows, ""]))
    return """
        [topology]
        kind = "leaf-spine"
        leaves = 2
        spines = 2
        hosts_per_leaf = 4
        [network]
        congestion_control = "dcqcn"
        [workload]
        kind = "flows"
        file = "flows.csv"
        queue_pairs = "per-pair"
        [wormhole]
        mode = "flow"
        audit = 0.4
    """


@pytest.mark.parametrize("n_rank", [2, pytest.param(3, marks=SLOW)])
def test_ranks_change_no_byte(n_rank: int, tmp_path: Path, simulate: Callable) -> None:
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in short_messages(tmp_path).splitlines()))
    simulate(1, config, tmp_path / "alone")
    simulate(n_rank, config, tmp_path / "ranks", "partition.placement=round-robin")
    assert different(tmp_path / "alone", tmp_path / "ranks") == []
    result = json.loads((tmp_path / "alone" / "result.json").read_text())
    found, counts = result["fast_forward"]["audit"], result["fast_forward"]["flow_mode"]
    assert result["flows_finished"] == result["flows"] == 600
    assert counts["as_packets"] > 100 and counts["messages"] > 100
    assert 2 < found["stretches_audited"] < found["stretches"] - 2
    assert found["flow_mode"]["flows"] > 100 and found["flow_mode"]["standard_error"] > 0
