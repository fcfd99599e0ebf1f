"""Claims about the command line: statuses, one message per fault, all ranks ending together, and a quick --help."""

import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import pdes
from pdes.cli import main
from pdes.errors import CapacityError, ConfigError
from pdes.launcher import LauncherError, check_launch, read_launch

ROOT = Path(__file__).resolve().parents[2]
RING = (
    '[topology]\nkind = "fat-tree"\nk = 4\n[workload]\nkind = "collectives"\n'
    '[[workload.collective]]\nname = "ring"\noperation = "all-reduce"\nsize = "4MB"\n'
)
FAKE = """
import contextlib, sys, types, pdes
fake = types.ModuleType("pdes.simulation")
folder = types.SimpleNamespace(abandon=str)
fake.prepare = lambda config, quiet, n_rank, n_rank_here: types.SimpleNamespace(scenario=config, folder=folder)
fake.Compilers = lambda cores: contextlib.nullcontext(types.SimpleNamespace(is_at_work=False))
def run(prepared, comm, quiet, witness, beginning):
    scenario = prepared.scenario
    {run}
fake.run = run
sys.modules["pdes.simulation"] = pdes.simulation = fake
from pdes.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def ring_file(tmp_path: Path) -> Path:
    path = tmp_path / "ring.toml"
    path.write_text(RING)
    return path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A simulation that only notes how it was called, on one rank without MPI."""
    seen: list[Any] = []
    fake = ModuleType("pdes.simulation")
    folder = SimpleNamespace(abandon=str)
    fake.Compilers = lambda cores: nullcontext(SimpleNamespace(is_at_work=False))  # pyright: ignore
    fake.prepare = lambda config, quiet, n_rank, n_rank_here: SimpleNamespace(scenario=config, folder=folder)  # pyright: ignore
    fake.run = lambda prepared, comm, quiet, witness, beginning: seen.append((prepared.scenario, comm, quiet)) or 0  # pyright: ignore
    fake.plan = lambda config, wanted: seen.extend([config] if wanted is None else [config, wanted])  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pdes.simulation", fake)
    monkeypatch.setattr(pdes, "simulation", fake, raising=False)
    seen.append(fake)
    return seen


