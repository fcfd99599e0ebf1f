"""Waves that are not simulated end alike on any number of ranks, also those that somebody comes to."""

import json
from collections.abc import Callable
from pathlib import Path

FILES = ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet", "partitions.parquet")
CONFIG = """\
[topology]
kind = "roft"
gpus = 32
gpus_per_server = 4
[network]
congestion_control = "hpcc"
[workload]
kind = "training"
microbatch = 1
start_jitter = "20us"
[workload.model]
layers = 6
hidden = 1024
vocabulary = 8192
sequence = 1024
experts = 8
top_k = 2
[workload.parallel]
tp = 4
dp = 4
pp = 2
ep = 8
[wormhole]
mode = "auto"
tolerance = 0.3
paper.forecasts = ["periodic", "replay", "similar"]
audit = 0.1
[output]
partitions = true
"""


def test_waves_are_the_same_bytes(tmp_path: Path, simulate: Callable, rank_counts: Callable) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    counts = rank_counts(1, 2, 3)
    for n in counts:
        simulate(n, tmp_path / "config.toml", tmp_path / str(n))
    facts = json.loads((tmp_path / "1" / "result.json").read_text())["fast_forward"]["waves"]
    assert facts["replayed"] > 10 and facts["interrupted"] > 0 and facts["waves"] > 0
    for n in counts[1:]:
        differ = [f for f in FILES if (tmp_path / "1" / f).read_bytes() != (tmp_path / str(n) / f).read_bytes()]
        assert not differ, (n, differ)
