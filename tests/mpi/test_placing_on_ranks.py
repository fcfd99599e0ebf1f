"""Where ranks are, layers of stages and microbatches of replicas: every rank of a run chooses the same."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

CONFIG = """\
[simulation]
iterations = 2
[topology]
kind = "roft"
gpus = 8
gpus_per_server = 2
nvlink = "packets"
[network]
congestion_control = "dctcp"
payload = "4096B"
[workload]
kind = "training"
placement = "optimised"
global_batch = 16
microbatch = 1
[workload.model]
layers = 6
hidden = 512
heads = 8
vocabulary = 4096
sequence = 512
[workload.parallel]
tp = 1
pp = PP
dp = DP
stage_layers = "auto"
replica_microbatches = "auto"
[workload.compute]
gpu = "a100-80g"
[[workload.gpus]]
servers = [1, 2]
gpu = "h100"
"""
FILES = ("result.json", "flows.parquet", "tasks.parquet", "ports.parquet")


@pytest.mark.parametrize("pp, dp", [(2, 4), (1, 8)])
def test_what_is_chosen_is_the_same_on_any_number_of_ranks(
    pp: int, dp: int, tmp_path: Path, simulate: Callable, rank_counts: Callable
) -> None:
    """With stages, these are of one type each and unequal; without, replicas have unequal shares."""
    path = tmp_path / "case.toml"
    path.write_text(CONFIG.replace("PP", str(pp)).replace("DP", str(dp)))
    for n in (counts := rank_counts(1, 2)):
        simulate(n, path, tmp_path / str(n))
    one, most = (tmp_path / str(n) for n in (1, counts[-1]))
    assert [name for name in FILES if (one / name).read_bytes() != (most / name).read_bytes()] == []
    chosen = json.loads((one / "result.json").read_text())["workload"]
    if pp > 1:
        assert chosen["placement"].startswith("optimised: by flow mode")
        assert sum(chosen["layers_per_stage"]) == 6 and len(set(chosen["layers_per_stage"])) > 1
    else:
        assert sum(chosen["microbatches_per_replica"]) == 16 and len(set(chosen["microbatches_per_replica"])) > 1
