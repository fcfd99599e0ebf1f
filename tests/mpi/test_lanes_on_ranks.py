"""Messages that have their ways to themselves end alike on any number of ranks, also those that somebody comes to."""

import json
from collections.abc import Callable
from pathlib import Path

FILES = ("result.json", "flows.parquet", "ports.parquet", "tasks.parquet", "partitions.parquet")
CONFIG = """\
[topology]
kind = "roft"
gpus = 32
gpus_per_server = 4
servers_per_rail_switch = 4
oversubscription = 2
[network]
congestion_control = "hpcc"
[workload]
kind = "training"
microbatch = 1
microbatches = 8
start_jitter = "20us"
[workload.model]
layers = 4
hidden = 2048
vocabulary = 8192
sequence = 1024
[workload.parallel]
tp = 4
dp = 4
pp = 2
[wormhole]
mode = "full"
memo_tolerance = 0.05
lanes = true
[output]
partitions = true
"""


def test_lanes_are_the_same_bytes(tmp_path: Path, simulate: Callable) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    for n in (1, 2, 3):
        simulate(n, tmp_path / "config.toml", tmp_path / str(n))
    facts = json.loads((tmp_path / "1" / "result.json").read_text())["fast_forward"]
    lanes = facts["lanes"]
    assert lanes["opened"] > 10 and lanes["converted"] > 5 and lanes["closed"] > 0
    assert facts["skipped_packet_hops"]["lane"] > facts["skipped_packet_hops"]["steady"]
    for n in (2, 3):
        differ = [f for f in FILES if (tmp_path / "1" / f).read_bytes() != (tmp_path / str(n) / f).read_bytes()]
        assert not differ, (n, differ)
