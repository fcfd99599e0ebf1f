"""How many iterations are simulated, and what the others are taken to be, is the same on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = ("result.json", "flows.parquet", "tasks.parquet", "ports.parquet")
CONFIG = """\
[simulation]
iterations = 1000
[topology]
kind = "roft"
gpus = 16
[workload]
kind = "training"
[workload.model]
layers = 2
hidden = 256
vocabulary = 1024
sequence = 256
[workload.parallel]
tp = 4
dp = 2
pp = 2
[partition]
delay_threshold = "500ns"
[wormhole]
mode = "exact"
"""
ALTERNATING = "workload.model.hidden=512"  # every other iteration takes 1.5 % longer


def different(one: Path, other: Path) -> list[str]:
    return [name for name in FILES if (one / name).read_bytes() != (other / name).read_bytes()]


@pytest.mark.parametrize(
    ("sets", "n_least", "n_most"),
    [
        ((), 4, 12),
        ((ALTERNATING,), 7, 12),
        ((ALTERNATING, "simulation.iterations=8", "network.congestion_control=dcqcn"), 8, 8),
        (("simulation.stop_time=1100us",), 4, 4),
    ],
)
def test_every_rank_decides_the_same(
    sets: tuple[str, ...], n_least: int, n_most: int, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    simulate(1, tmp_path / "config.toml", tmp_path / "1", *sets)
    result = json.loads((tmp_path / "1" / "result.json").read_text())
    assert n_least <= result["fast_forward"]["iterations_simulated"] <= n_most
    for n_rank, placement in rank_counts((2, "metis"), (3, "round-robin")):
        out = tmp_path / str(n_rank)
        simulate(n_rank, tmp_path / "config.toml", out, *sets, f"partition.placement={placement}")
        run = json.loads((out / "run.json").read_text())
        assert run["ranks"] == n_rank and set(run["rank_of_lp"]) == set(range(n_rank))
        assert different(tmp_path / "1", out) == []
