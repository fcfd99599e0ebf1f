"""LPs that move between ranks at random rounds, to random ranks, change no byte (design R6, R7)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi import test_lanes_on_ranks as lanes
from mpi.test_checkpoint_on_ranks import CASES as CHECKPOINTED
from mpi.test_same_bytes import compiled, experts, random_flows
from reference.checkpointed import different

FORCED = Path(__file__).with_name("forced_moves.py")
CASES: dict[str, Callable[[Path], str]] = {
    **{name: make for name, (make, _) in CHECKPOINTED.items()},
    "fat-tree": random_flows,
    "experts": experts,
    "compiled": compiled,
    "lanes": lambda _: lanes.CONFIG,
}


@pytest.fixture(scope="module", params=CASES)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, simulate: Callable) -> Path:
    """A folder with config.toml, and what it gives on one rank, in `whole`."""
    folder = tmp_path_factory.mktemp(request.param)
    text = CASES[request.param](folder)
    (folder / "config.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    simulate(1, folder / "config.toml", folder / "whole")
    return folder


def forced(start: Callable, n_rank: int, seed: int, every: int, config: Path, out: Path, *sets: str) -> list[dict]:
    """A run whose LPs move; the moves."""
    overrides = [word for text in sets for word in ("--set", text)]
    done = start(n_rank, FORCED, seed, every, config, "--out", out, *overrides)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "run.json").read_text())["rebalance"]["moves"]


@pytest.mark.parametrize(("n_rank", "seed"), [(2, 1), (3, 2)])
def test_moves_at_random_rounds_change_no_byte(
    alone: Path, n_rank: int, seed: int, tmp_path: Path, start: Callable
) -> None:
    whole = {name: json.loads((alone / "whole" / f"{name}.json").read_text()) for name in ("run", "result")}
    if whole["result"]["logical_processes"] <= n_rank:
        return  # of "room" on three ranks: each has one at most, and nothing is to be gained
    every = max(1, whole["run"]["rounds"] // 40)
    moves = forced(start, n_rank, seed, every, alone / "config.toml", tmp_path)
    assert len(moves) >= 10 and sum(move["lps"] for move in moves) >= 10
    assert different(alone / "whole", tmp_path) == []
