"""`pdes-sim compare`: its interval has the coverage that it says, and it decides what is known and nothing else."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from pdes.cli import main
from pdes.cluster.outcome import outcome
from pdes.cluster.paired import FIGURES, verdict
from pdes.config.cluster.load import load_cluster
from pdes.sweeps.paired import paired

pytest.importorskip("scipy")
QUEUE = """
[cluster]
[[cluster.pool]]
servers = {servers}
gpus_per_server = 1
[cluster.arrivals]
jobs = {jobs}
per_hour = {per_hour}
duration = {{ distribution = "exponential", mean = "1h" }}
"""
LAST_FIRST = """
from models.cluster.schedulers.scheduler import Scheduler
class LastFirst(Scheduler):
    def key(self, job):
        return (-job.request.submit_us,)
    def decide(self):
        self.start_what_fits()
"""


def queue(folder: Path, name: str, servers: int, per_hour: float, jobs: int) -> str:
    path = folder / f"{name}.toml"
    path.write_text(QUEUE.format(servers=servers, per_hour=per_hour, jobs=jobs))
    return str(path)


def compared(capsys: pytest.CaptureFixture, *words: str) -> dict:
    assert main(["compare", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def erlang_wait_h(n_server: int, load: float) -> float:
    """Mean wait in M/M/c, in service times: Erlang's C over c - load."""
    terms = [load**k / math.factorial(k) for k in range(n_server)]
    waits = load**n_server / math.factorial(n_server) * n_server / (n_server - load)
    return waits / (sum(terms) + waits) / (n_server - load)


def test_the_interval_has_the_truth_in_it_as_often_as_it_says() -> None:
    """5,000 times ten differences: 95 %, within three standard errors of 0.31 %."""
    draws = np.random.default_rng(1).normal(0.3, 1.0, (5_000, 10))
    n_hit = sum(abs(found.mean - 0.3) <= found.half for found in (paired(np.zeros(10), row) for row in draws))
    assert n_hit / 5_000 == pytest.approx(0.95, abs=0.0093)


def test_the_seeds_that_are_missing_are_those_that_would_decide() -> None:
    """Differences of +-1 about 0.1: t(n - 1) s / sqrt(n) falls below 0.1 at n of about (1.96 / 0.1)^2."""
    found = paired([0.0] * 20, [1.1, -0.9] * 10)
    assert found.mean == pytest.approx(0.1) and found.more == pytest.approx(1.96**2 / 0.01 * 20 / 19 - 20, rel=0.02)
    enough = 20 + found.more
    from scipy import stats

    scatter = np.std([1.1, -0.9] * 10, ddof=1)

    halves = [stats.t.ppf(0.975, n - 1) * scatter / math.sqrt(n) for n in (enough - 1, enough)]
    assert halves[0] >= found.mean > halves[1]
    assert paired([0.0] * 4, [1.0, -1.0, 1.0, -1.0]).more == -1


def test_verdicts() -> None:
    time, share = FIGURES[0], next(figure for figure in FIGURES if figure.kind == "share")
    assert verdict(time, paired([9.0, 9.0, 9.0], [5.0, 5.1, 4.9])) == "B is faster by 4 s ± 0.248 s"
    assert verdict(time, paired([5.0, 5.1, 4.9], [9.0, 9.0, 9.0])) == "A is faster by 4 s ± 0.248 s"
    assert verdict(share, paired([0.5, 0.5], [0.6, 0.6])) == "B is higher by 10 % ± 0 %"
    assert verdict(time, paired([5.0, 5.0], [5.0, 5.0])) == "the same in every seed"
    assert verdict(time, paired([5.0, math.nan], [5.0, 5.0])) == "no job is done in one of them"
    assert verdict(time, paired([5.0, 5.2], [5.0, 5.0])).startswith("not decided: about")


