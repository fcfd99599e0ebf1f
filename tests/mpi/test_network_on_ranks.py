"""Every congestion control, every routing policy, loss, pauses and failing links: the same on 1, 2 and 3 ranks."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

MATRIX = Path(__file__).with_name("network_matrix.py")


@pytest.fixture(scope="module")
def alone(start: Callable) -> list[str]:
    done = start(1, MATRIX)
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


@pytest.mark.parametrize("n_rank", [2, 3])
def test_ranks_change_nothing(alone: list[str], n_rank: int, start: Callable) -> None:
    done = start(n_rank, MATRIX)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == alone
