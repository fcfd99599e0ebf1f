"""A search whose runs go to other ranks: the same candidates, to the byte, and the same winner."""

from collections.abc import Callable
from pathlib import Path

BASE = """
[topology]
kind = "roft"
gpus = 4
gpus_per_server = 2
[workload]
kind = "training"
microbatches = 2
[workload.model]
layers = 2
hidden = 64
heads = 2
vocabulary = 64
sequence = 64
[workload.parallel]
tp = 1
dp = 4
pp = 1
[workload.compute]
gpu = "h100"
[wormhole]
mode = "off"
"""
SEARCH = """
[search]
config = "base.toml"
objective = "throughput"
[search.layout]
tp = "auto"
pp = "auto"
"""


def test_ranks_say_what_one_says(tmp_path: Path, start: Callable) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "search.toml").write_text(SEARCH)
    for n in (1, 2):
        done = start(n, "-m", "pdes", "search", tmp_path / "search.toml", "--out", tmp_path / str(n))
        assert done.returncode == 0, done.stderr
        assert "4 candidates, 0 refused" in done.stdout and "gap: " in done.stdout
    assert len({(tmp_path / n / "candidates.parquet").read_bytes() for n in ("1", "2")}) == 1


def test_what_is_wrong_ends_all_ranks(tmp_path: Path, start: Callable) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "search.toml").write_text(SEARCH.replace("throughput", "thruput"))
    done = start(2, "-m", "pdes", "search", tmp_path / "search.toml", "--out", tmp_path / "out")
    assert done.returncode == 2 and "throughput" in done.stderr and "Traceback" not in done.stderr