def python(*arguments: str, n_rank: int = 1, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, under mpirun if n_rank > 1."""
    command = [sys.executable, *arguments]
    if n_rank > 1:
        mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        if mpirun is None:
            pytest.skip("no mpirun: install the extra mpich")
        command = [mpirun, "-n", str(n_rank), *command]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **environment, "PYTHONPATH": paths}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_a_run_gets_the_config_with_its_overrides(calls: list[Any], ring_file: Path) -> None:
    assert main([str(ring_file), "--set", "topology.k=8", "--out", "a b", "--quiet"]) == 0
    config, comm, quiet = calls[1]
    assert (config.topology.k, config.output.dir, comm.size, quiet) == (8, "a b", 1, True)


def test_plan_gets_the_config_and_runs_nothing(calls: list[Any], ring_file: Path) -> None:
    assert main(["plan", str(ring_file), "--set", "simulation.seed=7"]) == 0
    assert [config.simulation.seed for config in calls[1:]] == [7]
    assert main(["plan", str(ring_file), "--ranks", "1,2"]) == 0
    assert calls[-1].ranks == [1, 2]


def test_bad_input_is_one_message_and_status_2(
    calls: list[Any], ring_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring_file.write_text(RING.replace("k = 4", "k = 5\nlink_rte = 3"))
    assert main([str(ring_file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("pdes-sim: error: ") == 1
    assert f'{ring_file}:4: [topology] link_rte: unknown key. Did you mean "link_rate"?' in captured.err
    assert len(calls) == 1


def test_a_fault_found_while_preparing_is_bad_input_too(
    calls: list[Any], ring_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(_: object, quiet: bool, n_rank: int, n_rank_here: int) -> None:
        raise ConfigError("topology.txt: line 3", "found 2 words", "Accepted: 5 words")

    calls[0].prepare = prepare
    assert main([str(ring_file)]) == 2
    assert capsys.readouterr().err == "pdes-sim: error: topology.txt: line 3: found 2 words. Accepted: 5 words\n"


def test_an_error_during_the_run_has_its_own_status(
    calls: list[Any], ring_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object, **__: object) -> None:
        raise CapacityError("port 7 is full")

    calls[0].run = run
    assert main([str(ring_file)]) == 1
    assert capsys.readouterr().err == "pdes-sim: error: port 7 is full\n"


def test_an_error_nobody_expected_shows_its_traceback(
    calls: list[Any], ring_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of ours")

    calls[0].run = run
    assert main([str(ring_file)]) == 1
    captured = capsys.readouterr().err
    assert "internal error" in captured and "Traceback" in captured and "of ours" in captured


@pytest.mark.parametrize(
    "argv", [[], ["--nonsense"], ["plan"], ["convert", "ns4", "x", "-o", "y"], ["convert", "ns3", "x"]]
)
def test_a_wrong_command_line_is_status_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "usage: pdes-sim" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["run", "paln"])
def test_an_unknown_command_is_called_that(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "config.toml"]) == 2
    known = "plan, report, timeline, diff, explain, convert, export, calibrate, compare, sweep, search"
    assert f"{word} is no command. Commands: {known}; to simulate, give the config" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["plan", "--help"],
        ["report", "-h"],
        ["timeline", "-h"],
        ["convert", "-h"],
        ["export", "-h"],
        ["--version"],
    ],
)
def test_help_and_version_are_status_0(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert "pdes-sim" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, "empty"])
def test_report_of_no_results_is_bad_input(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    if content:
        folder.mkdir()
    assert main(["report", str(folder)]) == 2
    assert f"pdes-sim: error: {folder}: " in capsys.readouterr().err


def test_convert_prints_its_warnings_and_writes_the_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology, flows = "3 1 2\n2\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n", "1\n0 1 3 100 5000 2\n"
    for name, text in (("topology.txt", topology), ("flow.txt", flows), ("config.txt", "CC_MODE 8\n")):
        (tmp_path / name).write_text(text)
    assert main(["convert", "ns3", str(tmp_path), "-o", str(tmp_path / "case.toml")]) == 0
    assert "pdes-sim: warning: " in capsys.readouterr().err
    assert (tmp_path / "case.toml").is_file()
    assert 'compatibility = "ns3-hpcc"' in (tmp_path / "case.toml").read_text()
    for option in (["--native"], ["--compatibility", "none"]):
        assert main(["convert", "ns3", str(tmp_path), "-o", str(tmp_path / "native.toml"), *option]) == 0
        assert 'compatibility = "none"' in (tmp_path / "native.toml").read_text()
    assert main(["convert", "ns3", str(tmp_path / "none"), "-o", str(tmp_path / "case.toml")]) == 2


def test_the_command_line_loads_nothing_heavy_before_it_needs_it() -> None:
    heavy = "numpy numba pydantic mpi4py pyarrow rich networkx"
    code = f"import sys, pdes.cli; print(sorted(set('{heavy}'.split()) & set(sys.modules)))"
    assert python("-c", code).stdout == "[]\n"


def test_python_dash_m_is_the_same_command() -> None:
    assert "usage: pdes-sim" in python("-m", "pdes", "--help").stdout


@pytest.mark.parametrize(
    ("environment", "rank", "size", "name"),
    [
        ({}, 0, 1, ""),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2, "Hydra"),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}, 3, 4, "Open MPI"),
        ({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}, 1, 2, "Hydra"),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5"}, 5, 8, "srun"),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_ID": "0", "PMI_RANK": "2", "PMI_SIZE": "8"}, 2, 8, "srun"),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 0, 1, "srun"),
        ({"SLURM_NTASKS": "8"}, 0, 1, ""),
        ({"SLURM_NTASKS": "8", "SLURM_STEP_ID": "4294967291"}, 0, 1, ""),
        ({"PMI_SIZE": "many"}, 0, 1, ""),
    ],
)
def test_the_launcher_is_known_by_its_environment(environment: dict[str, str], rank: int, size: int, name: str) -> None:
    launch = read_launch(environment)
    assert (launch.rank, launch.size) == (rank, size)
    assert name in launch.launcher


def test_a_launcher_and_a_library_that_do_not_fit_are_both_named() -> None:
    launch = read_launch({"OMPI_COMM_WORLD_SIZE": "4"})
    check_launch(launch, 4, "MPICH 5")
    with pytest.raises(LauncherError, match=r"4 processes were started by Open MPI's mpirun.*MPICH 5"):
        check_launch(launch, 1, "MPICH 5")


def test_a_launcher_that_mpi_does_not_see_stops_the_run(
    calls: list[Any], ring_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pdes.engine import exchange

    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setattr(exchange, "world", lambda: SimpleNamespace(rank=0, size=1, library=lambda: "MPICH 5"))
    assert main([str(ring_file)]) == 2
    captured = capsys.readouterr().err
    assert captured.count("error") == 1 and "Open MPI" in captured and "MPICH 5" in captured
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")  # the other copies of the program say nothing
    assert main([str(ring_file)]) == 2
    assert capsys.readouterr().err == ""
    assert len(calls) == 1


@pytest.mark.parametrize("n_rank", [1, 2])
def test_bad_input_is_said_once_on_any_number_of_ranks(tmp_path: Path, n_rank: int) -> None:
    script = tmp_path / "fake.py"
    script.write_text(FAKE.format(run="raise AssertionError"))
    done = python(str(script), str(tmp_path / "none.toml"), n_rank=n_rank)
    assert done.returncode == 2
    assert done.stderr == f"pdes-sim: error: {tmp_path / 'none.toml'}: cannot be read: No such file or directory. " + (
        "Accepted: a TOML file\n"
    )


def test_two_ranks_run_the_scenario_that_rank_0_prepared(tmp_path: Path, ring_file: Path) -> None:
    script = tmp_path / "fake.py"
    # one writer only: lines of two ranks may mix
    script.write_text(FAKE.format(run="got = comm.gather((comm.rank, scenario.topology.k)); got and print(got)"))
    done = python(str(script), str(ring_file), n_rank=2)
    assert (done.returncode, done.stdout) == (0, "[(0, 4), (1, 4)]\n")


@pytest.mark.parametrize("error", ["ZeroDivisionError('of ours')", "pdes.errors.CapacityError('of ours')"])
def test_an_error_on_one_rank_ends_all_ranks(tmp_path: Path, ring_file: Path, error: str) -> None:
    script = tmp_path / "fake.py"
    script.write_text(FAKE.format(run=f"if comm.rank == 1: raise {error}\n    comm.barrier()"))
    done = python(str(script), str(ring_file), n_rank=2)
    assert done.returncode == 1
    assert "on rank 1 of 2" in done.stderr and "of ours" in done.stderr


def test_tables_can_be_left_out(tmp_path: Path) -> None:
    """The others are the same bytes, and the report still says where the time went."""
    folders = [tmp_path / name for name in ("all", "few")]
    quick = str(ROOT / "examples" / "quickstart.toml")
    assert main([quick, "--out", str(folders[0]), "--quiet"]) == 0
    few = ["--set", "output.flows=false", "--set", "output.tasks=false"]
    assert main([quick, "--out", str(folders[1]), "--quiet", *few]) == 0
    assert {path.name for path in folders[0].iterdir()} - {path.name for path in folders[1].iterdir()} == {
        "flows.parquet",
        "tasks.parquet",
    }
    for name in ("ports.parquet", "breakdown.parquet"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert main(["report", str(folders[1])]) == 0
