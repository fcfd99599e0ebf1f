"""What schedulers may be told, what is said of turns that are too short, and errors of schedulers of one's own."""

from pathlib import Path

import pytest

from models.cluster.find import SCHEDULERS
from pdes.cli import main

CONFIG = """
[cluster]
scheduler = "{name}"
options = {{ {options} }}

[[cluster.pool]]
servers = 2

[cluster.arrivals]
jobs = 12
per_hour = 20
gpus = {{ 1 = 2, 8 = 1 }}
duration = "20min"
tenants = {{ a = 1, b = 1 }}

[cluster.checkpoint]
write = "{write}"
restart = "5min"
begin = "2min"
"""


def started(folder: Path, name: str, options: str = "", write: str = "1min", command: tuple[str, ...] = ()) -> int:
    """The exit status."""
    path = folder / "config.toml"
    path.write_text(CONFIG.format(name=name, options=options, write=write))
    more = () if command else ("--out", str(folder / "out"), "--quiet")
    return main([*command, str(path), *more])


WRONG = [
    ("gang", "slice_minutes = 0.0", "found 0.0. Accepted: numbers from 0.01 to 1,000,000"),
    ("gang", "slice_minutes = -60.0", "found -60.0"),
    ("gang", "slice_minutes = inf", "found inf"),
    ("sia", "round_minutes = 0.0", "found 0.0. Accepted: numbers from 0.01"),
    ("pollux", "round_minutes = 1e-9", "found 1e-09"),
    ("max-min", "round_minutes = -6", "found -6"),
    ("max-min", "round_minutes = nan", "found nan"),
    ("max-min", "reset_minutes = -1.0", "found -1.0. Accepted: numbers from 0 to"),
    ("backfill", "depth = -1", "found -1. Accepted: whole numbers from 1 to"),
    ("backfill", "depth = 2.5", "found 2.5. Accepted: as the default, 100"),
    ("las", "gpu_hours = [-1.0, 'x']", "Accepted: a list of numbers from 0 to"),
    ("las", "gpu_hours = [2.0, 1.0]", "each above the one before"),
    ("mast", "quotas = { a = 'x' }", "Accepted: a table of whole numbers from 0 to"),
    ("mast", "quotas = { a = 2.5 }", "found {'a': 2.5}"),
    ("quota", "quotas = { a = -1 }", "found {'a': -1}"),
    ("quota", "quotas = { a = true }", "found {'a': True}"),
    ("fifo-rounds", "pick = 'first'", 'found "first". Accepted: "random", "last"'),
    ("allox", "alpha = 1.5", "found 1.5. Accepted: numbers from 0 to 1"),
    ("sia", "power = nan", "found nan. Accepted: numbers from -10 to 10, without 0"),
    ("sia", "gap = -1.0", "found -1.0"),
    ("pollux", "power = 0.0", "found 0.0. Accepted: numbers from -10 to 0, without 0"),
]


