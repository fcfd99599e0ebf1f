"""Where something may be skipped rank 0 begins alone: its bytes, what run.json says, signals to those that sleep."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi.test_failures_on_ranks import SOON_S, after_a_checkpoint, launch, process_of
from mpi.test_failures_on_ranks import config as config  # a job of 5,000 iterations
from mpi.test_gathering_on_ranks import CONFIG as SPREAD
from reference.checkpointed import checkpoints_of, different

CONFIG = SPREAD.replace('[partition]\nstart = "spread"\n', "")


@pytest.mark.parametrize("mode", ["exact", "auto", "flow"])
def test_one_rank_simulates_and_the_others_sleep(tmp_path: Path, simulate: Callable, mode: str) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    for name, n_rank, start in (("1", 1, "auto"), ("2", 2, "auto"), ("spread", 2, "spread")):
        sets = (f"partition.start={start}", f"wormhole.mode={mode}")
        simulate(n_rank, tmp_path / "config.toml", tmp_path / name, *sets)
    assert different(tmp_path / "1", tmp_path / "2") == different(tmp_path / "1", tmp_path / "spread") == []
    run, spread = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("2", "spread"))
    hops = json.loads((tmp_path / "1" / "result.json").read_text())["packet_hops"]
    assert run["ranks"] == 2 and run["packet_hops_by_rank"] == [hops, 0] and set(run["rank_of_lp"]) == {0}
    assert run["spreading"] == {"begins": "rank 0", "changes": []} and run["compute_seconds"][1] == 0
    assert spread["spreading"] == {} and set(spread["rank_of_lp"]) == {0, 1}


def test_all_ranks_simulate_where_nothing_is_skipped(tmp_path: Path, simulate: Callable) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    simulate(2, tmp_path / "config.toml", tmp_path / "out", "partition.start=auto", "wormhole.mode=off")
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["spreading"] == {} and set(run["rank_of_lp"]) == {0, 1}


def signalled(config: Path, number: int) -> tuple[subprocess.Popen[str], Path]:
    """A run of two ranks, of which the one that sleeps has got a signal once rounds had begun."""
    process, out = launch(2, config, "--set", "checkpoint.every=200ms", "--set", "wormhole.mode=exact"), config.parent
    after_a_checkpoint(process, out / "out")
    os.kill(process_of(process.pid, 1), number)
    return process, out / "out"


def test_a_signal_to_a_rank_that_sleeps_stops_the_run_with_a_checkpoint(config: Path) -> None:
    process, out = signalled(config, signal.SIGTERM)
    _, said = process.communicate(timeout=SOON_S)
    assert process.returncode == 75 and said.count("stopped by a signal at round") == 1, said
    assert checkpoints_of(out) and not (out / "result.json").exists()
    facts = json.loads((checkpoints_of(out)[-1] / "manifest.json").read_text())
    assert facts["ranks"] == 1  # as far as there were networks


def test_a_rank_that_is_killed_asleep_ends_the_run(config: Path) -> None:
    process, out = signalled(config, signal.SIGKILL)
    _, said = process.communicate(timeout=SOON_S)
    assert process.returncode != 0 and said.count("pdes-sim: error") == 1, said
    assert "pdes-sim: error: rank 1 of 2 (process " in said and f"Go on with: pdes-sim --resume {out}/" in said
