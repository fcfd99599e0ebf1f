"""A run that one rank's end, a full disk or want of memory stops: soon, everywhere, with one message and a way on."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi.conftest import LAUNCHER_PREFIXES, ROOT, TIMEOUT_S

CONFIG = """\
[simulation]
iterations = 5000
[topology]
kind = "roft"
gpus = 16
[workload]
kind = "training"
[workload.model]
layers = 4
hidden = 256
vocabulary = 1000
sequence = 128
[workload.parallel]
tp = 2
dp = 4
pp = 2
"""
SOON_S = 60  # far below what the run would take
LOOP = """\
class Loop:
    window = "max-bdp"
    parameters = {"step": 1}
    state = {"seen": 0}

    @staticmethod
    def on_ack(flow, event, p):
        while flow.rate_bps > 0:  # it never comes back
            flow.seen += p.step
"""
SHORT = """\
import sys, resource
from pdes import cli
from pdes.simulation import loop as rounds
sound = rounds.run_rounds
def short(model, loop, ex, *rest):
    if int(ex.n_rank[0]) == 1 or int(ex.peer[0]) == 0:  # on the last rank
        {act}
    return sound(model, loop, ex, *rest)
rounds.run_rounds = short
if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
"""
OF_MEMORY = "import numpy as np; np.ones(2**44)"
OF_DISK = "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path / "config.toml"


def launch(n_rank: int, config: Path, *arguments: str) -> subprocess.Popen[str]:
    mpirun = Path(sys.executable).with_name("mpirun")
    command = [sys.executable, "-m", "pdes", str(config), "--out", str(config.with_name("out")), "--quiet", *arguments]
    if n_rank > 1:
        if not mpirun.exists():
            pytest.skip(f"no {mpirun}: install the extra mpich")
        command = [str(mpirun), "-n", str(n_rank), *command]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_PREFIXES)}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def process_of(root: int, rank: int) -> int:
    """The process of a rank below mpirun; the one that was started, if it is alone."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    family = [root]
    for process in family:
        family += [child for child, parent in parents.items() if parent == process]
    for process in family:
        try:
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PMI_RANK={rank}".encode() in words:
            return process
    return root


def after_a_checkpoint(process: subprocess.Popen[str], out: Path) -> None:
    until_s = time.monotonic() + TIMEOUT_S
    while process.poll() is None and time.monotonic() < until_s and not list(out.glob("checkpoint/checkpoint-*")):
        time.sleep(0.01)
    assert process.poll() is None, process.stderr.read() if process.stderr else ""


@pytest.mark.parametrize(("n_rank", "rank"), [(1, 0), (2, 1), pytest.param(3, 0, marks=pytest.mark.slow)])
def test_a_killed_rank_ends_all_and_its_witness_says_so(config: Path, n_rank: int, rank: int) -> None:
    out = config.with_name("out")
    process = launch(n_rank, config, "--set", "checkpoint.every=100ms")
    after_a_checkpoint(process, out)
    os.kill(process_of(process.pid, rank), signal.SIGKILL)
    _, said = process.communicate(timeout=SOON_S)
    who = f"rank {rank} of {n_rank} (process " if n_rank > 1 else "the run (process "
    assert process.returncode != 0 and said.count("pdes-sim: error") == 1, said
    assert f"pdes-sim: error: {who}" in said and "was killed" in said
    assert f"Go on with: pdes-sim --resume {out}/checkpoint" in said
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == ["checkpoint"]


def test_a_rank_that_stands_still_is_named_and_ended(config: Path) -> None:
    process = launch(2, config, "--set", "checkpoint.every=100ms", "--set", "run.stall_limit=2s")
    after_a_checkpoint(process, config.with_name("out"))
    os.kill(process_of(process.pid, 1), signal.SIGSTOP)
    _, said = process.communicate(timeout=SOON_S)
    assert process.returncode != 0 and said.count("pdes-sim: error") == 1, said
    assert re.search(r"rank 1 of 2 \(process .*\) stands still for \d+ s in round [\d,]+, at .*: it is stopped", said)
    assert "Go on with" in said


@pytest.mark.parametrize("n_rank", [1, 2])
def test_a_control_that_never_comes_back_is_named(config: Path, n_rank: int) -> None:
    (config.with_name("loop.py")).write_text(LOOP)
    sets = ("--set", 'network.congestion_control="loop.py:Loop"', "--set", "run.stall_limit=2s")
    process = launch(n_rank, config, *sets)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode != 0 and said.count("pdes-sim: error") == 1, said
    assert "without coming to its end: it computes. A loop without an end in a congestion control" in said


def run_short(start: Callable, config: Path, n_rank: int, act: str, *sets: str) -> tuple[int, str]:
    """A run whose last rank gets short of something when its rounds begin; (status, stderr)."""
    config.with_name("short.py").write_text(SHORT.format(act=act))
    done = start(n_rank, config.with_name("short.py"), config, "--out", config.with_name("out"), "--quiet", *sets)
    return done.returncode, done.stderr


@pytest.mark.parametrize("n_rank", [1, 2])
def test_want_of_memory_is_one_message_without_a_traceback(config: Path, start: Callable, n_rank: int) -> None:
    status, said = run_short(start, config, n_rank, OF_MEMORY)
    who = " on rank 1 of 2" if n_rank == 2 else ""
    assert status == 1 and said.count("pdes-sim: error") == 1, said
    assert f"pdes-sim: error{who}: out of memory: Unable to allocate 128. TiB" in said
    assert "There is no checkpoint to go on from" in said and "Traceback" not in said
    assert not (config.with_name("out") / "result.json").exists()


@pytest.mark.parametrize("n_rank", [1, 2])
def test_a_full_disk_is_one_message_and_no_result(config: Path, start: Callable, n_rank: int) -> None:
    """No file may pass 20 kB: what 100 iterations leave does."""
    status, said = run_short(start, config, n_rank, OF_DISK, "--set", "simulation.iterations=100")
    assert status == 1 and said.count("pdes-sim: error") == 1, said
    assert "File too large" in said and "There is no checkpoint to go on from" in said and "Traceback" not in said
    assert not (config.with_name("out") / "result.json").exists()
    assert not list(config.with_name("out").glob("*.parquet"))
