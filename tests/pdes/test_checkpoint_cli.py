"""The command line's side of checkpoints: --resume, signals, what is refused, a disk without room."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from mpi.test_same_bytes import gpt
from pdes import cli, simulation
from pdes.checkpoint_requests import Requests
from pdes.config import load_config
from pdes.engine.checkpoint_folder import CheckpointFolder
from pdes.engine.exchange import World
from pdes.errors import ConfigError
from pdes.simulation.checkpoints import take
from reference.checkpointed import EVERY_ROUND, asked_every, checkpoints_of, different, rounds_of, simulate

ROOT = Path(__file__).resolve().parents[2]
LONG = "simulation.iterations=1500"  # some seconds, as the signal comes when this process has its turn


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text("\n".join(line.strip() for line in gpt(tmp_path).splitlines()))
    return tmp_path / "config.toml"


def start(*arguments: object) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pdes", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send_when_there_is_one(process: subprocess.Popen[str], out: Path, number: int) -> None:
    """A signal once the run has taken its first checkpoint."""
    until_s = time.monotonic() + 200
    while process.poll() is None and not checkpoints_of(out) and time.monotonic() < until_s:
        time.sleep(0.002)
    process.send_signal(number)


def test_sigterm_ends_a_run_with_a_checkpoint_and_says_how_to_go_on(config: Path, tmp_path: Path) -> None:
    simulate(config, tmp_path / "whole", LONG)
    sets = ("--set", LONG, "--set", "checkpoint.every=30ms", "--set", "checkpoint.keep=1")
    process = start(config, "--out", tmp_path / "out", "--quiet", *sets)
    send_when_there_is_one(process, tmp_path / "out", signal.SIGTERM)
    _, said = process.communicate(timeout=100)
    assert process.returncode == take.STOPPED_STATUS == 75, said
    directory = re.search(r"pdes-sim --resume (\S+)", said)
    assert directory and not (tmp_path / "out" / "result.json").exists()
    (only,) = checkpoints_of(tmp_path / "out")
    n_round = json.loads((only / "manifest.json").read_text())["round"]
    again = start("--resume", directory.group(1), "--quiet")
    _, said = again.communicate(timeout=100)
    assert again.returncode == 0, said
    assert f"resumed from round {n_round:,} of " in said and n_round > 0
    assert different(tmp_path / "whole", tmp_path / "out") == []
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["resumed_from_round"] == n_round and 0 < run["rounds"] == rounds_of(tmp_path / "whole") - n_round


@contextmanager
def full_disk(file: str) -> Iterator[None]:
    """There is no room for a file of every checkpoint: /dev/full says so."""
    begin = CheckpointFolder.begin

    def begin_on_a_full_disk(folder: CheckpointFolder) -> Path:
        found = begin(folder)
        (found / file).symlink_to("/dev/full")
        return found

    with mock.patch.object(CheckpointFolder, "begin", begin_on_a_full_disk):
        yield


@contextmanager
def signalled(number: int, at_tick: int) -> Iterator[None]:
    """Runs meanwhile get a signal at one of the instants at which they look at the clock."""
    tick, n_tick = take.Checkpoints.tick, [0]

    def tick_and_signal(checkpoints: take.Checkpoints) -> None:
        n_tick[0] += 1
        if n_tick[0] == at_tick:
            signal.raise_signal(number)
        tick(checkpoints)

    with mock.patch.object(take.Checkpoints, "tick", tick_and_signal):
        yield


def run_in_rounds(config: Path, out: Path) -> int:
    """A run that looks at the clock after every round, and never takes a checkpoint for it; its exit status."""
    sets = [f'output.dir="{out}"', "checkpoint.every=100h"]
    prepared = simulation.prepare(load_config(config, sets), quiet=True)
    with mock.patch("pdes.simulation.loop.PAUSE_EVERY_S", 0):
        return simulation.run(prepared, World(), True, heeds_signals=True)


def test_sigusr1_takes_a_checkpoint_and_the_run_goes_on(config: Path, tmp_path: Path) -> None:
    simulate(config, tmp_path / "whole")
    with signalled(signal.SIGUSR1, 20):
        assert run_in_rounds(config, tmp_path / "out") == 0
    (only,) = checkpoints_of(tmp_path / "out")
    assert json.loads((only / "manifest.json").read_text())["round"] == 20
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["checkpoints"]["written"] == 1 and run["checkpoints"]["bytes"] > 0
    assert different(tmp_path / "whole", tmp_path / "out") == []


def test_sigterm_ends_the_run_at_that_round(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with signalled(signal.SIGTERM, 20):
        assert run_in_rounds(config, tmp_path / "out") == take.STOPPED_STATUS
    assert len(checkpoints_of(tmp_path / "out")) == 1 and not (tmp_path / "out" / "result.json").exists()
    assert f"go on with: pdes-sim --resume {tmp_path / 'out' / 'checkpoint'}" in capsys.readouterr().err


def test_a_stop_without_room_for_a_checkpoint_has_another_status(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with signalled(signal.SIGTERM, 20), full_disk("rank0"):
        assert run_in_rounds(config, tmp_path / "out") == take.FAILED_STATUS == 1
    assert "No space left on device" in capsys.readouterr().err and not checkpoints_of(tmp_path / "out")


def test_requests_follow_the_clock_and_signals() -> None:
    now_s = [0.0]
    requests = Requests(10.0, True, lambda: now_s[0])
    assert not requests.is_pending
    now_s[0] = 10.0
    assert requests.take() == (True, False)
    requests.restart()
    assert not requests.is_pending
    before = signal.getsignal(signal.SIGUSR1)
    with requests:
        signal.raise_signal(signal.SIGUSR1)
        assert requests.take() == (True, False) and not requests.is_pending
        signal.raise_signal(signal.SIGTERM)
        assert requests.take() == (True, True) and not requests.is_pending
    assert signal.getsignal(signal.SIGUSR1) is before
    assert not Requests(None, True).is_pending


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--resume", "nowhere"], "--resume nowhere: is not a folder. Accepted: a [checkpoint] dir"),
        (["--resume", "x", "config.toml"], "goes on with the config in the checkpoint"),
        (["--resume", "x", "--set", "simulation.seed=2"], "goes on with the config in the checkpoint"),
        ([], "usage"),
        (["--quiet"], "config.toml, or --resume DIR"),
    ],
)
def test_bad_words_end_with_one_message_and_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "accepted"),
    [("every=0s", "above zero"), ("every=soon", '"off"'), ("keep=0", "1"), ("often=1s", "every"), ('dir=""', "dir")],
)
def test_bad_keys_are_refused(key: str, accepted: str, config: Path) -> None:
    with pytest.raises(ConfigError, match="checkpoint") as error:
        load_config(config, [f"checkpoint.{key}"])
    assert accepted in str(error.value)


def test_checkpoints_are_no_part_of_what_determines_a_result(config: Path) -> None:
    assert load_config(config, ["checkpoint.every=1min"]).resolved() == load_config(config).resolved()


def test_another_version_is_refused(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with asked_every(10):
        simulate(config, tmp_path / "out", *EVERY_ROUND)
    with mock.patch("pdes.simulation.checkpoints.resume.program", lambda: "pdes-sim 9 (other)"):
        assert cli.main(["--resume", str(tmp_path / "out" / "checkpoint")]) == 2
    said = capsys.readouterr().err
    assert "Accepted: checkpoints of this program, pdes-sim 9 (other)" in said and said.count("error") == 1


def test_a_torn_one_is_passed_over(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with asked_every(10):
        simulate(config, tmp_path / "out", *EVERY_ROUND)
    *_, before, last = checkpoints_of(tmp_path / "out")
    (last / "rank0").write_bytes((last / "rank0").read_bytes()[:-5])
    assert cli.main(["--resume", str(last.parent), "--out", str(tmp_path / "again"), "--quiet"]) == 0
    said = capsys.readouterr().err
    assert f"{last} is not whole" in said and f"of {before}" in said
    assert different(tmp_path / "out", tmp_path / "again") == []


@pytest.mark.parametrize("file", ["rank0", "flows0", "alike", "scenario", "manifest.json"])
def test_a_disk_without_room_is_a_warning_and_no_checkpoint(
    file: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(config, tmp_path / "whole")
    with asked_every(10), full_disk(file):
        simulate(config, tmp_path / "out", *EVERY_ROUND)
    said = capsys.readouterr().err
    assert "warning: no checkpoint at round 10: " in said and "No space left on device" in said
    assert not (tmp_path / "out" / "checkpoint").exists()
    assert different(tmp_path / "whole", tmp_path / "out") == []
