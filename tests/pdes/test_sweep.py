"""Claims about `pdes-sim sweep`: figures are those of runs by themselves, nothing is lost, and the known wins."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

import pdes
from pdes.cli import main
from pdes.sweeps.load import load_sweep
from pdes.sweeps.metrics import OF_PACKETS, measure
from pdes.sweeps.point import key_of
from pdes.sweeps.run import run_sweep
from pdes.workers import here

pytest.importorskip("scipy")
BASE = """
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
[workload]
kind = "poisson"
sizes = "web-search"
load = 0.3
flows = 20
"""
SWEEP = """
[sweep]
config = "base.toml"
seeds = 2
{more}
[[sweep.axis]]
key = "network.congestion_control"
values = ["dctcp", "hpcc"]
[[sweep.axis]]
key = "workload.flows"
values = [10, 20]
"""
LOG = """
import os, pathlib
def logged(result):
    with open(pathlib.Path(__file__).with_name("log"), "a") as file:
        file.write(f"{result.summary['packet_hops']}\\n")
    return result.summary["flows"]
"""


def write(folder: Path, more: str = "", sweep: str = SWEEP, base: str = BASE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.toml").write_text(base)
    (folder / "sweep.toml").write_text(sweep.format(more=more))
    return folder / "sweep.toml"


def swept(path: Path, *words: str) -> dict[str, Any]:
    assert main(["sweep", str(path), "--out", str(path.parent / "out"), "--quiet", *words]) == 0
    return pq.read_table(path.parent / "out" / "runs.parquet").to_pydict()


def test_figures_are_those_of_runs_by_themselves(tmp_path: Path) -> None:
    rows = swept(write(tmp_path))
    assert len(rows["seed"]) == 8 and set(rows["status"]) == {"done"}
    for i in range(8):
        sets = [f"simulation.seed={rows['seed'][i]}", f"workload.flows={rows['flows'][i]}"]
        sets.append(f'network.congestion_control="{rows["congestion_control"][i]}"')
        alone = pdes.simulate(pdes.load_config(tmp_path / "base.toml", sets), tmp_path / "alone")
        expected = measure(OF_PACKETS, alone.summary, alone)
        assert {name: rows[f"{name}_s" if f"{name}_s" in rows else name][i] for name in expected} == expected


def test_what_is_known_is_not_run_again_and_more_seeds_add_to_it(tmp_path: Path) -> None:
    path = write(tmp_path)
    first = run_sweep(load_sweep(path, tmp_path / "out"), here)
    again = run_sweep(load_sweep(path, tmp_path / "out"), here)
    more = run_sweep(load_sweep(path, tmp_path / "out", ["sweep.seeds=[2, 3]"]), here)
    assert (first.n_new, again.n_new, more.n_new) == (8, 0, 4)
    assert again.rows == first.rows and more.rows[:4] == first.rows[4:]
    (tmp_path / "base.toml").write_text(BASE.replace("0.3", "0.4"))
    assert run_sweep(load_sweep(path, tmp_path / "out"), here).n_new == 8


def test_result_folders_are_kept_also_of_runs_that_were_known(tmp_path: Path) -> None:
    path = write(tmp_path)
    rows = run_sweep(load_sweep(path, tmp_path / "out"), here).rows
    for n_new in (8, 0):
        kept = run_sweep(load_sweep(path, tmp_path / "out", ["sweep.keep=true"]), here)
        assert kept.n_new == n_new and [row.metrics for row in kept.rows] == [row.metrics for row in rows]
    for row in rows:
        assert pdes.Result(tmp_path / "out" / "runs" / row.key).summary["packet_hops"] == row.metrics["packet_hops"]


def test_a_file_that_the_config_names_counts_by_what_is_in_it(tmp_path: Path) -> None:
    base = BASE.partition("[workload]")[0] + '[workload]\nkind = "flows"\nfile = "flows.csv"\n'
    flows = "src,dst,size_bytes,start_ps\n0,2,{},0\n"
    sweep = SWEEP.partition('[[sweep.axis]]\nkey = "workload')[0]
    path = write(tmp_path, sweep=sweep, base=base)
    for size, n_new in ((1000, 4), (1000, 0), (2000, 4), (1000, 0)):
        (tmp_path / "flows.csv").write_text(flows.format(size))
        assert run_sweep(load_sweep(path, tmp_path / "out"), here).n_new == n_new


def test_a_folder_of_traces_and_a_prefix_count_by_all_files_in_them(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    names = [tmp_path / "traces" / "x.0.et", tmp_path / "traces" / "x.1.et"]
    for name in names:
        name.write_text("a")

    def key(file: str) -> str:
        tables = {"workload": {"kind": "trace", "file": file}, "output": {"dir": "traces"}}
        return key_of(tables, tmp_path / "base.toml", SimpleNamespace(resolved=lambda: tables), [])

    before = [key("traces"), key("traces/x"), key("traces/y")]
    names[1].write_text("b")
    after = [key("traces"), key("traces/x"), key("traces/y")]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]


def test_a_sweep_that_is_killed_loses_no_run_and_repeats_none(tmp_path: Path) -> None:
    """A run that has ended leaves a line; one whose row is there must not leave another."""
    path = write(tmp_path, 'metrics = ["flows"]\n[[sweep.metric]]\nname = "flows"\nfunction = "log.py:logged"\n')
    (tmp_path / "log.py").write_text(LOG)
    words = [sys.executable, "-m", "pdes", "sweep", str(path), "--out", str(tmp_path / "out"), "--quiet"]
    words += ["--set", "sweep.seeds=6"]
    log, n_kill = tmp_path / "log", 0
    for n in (2, 7, 13):
        child = subprocess.Popen(words)
        while child.poll() is None and (not log.exists() or len(log.read_text().split()) < n):
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        n_kill += child.wait() == -signal.SIGKILL
    assert n_kill == 3
    assert subprocess.run(words, check=False).returncode == 0
    rows = pq.read_table(tmp_path / "out" / "runs.parquet").to_pydict()
    assert set(rows["status"]) == {"done"} and len(rows["seed"]) == 24
    left = log.read_text().split()
    assert sorted(set(left)) == sorted({f"{n:.0f}" for n in rows["packet_hops"]})
    assert len(left) <= 24 + n_kill  # one that was under way may have been measured, but not yet kept


def test_several_processes_say_what_one_says(tmp_path: Path) -> None:
    for n in (1, 2):
        swept(write(tmp_path / str(n)), "--processes", str(n))
    one, two = ((tmp_path / str(n) / "out" / "points.parquet").read_bytes() for n in (1, 2))
    assert one == two


def test_runs_that_fail_and_points_that_are_refused_are_rows(tmp_path: Path) -> None:
    path = write(tmp_path, '[[sweep.metric]]\nname = "mine"\nfunction = "mine.py:f"\n')
    (tmp_path / "mine.py").write_text("def f(result):\n    return 1 / (result.summary['flows'] - 10)\n")
    (tmp_path / "sweep.toml").write_text(path.read_text().replace("[10, 20]", "[10, 20, -1]"))
    rows = swept(path)
    by_flows = {n: {s for s, m in zip(rows["status"], rows["flows"], strict=True) if m == n} for n in (10, 20, -1)}
    assert by_flows == {10: {"failed"}, 20: {"done"}, -1: {"refused"}}
    assert "ZeroDivisionError" in rows["message"][0] and "flows" in rows["message"][2]
    assert run_sweep(load_sweep(path, tmp_path / "out"), here).n_new == 0
    assert run_sweep(load_sweep(path, tmp_path / "out"), here, again=True).n_new == 4


def test_the_better_scheduler_wins_and_the_same_one_does_not(tmp_path: Path) -> None:
    """Shortest first has the least mean completion time on one server; EASY backfilling of one GPU each is FCFS."""
    base = """
