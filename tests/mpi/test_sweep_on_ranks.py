"""A sweep whose runs go to other ranks: the same points, whatever the order in which they end."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("scipy")
BASE = """
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 1
[workload]
kind = "poisson"
sizes = "web-search"
load = 0.3
flows = 5
"""
SWEEP = """
[sweep]
config = "base.toml"
seeds = 2
[[sweep.axis]]
key = "workload.flows"
values = [3, 6, -1]
"""


def test_ranks_say_what_one_says(tmp_path: Path, start: Callable) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    for n in (1, 2):
        done = start(n, "-m", "pdes", "sweep", tmp_path / "sweep.toml", "--out", tmp_path / str(n))
        assert done.returncode == 0, done.stderr
        assert "6 runs, 4 of them now" in done.stdout and "2 runs refused" in done.stdout
    assert (tmp_path / "1" / "points.parquet").read_bytes() == (tmp_path / "2" / "points.parquet").read_bytes()


def test_what_is_wrong_ends_all_ranks(tmp_path: Path, start: Callable) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("workload.flows", "workload.flowz"))
    done = start(2, "-m", "pdes", "sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("flowz") >= 1 and "Traceback" not in done.stderr