@pytest.mark.parametrize(("name", "options", "said"), WRONG)
def test_a_wrong_option_gets_one_message_before_anything_runs(
    name: str, options: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = options.split(" ", 1)[0]
    for command in ((), ("plan",)):
        assert started(tmp_path, name, options, command=command) == 2
        text = capsys.readouterr()
        assert text.out == "" and text.err.count("\n") == 1 and not (tmp_path / "out").exists()
        assert f"[cluster.options] {key}" in text.err or f"config.toml, line 4: {key}" in text.err, text.err
        assert said in text.err, text.err


@pytest.mark.parametrize("name", SCHEDULERS)
def test_all_defaults_are_accepted(name: str) -> None:
    scheduler = SCHEDULERS[name]
    assert scheduler.accepted.keys() <= scheduler.options.keys()
    assert all(limit.accepts(scheduler.options[key]) for key, limit in scheduler.accepted.items())
    assert not scheduler.turn or scheduler.turn in scheduler.options


def test_a_matching_is_of_jobs_of_one_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert started(tmp_path, "allox") == 2
    assert "must all ask for the same number of GPUs: job" in capsys.readouterr().err
    (tmp_path / "out").mkdir(exist_ok=True)
    path = tmp_path / "config.toml"
    path.write_text(path.read_text().replace("1 = 2, 8 = 1", "8 = 1"))
    assert main([str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 0


TURNS = [("max-min", "round_minutes"), ("max-min-perf", "round_minutes"), ("gang", "slice_minutes")]


@pytest.mark.parametrize(("name", "key"), TURNS)
def test_turns_that_are_not_longer_than_a_stop_are_warned_of(
    name: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stop costs 1 + 5 + 2 minutes."""
    said = (
        f"{key}: turns of 8 min are not longer than what a stop costs, 8 min (write 60 s, restart 5 min, begin 2 min)"
    )
    started(tmp_path, name, f"{key} = 8.0", command=("plan",))
    planned = capsys.readouterr().out
    assert said in planned and f"Set {key} well above it, such as 80" in planned and "cannot be said" in planned
    started(tmp_path, name, f"{key} = 8.01", command=("plan",))
    planned = capsys.readouterr().out
    assert "Warning" not in planned and "us a job as measured, longer the more often jobs take turns" in planned


def test_a_run_warns_before_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(name="max-min", options="", write="1min").replace("jobs = 12", "jobs = 1"))
    assert main([str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    said = capsys.readouterr().err
    assert (
        said.startswith("pdes-sim: warning: [cluster.options] round_minutes: turns of 6 min") and "\n" not in said[:-1]
    )
    path.write_text(path.read_text().replace("options = {  }", "options = { round_minutes = 80.0 }"))
    assert main([str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


OWN = """from models.cluster.schedulers.scheduler import Scheduler


class Mine(Scheduler):
    {body}
"""
START = "def decide(self):\n        for job in {jobs}:\n            "
BODIES = {
    "def decide(self):\n        raise ValueError('oops')": (1, "line 6: Mine.decide raised ValueError: oops, at: rai"),
    "def decide(self):\n        self.helped()\n\n    def helped(self):\n        1 / 0": (1, "line 9: Mine.decide"),
    "def key(self, job):\n        return (job.none,)\n\n    decide = Scheduler.start_what_fits": (1, "line 6: Mine.ke"),
    "def key(self, job):\n        return (1,) if job.number else ('a',)\n\n    def decide(self):\n        pass": (
        1, "mine.py: Mine raised TypeError: '<' not supported",
    ),
    "def __init__(self, *arguments):\n        raise KeyError('x')": (2, "line 6: Mine.__init__ raised KeyError: 'x'"),
    "pass": (1, "Mine raised NotImplementedError"),
    START.format(jobs="list(self.waiting)") + "self.cluster.start(job)\n            self.cluster.start(job)": (
        1, "line 8: Mine.decide asks for the start of job 0, which does not wait: it runs already, at: self.cluster",
    ),
    START.format(jobs="list(self.waiting)") + "self.cluster.start(job, n_gpu=5)": (
        1, "asks for the start of job 0 on 5 GPUs, which may have",
    ),
    START.format(jobs="list(self.waiting)") + "self.cluster.stop(job)": (
        1, "asks for the stop of job 0, which does not run",
    ),
    "seen = []\n\n    def submitted(self, job):\n        super().submitted(job)\n        self.seen.append(job)\n\n    "
    + START.format(jobs="self.seen") + "self.cluster.start(job)": (1, "asks for the start of job 0, which does not"),
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_an_own_scheduler_that_fails_is_named(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    (tmp_path / "mine.py").write_text(OWN.format(body=body))
    status, said = BODIES[body]
    assert started(tmp_path, "mine.py:Mine") == status
    text = capsys.readouterr()
    assert said in text.err, text.err
    assert "mine.py" in text.err and text.err.count("\n") == 1 and not (tmp_path / "out").exists()


def test_an_error_of_the_simulator_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not come through a scheduler of one's own is not taken to be its fault."""
    (tmp_path / "mine.py").write_text(OWN.format(body="decide = Scheduler.start_what_fits"))

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("models.cluster.loop.Cluster._advance", broken)
    with pytest.raises(RuntimeError, match="broken"):
        started(tmp_path, "mine.py:Mine")