def test_two_queues_whose_waits_are_known(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """M/M/2 and M/M/3 at load 1: Erlang says by how much the second is shorter. Of five intervals four must have it."""
    a, b = queue(tmp_path, "a", 2, 1.0, 500), queue(tmp_path, "b", 3, 1.0, 500)
    truth_s, n_hit = 3600 * (erlang_wait_h(3, 1.0) - erlang_wait_h(2, 1.0)), 0
    for seed in (1, 101, 201, 301, 401):
        found = compared(capsys, a, b, "--seeds", "12", "--set", f"cluster.seed={seed}")["wait_s_mean"]
        assert found["more"] == 0 and found["mean"] < 0 and found["verdict"].startswith("B is shorter by")
        n_hit += abs(found["mean"] - truth_s) <= found["half"]
    assert n_hit >= 4


def test_pairs_say_more_than_runs_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The same runs as if they were not of the same seeds."""
    a, b = queue(tmp_path, "a", 8, 6.4, 500), queue(tmp_path, "b", 8, 6.6, 500)
    found = compared(capsys, a, b, "--out", str(tmp_path / "figures.csv"))["wait_s_mean"]
    with (tmp_path / "figures.csv").open() as file:
        rows = list(csv.DictReader(file))
    waits = np.array([[float(row[f"mean wait {name}"]) for name in "AB"] for row in rows])
    assert found["mean"] == pytest.approx(waits[:, 1].mean() - waits[:, 0].mean())
    apart = 2.1 * math.sqrt(waits.var(axis=0, ddof=1).sum() / len(rows))
    assert found["half"] < apart / 3


def test_orders_with_the_same_mean_wait_are_not_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Last come, first served waits as long on average as first come, first served, for jobs of any length."""
    (tmp_path / "last.py").write_text(LAST_FIRST)
    path, verdicts, others = queue(tmp_path, "a", 1, 0.7, 300), [], []
    for seed in range(8):
        words = ["--set", f"cluster.seed={100 * seed + 1}", "--set-b", 'cluster.scheduler="last.py:LastFirst"']
        found = compared(capsys, path, *words, "--seeds", "8")
        verdicts.append(found["wait_s_mean"]["verdict"])
        others.append(found["wait_s_p99"]["verdict"])
    assert sum(text.startswith("not decided") for text in verdicts) >= 7
    assert all(text.startswith("A is shorter by") for text in others)


def test_what_people_read_and_what_they_keep(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    a, out = queue(tmp_path, "a", 2, 1.4, 50), tmp_path / "figures.csv"
    words = [a, "--set-b", "cluster.scheduler=sjf", "--seeds", "3", "--out", str(out)]
    assert main(["compare", *words]) == 0
    said = capsys.readouterr().out
    assert (
        f"A  {a}, fcfs, packed\nB  {a}, sjf, packed, with cluster.scheduler=sjf\n3 seeds, 1 to 3" in said
        and "mean completion" in said
    )
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["1", "2", "3"] and len({row["mean wait A"] for row in rows}) == 3
    assert main(["compare", *words, "--processes", "2"]) == 0
    assert capsys.readouterr().out == said
    assert main(["compare", *words, "--set", "cluster.stop=5h"]) == 0
    assert "jobs of A are done when it stops" in capsys.readouterr().out


def test_a_run_without_a_folder_comes_to_the_same(tmp_path: Path) -> None:
    """Broken off, so that there are jobs of every state."""
    path, words = queue(tmp_path, "a", 2, 3.0, 200), ["cluster.stop=20h"]
    assert main([path, "--out", str(tmp_path / "out"), "--quiet", "--set", *words]) == 0
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert 0 < written["jobs_done"] < written["jobs"]
    assert json.loads(json.dumps(outcome(load_cluster(path, words)))) == written


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{a}"], "found one config"),
        (["{a}", "{a}", "--seeds", "1"], "--seeds: found 1"),
        (["{a}", "{a}", "--processes", "0"], "--processes: found 0"),
        (["{a}", "missing.toml"], "missing.toml"),
        (["{a}", "--set-b", "cluster.scheduler=none"], "scheduler"),
        (["{a}", "--set-b", "cluster.scheduler=none", "--processes", "2"], "scheduler"),
        (["{file}", "{file}"], "nothing is drawn"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture, words: list[str], said: str) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s,gpus\n0,60,1\n")
    file = tmp_path / "file.toml"
    file.write_text('[cluster]\njobs = "jobs.csv"\n[[cluster.pool]]\nservers = 1\n')
    names = {"a": queue(tmp_path, "a", 2, 1.4, 50), "file": str(file)}
    assert main(["compare", *(word.format(**names) for word in words)]) == 2
    assert said in capsys.readouterr().err
