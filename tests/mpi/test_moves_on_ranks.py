"""LPs that move at random rounds change no byte, nor do ranks that join and fall asleep (design R6, R7)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi import test_fluid_on_ranks as fluid
from mpi import test_waves_on_ranks as waves
from mpi.test_checkpoint_on_ranks import CASES as CHECKPOINTED
from mpi.test_checkpoint_on_ranks import resume
from mpi.test_same_bytes import compiled, experts, rails, random_flows
from reference.checkpointed import checkpoints_of, different

FORCED = Path(__file__).with_name("forced_moves.py")
CHANGES = Path(__file__).with_name("forced_changes.py")


def split(folder: Path) -> str:
    """Flows over two queue pairs each that packets of one sprays, with losses."""
    return random_flows(folder) + SPLIT


SPLIT = """
[network.routing]
policy = "spray"
queue_pairs_per_flow = 2
[network.transport]
recovery = "selective-repeat"
[network.loss]
probability = 0.001
[output]
sample_interval = "3us"
"""
CASES: dict[str, Callable[[Path], str]] = {
    **{name: make for name, (make, _) in CHECKPOINTED.items()},
    "fat-tree": lambda folder: random_flows(folder) + "[output]\nrtt_of_flow = 3\n",
    "experts": experts,
    "rails": rails,
    "compiled": compiled,
    "fluid": lambda _: fluid.CONFIG,
    "split": split,
}
# Flow level: test_fluid_on_ranks. LPs of "waves" move with checkpoints and with a memo below.
LONGEST = ("fluid", "waves")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in LONGEST)) for name in CASES]
)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, simulate: Callable) -> Path:
    """A folder with config.toml, and what it gives on one rank, in `whole`."""
    folder = tmp_path_factory.mktemp(request.param)
    text = CASES[request.param](folder)
    (folder / "config.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    simulate(1, folder / "config.toml", folder / "whole")
    return folder


def forced(ask: Callable, n_rank: int, seed: int, every: int, config: Path, out: Path, *sets: str) -> list[dict]:
    """A run whose LPs move; the moves."""
    sets = ("partition.start=spread", *sets)
    return run_script(FORCED, ask, n_rank, (seed, every), config, out, *sets)["rebalance"]["moves"]


def changed(ask: Callable, n_rank: int, seed: int, every: int, config: Path, out: Path, *sets: str) -> list[dict]:
    """A run that goes from rank 0 to all ranks and back; the changes."""
    return run_script(CHANGES, ask, n_rank, (seed, every), config, out, *sets)["spreading"]["changes"]


def run_script(
    script: Path, ask: Callable, n_rank: int, numbers: tuple[int, int], config: Path, out: Path, *sets: str
) -> dict:
    """What `run.json` says of a run by one of the scripts."""
    overrides = [word for text in sets for word in ("--set", text)]
    done = ask(n_rank, script, *numbers, config, "--out", out, *overrides)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "run.json").read_text())


@pytest.mark.parametrize(("n_rank", "seed"), [(2, 1), pytest.param(3, 2, marks=pytest.mark.slow)])
def test_moves_at_random_rounds_change_no_byte(
    alone: Path, n_rank: int, seed: int, tmp_path: Path, ask: Callable
) -> None:
    whole = {name: json.loads((alone / "whole" / f"{name}.json").read_text()) for name in ("run", "result")}
    if whole["result"]["logical_processes"] <= n_rank:
        return  # of "room" on three ranks: each has one at most, and nothing is to be gained
    every = max(1, whole["run"]["rounds"] // 40)
    moves = forced(ask, n_rank, seed, every, alone / "config.toml", tmp_path)
    assert len(moves) >= 10 and sum(move["lps"] for move in moves) >= 10
    assert different(alone / "whole", tmp_path) == []


@pytest.mark.parametrize(("n_rank", "seed"), [(2, 3), pytest.param(3, 4, marks=pytest.mark.slow)])
def test_ranks_that_join_and_fall_asleep_change_no_byte(
    alone: Path, n_rank: int, seed: int, tmp_path: Path, ask: Callable
) -> None:
    run = json.loads((alone / "whole" / "run.json").read_text())
    changes = changed(ask, n_rank, seed, max(1, run["rounds"] // 12), alone / "config.toml", tmp_path)
    assert [change["to"] for change in changes] == (["all ranks", "rank 0"] * len(changes))[: len(changes)]
    assert len(changes) >= 3
    assert different(alone / "whole", tmp_path) == []
    hops = json.loads((tmp_path / "run.json").read_text())["packet_hops_by_rank"]
    assert sum(hops) == json.loads((tmp_path / "result.json").read_text())["packet_hops"] and min(hops) >= 0


@pytest.mark.parametrize("how", [forced, changed])
def test_moves_and_checkpoints_go_together(
    tmp_path: Path, simulate: Callable, ask: Callable, rank_counts: Callable, how: Callable
) -> None:
    """A run whose LPs or ranks change takes checkpoints, and goes on from one on another number of ranks."""
    config = tmp_path / "config.toml"
    config.write_text(waves.CONFIG)
    simulate(1, config, tmp_path / "whole")
    sets = ("checkpoint.every=300ms", "checkpoint.keep=9999")
    assert len(how(ask, 2, 5, 400, config, tmp_path / "moved", *sets)) >= 5
    assert different(tmp_path / "whole", tmp_path / "moved") == []
    found = checkpoints_of(tmp_path / "moved")
    (n_rank,) = rank_counts(3) or (1,)
    resume(ask, n_rank, found[len(found) // 2], tmp_path / "resumed")
    assert different(tmp_path / "whole", tmp_path / "resumed") == []


@pytest.mark.parametrize("how", [forced, changed])
def test_a_memo_on_disk_gets_the_same_additions(
    tmp_path: Path, simulate: Callable, ask: Callable, how: Callable
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(waves.CONFIG)
    simulate(1, config, tmp_path / "whole", f"wormhole.memo={tmp_path / 'one.memo'}")
    assert len(how(ask, 2, 6, 400, config, tmp_path / "moved", f"wormhole.memo={tmp_path / 'two.memo'}")) >= 5
    assert different(tmp_path / "whole", tmp_path / "moved") == []
    added = [json.loads((tmp_path / name / "run.json").read_text())["memo"] for name in ("whole", "moved")]
    assert added[0]["entries_added"] == added[1]["entries_added"] > 0
    assert (tmp_path / "one.memo").read_bytes() == (tmp_path / "two.memo").read_bytes()
