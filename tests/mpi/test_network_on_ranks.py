"""Every congestion control, every routing policy, loss, pauses and failing links: the same on 1, 2 and 3 ranks."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pdes.convert.ns3 import convert

CASES = Path(__file__).parents[1] / "reference" / "ns3_cases"
MATRIX = Path(__file__).with_name("network_matrix.py")


@pytest.fixture(scope="module")
def alone(ask: Callable) -> list[str]:
    done = ask(1, MATRIX)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_cases_are_worth_comparing(alone: list[str]) -> None:
    assert len(alone) == 24
    for line in alone:
        count = {name: int(n) for name, n in re.findall(r"'(\w+)': (\d+)", line)}
        if "PFC" in line:
            assert count["drops"] == 0, line
        if "loss" in line or "fails" in line:
            assert count["drops"] > 0, line
    assert sum("'pause_frames': 0," not in line for line in alone) >= 6
    assert sum(", 0 timeouts" not in line for line in alone) >= 9


@pytest.mark.parametrize("n_rank", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_ranks_change_nothing(alone: list[str], n_rank: int, ask: Callable) -> None:
    done = ask(n_rank, MATRIX)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == alone


@pytest.mark.parametrize("name", ["i2_pfc_incast8_1mb/dcqcn", "k_link_error/hpcc", "j_lossy_nopfc/timely"])
def test_ranks_change_nothing_by_ns3s_rules(name: str, tmp_path: Path, simulate: Callable) -> None:
    config = tmp_path / "case.toml"
    convert(CASES / name, config)
    for n_rank in (1, 2):
        simulate(n_rank, config, tmp_path / f"ranks{n_rank}", "partition.delay_threshold=500ns")
    for table in ("flows.parquet", "ports.parquet", "result.json"):
        alone, shared = (tmp_path / f"ranks{n_rank}" / table for n_rank in (1, 2))
        assert alone.read_bytes() == shared.read_bytes()
