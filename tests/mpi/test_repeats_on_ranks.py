"""Which passes of a pipeline's loop are left out, and what their rows say, is the same on any number of ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = ("result.json", "flows.parquet", "tasks.parquet", "ports.parquet", "breakdown.parquet")
CONFIG = """\
[simulation]
iterations = 2
[topology]
kind = "roft"
gpus = 8
gpus_per_server = 2
[workload]
kind = "training"
microbatches = 16
[workload.model]
layers = 4
hidden = 256
vocabulary = 1024
sequence = 256
[workload.parallel]
tp = 2
dp = 2
pp = 2
[partition]
delay_threshold = "500ns"
[wormhole]
mode = "exact"
"""


@pytest.mark.parametrize(
    "sets",
    [
        (),
        ("network.congestion_control=dcqcn", "wormhole.iteration_tolerance=0.01"),
        ("wormhole.mode=flow",),
    ],
)
def test_every_rank_leaves_out_the_same_passes(
    sets: tuple[str, ...], tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    simulate(1, tmp_path / "config.toml", tmp_path / "1", *sets)
    passes = json.loads((tmp_path / "1" / "result.json").read_text())["fast_forward"]["passes"]
    assert passes["skipped"] > 8 and len(passes["jumps"]) == 2
    for n_rank, placement in rank_counts((2, "metis"), (3, "round-robin")):
        out = tmp_path / str(n_rank)
        simulate(n_rank, tmp_path / "config.toml", out, *sets, f"partition.placement={placement}")
        assert [name for name in FILES if (tmp_path / "1" / name).read_bytes() != (out / name).read_bytes()] == []
