"""What the papers' criteria decide, by queues of all ranks, is the same on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = ("result.json", "flows.parquet", "ports.parquet", "partitions.parquet")
CONFIG = """\
[topology]
kind = "fat-tree"
k = 4
[network]
congestion_control = "fixed-window"
[workload]
kind = "flows"
file = "flows.csv"
[partition]
delay_threshold = "1us"
[wormhole]
mode = "exact"
paper.forecasts = ["periodic"]
[output]
partitions = true
"""
FLOWS = [(0, 5, 40_000_000, 0), (9, 5, 40_000_000, 0), (2, 14, 45_000_000, 0), (12, 3, 3_000_000, 300_000_000)]


def different(one: Path, other: Path) -> list[str]:
    return [name for name in FILES if (one / name).read_bytes() != (other / name).read_bytes()]


@pytest.mark.parametrize("sets", [("criterion=paper", "metric=Q"), ("criterion=hygra",)])
def test_every_rank_decides_the_same(
    sets: tuple[str, ...], tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in FLOWS)]
    (tmp_path / "flows.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "config.toml").write_text(CONFIG)
    overrides = [f"wormhole.paper.{text}" for text in sets]
    simulate(1, tmp_path / "config.toml", tmp_path / "1", *overrides)
    result = json.loads((tmp_path / "1" / "result.json").read_text())
    assert result["fast_forward"]["freezes"] > 0 and result["fast_forward"]["skipped_share"] > 0.1
    for n_rank, placement in rank_counts((2, "metis"), (3, "round-robin")):
        out = tmp_path / str(n_rank)
        simulate(n_rank, tmp_path / "config.toml", out, *overrides, f"partition.placement={placement}")
        run = json.loads((out / "run.json").read_text())
        assert run["ranks"] == n_rank and set(run["rank_of_lp"]) == set(range(n_rank))
        assert different(tmp_path / "1", out) == []
