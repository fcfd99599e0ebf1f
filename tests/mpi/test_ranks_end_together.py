"""No rank outlives another's failure, and a launcher that MPI does not know is no silent n-fold run."""

from collections.abc import Callable
from pathlib import Path

import pytest

CONFIG = """\
[topology]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 1
[workload]
kind = "collectives"
[[workload.collective]]
name = "ring"
operation = "all-reduce"
size = "20kB"
"""
BROKEN = """\
import sys
from pdes import cli, simulation

if __name__ == "__main__":
    sound = simulation.{function}
    def broken({first}, *rest, **named):
        if {rank} == 1:
            raise {error}
        return sound({first}, *rest, **named)
    simulation.{function} = broken
    sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def start_broken(start: Callable, config: Path, **what: str) -> tuple[int, str]:
    """Run with a function of `simulation` that fails on rank 1; (status, stderr). A hang is a timeout."""
    script = config.with_name("broken.py")
    script.write_text(BROKEN.format(**what))
    done = start(2, script, config, "--out", config.with_name("out"), "--quiet")
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("ZeroDivisionError('of ours')", "internal error on rank 1 of 2"),
        ("__import__('pdes.errors').errors.CapacityError('port 7 is full')", "error on rank 1 of 2: port 7 is full"),
    ],
)
def test_a_failure_before_the_rounds_ends_all_ranks(config: Path, start: Callable, error: str, text: str) -> None:
    what = {"function": "run", "first": "prepared, world", "rank": "world.rank"}
    status, stderr = start_broken(start, config, **what, error=error)
    assert status == 1 and stderr.count(text) == 1
    assert ("Traceback" in stderr) == ("Zero" in error)


def test_a_failure_while_another_rank_waits_in_a_round_ends_all_ranks(config: Path, start: Callable) -> None:
    """run_rounds fails on rank 1 only: rank 0 is by then inside a compiled reduction that never completes."""
    what = {"function": "loop.run_rounds", "first": "model, loop, ex", "rank": "int(ex.peer[0] == 0)"}
    status, stderr = start_broken(start, config, **what, error="RuntimeError('lost')")
    assert status == 1 and "internal error on rank 1 of 2" in stderr and "lost" in stderr
    assert not (config.with_name("out") / "result.json").exists()


def test_the_next_run_clears_what_a_failed_one_left(config: Path, start: Callable, simulate: Callable) -> None:
    out = config.with_name("out")
    what = {"function": "loop.run_rounds", "first": "model, loop, ex", "rank": "int(ex.peer[0] == 0)"}
    assert start_broken(start, config, **what, error="RuntimeError('lost')")[0] == 1
    simulate(2, config, out)
    assert sorted(path.name for path in out.iterdir()) == [
        *("flows.parquet", "ports.parquet", "result.json", "run.json", "tasks.parquet"),
    ]


@pytest.mark.parametrize("n_rank", [1, 2])
def test_a_run_that_outlives_all_simulated_time_says_so_once(config: Path, start: Callable, n_rank: int) -> None:
    out = config.with_name("out")
    slow = ("--set", "topology.host_rate=1bps", "--set", "workload.collective.0.size=2MB")  # over half a year
    done = start(n_rank, "-m", "pdes", config, "--out", out, "--quiet", *slow)
    assert done.returncode == 1 and done.stderr.count("pdes-sim: error") == 1
    assert "of simulated time, the most that there is" in done.stderr and "flows unfinished" in done.stderr
    assert not (out / "result.json").exists()


def test_a_launcher_of_another_mpi_is_said_once_and_nothing_runs(config: Path, start: Callable) -> None:
    """What each of two processes sees when Open MPI's mpirun starts them and mpi4py brings MPICH."""
    out = config.with_name("out")
    first, second = (
        start(1, "-m", "pdes", config, "--out", out, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK=rank)
        for rank in ("0", "1")
    )
    assert (first.returncode, second.returncode) == (2, 2)
    assert "2 processes were started by Open MPI's mpirun" in first.stderr and "MPI library here: " in first.stderr
    assert first.stderr.count("\n") == 1 and second.stderr == ""
    assert not out.exists()


@pytest.mark.parametrize("arguments", [["plan"], ["--help"], ["--version"]])
def test_what_is_no_simulation_speaks_once_under_mpirun(config: Path, start: Callable, arguments: list[str]) -> None:
    room = ["--set", "run.memory_limit=1GB"]  # what is free is not the same for two runs
    argv = [*arguments, config, *room] if arguments == ["plan"] else arguments
    alone, together = (start(n_rank, "-m", "pdes", *argv) for n_rank in (1, 2))
    assert (alone.returncode, together.returncode) == (0, 0)
    assert together.stdout == alone.stdout != ""
