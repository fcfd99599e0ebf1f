"""Claims about what a run prints: --json for programs, progress without a terminal, and a reader that leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdes import simulation
from pdes.cli import main
from pdes.results import progress
from pdes.scenario import inputs
from pdes.simulation import loop
from reference.debug_runs import INCAST, ROOT, run, write_case


def test_json_is_the_result_in_one_line_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(write_case(tmp_path, INCAST), out, "--json")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    found = json.loads(done.stdout)
    assert found.pop("output") == str(out) and found == json.loads((out / "result.json").read_text())


def test_an_error_is_json_too(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST, "[network]\nwindow = 3\n")
    done = run(config, tmp_path / "out", "--json")
    found = json.loads(done.stderr)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert (found["status"], found["kind"], found["found"]) == (2, "ConfigError", "found 3, which is not text")
    assert found["where"] == f"{config}:11: [network] window" and found["accepted"].startswith('Accepted: "auto"')


def test_without_a_terminal_there_is_no_progress_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the clock's say left out of it: from the first round on, and after every round."""
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(loop, "PAUSE_EVERY_S", 0.0)
    config = write_case(tmp_path, INCAST)
    for more, is_shown in (((), False), (("--progress",), True), (("--progress", "--quiet"), False)):
        assert main([str(config), "--out", str(tmp_path / "out"), *more]) == 0
        said = capsys.readouterr()
        assert ("sim 0 ps, " in said.err and "packet-hops/s, 1 rank" in said.err) == is_shown
        assert ("Slowest flows" in said.out) == ("--quiet" not in more)


def test_a_long_run_without_fast_forwarding_says_that_there_are_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, hint = write_case(tmp_path, INCAST), '[wormhole] mode = "exact", "auto" or "flow"'
    for most, more, is_said in ((0, (), True), (0, ("--quiet",), False), (0, ("--set", "wormhole.mode=exact"), False),
                                (10**9, (), False)):  # fmt: skip
        monkeypatch.setattr(simulation, "MANY_HOPS", most)
        assert main([str(config), "--out", str(tmp_path / "out"), *more]) == 0
        assert (hint in capsys.readouterr().err) == is_said


def test_a_table_of_too_many_tasks_is_kept_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run and a plan say what there is no table of; the other tables are the same bytes."""
    quick, out = str(ROOT / "examples" / "quickstart.toml"), tmp_path / "out"
    assert main([quick, "--out", str(out)]) == 0
    n_task, ports = json.loads((out / "result.json").read_text())["tasks"], (out / "ports.parquet").read_bytes()
    assert (out / "tasks.parquet").is_file() and "no table of tasks" not in capsys.readouterr().out
    monkeypatch.setattr(inputs, "MOST_TASKS", n_task - 1)
    for value, is_kept in (('"auto"', False), ("true", True), ("false", False)):
        folder, sets = tmp_path / value.strip('"'), ["--set", f"output.tasks={value}"]
        assert main([quick, "--out", str(folder), *sets]) == 0
        said = f"no table of tasks, which would have {n_task:,} rows: --set output.tasks=true writes it\n"
        assert (said in capsys.readouterr().out) == (value == '"auto"')
        assert (folder / "tasks.parquet").is_file() == is_kept and (folder / "ports.parquet").read_bytes() == ports
        assert main(["plan", quick, *sets]) == 0
        assert ("no table of tasks" in capsys.readouterr().out) == (value == '"auto"')
    assert main([quick, "--set", 'output.tasks="some"']) == 2
    assert 'found "some". Accepted: true, false, or "auto"' in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_fault() -> None:
    """As `head` does: all tables are far more than a pipe holds."""
    command = f"{sys.executable} -m pdes explain workload; echo status $? >&2"
    done = subprocess.run(["sh", "-c", f"({command}) | head -1"], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert "Traceback" not in done.stderr and done.stderr.startswith("status ")
    assert done.stdout.startswith("workload ")


def test_plain_python_gives_the_bytes_of_compiled_kernels(tmp_path: Path) -> None:
    config = write_case(tmp_path, INCAST)
    assert main([str(config), "--out", str(tmp_path / "compiled"), "--quiet"]) == 0
    assert run(config, tmp_path / "python").returncode == 0
    for name in ("flows.parquet", "ports.parquet", "result.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "compiled" / name).read_bytes()


def test_the_trace_of_a_run_that_cannot_go_on_is_kept(tmp_path: Path) -> None:
    config = write_case(tmp_path, [(1, 0, 2_000_000, 0)])
    slow = ("--set", "topology.host_rate=1bps", "--trace", "flow=0")  # it would pass all simulated time
    done = run(config, tmp_path / "out", *slow)
    assert done.returncode == 1 and "of simulated time, the most that there is" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["trace.parquet", "trace.txt"]
    assert "posted" in (tmp_path / "out" / "trace.txt").read_text()


def test_plan_says_what_the_fabric_is_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(write_case(tmp_path, INCAST)), "--set", "topology.host_rate=25Gbps"]) == 0
    fabric = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("fabric"))
    kinds = "1 link of 100 Gbps and 1 us, 4 links of 25 Gbps and 1 us"
    assert fabric.split(maxsplit=1)[1] == f"4 host, 1 leaf, 1 spine; {kinds}"


def test_nobody_reading_is_no_error(tmp_path: Path) -> None:
    """`pdes-sim config.toml | head -1`: the results are there, and nothing is said."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pdes", str(write_case(tmp_path, INCAST)), "--out", str(tmp_path / "out")]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "result.json").exists()
