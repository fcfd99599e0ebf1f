"""Checkpoints of a run at the cluster level, as people meet them: signals, kills, resumed runs, damage."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from models.cluster.find import SCHEDULERS
from models.cluster.schedulers.rounds.rounds import Rounds
from pdes import checkpoint_requests
from pdes.cli import main
from pdes.cluster.run import run_cluster
from pdes.config.cluster.load import load_cluster
from reference.checkpointed import different

ROOT = Path(__file__).resolve().parents[2]
STEM = """
[cluster]
scheduler = "backfill"
{jobs}
[[cluster.pool]]
gpu = "A"
servers = 6
servers_per_rack = 2
hot_spares = 1
[[cluster.pool]]
gpu = "B"
servers = 4
speed = 0.5
[cluster.checkpoint]
interval = "daly"
write = "1min"
restart = "5min"
[[cluster.failure]]
component = "GPU"
per = "gpu"
gap = {{ distribution = "weibull", mean = "20d", shape = 0.8 }}
detection = "5min"
repair = {{ distribution = "empirical", file = "repairs.txt" }}
"""
DRAWN = """
[cluster.arrivals]
jobs = 120
per_hour = 20
gpus = { 1 = 5, 8 = 3, 24 = 1 }
duration = { distribution = "lognormal", median = "40min", sigma = 1 }
tenants = { research = 2, product = 1 }
priorities = { 0 = 3, 1 = 1 }
"""
OPTIONS = {"quota": "{quotas={research=30,product=50}}", "mast": "{quotas={research=30,product=50}}"}
MINE = """
from models.cluster.schedulers.scheduler import Scheduler


class Mine(Scheduler):
    def decide(self):
        self.start_what_fits()


class Odd(Mine):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.note = lambda: 0
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Jobs that are drawn; and all kinds of files that a config may name."""
    (tmp_path / "repairs.txt").write_text("600\n7200\n86400\n")
    (tmp_path / "mine.py").write_text(MINE)
    path = tmp_path / "config.toml"
    path.write_text(STEM.format(jobs="") + DRAWN)
    return path


class Counted(checkpoint_requests.Requests):
    """In the place of `Requests`: at some instants there is something to do, at the last one to stop."""

    def __init__(self, at: list[int], stops: bool) -> None:
        super().__init__(None, False)
        self._at, self._now, self._ends = sorted(at), 0, stops

    @property
    def is_pending(self) -> bool:
        self._now += 1
        return self._now in self._at

    def take(self) -> checkpoint_requests.Request:
        return checkpoint_requests.Request(True, self._ends and self._now == self._at[-1])


@contextmanager
def asked(at: list[int], stops: bool = True) -> Iterator[None]:
    """Runs meanwhile take checkpoints then, and break off with the last one."""
    with mock.patch.object(checkpoint_requests, "Requests", lambda *_, **__: Counted(at, stops)):
        yield


def test_a_run_that_is_broken_off_goes_on_to_the_same_bytes(
    config: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With each scheduler, or each third, twice, at drawn instants; the files of the config are gone by then."""
    draw = random.Random(5)
    for scheduler in sorted(SCHEDULERS)[:: 1 if pytestconfig.getoption("tier") == "all" else 3]:
        n_job = 30 if issubclass(SCHEDULERS[scheduler], Rounds) else 120  # linear programmes take their time
        keys = f"scheduler={scheduler}", f"options={OPTIONS.get(scheduler, '{}')}", f"arrivals.jobs={n_job}"
        keys += ("arrivals.gpus={8=1}",) if SCHEDULERS[scheduler].one_size else ()
        sets = [word for key in keys for word in ("--set", f"cluster.{key}")]
        whole, out = tmp_path / f"{scheduler}-whole", tmp_path / scheduler
        assert main([str(config), "--quiet", "--out", str(whole), *sets]) == 0
        first = sorted(draw.sample(range(1, 150), 2))
        with asked(first):
            assert main([str(config), "--quiet", "--out", str(out), *sets]) == 75
        assert not (out / "result.json").exists()
        with asked([draw.randint(1, 80)]), hidden(config.parent):
            assert main(["--resume", str(out), "--quiet"]) == 75
        with hidden(config.parent):
            assert main(["--resume", str(out / "checkpoint"), "--quiet"]) == 0
        assert different(whole, out) == []
        assert json.loads((out / "run.json").read_text())["resumed_from_event"] > 0


@contextmanager
def hidden(folder: Path) -> Iterator[None]:
    """Its files have other names meanwhile."""
    files = [path for path in folder.iterdir() if path.is_file()]
    for path in files:
        path.rename(path.with_name(path.name + ".gone"))
    yield
    for path in files:
        path.with_name(path.name + ".gone").rename(path)


