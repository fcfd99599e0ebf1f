"""A checkpoint of any number of ranks is taken up by any other number, to the same bytes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi import test_fluid_on_ranks as fluid
from mpi import test_room_on_ranks as room
from mpi import test_waves_on_ranks as waves
from mpi.test_flow_audit_on_ranks import short_messages
from mpi.test_flow_mode_on_ranks import changes_with_samples
from mpi.test_hybrid_on_ranks import random_messages
from mpi.test_looks_on_ranks import write_ring
from mpi.test_same_bytes import gpt, incast
from reference.checkpointed import checkpoints_of, different, saved

SAMPLES = '[output]\nsample_interval = "5us"\n'


def crowded(folder: Path) -> str:
    """What is skipped beside an incast on switches with PFC."""
    lines = ["src,dst,size_bytes,start_ps", *(",".join(map(str, row)) for row in room.FLOWS)]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    return room.CONFIG.format(host_delay="800ns")


# Checkpoints are taken every so often, of wall time: some ten to a hundred in a run; 5,000 of them take four minutes.
CASES: dict[str, tuple[Callable[[Path], str], str]] = {
    "incast": (lambda folder: incast(folder) + SAMPLES, "1ms"),
    "training": (gpt, "1ms"),
    "room": (crowded, "3ms"),
    "waves": (lambda _: waves.CONFIG, "50ms"),
    "flow mode": (changes_with_samples, "30ms"),
    "hybrid": (random_messages, "3ms"),
    "audited flow mode": (short_messages, "3ms"),
}


def resume(ask: Callable, n_rank: int, checkpoint: Path, out: Path) -> None:
    done = ask(n_rank, "-m", "pdes", "--resume", checkpoint, "--out", out, "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("resumed from round") == 1
    run = json.loads((out / "run.json").read_text())
    assert run["ranks"] == n_rank and run["resumed_from_round"] > 0


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_checkpoint_goes_on_on_one_and_on_three(
    name: str, tmp_path: Path, simulate: Callable, ask: Callable, rank_counts: Callable
) -> None:
    make, every = CASES[name]
    config = tmp_path / "config.toml"
    config.write_text("\n".join(line.strip() for line in make(tmp_path).splitlines()))
    simulate(1, config, tmp_path / "whole")
    taken = tmp_path / "taken"
    simulate(2, config, taken, f"checkpoint.every={every}", "checkpoint.keep=9999", "partition.placement=round-robin")
    assert different(tmp_path / "whole", taken) == []
    found = checkpoints_of(taken)
    assert found and json.loads((found[0] / "manifest.json").read_text())["ranks"] == 2
    for n_rank in (1, 3) if name == "incast" else rank_counts(1, 3):
        resume(ask, n_rank, found[n_rank * len(found) // 4], tmp_path / str(n_rank))
        assert different(tmp_path / "whole", tmp_path / str(n_rank)) == []


def test_messages_at_flow_level_go_on_on_other_numbers_of_ranks(
    tmp_path: Path, simulate: Callable, ask: Callable, rank_counts: Callable
) -> None:
    """Some of them with an end on either rank; also where how they end has been said, if one was taken there."""
    config = tmp_path / "config.toml"
    config.write_text(fluid.at_flow_level(tmp_path))
    simulate(1, config, tmp_path / "whole")
    taken = tmp_path / "taken"
    simulate(2, config, taken, "checkpoint.every=5ms", "checkpoint.keep=9999", "partition.placement=round-robin")
    assert different(tmp_path / "whole", taken) == []
    levels = {path: saved(path, "alike")["fast"]["fluid"].level for path in checkpoints_of(taken)}
    found = [path for path, level in levels.items() if level.n_flow]
    said = [path for path in found if levels[path].table.is_predicted[levels[path].table.n_message > 0].any()]
    assert found
    for n_rank, path in rank_counts((1, found[len(found) // 2]), (3, (said or found)[-1])):
        resume(ask, n_rank, path, tmp_path / str(n_rank))
        assert different(tmp_path / "whole", tmp_path / str(n_rank)) == []


@pytest.mark.slow  # three ranks in a line rest in test_runs_on_ranks
def test_ranks_that_are_not_all_neighbours_rest_at_one_rounds_end(
    tmp_path: Path, simulate: Callable, ask: Callable
) -> None:
    """Four ranks around a ring: there a reduction says when, and not the exchange."""
    config, sets = write_ring(tmp_path, 4), ("network.buffer.size=32MB", "partition.placement=block")
    simulate(1, config, tmp_path / "whole", *sets)
    simulate(4, config, tmp_path / "taken", *sets, "checkpoint.every=20ms", "checkpoint.keep=9999")
    found = checkpoints_of(tmp_path / "taken")
    assert found and different(tmp_path / "whole", tmp_path / "taken") == []
    resume(ask, 2, found[len(found) // 2], tmp_path / "two")
    assert different(tmp_path / "whole", tmp_path / "two") == []


def test_all_ranks_refuse_with_one_message(tmp_path: Path, start: Callable) -> None:
    for n_rank in (1, 2):
        done = start(n_rank, "-m", "pdes", "--resume", tmp_path / "none")
        assert done.returncode == 2 and done.stderr.count("is not a folder") == 1
