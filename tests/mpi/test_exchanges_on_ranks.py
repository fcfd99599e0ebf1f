"""Stages that wait, copy engines, losses by kind of kernel, networks of one's own and SHARP: the same on all ranks."""

from collections.abc import Callable
from pathlib import Path

import pytest

CONFIG = """\
[topology]
kind = "roft"
gpus = 8
gpus_per_server = 2
[network]
congestion_control = "dctcp"
payload = "4096B"
[wormhole]
mode = "MODE"
[workload]
kind = "training"
microbatches = 4
overlap_pipeline = false
transport = "ours"
zero = ZERO
[workload.model]
layers = 4
hidden = 1024
heads = 8
vocabulary = 4096
sequence = 1024
[workload.parallel]
tp = 1
pp = 2
vpp = 2
dp = 4
[workload.compute]
gpu = "h100"
[workload.devices.h100]
copy_engines = 1
[workload.devices.h100.constants]
gemm_loss = 0.1
memory_loss = 0.6
[[workload.transports.ours.buckets]]
up_to = "1MiB"
latency = "30us"
protocol = "LL128"
[[workload.transports.ours.buckets]]
line = 0.9
[[workload.gpus]]
servers = [1]
transport = "roce"
[workload.nccl.all-reduce]
algorithm = "sharp"
"""
FILES = ("result.json", "flows.parquet", "tasks.parquet", "ports.parquet")


@pytest.mark.parametrize(("mode", "zero"), [("off", 0), ("auto", 1)])
def test_exchanges_are_the_same_on_any_number_of_ranks(
    mode: str, zero: int, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    path = tmp_path / "case.toml"
    path.write_text(CONFIG.replace("MODE", mode).replace("ZERO", str(zero)))
    for n in (counts := rank_counts(1, 2, 3)):
        simulate(n, path, tmp_path / str(n))
    for n in counts[1:]:
        one, more = tmp_path / "1", tmp_path / str(n)
        assert [name for name in FILES if (one / name).read_bytes() != (more / name).read_bytes()] == []