def test_jobs_of_a_file_and_a_scheduler_of_ones_own_go_on(config: Path, tmp_path: Path) -> None:
    """Both are in the checkpoint; jobs with steps and speeds, too. Results may go elsewhere."""
    lines = [f"{60 * i},{1 + i % 8},{300 + 37 * i % 5000},k" for i in range(200)]
    (tmp_path / "jobs.csv").write_text("\n".join(["submit_s,gpus,steps,kind", *lines]) + "\n")
    rates = [f"k,{n},{gpu},{n * s}" for n in range(1, 9) for gpu, s in (("A", 1.0), ("B", 0.3))]
    (tmp_path / "speeds.csv").write_text("\n".join(["kind,gpus,gpu,steps_per_s", *rates]) + "\n")
    keys = 'jobs = "jobs.csv"\nspeeds = "speeds.csv"'
    config.write_text(STEM.format(jobs=keys).replace('"backfill"', '"mine.py:Mine"'))
    assert main([str(config), "--quiet", "--out", str(tmp_path / "whole")]) == 0
    for i, at in enumerate(([3], [40, 90], [150])):
        out = tmp_path / f"out{i}"
        with asked(at):
            assert main([str(config), "--quiet", "--out", str(out)]) == 75
        with hidden(tmp_path):
            assert main(["--resume", str(out), "--quiet", "--out", str(tmp_path / f"else{i}")]) == 0
        assert different(tmp_path / "whole", tmp_path / f"else{i}") == []


def test_checkpoints_change_nothing(config: Path, tmp_path: Path) -> None:
    """A run that takes some and goes on; the newest two are kept, files that do not change are there once."""
    assert main([str(config), "--quiet", "--out", str(tmp_path / "whole")]) == 0
    with asked([5, 50, 100], stops=False):
        assert main([str(config), "--quiet", "--out", str(tmp_path / "out")]) == 0
    assert different(tmp_path / "whole", tmp_path / "out") == []
    kept = sorted((tmp_path / "out" / "checkpoint").iterdir())
    assert [path.name for path in kept] == ["checkpoint-000002", "checkpoint-000003"]
    assert len({(path / "config").stat().st_ino for path in kept}) == 1


def test_what_cannot_be_kept_is_said(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--set", "cluster.scheduler=mine.py:Odd"]
    with asked([5]):
        assert main([str(config), "--quiet", "--out", str(tmp_path / "out"), *sets]) == 1
    said = capsys.readouterr().err
    assert "no checkpoint at" in said and "the scheduler has what no checkpoint can keep" in said
    assert not (tmp_path / "out").exists()


def start(*arguments: object) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pdes", *map(str, arguments), "--quiet"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_kills_lose_nothing(config: Path, tmp_path: Path) -> None:
    """SIGKILL at any moment, twice; then SIGINT, which leaves a checkpoint; then the same bytes."""
    sets = ["cluster.arrivals.jobs=4000", "checkpoint.every=30ms", "cluster.scheduler=fcfs"]
    run_cluster(load_cluster(config, [*sets, f'output.dir="{tmp_path / "whole"}"']), True)
    out = tmp_path / "out"
    words = [config, "--out", out, *(word for text in sets for word in ("--set", text))]
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
        process, before = start(*words), names_of(out)
        while process.poll() is None and names_of(out) == before:
            time.sleep(0.002)
        time.sleep(random.Random(number).random() * 0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == (75 if number == signal.SIGINT else -number), said
        words = ["--resume", out]
    assert "stopped by a signal" in said and f"pdes-sim --resume {out / 'checkpoint'}" in said
    process = start("--resume", out)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and "resumed from event " in said
    assert different(tmp_path / "whole", out) == []


def names_of(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoint").glob("checkpoint-*"))


@pytest.mark.parametrize("name", ["state", "rows", "config", "manifest.json"])
def test_a_damaged_checkpoint_is_said_once_and_the_one_before_is_used(
    name: str, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(config), "--quiet", "--out", str(tmp_path / "whole")]) == 0
    with asked([40, 90]):
        assert main([str(config), "--quiet", "--out", str(tmp_path / "out")]) == 75
    older, newer = sorted((tmp_path / "out" / "checkpoint").iterdir())
    cut = (newer / name).read_bytes()[:-9]
    (newer / name).unlink()  # the older one may have the same file
    (newer / name).write_bytes(cut)
    capsys.readouterr()
    shutil.copytree(tmp_path / "out", tmp_path / "alone")
    assert main(["--resume", str(tmp_path / "out"), "--quiet"]) == 0
    warning, resumed = capsys.readouterr().err.splitlines()
    assert f"{newer} is not whole" in warning and str(older) in resumed
    assert different(tmp_path / "whole", tmp_path / "out") == []
    shutil.rmtree(tmp_path / "alone" / "checkpoint" / older.name)
    assert main(["--resume", str(tmp_path / "alone"), "--quiet"]) == 2
    assert "no checkpoint in it is whole" in capsys.readouterr().err