[cluster]
[[cluster.pool]]
servers = 1
gpus_per_server = 1
[cluster.arrivals]
jobs = 200
per_hour = 0.7
duration = { distribution = "exponential", mean = "1h" }
"""
    sweep = """
[sweep]
config = "base.toml"
seeds = 8
[[sweep.axis]]
key = "cluster.scheduler"
values = ["fcfs", "sjf", "backfill"]
"""
    found = run_sweep(load_sweep(write(tmp_path, sweep=sweep, base=base), tmp_path / "out"), here)
    assert found.best("completion_mean") == {"cluster.scheduler": "sjf"} and found.is_drawn
    fcfs, _, backfill = found.intervals(found.metric("wait_mean"))
    assert fcfs == backfill
    texts = [verdict.text for verdict in found.compare("completion_mean")]
    assert all("sjf is faster than" in text for text in texts)
    assert found.compare("goodput")[-1].difference.mean <= 0


def test_from_python_it_is_the_same(tmp_path: Path) -> None:
    write(tmp_path)
    axes = {"network.congestion_control": ["dctcp", "hpcc"], "workload.flows": [10, 20]}
    found = pdes.sweep(tmp_path / "base.toml", axes, out=tmp_path / "own", seeds=2)
    rows = swept(tmp_path / "sweep.toml")
    assert found.runs().column("fct_mean_s").to_pylist() == rows["fct_mean_s"]
    assert (tmp_path / "own" / "report.html").stat().st_size > 100_000
    assert json.loads((tmp_path / "own" / "sweep.json").read_text())["runs"] == {"done": 8}
    means = {i: own.mean for i, own in enumerate(found.intervals(found.metric("fct_mean")))}
    best = found.sweep.points[min(means, key=means.__getitem__)]
    assert found.best("fct_mean") == dict(zip(axes, best, strict=True))
    assert [verdict.best for verdict in found.compare("fct_mean")] == [best] * 3
    assert pdes.sweep(tmp_path / "sweep.toml", out=tmp_path / "own").n_new == 0


def test_seeds_that_change_nothing_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    base = BASE.partition("[workload]")[0] + '[workload]\nkind = "flows"\nfile = "flows.csv"\n'
    path = write(tmp_path, sweep=SWEEP.partition('[[sweep.axis]]\nkey = "workload')[0], base=base)
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_ps\n0,2,9000,0\n")
    assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "Every seed says the same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('config = "base.toml"', 'config = "none.toml"', "none.toml"),
        ("network.congestion_control", "network.congestion_contrl", "network.congestion_contrl"),
        ("network.congestion_control", "congestion", "names no table"),
        ("workload.flows", "network.congestion_control", "two axes have network.congestion_control"),
        ("values = [10, 20]", "from = 10\nto = 20", "a range without `count`"),
        ("values = [10, 20]", "from = 20\nto = 10\ncount = 2", "a range upwards"),
        ("values = [10, 20]", 'from = "1us"\nto = "2ms"\ncount = 2', "both in the same unit"),
        ("values = [10, 20]", "", "neither values nor a range"),
        (
            "values = [10, 20]",
            "values = [-1, -2]",
            "none of the 8",
        ),
        ("seeds = 2", "seeds = 0", "seeds"),
        ("seeds = 2", 'seeds = 2\nwhere = ["workload.flows >"]', "no expression"),
        ("seeds = 2", 'seeds = 2\nwhere = ["workload.flow > 1"]', "workload.flow"),
        ("seeds = 2", 'seeds = 2\nwhere = ["workload.flows > 20"]', "no point is left"),
        ("seeds = 2", 'seeds = 2\nwhere = ["__import__(1)"]', "not accepted here"),
        ("seeds = 2", 'seeds = 2\nmetrics = ["iteratoin"]', 'Did you mean "iteration"'),
        ("seeds = 2", 'seeds = 2\n[[sweep.metric]]\nname = "a"', "neither `path` nor `function`"),
        ("seeds = 2", 'seeds = 2\n[[sweep.metric]]\nname = "a"\nfunction = "b.py:c"', "the file is there"),
        ("seeds = 2", 'seeds = 2\ndesign = "random"', "no `points`"),
        ("seeds = 2", "seed = 2", "unknown key"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture, old: str, new: str, said: str
) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert not list(tmp_path.glob("out/*.parquet"))


def test_a_store_that_is_none_or_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from pdes.sweeps.store import FILE, Store

    path, out = write(tmp_path), tmp_path / "out"
    with Store(out):
        assert main(["sweep", str(path), "--out", str(out)]) == 2
    assert "another sweep is at work" in capsys.readouterr().err
    (out / FILE).write_bytes(b"no database, but somebody's work " * 100)
    assert main(["sweep", str(path), "--out", str(out)]) == 2
    assert "is no store of runs" in capsys.readouterr().err
    assert (out / FILE).read_bytes().startswith(b"no database")


def test_two_results_are_compared_and_tables_are_frames(tmp_path: Path) -> None:
    write(tmp_path)
    configs = [pdes.load_config(tmp_path / "base.toml", [f"workload.flows={n}"]) for n in (10, 20)]
    one, two = (pdes.simulate(config, tmp_path / str(k)) for k, config in enumerate(configs))
    found = {row["metric"]: row for row in one.compare(two).to_pylist()}
    slowest_s = max(two.flows.column("fct_ps").to_pylist()) / 1e12
    assert found["fct_max"]["other"] == slowest_s and "iteration" not in found
    assert all(row["ratio"] is None or row["ratio"] == row["other"] / row["this"] for row in found.values())
    assert all(row["ratio"] in (1.0, None) for row in one.compare(one).to_pylist())
    pandas = pytest.importorskip("pandas")
    swept(tmp_path / "sweep.toml")
    frame = pdes.sweep(tmp_path / "sweep.toml", out=tmp_path / "out").to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 4
    assert frame["fct_mean_s"].notna().all() and frame["fct_mean_s_half"].gt(0).any()
    assert len(one.flows.to_pandas()) == 10
