"""Checkpoints of whole runs, nothing skipped: taking them changes nothing, and from any of them a run goes on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi import test_same_bytes as same
from mpi.test_flow_audit_on_ranks import short_messages
from mpi.test_flow_mode_on_ranks import contended, links_that_change
from mpi.test_hybrid_on_ranks import random_messages
from mpi.test_jobs_on_ranks import several_jobs
from mpi.test_looks_on_ranks import write_ring
from pdes.errors import SimError
from reference import made_traces as made
from reference.checkpointed import (
    EVERY_ROUND,
    asked_every,
    checkpoints_of,
    different,
    resume,
    rounds_of,
    saved,
    simulate,
)

MY_CC = Path(__file__).resolve().parents[2] / "examples" / "my_cc.py"


def traffic(folder: Path) -> str:
    """Random messages and incasts, PFC, messages split over queue pairs whose packets are sprayed; time series."""
    return """
        [topology]
        kind = "fat-tree"
        k = 4
        [network]
        congestion_control = "dcqcn"
        [network.buffer]
        size = "260kB"
        alpha = 0.1
        [network.routing]
        policy = "flowlet"
        flowlet_gap = "2us"
        queue_pairs_per_flow = 2
        [workload]
        kind = "poisson"
        sizes = "fb-hadoop"
        load = 0.7
        flows = 60
        [workload.incast]
        fan_in = 8
        size = "30kB"
        load = 0.1
        [output]
        sample_interval = "1us"
        sample_limit = "1MB"
    """


def losses(folder: Path) -> str:
    """A control of a user's, packets that are lost and sent again one by one, a link that fails; it stops early."""
    same.write_flows(folder / "flows.csv", [(i, (i + 5) % 16, 60_000, i * 100_000) for i in range(16)])
    (folder / "cc.py").write_text(MY_CC.read_text())
    return """
        [simulation]
        stop_time = "90us"
        [topology]
        kind = "fat-tree"
        k = 4
        [network]
        congestion_control = "cc.py:Aimd"
        [network.loss]
        probability = 0.01
        [network.transport]
        recovery = "selective-repeat"
        timeout = "50us"
        max_timeout = "1ms"
        [[network.link_event]]
        time = "8us"
        link = ["edge0", "agg0"]
        state = "down"
        [workload]
        kind = "flows"
        file = "flows.csv"
        [output]
        rtt_of_flow = 3
    """


def trace(folder: Path) -> str:
    """A Chakra trace."""
    made.hybrid_llama(folder)
    head = '[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n'
    return head + '[workload]\nkind = "trace"\nformat = "chakra"\nfile = "llama"\ncommunicators = "llama.json"\n'


def goal(folder: Path) -> str:
    """A GOAL schedule."""
    (folder / "ring.goal").write_text(made.GOAL_RING)
    head = '[topology]\nkind = "leaf-spine"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n'
    head += '[partition]\ndelay_threshold = "500ns"\n'  # rounds that are short enough for some checkpoints
    return head + '[workload]\nkind = "trace"\nformat = "goal"\nfile = "ring.goal"\n'


MAKERS: dict[str, Callable[[Path], str]] = {name: make for name, (make, _) in same.MAKERS.items()}
MAKERS |= {"traffic": traffic, "losses": losses, "trace": trace, "goal": goal, "flow mode": links_that_change}
MAKERS |= {"contended": contended}
MAKERS |= {"hybrid": random_messages, "audited flow mode": short_messages, "jobs": several_jobs}


def write(folder: Path, make: Callable[[Path], str]) -> Path:
    config = folder / "config.toml"
    config.write_text("\n".join(line.strip() for line in make(folder).splitlines()))
    return config


@pytest.mark.parametrize("name", MAKERS)
def test_a_run_goes_on_from_any_checkpoint_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    config = write(tmp_path, MAKERS[name])
    simulate(config, tmp_path / "whole")
    with asked_every(max(1, rounds_of(tmp_path / "whole") // 5)):
        simulate(config, tmp_path / "taken", *EVERY_ROUND)
    assert different(tmp_path / "whole", tmp_path / "taken") == []
    found = checkpoints_of(tmp_path / "taken")
    assert len(found) >= 2
    for path in (tmp_path / "flows.csv", tmp_path / "cc.py", config):
        path.unlink(missing_ok=True)  # all that was read is in the checkpoint
    for i, place in enumerate((0, len(found) // 2, -1)):
        resume(found[place], tmp_path / str(i))
        assert different(tmp_path / "whole", tmp_path / str(i)) == []


def test_a_resumed_run_takes_checkpoints_that_can_be_resumed(tmp_path: Path) -> None:
    config = write(tmp_path, traffic)
    simulate(config, tmp_path / "whole")
    every = rounds_of(tmp_path / "whole") // 8
    with asked_every(every):
        simulate(config, tmp_path / "taken", *EVERY_ROUND)
    first, *rest = checkpoints_of(tmp_path / "taken")
    for path in rest:
        shutil.rmtree(path)
    resume(first, tmp_path / "again", every)
    later = checkpoints_of(tmp_path / "taken")
    rounds = [int(saved(path, "alike")["loop"][2]) for path in later]
    assert len(later) > 2 and rounds == sorted(rounds)
    resume(later[-1], tmp_path / "third")
    for name in ("taken", "again", "third"):
        assert different(tmp_path / "whole", tmp_path / name) == []


def test_a_deadlock_is_found_at_the_same_instant(tmp_path: Path) -> None:
    """A queue counts as stuck if it has not moved since the look before: a look that a checkpoint comes after, too."""
    config, sample = write_ring(tmp_path, 4), "output.sample_interval=100us"
    with pytest.raises(SimError, match="the run cannot go on"):
        simulate(config, tmp_path / "whole", sample)
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["pfc_deadlock"]
    with asked_every(1), pytest.raises(SimError, match="the run cannot go on"):
        simulate(config, tmp_path / "taken", *EVERY_ROUND, sample)
    found = checkpoints_of(tmp_path / "taken")
    stuck = [path for path in found if saved(path, "rank0")["watch"]["still"]]
    assert stuck
    for i, path in enumerate((found[0], stuck[0], stuck[-1])):
        with pytest.raises(SimError, match="the run cannot go on"):
            resume(path, tmp_path / str(i))
        assert different(tmp_path / "whole", tmp_path / str(i)) == []
