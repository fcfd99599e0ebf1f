"""Rounds that end by what may cross between logical processes first (`models.network.outputs`): fewer, on ranks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi.test_same_bytes import different, stages

CUT = "partition.delay_threshold=1.5us"
SLOW = pytest.mark.slow  # two ranks wait in either way, too
WAYS = [(2, "shared"), (2, "mpi"), pytest.param(3, "shared", marks=SLOW), pytest.param(3, "mpi", marks=SLOW)]


@pytest.mark.parametrize(("n_rank", "wait"), WAYS)
def test_ranks_wait_for_each_other_less_often(n_rank: int, wait: str, tmp_path: Path, simulate: Callable) -> None:
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in stages(tmp_path).splitlines()))
    simulate(1, config, tmp_path / "alone", CUT)
    simulate(n_rank, config, tmp_path / "ranks", CUT, PDES_WAIT=wait)
    assert not different(tmp_path / "alone", tmp_path / "ranks")
    alone, ranks = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("alone", "ranks"))
    assert ranks["ranks"] == n_rank and ranks["rounds"] < 0.6 * alone["rounds"]  # the pipeline's are as they were
